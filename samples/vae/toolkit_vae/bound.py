"""The lower bound of the log-likelihood (ELBO), whose negative is the loss, in nats per image.

For an image x and a code z, with q(z | x) from the encoder and p(x | z) from the decoder,

    -log p(x) <= E_q[-log p(x | z)] + KL(q(z | x) || N(0, 1))

(Kingma and Welling: Auto-Encoding Variational Bayes, 2014). The expectation is estimated by one
draw of z; the divergence has a closed form.

Legend: N examples in a batch, H height, W width, C channels, F length of the code.
"""

from __future__ import annotations

from toolkit import tf


def encode_and_decode(network, images, run):
    """Draw a code for each image, and decode it.

    Args:
        network: an `Autoencoder`.
        images: float32 [N, H, W, C] in [0, 1].
        run: draws the codes. In mode "predict" a code is the mean of its distribution.

    Returns:
        "mean" and "code" [N, F], "reconstruction" [N, H, W, C], and in nats, [N]:
        "reconstruction_nats" and "divergence".
    """
    distribution = network.encode(images)
    code = distribution.mean if run.mode == "predict" else draw(distribution, run)
    logits = network.decode(code)
    return {
        "mean": distribution.mean,
        "code": code,
        "reconstruction": tf.nn.sigmoid(logits),
        "reconstruction_nats": cross_entropy(logits, images),
        "divergence": divergence(distribution),
    }


def draw(distribution, run):
    """One draw of each distribution, [N, F]. The gradient passes through mean and deviation."""
    noise = run.normal("code", tf.shape(distribution.mean))
    return distribution.mean + tf.exp(distribution.log_variance / 2) * noise


def cross_entropy(logits, images):
    """-log p(x | z) of pixels that are 1 with the decoder's probability, [N].

    Args:
        logits: float32 [N, H, W, C].
        images: float32 [N, H, W, C] in [0, 1].
    """
    pixels = tf.nn.sigmoid_cross_entropy_with_logits(labels=images, logits=logits)
    return tf.reduce_sum(pixels, axis=[1, 2, 3])


def divergence(distribution):
    """KL(distribution || N(0, 1)), [N]."""
    mean, log_variance = distribution
    return tf.reduce_sum(tf.square(mean) + tf.exp(log_variance) - 1 - log_variance, axis=1) / 2


def loss(outputs, run):
    """The mean of the negative bound, with the divergence weighted by `beta`: a scalar."""
    divergences = tf.reduce_mean(outputs["divergence"])
    run.log("divergence", divergences)
    return tf.reduce_mean(outputs["reconstruction_nats"]) + run.options.beta * divergences


def example_metrics(images, outputs):
    """Name -> values of the images [N]: the negative bound, and the squared error of a pixel."""
    squares = tf.square(images - outputs["reconstruction"])
    return {
        "nats": outputs["reconstruction_nats"] + outputs["divergence"],
        "squared_error": tf.reduce_mean(squares, axis=[1, 2, 3]),
    }
