"""What discriminator and generator minimise: six pairs of losses, penalties and class losses.

Each loss takes the discriminator's logits for a batch of real and for one of generated images,
`real` and `fake`, and returns two scalars: (discriminator_loss, generator_loss).

    real, fake   float32 [B], higher for images that look real
    sp(x)        softplus, log(1 + e^x)

Every mean is over the batch. All losses are computed from logits: softplus(-x) is -log(sigmoid(x))
without sigmoid's rounding to 0 or 1, so no finite logit gives an infinite loss or a zero gradient.
Legend: B batch, K classes.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, Callable, Dict, Tuple

from toolkit import tf


def non_saturating(real, fake):
    """Discriminator: sp(-real) + sp(fake). Generator: sp(-fake), with slope -1 where it loses.

    Goodfellow et al. 2014, Generative Adversarial Nets.
    """
    return _binary_cross_entropy(real, fake), tf.reduce_mean(tf.nn.softplus(-fake))


def minimax(real, fake):
    """Discriminator: sp(-real) + sp(fake). Generator: -sp(fake), with slope 0 where it loses.

    The zero-sum game of Goodfellow et al. 2014, Generative Adversarial Nets.
    """
    return _binary_cross_entropy(real, fake), -tf.reduce_mean(tf.nn.softplus(fake))


def least_squares(real, fake):
    """Discriminator: (real - 1)^2 / 2 + fake^2 / 2. Generator: (fake - 1)^2 / 2.

    Mao et al. 2017, Least Squares Generative Adversarial Networks, with a = 0 and b = c = 1.
    """
    squares = tf.reduce_mean(tf.square(real - 1.0)) + tf.reduce_mean(tf.square(fake))
    return 0.5 * squares, 0.5 * tf.reduce_mean(tf.square(fake - 1.0))


def wasserstein(real, fake):
    """Discriminator: fake - real. Generator: -fake. A penalty or clipping must bound the slope.

    Arjovsky et al. 2017, Wasserstein GAN.
    """
    return tf.reduce_mean(fake) - tf.reduce_mean(real), -tf.reduce_mean(fake)


def hinge(real, fake):
    """Discriminator: relu(1 - real) + relu(1 + fake). Generator: -fake.

    Lim and Ye 2017, Geometric GAN; Miyato et al. 2018, Spectral Normalization for GANs.
    """
    margins = tf.reduce_mean(tf.nn.relu(1.0 - real)) + tf.reduce_mean(tf.nn.relu(1.0 + fake))
    return margins, -tf.reduce_mean(fake)


def relativistic(real, fake):
    """Discriminator: sp(-(real - fake)). Generator: sp(-(fake - real)). Batches have equal sizes.

    Jolicoeur-Martineau 2019, The Relativistic Discriminator; Huang et al. 2024, The GAN is dead.
    """
    real.shape.assert_is_compatible_with(fake.shape)
    lead = real - fake  # [B]
    return tf.reduce_mean(tf.nn.softplus(-lead)), tf.reduce_mean(tf.nn.softplus(lead))


def _binary_cross_entropy(real, fake):
    """Cross-entropy with the targets "real" for one batch and "not real" for the other."""
    return tf.reduce_mean(tf.nn.softplus(-real)) + tf.reduce_mean(tf.nn.softplus(fake))


LOSSES: Dict[str, Callable[[Any, Any], Any]] = {
    "non-saturating": non_saturating,
    "minimax": minimax,
    "least-squares": least_squares,
    "wasserstein": wasserstein,
    "hinge": hinge,
    "relativistic": relativistic,
}

# The generator's part of these losses also reads the logits of real images: one more forward pass.
NEEDS_REALS = {"relativistic"}

# These losses do not change when a number is added to all logits: a logit of 0 has no meaning.
SHIFT_INVARIANT = {"wasserstein", "relativistic"}


def named_losses(outputs: Dict[str, Any], run) -> Dict[str, Any]:
    """The losses of both networks from the outputs of one forward pass, see `model`, and what to
    log with them: float32 scalars, of which an evaluation has the first two.

    - d_loss, g_loss: what discriminator and generator minimise, in an evaluation without penalty
    - penalty: the weighted gradient penalty, a part of d_loss, 0 on a step without
    - lecam: LeCam's weighted penalty, as `penalty`
    - d_real, d_fake: mean logits
    - d_accuracy_real, d_accuracy_fake: shares of the images that the discriminator gets right
    - class_loss_real, class_loss_fake: with conditional=acgan, parts of the losses
    """
    options = run.options
    real, fake = outputs["real_logits"], outputs["fake_logits"]
    d_loss, g_loss = LOSSES[options.loss](real, fake)
    values = OrderedDict(d_loss=d_loss, g_loss=g_loss)
    if "fake_class_logits" in outputs:
        _add_class_losses(values, outputs, options.class_weight)
    for name in ("penalty", "lecam"):
        if name in outputs:
            values[name] = outputs[name]
            values["d_loss"] += outputs[name]
    if run.mode == "eval":
        return {name: values[name] for name in ("d_loss", "g_loss")}
    values["d_real"], values["d_fake"] = tf.reduce_mean(real), tf.reduce_mean(fake)
    accuracy_real, accuracy_fake = accuracies(options.loss, real, fake)
    values["d_accuracy_real"], values["d_accuracy_fake"] = accuracy_real, accuracy_fake
    return values


def _add_class_losses(values: Dict[str, Any], outputs: Dict[str, Any], weight: float) -> None:
    """Both networks also minimise the cross-entropy of the classes (Odena et al. 2017)."""
    fake = class_loss(outputs["fake_class_logits"], outputs["fake_labels"])
    real = class_loss(outputs["real_class_logits"], outputs["real_labels"])
    values["d_loss"] += weight * (real + fake)
    values["g_loss"] += weight * fake
    values["class_loss_real"], values["class_loss_fake"] = real, fake


def class_loss(class_logits, labels):
    """Mean cross-entropy in nats, a scalar; logits are float32 [B, K], labels int32 [B] in [0, K).

    Odena et al. 2017, Conditional Image Synthesis with Auxiliary Classifier GANs.
    """
    return tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=class_logits)
    )


def accuracies(loss: str, real, fake) -> Tuple[Any, Any]:
    """The share of `real` above the threshold of the loss, and the share of `fake` below it."""
    limit = threshold(loss, real, fake)
    return _share_true(tf.greater(real, limit)), _share_true(tf.less(fake, limit))


def threshold(loss: str, real, fake):
    """The logit that separates real from fake, half-way between the targets or else the means."""
    if loss in SHIFT_INVARIANT:
        return 0.5 * (tf.reduce_mean(real) + tf.reduce_mean(fake))
    return 0.5 if loss == "least-squares" else 0.0


def _share_true(flags):
    return tf.reduce_mean(tf.cast(flags, tf.float32))
