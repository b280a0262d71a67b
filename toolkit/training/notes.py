"""What the first lines of a run say of its plan: what a user may not expect of it."""

from __future__ import annotations

from typing import List

from ..graph.run import step_builder_of
from .length import describe_length
from .random_ops import describe_random_ops
from .step_mode import TrainingPlan


def plan_notes(plan: TrainingPlan) -> List[str]:
    """A clause or sentence for each surprise of a plan."""
    builder = step_builder_of(plan.graph.run)
    length_notes = describe_length(plan.options, plan.total_steps, builder.update_counts)
    notes = [plan.note, *length_notes, describe_random_ops(plan.random_ops)]
    count = builder.omitted_losses
    if count:
        noun = "loss of a regularizer is" if count == 1 else "losses of regularizers are"
        notes.append(
            f"{count} {noun} not minimized. Add tf.add_n(layer.losses) of each Keras layer, or "
            "tf.losses.get_regularization_loss(), to what the hook 'loss' returns."
        )
    return [note for note in notes if note]
