"""When the gradient penalty of the discriminator is computed, and how its weight falls.

With `penalty_steps` N, every N-th step has the penalty, with N times its weight: its mean over the
steps is the same, and the other steps do not compute it (Karras et al. 2020, Analyzing and
Improving the Image Quality of StyleGAN). With `penalty_decay`, the weight falls to that share of
itself in a cosine from the first step to the last (Huang et al. 2024, The GAN is dead).
"""

from __future__ import annotations

import math
from typing import Optional

from toolkit import UsageError, tf

from .penalties import input_gradients, weighted_penalty


def scheduled_penalty(discriminator, points, labels, weights, run):
    """The weighted penalty of an update, a scalar; zero on a step that has none.

    Args:
        discriminator: the network.
        points: float32 [B or 2B, H, W, C], where the gradient is taken.
        labels: int32 [B or 2B], or None.
        weights: of `Discriminator.weights`.
        run: the `toolkit.Run`.
    """

    def compute(points, values):
        logits = discriminator(points, labels, weights._replace(values=values)).logits
        return weighted_penalty(input_gradients(logits, points), run.options)

    if run.options.penalty_steps == 1:
        penalty = compute(points, weights.values)
    else:
        penalty = compute_if(is_due(run), compute, points, weights.values)
    factor = weight_factor(run)
    return penalty if factor is None else penalty * factor


def is_due(run):
    """bool scalar: whether the step has a penalty, as each N-th one has, starting with the N-th."""
    return tf.equal((run.step_index + 1) % run.options.penalty_steps, 0)


def weight_factor(run):
    """What the penalty's weight is multiplied by at this step, a float32 scalar; None for one."""
    steps, decay = run.options.penalty_steps, run.options.penalty_decay
    if decay == 1:
        return None if steps == 1 else tf.constant(float(steps))
    if run.total_steps is None:
        raise UsageError(
            "The decay of the penalty's weight (penalty_decay) has no length.",
            hint="Set --steps or --epochs, or penalty_decay=1.",
        )
    return steps * cosine_share(run.step_index, run.total_steps, decay)


def cosine_share(step, total_steps: int, final: float):
    """A share that falls from 1 to `final` in half a cosine, a float32 scalar tensor.

    final + (1 - final) (1 + cos(pi t)) / 2, with t = step / total_steps, and 1 after the end.

    Args:
        step: int64 scalar tensor, the number of steps before this one.
        total_steps: the length of the run.
        final: the share at the end.
    """
    progress = tf.minimum(tf.cast(step, tf.float32) / float(total_steps), 1.0)
    return final + (1 - final) * 0.5 * (1 + tf.cos(math.pi * progress))


def compute_if(condition, compute, points, values):
    """`compute(points, values)`, or zero without computing it.

    The branch computes the penalty and its gradient w.r.t. the weights. Those of a tf.cond that
    is differentiated afterwards would have to store everything that the branch computes, and no
    code of TensorFlow for that is shared by both versions.

    Args:
        condition: bool scalar.
        compute: maps points and values to a scalar.
        points: float32 [B, ...]; the scalar's gradient does not reach them.
        values: a structure of tensors, those of the weights.
    """
    flat = tf.nest.flatten(values)

    @tf.custom_gradient
    def choose(condition, points, *flat_values):
        def branch():
            own_points = tf.identity(points)  # within the branch, so that it can differentiate
            own_values = [tf.identity(value) for value in flat_values]
            penalty = compute(own_points, tf.nest.pack_sequence_as(values, own_values))
            gradients = tf.gradients(penalty, own_values)
            return [penalty] + [_or_zeros(g, v) for g, v in zip(gradients, own_values)]

        def zeros():
            return [tf.zeros([])] + [tf.zeros_like(value) for value in flat_values]

        penalty, *gradients = tf.cond(condition, branch, zeros)
        return penalty, lambda slope: (None, None, *[slope * g for g in gradients])

    return choose(condition, tf.stop_gradient(points), *flat)


def _or_zeros(gradient: Optional[tf.Tensor], value):
    return tf.zeros_like(value) if gradient is None else gradient
