"""What the first lines of a run say of its plan: what a user may not expect of it."""

from __future__ import annotations

from typing import List, Mapping

from ..graph.run import step_builder_of
from ..graph.step_builder import StepBuilder
from ..options import NOT_SET, Origin
from .length import describe_warmup
from .random_ops import describe_random_ops
from .step_mode import TrainingPlan


def plan_notes(plan: TrainingPlan, origins: Mapping[str, Origin]) -> List[str]:
    """A clause or sentence for each surprise of a plan.

    Args:
        plan: of the run.
        origins: where the value of each option comes from.
    """
    builder = step_builder_of(plan.graph.run)
    notes = [plan.note, *builder.notes, describe_warmup(plan.options, plan.total_steps)]
    notes.append(describe_random_ops(plan.random_ops))
    notes += [_describe_frozen(builder), *_describe_unused(plan, origins)]
    notes += [_describe_decay(plan, origins), _describe_batch_norm(plan)]
    if plan.random_ops and plan.graph.run.replica.count > 1:
        notes.append("all replicas draw the same numbers by these ops, for different examples")
    if builder.own_variables and not builder.update_counts:
        notes.append(
            "the plugin updates its variables by ops of its own: --optimizer, --learning-rate, "
            "--schedule, --clip, --accumulate and --weight-decay have no effect; the guard puts "
            "old values back"
        )
    elif builder.own_variables:
        names = ", ".join(builder.own_variables[:3])
        notes.append(f"updated by the plugin's own ops, and put back by the guard: {names}")
    count = builder.omitted_losses
    if count:
        noun = "loss of a regularizer is" if count == 1 else "losses of regularizers are"
        notes.append(
            f"{count} {noun} not minimized. Add tf.add_n(layer.losses) of each Keras layer, or "
            "tf.losses.get_regularization_loss(), to what the hook 'loss' returns."
        )
    return [note for note in notes if note]


def _describe_batch_norm(plan: TrainingPlan) -> str:
    """Whose moments batch norm uses, where each replica uses its own."""
    replica = plan.graph.run.replica
    if replica.count == 1 or not _has_batch_norm(plan):
        return ""
    return (
        f"batch norm uses the moments of each replica's {replica.num_examples} examples, not of "
        f"all {replica.batch_size}"
    )


def _has_batch_norm(plan: TrainingPlan) -> bool:
    """Whether the graph has batch norm in training."""
    return any(
        op.type.startswith("FusedBatchNorm")
        and "Grad" not in op.type
        and op.get_attr("is_training")
        for op in plan.graph.tf_graph.get_operations()
    )


def _describe_frozen(builder: StepBuilder) -> str:
    """How many variables stay as they are, and the first of them; "" if none does."""
    names = sorted(builder.frozen_variables())
    more = ", ..." if len(names) > 3 else ""
    noun = "variable is" if len(names) == 1 else "variables are"
    return f"{len(names)} {noun} frozen: {', '.join(names[:3])}{more}" if names else ""


def _describe_unused(plan: TrainingPlan, origins: Mapping[str, Origin]) -> List[str]:
    """A sentence for each option that a person set, and that the plugin's own settings replace."""
    builder = step_builder_of(plan.graph.run)
    unused = builder.unused_options() - set(plan.options.idle_options())
    return [
        f"{name} ({origins[name]}) has no effect: no update of the step uses it"
        for name in sorted(unused)
        if origins.get(name, NOT_SET).is_choice
    ]


def _describe_decay(plan: TrainingPlan, origins: Mapping[str, Origin]) -> str:
    """What is surprising of a weight decay that was set; "" if nothing is."""
    builder, decay = step_builder_of(plan.graph.run), plan.options.weight_decay
    place = origins.get("weight_decay", "set")
    if decay and builder.update_counts and not builder.has_decay():
        return f"weight_decay ({place}) has no effect: no variable of the step decays"
    return ""
