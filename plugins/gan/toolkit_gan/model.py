"""The networks of a GAN, and the forward passes through generator and discriminator.

Each update of a network needs a pass of its own, built when the update is: under the control
dependencies of the update before it, so that it reads the variables after that update.

A pass returns a dict:

    real_logits, fake_logits       float32 [B], higher for images that look real
    fake_images                    float32 [B, H, W, C] in [-1, 1]
    real_class_logits, fake_...    float32 [B, K], with conditional=acgan only
    real_labels, fake_labels       int32 [B], with conditional=acgan only
    penalty                        float32 scalar, with a gradient penalty only
    lecam                          float32 scalar, with LeCam's penalty only

Legend: B examples in one update, N = discriminator_steps * B in a step, H W C of an image,
K classes.
"""

from __future__ import annotations

from typing import Any, Dict, NamedTuple, Tuple

from toolkit import tf

from . import losses, penalties, sampling
from .architecture import AVERAGE, DISCRIMINATOR_SEEDS, conditioning, label_kind
from .checks import check_method, check_networks
from .clusters import Clusters
from .differentiable_augmentation import augment
from .discriminator import Discriminator
from .generator import Generator


class Gan(NamedTuple):
    """The networks that a mode needs; the others are None."""

    generator: Any
    discriminator: Any
    average: Any  # a generator with averaged weights, which samples come from
    clusters: Any = None  # of the training images, where these are the labels
    average_logits: Any = None  # of LeCam, in training


def build(run) -> Gan:
    """Create the networks and all their variables.

    Predicting needs only the averaged generator. Without one, `average` is the generator.
    """
    check_networks(run.options, run.data)
    total_steps = run.total_steps if run.mode == "train" else None
    check_method(run.options, sampling.images_per_step(run), run.replica.count, total_steps)
    generator = average = discriminator = clusters = average_logits = None
    if label_kind(run.options, run.data) == "cluster":
        clusters = Clusters(run)
    if run.options.has_average:
        average = Generator(run, AVERAGE, trainable=False, clusters=clusters)
    if run.mode == "train" or average is None:
        generator = Generator(run, clusters=clusters)
    if run.mode != "predict":
        discriminator = Discriminator(run)
    if run.mode == "train" and run.options.lecam > 0:
        average_logits = penalties.AverageLogits(run)
    return Gan(generator, discriminator, average or generator, clusters, average_logits)


def call(model, features, labels, run) -> Dict[str, Any]:
    """Build the first pass of a training step, the pass of an evaluation, or images from z.

    The features are float32 [N, H, W, C] in [0, 1], or latent inputs by name when predicting;
    labels are int32 [N], or None.
    """
    if run.mode == "predict":
        return sampling.generate_predictions(model.average, features, run)
    if run.mode == "eval":
        return evaluation_pass(model, features, labels, run)
    return discriminator_pass(model, features, labels, 0, run)


def discriminator_pass(model, features, labels, number: int, run) -> Dict[str, Any]:
    """Build what update `number` of the discriminator needs.

    The update also stores the pass's power iterations and average logits.
    """
    reals, labels = update_batch(model, features, labels, number, run)
    stream = f"{DISCRIMINATOR_SEEDS}{number}"
    # A line from a real image to a sample is within one class if both have the same label.
    is_line = run.options.penalty in penalties.INTERPOLATING
    fakes, fake_labels = generate(
        model, run, stream, tf.shape(reals)[0], labels if is_line else None
    )
    if run.options.update == "alternating":
        fakes = tf.stop_gradient(fakes)
    values = model.discriminator.read(iterate=True)
    real_views, fake_views = augment_pair(reals, fakes, run, stream)
    real, fake = model.discriminator.pair(real_views, labels, fake_views, fake_labels, values)
    outputs = named_outputs(real, labels, fake, fakes, fake_labels)
    if run.options.penalty != "none":
        points = penalties.penalty_points(run, stream, real_views, labels, fake_views, fake_labels)
        penalty = penalties.scheduled_penalty(model.discriminator, *points, values, run)
        outputs["penalty"] = penalty
    if model.average_logits is not None:
        outputs["lecam"] = model.average_logits.penalise(real.logits, fake.logits)
    return outputs


def generator_pass(model, features, labels, run) -> Dict[str, Any]:
    """Build what the generator's update needs; most losses do not read the real images."""
    last = run.options.discriminator_steps - 1
    reals, labels = update_batch(model, features, labels, last, run)
    fakes, fake_labels = generate(model, run, "generator", run.options.batch_size)
    values = model.discriminator.read()
    if run.options.loss in losses.NEEDS_REALS:
        real_views, fake_views = augment_pair(reals, fakes, run, "generator")
        real, fake = model.discriminator.pair(real_views, labels, fake_views, fake_labels, values)
    else:
        fake_views = augment(fakes, run, "generator/augment/fake")
        fake = model.discriminator(fake_views, fake_labels, values)
        real = fake._replace(logits=tf.zeros_like(fake.logits))  # not in its loss
    return named_outputs(real, labels, fake, fakes, fake_labels)


def evaluation_pass(model, features, labels, run) -> Dict[str, Any]:
    """Compare held-out images with samples, made as `toolkit sample` makes them.

    A discriminator that mixes the examples of a batch, by batch norm or `minibatch_stddev`, judges
    each in its batch, as in training.
    """
    reals, count = scale_images(features), tf.shape(features)[0]
    labels = real_labels(model, reals, labels)
    z = sampling.noise(run, "evaluation/z", count)
    fake_labels = sampling.random_labels(run, "evaluation/label", count, model.clusters)
    fakes = scale_images(sampling.sample_images(model.average, z, fake_labels, run))
    real_views, fake_views = augment_pair(reals, fakes, run, "evaluation")
    values = model.discriminator.read()
    real, fake = model.discriminator.pair(real_views, labels, fake_views, fake_labels, values)
    return named_outputs(real, labels, fake, fakes, fake_labels)


def scale_images(features):
    """Images in [-1, 1], the range of the networks, from images in [0, 1]."""
    return 2 * features - 1


def update_batch(model, features, labels, number: int, run) -> Tuple[Any, Any]:
    """The examples of update `number` of a step: images [B, H, W, C], and labels [B] or None."""
    size = run.options.batch_size
    part = slice(number * size, (number + 1) * size)
    reals = scale_images(features)[part]
    has_classes = labels is not None and run.data.num_classes  # other labels are not used
    return reals, real_labels(model, reals, labels[part] if has_classes else None)


def real_labels(model, reals, classes):
    """int32 [B], the labels of real images [B, H, W, C] before any augmentation: their clusters if
    there are any, else their classes, int32 [B] or None.
    """
    return classes if model.clusters is None else model.clusters.assign(reals, classes)


def augment_pair(reals, fakes, run, stream: str) -> Tuple[Any, Any]:
    """Real and generated images as the discriminator sees them, changed by the same rule."""
    real_views = augment(reals, run, stream + "/augment/real")
    return real_views, augment(fakes, run, stream + "/augment/fake")


def generate(model, run, stream: str, count, labels=None) -> Tuple[Any, Any]:
    """Images [count, H, W, C] from fresh noise, and their labels [count] or None.

    `stream` begins the names of the random numbers; the count is an int or an int32 scalar. Without
    labels they are as frequent as in the training data; a generator without labels ignores them.
    """
    if labels is None or conditioning(run.options, run.data) == "none":
        labels = sampling.random_labels(run, stream + "/label", count, model.clusters)
    return model.generator(sampling.noise(run, stream + "/z", count), labels), labels


def named_outputs(real, real_labels, fake, fakes, fake_labels) -> Dict[str, Any]:
    """The outputs of a pass, from the discriminator's outputs for real and generated images."""
    outputs = {"real_logits": real.logits, "fake_logits": fake.logits, "fake_images": fakes}
    if fake.class_logits is not None:
        outputs["real_class_logits"] = real.class_logits
        outputs["fake_class_logits"] = fake.class_logits
        outputs["real_labels"], outputs["fake_labels"] = real_labels, fake_labels
    return outputs
