"""What the first lines of a run say of its plan: what a user may not expect of it."""

from __future__ import annotations

from typing import List, Mapping

from ..graph.run import step_builder_of
from ..options import NOT_SET, Origin
from .random_ops import describe_random_ops
from .step_mode import TrainingPlan


def plan_notes(plan: TrainingPlan, origins: Mapping[str, Origin]) -> List[str]:
    """A clause or sentence for each surprise of a plan.

    Args:
        plan: of the run.
        origins: where the value of each option comes from.
    """
    builder = step_builder_of(plan.graph.run)
    notes = [plan.note, *builder.notes, describe_random_ops(plan.random_ops)]
    names = sorted(builder.frozen_variables())
    if names:
        noun = "variable is" if len(names) == 1 else "variables are"
        more = ", ..." if len(names) > 3 else ""
        notes.append(f"{len(names)} {noun} frozen: {', '.join(names[:3])}{more}")
    notes += _describe_unused(plan, origins)
    if plan.random_ops and plan.graph.run.replica.count > 1:
        notes.append("all replicas draw the same numbers by these ops, for different examples")
    if builder.own_variables and not builder.update_counts:
        notes.append(
            "the plugin updates its variables by ops of its own: --optimizer, --learning-rate, "
            "--schedule, --clip, --accumulate and --weight-decay have no effect; the guard puts "
            "old values back"
        )
    elif builder.own_variables:
        text = ", ".join(builder.own_variables[:3])
        notes.append(f"updated by the plugin's own ops, and put back by the guard: {text}")
    count = builder.omitted_losses
    if count:
        noun = "loss of a regularizer is" if count == 1 else "losses of regularizers are"
        notes.append(
            f"{count} {noun} not minimized. Add tf.add_n(layer.losses) of each Keras layer, or "
            "tf.losses.get_regularization_loss(), to what the hook 'loss' returns."
        )
    return [note for note in notes if note]


def _describe_unused(plan: TrainingPlan, origins: Mapping[str, Origin]) -> List[str]:
    """A sentence for each option that a person set, and that the plugin's own settings replace."""
    builder = step_builder_of(plan.graph.run)
    unused = builder.unused_options() - set(plan.options.idle_options())
    notes = [
        f"{name} ({origins[name]}) has no effect: no update of the step uses it"
        for name in sorted(unused)
        if origins.get(name, NOT_SET).is_choice
    ]
    if plan.options.weight_decay and builder.update_counts and not builder.has_decay():
        place = origins.get("weight_decay", "set")
        notes.append(f"weight_decay ({place}) has no effect: no variable of the step decays")
    return notes
