"""Bounds on the discriminator's slope: penalties on its gradient, and weight clipping.

A penalty takes the gradient of the logits at some points and returns a scalar:

    points = interpolate(reals, fakes, a)        # or perturb(reals, u), or the reals themselves
    gradients = input_gradients(discriminator(points), points)
    loss += gradient_penalty(gradients, DEFAULT_WEIGHT["wgan-gp"])

The norm of a gradient is over all axes of one sample; the mean is over the samples.
Legend: B batch, H W C of an image; a penalty takes any shape [B, ...].
"""

from __future__ import annotations

import contextlib
import re
from typing import Any, Set, Tuple

from toolkit import UsageError, tf

# For R1 and R2 the useful range at 28 pixels is 0.01 to 1: a norm's square has no other scale.
DEFAULT_WEIGHT = {"wgan-gp": 10.0, "lp": 10.0, "dragan": 10.0, "r1": 0.1, "r1r2": 0.1}

# These take the gradient on lines from a real image to a generated one.
INTERPOLATING = ("wgan-gp", "lp")

# Added under the square root of a norm: at zero the root itself has no finite slope.
NORM_EPSILON = 1e-8
# The same for the standard deviation; smaller, as this one is a scale of images in [-1, 1].
DEVIATION_EPSILON = 1e-12

# TensorFlow's message for an op that it cannot differentiate, in both versions.
NO_GRADIENT = re.compile(r"operation\s*'([^']+)'\s*\(op type: ([^)]+)\)")

# A cache for the process: types of op that have a gradient. That depends on TensorFlow alone, and
# asking takes time for each of a step's penalties.
_differentiable_types: Set[str] = set()


# ------------------------------------------------------------------------------------------- points


def penalty_points(run, stream: str, reals, labels, fakes, fake_labels) -> Tuple[Any, Any]:
    """The points where the option `penalty` takes the gradient.

    Args:
        run: the `toolkit.Run`.
        stream: prefix of the names of the random numbers.
        reals: float32 [B, H, W, C].
        labels: int32 [B], or None.
        fakes: float32 [B, H, W, C].
        fake_labels: int32 [B], or None; with a penalty of `INTERPOLATING` equal to `labels`.

    Returns:
        Images [B, H, W, C], or [2B, H, W, C] with r1r2, and their labels or None.
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
    """Points on the lines from each real image to a generated one.

    Gulrajani et al. 2017, Improved Training of Wasserstein GANs.

    Args:
        reals: float32 [B, H, W, C].
        fakes: float32 [B, H, W, C].
        a: float32 [B, 1, 1, 1] in [0, 1): 0 is the real image.
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
    """Points near the real images: reals + std(reals) / 2 * u.

    The standard deviation is one number, of the whole batch. Kodali et al. 2017, On Convergence and
    Stability of GANs.

    Args:
        reals: float32 [B, H, W, C].
        u: float32 [B, H, W, C] in [0, 1).
        variance: float32 scalar, of the whole batch.
    """
    return reals + 0.5 * tf.sqrt(variance + DEVIATION_EPSILON) * u


# ---------------------------------------------------------------------------------------- gradients


def input_gradients(logits, images):
    """Gradient of the SUM of the logits w.r.t. the images: each sample's own, not 1/B of it.

    Args:
        logits: float32 [B].
        images: float32 [B, ...], the very tensor from which the logits were computed.

    Returns:
        float32 [B, ...].

    Raises:
        UsageError: TensorFlow cannot differentiate an op of the discriminator twice.
    """
    graph = images.graph
    num_before = len(graph.get_operations())
    with derivative_errors():
        gradients = tf.gradients(tf.reduce_sum(logits), images)[0]
        if gradients is None:
            raise UsageError(
                f"The discriminator's logits '{logits.name}' do not depend on the images "
                f"'{images.name}'.",
                hint="A gradient penalty needs logits computed from these images, by ops that have "
                "a gradient (no rounding, argmax or stop_gradient).",
            )
        _check_differentiable(graph.get_operations()[num_before:])
    return gradients


@contextlib.contextmanager
def derivative_errors():
    """Translate TensorFlow's LookupError for an op without a gradient into a UsageError."""
    try:
        yield
    except LookupError as error:
        match = NO_GRADIENT.search(str(error))
        if not match:
            raise
        raise _no_derivative_error(_describe_op(*match.groups())) from error


def _describe_op(name: str, op_type: str) -> str:
    """Name an op for a message; for a gradient op `gradients/NAME_grad/...`, the op NAME."""
    forward = re.match(r"(?:.*/)?gradients(?:_\d+)?/(.+)_grad/[^/]+$", name)
    if forward:
        return f"op '{forward.group(1)}' (its gradient is {op_type})"
    return f"op '{name}' ({op_type})"


def _no_derivative_error(description: str) -> UsageError:
    return UsageError(
        "A gradient penalty needs the discriminator's second derivative, and this TensorFlow has "
        f"none of {description}.",
        hint="Use another op instead (a strided or transposed convolution, pooling, or "
        "space_to_depth), or --penalty none with --spectral-norm.",
    )


def _check_differentiable(operations) -> None:
    """Ask for the gradient of one op of each type. Raises LookupError if it has none.

    Without this check, the error would come much later, where the penalty itself is
    differentiated. The ops that it adds to the graph are never run.
    """
    op_of_type = {op.type: op for op in reversed(operations)}
    if "Enter" in op_of_type:  # of a while loop: its ops have gradients, the whole loop has none
        raise _no_derivative_error("a while loop (or map_fn, or scan)")
    with tf.name_scope("differentiate_again"):
        for op_type in sorted(set(op_of_type) - _differentiable_types):
            op = op_of_type[op_type]
            ends = [[t for t in tensors if _is_float(t)] for tensors in (op.outputs, op.inputs)]
            if all(ends):
                tf.gradients(*ends)
            _differentiable_types.add(op_type)


def _is_float(tensor) -> bool:
    return tensor.dtype.is_floating


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


# ----------------------------------------------------------------------------------------- clipping


def clip_weights(variables, limit: float):
    """Build an op that clips each number to [-limit, limit]; run it after the variables' update.

    Only a limit for every parameter bounds the slope: batch norm divides by a kernel's scale, so
    that the slope then follows from the scales of the normalisation alone. The op reads the
    variables under the control dependencies in force. Arjovsky et al. 2017, Wasserstein GAN.

    Args:
        variables: such as `Discriminator.slope_variables`.
        limit: a positive number.
    """
    clips = [
        v.assign(tf.clip_by_value(v.read_value(), -limit, limit), read_value=False)
        for v in variables
    ]
    return tf.group(*clips)
