"""What discriminator and generator minimise: six pairs of losses, and the class loss of an ACGAN.

Legend: N batch, K classes. Every loss takes the discriminator's logits for a batch of real and one of
generated images, `real` and `fake`, both float32 [N] and higher for "more real", and gives two
scalars: (discriminator_loss, generator_loss). Every mean is over the batch. All is computed from logits:
softplus(-x) is -log(sigmoid(x)) without the rounding of sigmoid to 0 or 1, so that no finite logit
gives an infinite loss or a gradient that is lost.
"""

from __future__ import annotations

from typing import Any, Callable, Dict

from toolkit import tf


def non_saturating(real, fake):
    """Discriminator: sp(-real) + sp(fake); generator: sp(-fake), whose slope stays -1 where it loses.

    Goodfellow et al. 2014, Generative Adversarial Nets.
    """
    return _binary_discriminator(real, fake), tf.reduce_mean(tf.nn.softplus(-fake))


def minimax(real, fake):
    """Discriminator: sp(-real) + sp(fake); generator: -sp(fake), whose slope is 0 where it loses.

    The zero-sum game of Goodfellow et al. 2014, Generative Adversarial Nets.
    """
    return _binary_discriminator(real, fake), -tf.reduce_mean(tf.nn.softplus(fake))


def least_squares(real, fake):
    """Discriminator: (real - 1)^2 / 2 + fake^2 / 2; generator: (fake - 1)^2 / 2.

    Mao et al. 2017, Least Squares Generative Adversarial Networks, with a = 0 and b = c = 1.
    """
    discriminator = tf.reduce_mean(tf.square(real - 1.0)) + tf.reduce_mean(tf.square(fake))
    return 0.5 * discriminator, 0.5 * tf.reduce_mean(tf.square(fake - 1.0))


def wasserstein(real, fake):
    """Discriminator: fake - real; generator: -fake. The discriminator's slope has to be bounded elsewhere.

    Arjovsky et al. 2017, Wasserstein GAN.
    """
    return tf.reduce_mean(fake) - tf.reduce_mean(real), -tf.reduce_mean(fake)


def hinge(real, fake):
    """Discriminator: relu(1 - real) + relu(1 + fake); generator: -fake.

    Lim and Ye 2017, Geometric GAN; Miyato et al. 2018, Spectral Normalization for GANs.
    """
    discriminator = tf.reduce_mean(tf.nn.relu(1.0 - real)) + tf.reduce_mean(tf.nn.relu(1.0 + fake))
    return discriminator, -tf.reduce_mean(fake)


def relativistic(real, fake):
    """Discriminator: sp(-(real - fake)); generator: sp(-(fake - real)): pair by pair, so of one size.

    Jolicoeur-Martineau 2019, The Relativistic Discriminator; Huang et al. 2024, The GAN is dead.
    """
    real.shape.assert_is_compatible_with(fake.shape)
    lead = real - fake  # [N]
    return tf.reduce_mean(tf.nn.softplus(-lead)), tf.reduce_mean(tf.nn.softplus(lead))


def _binary_discriminator(real, fake):
    """Cross-entropy of "real" for the one and "not real" for the other batch."""
    return tf.reduce_mean(tf.nn.softplus(-real)) + tf.reduce_mean(tf.nn.softplus(fake))


LOSSES: Dict[str, Callable[[Any, Any], Any]] = {
    "non-saturating": non_saturating,
    "minimax": minimax,
    "least-squares": least_squares,
    "wasserstein": wasserstein,
    "hinge": hinge,
    "relativistic": relativistic,
}

# Losses whose generator also reads the logits of real images: they cost it a forward pass.
NEEDS_REALS = {"relativistic"}

# Losses that are blind to a number added to all logits: zero means nothing to their discriminators.
WITHOUT_ZERO = {"wasserstein", "relativistic"}


def discriminator_accuracy(loss, real, fake):
    """Two scalars: the share of `real` above the threshold of the loss so named, and of `fake`
    below.
    """
    threshold = threshold_of(loss, real, fake)
    return _share(tf.greater(real, threshold)), _share(tf.less(fake, threshold))


def threshold_of(loss, real, fake):
    """The logit that parts real from fake: half-way between the targets, else between the means."""
    if loss in WITHOUT_ZERO:
        return 0.5 * (tf.reduce_mean(real) + tf.reduce_mean(fake))
    return 0.5 if loss == "least-squares" else 0.0


def _share(which):
    return tf.reduce_mean(tf.cast(which, tf.float32))


def class_loss(class_logits, labels):
    """Mean cross-entropy in nats, a scalar. class_logits: [N, K]; labels: int32 [N].

    Odena et al. 2017, Conditional Image Synthesis with Auxiliary Classifier GANs.
    """
    return tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=class_logits)
    )
