"""Bounds on the discriminator's slope: penalties on the gradient of its logits, and weight clipping.

Legend: N batch, H W C image. A penalty takes the gradients at some points, float32 [N, H, W, C] (or
any [N, ...]), and a weight, and gives a scalar. A sample's norm is over all of its axes, the mean
over samples alone:

    points = between(reals, fakes, a)            # or around(reals, u), or the reals themselves
    gradients = input_gradients(discriminator(points), points)
    loss += gradient_penalty(gradients, DEFAULT_WEIGHT["wgan-gp"])
"""

from __future__ import annotations

import contextlib
import re

from toolkit import UsageError, tf

# For R1 and R2 the useful range at 28 pixels is 0.01 to 1: a norm's square has no other scale.
DEFAULT_WEIGHT = {"wgan-gp": 10.0, "lp": 10.0, "dragan": 10.0, "r1": 0.1, "r1r2": 0.1}

# Added under the square root of a norm: at zero the root itself has no finite slope.
NORM_EPSILON = 1e-8
# The same for the standard deviation; smaller, as this one is a scale of images in [-1, 1].
DEVIATION_EPSILON = 1e-12

# How TensorFlow tells that it cannot differentiate an op, on both lines.
NO_GRADIENT = re.compile(r"operation\s*'([^']+)'\s*\(op type: ([^)]+)\)")

_DIFFERENTIABLE = set()  # kinds of op that were asked once; TensorFlow's answer does not change


# ------------------------------------------------------------------------------------------- points


def between(reals, fakes, a):
    """Points on the lines from each real image to a fake one. a: [N, 1, 1, 1], from U(0, 1).

    Gulrajani et al. 2017, Improved Training of Wasserstein GANs.
    """
    return reals + a * (fakes - reals)


def around(reals, u):
    """Points near the real images: reals + std(reals) / 2 * u. u: of the shape of `reals`, U(0, 1).

    The standard deviation is one number, of the whole batch. Kodali et al. 2017, On Convergence and
    Stability of GANs.
    """
    variance = tf.reduce_mean(tf.square(reals - tf.reduce_mean(reals)))
    return reals + 0.5 * tf.sqrt(variance + DEVIATION_EPSILON) * u


# ---------------------------------------------------------------------------------------- gradients


def input_gradients(logits, images):
    """Gradient of the SUM of the logits w.r.t. the images: each sample's own, not 1/N of it.

    logits: [N]; images: [N, ...], the very tensor that the logits were computed from -> [N, ...].
    UsageError where the discriminator has an op that TensorFlow cannot differentiate twice.
    """
    graph = images.graph
    known = len(graph.get_operations())
    with differentiable():
        gradients = tf.gradients(tf.reduce_sum(logits), images)[0]
        if gradients is None:
            raise UsageError(
                f"The discriminator's logits '{logits.name}' do not depend on the images '{images.name}'.",
                hint="A gradient penalty needs logits computed from these images, by ops that have "
                "a gradient (no rounding, argmax or stop_gradient).",
            )
        _differentiate_again(graph.get_operations()[known:])
    return gradients


@contextlib.contextmanager
def differentiable():
    """Within: TensorFlow's LookupError about an op without a gradient becomes a UsageError."""
    try:
        yield
    except LookupError as error:
        found = NO_GRADIENT.search(str(error))
        if not found:
            raise
        raise _not_differentiable(_told(*found.groups())) from error


def _told(name, kind):
    """A gradient op's name has that of the discriminator's op in it: `.../gradients/NAME_grad/...`."""
    forward = re.match(r"(?:.*/)?gradients(?:_\d+)?/(.+)_grad/[^/]+$", name)
    if forward:
        return f"op '{forward.group(1)}' (its gradient is {kind})"
    return f"op '{name}' ({kind})"


def _not_differentiable(told):
    return UsageError(
        "A gradient penalty needs the discriminator's second derivative, and this TensorFlow has none of "
        f"{told}.",
        hint="Put another op in its place (a strided or transposed convolution, pooling, or "
        "space_to_depth), or take --penalty none with --spectral-norm.",
    )


def _differentiate_again(operations):
    """Ask one op of each kind for its gradient; LookupError if it has none.

    Otherwise that would come up much later, where the penalty itself is differentiated. The ops
    this makes are never run.
    """
    kinds = {op.type: op for op in reversed(operations)}
    if "Enter" in kinds:  # of a while loop: each of its ops has a gradient, all together have none
        raise _not_differentiable("a while loop (or map_fn, or scan)")
    with tf.name_scope("differentiate_again"):
        for kind in sorted(set(kinds) - _DIFFERENTIABLE):
            op = kinds[kind]
            ends = [[t for t in tensors if _is_float(t)] for tensors in (op.outputs, op.inputs)]
            if all(ends):
                tf.gradients(*ends)
            _DIFFERENTIABLE.add(kind)


def _is_float(tensor):
    return tensor.dtype.is_floating


# ---------------------------------------------------------------------------------------- penalties


def norms(gradients):
    """Each sample's Euclidean norm, [N, ...] -> [N]; its slope is finite at zero too."""
    return tf.sqrt(_squares(gradients) + NORM_EPSILON)


def gradient_penalty(gradients, weight):
    """weight * E(norm - 1)^2, of WGAN-GP (points `between`) and of DRAGAN (points `around`)."""
    return weight * tf.reduce_mean(tf.square(norms(gradients) - 1.0))


def one_sided(gradients, weight):
    """weight * E max(0, norm - 1)^2: a slope below one costs nothing (points `between`).

    Petzka et al. 2018, On the Regularization of Wasserstein GANs.
    """
    return weight * tf.reduce_mean(tf.square(tf.nn.relu(norms(gradients) - 1.0)))


def zero_centred(gradients, weight):
    """weight / 2 * E norm^2, of R1 (points: the reals) and R2 (the fakes). No root, no epsilon.

    Mescheder et al. 2018, Which Training Methods for GANs do actually Converge?
    """
    return 0.5 * weight * tf.reduce_mean(_squares(gradients))


def _squares(gradients):
    """Sum of squares over all axes but the first, [N, ...] -> [N]."""
    return tf.reduce_sum(tf.square(gradients), axis=list(range(1, gradients.shape.ndims)))


# ----------------------------------------------------------------------------------------- clipping


def clip_weights(variables, limit):
    """An op that puts each weight into [-limit, limit]; run it after the variables' update.

    Biases and the scales of a normalisation, which have one axis, and what is not trained (spectral
    norm's vectors) stay as they are. The variables are read under the control dependencies in
    force. Arjovsky et al. 2017, Wasserstein GAN.
    """
    clipped = [
        v.assign(tf.clip_by_value(v.read_value(), -limit, limit), read_value=False)
        for v in variables
        if v.trainable and v.shape.ndims >= 2
    ]
    return tf.group(*clipped)
