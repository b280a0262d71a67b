"""Bounds on the discriminator: penalties on its gradient, LeCam's penalty, and weight clipping.

A penalty takes the gradient of the logits at some points and returns a scalar:

    points = interpolate(reals, fakes, a)        # or perturb(reals, u), or the reals themselves
    gradients = input_gradients(discriminator(points), points)
    loss += gradient_penalty(gradients, DEFAULT_WEIGHT["wgan-gp"])

The norm of a gradient is over all axes of one sample; the mean is over the samples.

With `penalty_steps` N, every N-th step has the penalty, with N times its weight: its mean over the
steps is the same, and the other steps do not compute it (Karras et al. 2020, Analyzing and
Improving the Image Quality of StyleGAN). With `penalty_decay`, the weight falls to that share of
itself in a cosine from the first step to the last (Huang et al. 2024, The GAN is dead).

LeCam's penalty (Tseng et al. 2021, Regularizing Generative Adversarial Networks under Limited Data)
bounds the distance between the logits of real and of generated images. From few images the
discriminator soon tells all of them from generated ones, by logits that part further and further.
The penalty pulls the logits of each kind towards the average logit of the other kind.
Legend: B batch, H W C of an image; a penalty takes any shape [B, ...].
"""

from __future__ import annotations

import math
from typing import Any, Optional, Tuple

from toolkit import UsageError, tf

from .architecture import DISCRIMINATOR

# For R1 and R2 the useful range at 28 pixels is 0.01 to 1: a norm's square has no other scale.
DEFAULT_WEIGHT = {"wgan-gp": 10.0, "lp": 10.0, "dragan": 10.0, "r1": 0.1, "r1r2": 0.1}

# These take the gradient on lines from a real image to a generated one.
INTERPOLATING = ("wgan-gp", "lp")

# Added under the square root of a norm: at zero the root itself has no finite slope.
NORM_EPSILON = 1e-8
# The same for the standard deviation; smaller, as this one is a scale of images in [-1, 1].
DEVIATION_EPSILON = 1e-12

LECAM_DECAY = 0.99  # of LeCam's averages, per update of the discriminator


# ------------------------------------------------------------------------------------------- points


def penalty_points(run, stream: str, reals, labels, fakes, fake_labels) -> Tuple[Any, Any]:
    """The points where the option `penalty` takes the gradient: images [B, H, W, C], or with r1r2
    [2B, H, W, C], and their labels or None.

    `stream` begins the names of the random numbers. Reals and fakes are float32 [B, H, W, C];
    labels are int32 [B] or None, and with a penalty of `INTERPOLATING` equal for both.
    """
    if run.options.penalty in INTERPOLATING:
        shape = tf.concat([tf.shape(reals)[:1], [1] * (reals.shape.ndims - 1)], 0)
        # The names of the random numbers, "between" and "around", are those of all versions.
        return interpolate(reals, fakes, run.uniform(stream + "/between", shape)), labels
    if run.options.penalty == "dragan":
        u = run.uniform(stream + "/around", tf.shape(reals))
        return perturb(reals, u, batch_variance(reals, run)), labels
    if run.options.penalty == "r1":
        return reals, labels
    classes = None if fake_labels is None else tf.concat([labels, fake_labels], 0)
    return tf.concat([reals, fakes], 0), classes


def interpolate(reals, fakes, a):
    """Points on the lines from each real image to a generated one, float32 [B, H, W, C].

    The share `a` is float32 [B, 1, 1, 1] in [0, 1): 0 is the real image. Gulrajani et al. 2017,
    Improved Training of Wasserstein GANs.
    """
    return reals + a * (fakes - reals)


def batch_variance(reals, run):
    """The variance of all numbers of the whole batch, a scalar; `reals` is this replica's part."""
    mean = tf.reduce_mean(reals)
    if run.replica.count == 1:
        return tf.reduce_mean(tf.square(reals - mean))
    (mean,) = run.mean_over_replicas([mean])
    return run.mean_over_replicas([tf.reduce_mean(tf.square(reals - mean))])[0]


def perturb(reals, u, variance):
    """Points near the real images, float32 [B, H, W, C]: reals + std(reals) / 2 * u, u in [0, 1).

    The standard deviation is one number, of the whole batch. Kodali et al. 2017, On Convergence and
    Stability of GANs.
    """
    return reals + 0.5 * tf.sqrt(variance + DEVIATION_EPSILON) * u


# ---------------------------------------------------------------------------------------- gradients


def input_gradients(logits, images):
    """Gradient of the SUM of the logits [B] w.r.t. the images [B, ...], the very tensor from which
    these were computed: each sample's own, not 1/B of it.
    """
    return tf.gradients(tf.reduce_sum(logits), images)[0]


# ---------------------------------------------------------------------------------------- penalties


def weighted_penalty(gradients, options):
    """The penalty that the options name, a scalar, from the gradients [B or 2B, ...] of a pass."""
    kind, weight = options.penalty, options.penalty_weight
    weight = DEFAULT_WEIGHT[kind] if weight is None else weight
    if kind == "lp":
        return one_sided_penalty(gradients, weight)
    if kind in ("wgan-gp", "dragan"):
        return gradient_penalty(gradients, weight)
    if kind == "r1":
        return zero_centred_penalty(gradients, weight)
    return 2 * zero_centred_penalty(gradients, weight)  # R1 + R2: B reals and B fakes


def gradient_penalty(gradients, weight: float):
    """weight * E(norm - 1)^2, of WGAN-GP (at `interpolate`) and of DRAGAN (at `perturb`)."""
    return weight * tf.reduce_mean(tf.square(gradient_norms(gradients) - 1.0))


def one_sided_penalty(gradients, weight: float):
    """weight * E max(0, norm - 1)^2: a slope below one costs nothing (at `interpolate`).

    Petzka et al. 2018, On the Regularization of Wasserstein GANs.
    """
    return weight * tf.reduce_mean(tf.square(tf.nn.relu(gradient_norms(gradients) - 1.0)))


def zero_centred_penalty(gradients, weight: float):
    """weight / 2 * E norm^2, of R1 (at the reals) and R2 (at the fakes). No root, no epsilon.

    Mescheder et al. 2018, Which Training Methods for GANs do actually Converge?
    """
    return 0.5 * weight * tf.reduce_mean(_squared_norms(gradients))


def gradient_norms(gradients):
    """Each sample's Euclidean norm, [B, ...] -> [B]; its slope is finite at zero, too."""
    return tf.sqrt(_squared_norms(gradients) + NORM_EPSILON)


def _squared_norms(gradients):
    """Sum of squares over all axes but the first, [B, ...] -> [B]."""
    return tf.reduce_sum(tf.square(gradients), axis=list(range(1, gradients.shape.ndims)))


# ----------------------------------------------------------------------------------------- schedule


def scheduled_penalty(discriminator, points, labels, values, run):
    """The weighted penalty of an update, a scalar; zero on a step that has none. The gradient is
    taken at the points, float32 [B or 2B, H, W, C], with labels int32 [B or 2B] or None; the values
    are those of `Discriminator.read`.
    """

    def compute(points, values):
        logits = discriminator(points, labels, values).logits
        return weighted_penalty(input_gradients(logits, points), run.options)

    if run.options.penalty_steps == 1:
        penalty = compute(points, values)
    else:
        penalty = compute_if(is_due(run), compute, points, values)
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

    final + (1 - final) (1 + cos(pi t)) / 2, with t = step / total_steps, and 1 after the end. The
    step, an int64 scalar tensor, is the number of steps before this one.
    """
    progress = tf.minimum(tf.cast(step, tf.float32) / float(total_steps), 1.0)
    return final + (1 - final) * 0.5 * (1 + tf.cos(math.pi * progress))


def compute_if(condition, compute, points, values):
    """`compute(points, values)`, a scalar, or zero without computing it.

    The branch computes the penalty and its gradient w.r.t. the values, a structure of weights; no
    gradient reaches the points. Those of a tf.cond that is differentiated afterwards would have to
    store all that the branch computes, and no code of TensorFlow for that is shared by both
    versions.
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


# -------------------------------------------------------------------------------------------- LeCam


def lecam_penalty(real, fake, average_real, average_fake):
    """E max(0, real - average_fake)^2 + E max(0, average_real - fake)^2, a scalar.

    The formula of the paper, with the maxima of its authors' code: the losses alone judge a real
    image whose logit is below that of the average generated one. The logits are float32 [B]; the
    averages, float32 scalars, are constants to the gradient.
    """
    above, below = tf.nn.relu(real - average_fake), tf.nn.relu(average_real - fake)
    return tf.reduce_mean(tf.square(above)) + tf.reduce_mean(tf.square(below))


class AverageLogits:
    """The moving averages of the discriminator's logits for real and for generated images.

    Up to step `lecam_start` they are the means of the newest batch. The decay then grows with the
    number of steps n since, min(0.99, n / (n + 1)), so that no first value outweighs the others.
    """

    def __init__(self, run):
        self._run = run
        self._averages = [_create_average(kind) for kind in ("real", "fake")]

    def penalise(self, real, fake):
        """The weighted penalty of the logits [B] of one update of the discriminator, a scalar, zero
        before step `lecam_start`. The next update also stores the averages with this batch.
        """
        options = self._run.options
        step = tf.cast(self._run.step_index, tf.float32) - options.lecam_start
        means = self._run.mean_over_replicas([tf.reduce_mean(real), tf.reduce_mean(fake)])
        share = 1.0 - tf.minimum(LECAM_DECAY, tf.nn.relu(step) / (tf.nn.relu(step) + 1.0))
        values = []
        for average, mean in zip(self._averages, means):
            before = average.read_value()
            values.append(tf.stop_gradient(before + share * (mean - before)))
            store = average.assign(values[-1], read_value=False)
            tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, store)
        weight = options.lecam * tf.cast(step >= 0, tf.float32)
        return weight * lecam_penalty(real, fake, *values)


def _create_average(kind: str):
    return tf.get_variable(
        f"{DISCRIMINATOR}/average_logit/{kind}",
        [],
        initializer=tf.zeros_initializer(),
        trainable=False,
        use_resource=True,
    )


# ----------------------------------------------------------------------------------------- clipping


def clip_weights(variables, limit: float):
    """Build an op that clips each number to [-limit, limit]; run it after the variables' update.

    Only a limit for every parameter bounds the slope: batch norm divides by a kernel's scale, so
    that the slope then follows from the scales of the normalisation alone. The op reads the
    variables under the control dependencies in force. Arjovsky et al. 2017, Wasserstein GAN.
    """
    clips = [
        v.assign(tf.clip_by_value(v.read_value(), -limit, limit), read_value=False)
        for v in variables
    ]
    return tf.group(*clips)
