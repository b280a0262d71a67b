"""One training step of both players in one op: the passes, the losses, the order of updates.

alternating: n_critic updates of the discriminator, each on its own slice of the step's examples and its
own noise, then one of the generator; every pass is made under control dependencies on the update
before it, so that it reads the variables anew. simultaneous: one pass, the gradients of both
players, a barrier, both updates.
Legend: B examples of one update, N = n_critic * B examples of a step, H W C of an image, K classes.
Images are float32 in [-1, 1] here, logits are higher for what looks real.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, NamedTuple

from toolkit import UsageError, tf

from . import latents, losses, penalties, sampling
from .networks import Discriminator, Generator, check_networks


class Gan(NamedTuple):
    """The players. average: the generator with averaged weights, which samples come from."""

    generator: Any
    discriminator: Any
    average: Any


# ---------------------------------------------------------------------------------------- the hooks


def build(run):
    """The networks that the mode needs: predicting takes the averaged generator alone."""
    check_networks(run)
    check_method(run.options)
    generator = average = discriminator = None
    if run.options.ema:
        average = Generator(run, "average", "generator", trainable=False)
    if run.mode == "train" or average is None:
        generator = Generator(run)
    if run.mode != "predict":
        discriminator = Discriminator(run)
    return Gan(generator, discriminator, average or generator)


def call(model, features, labels, run):
    """A training step's first pass, an evaluation's pass, or images from z (see `sampling`)."""
    if run.mode == "predict":
        return sampling.predicted(model.average, features, run)
    reals = 2 * features - 1  # [N, H, W, C] in [-1, 1]
    if run.mode == "eval":
        return evaluation_pass(model, run, reals, labels)
    reals, labels = slice_of(reals, labels, 0, run)
    return discriminator_pass(model, run, reals, labels, 0)[0]


def objective(outputs, run):
    """Name -> scalar: what both players minimise and what tells how they do, of one pass.

    d_loss, g_loss: see `losses`. d_real, d_fake: mean logits. penalty: weighted, part of d_loss.
    d_accuracy_real, d_accuracy_fake: shares of the images that the discriminator judges rightly.
    """
    options = run.options
    real, fake = outputs["real_logits"], outputs["fake_logits"]
    d_loss, g_loss = losses.LOSSES[options.loss](real, fake)
    found = OrderedDict(d_loss=d_loss, g_loss=g_loss)
    if "fake_class_logits" in outputs:
        add_class_losses(found, outputs, options)
    if "gradients" in outputs:
        found["penalty"] = penalty_of(outputs, options)
        found["d_loss"] += found["penalty"]
    found["d_real"], found["d_fake"] = tf.reduce_mean(real), tf.reduce_mean(fake)
    accuracy = losses.discriminator_accuracy(options.loss, real, fake)
    found["d_accuracy_real"], found["d_accuracy_fake"] = accuracy
    return found


def optimize(model, features, labels, losses, run):
    """One op: every update of a step, then the global step. losses: of `call`'s pass."""
    with penalties.differentiable():
        if run.options.update == "simultaneous":
            return simultaneous(model, losses, run)
        return alternating(model, features, labels, losses, run)


# ---------------------------------------------------------------------------------------- the order


def alternating(model, features, labels, losses, run):
    """n_critic updates of the discriminator, then the generator's, which sees the updated discriminator."""
    done = update_discriminator(model, losses["d_loss"], run, None)
    for number in range(1, run.options.n_critic):
        with tf.control_dependencies([done]):
            reals, classes = slice_of(2 * features - 1, labels, number, run)
            outputs, updates = discriminator_pass(model, run, reals, classes, number)
            losses = objective(outputs, run)
            done = update_discriminator(model, losses["d_loss"], run, updates)
    log_discriminator(losses, run)
    with tf.control_dependencies([done]):
        reals, classes = slice_of(2 * features - 1, labels, run.options.n_critic - 1, run)
        outputs = generator_pass(model, run, reals, classes)
        loss = objective(outputs, run)["g_loss"]
        run.log("g_loss", loss)
        last = run.minimize(loss, **generator_settings(model, run))
    return tf.group(done, last)


def simultaneous(model, losses, run):
    """Both gradients of one pass, then both updates."""
    discriminator = run.gradients(losses["d_loss"], **discriminator_settings(model, run, None))
    generator = run.gradients(losses["g_loss"], **generator_settings(model, run))
    return tf.group(run.apply([discriminator, generator]))


def update_discriminator(model, loss, run, updates):
    return run.minimize(loss, advance_step=False, **discriminator_settings(model, run, updates))


def discriminator_settings(model, run, updates):
    """updates: state updates of the pass; None: those that the core holds of `call`'s."""
    limit = run.options.weight_clip
    return {
        "variables": model.discriminator.variables,
        "name": "critic",
        "learning_rate": run.options.critic_rate,
        "updates": updates,
        "after": (lambda: penalties.clip_weights(model.discriminator.variables, limit))
        if limit
        else None,
    }


def generator_settings(model, run):
    return {
        "variables": model.generator.variables,
        "name": "generator",
        "learning_rate": run.options.generator_rate,
        "updates": [],
        "after": (lambda: update_average(model, run)) if run.options.ema else None,
    }


def update_average(model, run):
    """Move the averaged weights towards the new ones; made behind the generator's update.

    The decay grows with the steps, min(ema, (1 + t) / (10 + t)), so that the start is forgotten.
    """
    made = tf.cast(run.steps_made, tf.float32)
    share = 1 - tf.minimum(run.options.ema, (1 + made) / (10 + made))
    moved = []
    for average, variable in zip(model.average.variables, model.generator.variables):
        difference = average.read_value() - variable.read_value()
        moved.append(average.assign_sub(share * difference, read_value=False))
    return tf.group(*moved)


def log_discriminator(losses, run):
    """Tell the last of several updates of the discriminator; the core tells those of `call`'s pass."""
    if run.options.n_critic > 1:
        for name, value in losses.items():
            if name != "g_loss":
                run.log(name, value)


# --------------------------------------------------------------------------------------- the passes


def slice_of(reals, labels, number, run):
    """The examples of update `number` of the step: [B, H, W, C] and [B] or None."""
    size = run.options.batch_size
    part = slice(number * size, (number + 1) * size)
    return reals[part], None if labels is None else labels[part]


def discriminator_pass(model, run, reals, labels, number):
    """What update `number` of the discriminator needs, and the state updates (power iterations) of it."""
    name = f"critic{number}"
    fakes, fake_labels = generated(model.generator, run, name, tf.shape(reals)[0])
    if run.options.update == "alternating":
        fakes = tf.stop_gradient(fakes)
    weights = model.discriminator.weights(iterate=True)
    real, fake = model.discriminator.pair(reals, labels, fakes, fake_labels, weights)
    outputs = verdicts(real, labels, fake, fakes, fake_labels)
    if run.options.penalty != "none":
        points = penalty_points(run, name, reals, labels, fakes, fake_labels)
        verdict = model.discriminator(*points, weights=weights)
        outputs["gradients"] = penalties.input_gradients(verdict.logits, points[0])
    return outputs, weights.updates


def generator_pass(model, run, reals, labels):
    """What the generator's update needs; reals are judged only where its loss reads them."""
    fakes, fake_labels = generated(model.generator, run, "generator", run.options.batch_size)
    weights = model.discriminator.weights(iterate=False)
    if run.options.loss in losses.NEEDS_REALS:
        real, fake = model.discriminator.pair(reals, labels, fakes, fake_labels, weights)
    else:
        fake = model.discriminator(fakes, fake_labels, weights)
        real = fake._replace(logits=tf.zeros_like(fake.logits))  # not in its loss
    return verdicts(real, labels, fake, fakes, fake_labels)


def evaluation_pass(model, run, reals, labels):
    """Held-out images against samples, with the weights and statistics that samples come from."""
    count = tf.shape(reals)[0]
    z = latents.noise(run, "evaluation/z", count)
    fake_labels = latents.classes(run, "evaluation/label", count)
    fakes = 2 * sampling.held(model.average, z, fake_labels, run) - 1
    weights = model.discriminator.weights(iterate=False)
    real, fake = model.discriminator.pair(reals, labels, fakes, fake_labels, weights)
    return verdicts(real, labels, fake, fakes, fake_labels)


def generated(generator, run, name, count):
    """Images [B, H, W, C] of fresh noise and their labels [B] or None."""
    labels = latents.classes(run, name + "/label", count)
    return generator(latents.noise(run, name + "/z", count), labels), labels


def verdicts(real, real_labels, fake, fakes, fake_labels):
    outputs = {"real_logits": real.logits, "fake_logits": fake.logits, "fake_images": fakes}
    if fake.class_logits is not None:
        outputs["real_class_logits"] = real.class_logits
        outputs["fake_class_logits"] = fake.class_logits
        outputs["real_labels"], outputs["fake_labels"] = real_labels, fake_labels
    return outputs


def add_class_losses(found, outputs, options):
    """acgan: each player also minimises the cross-entropy of the classes (Odena et al. 2017)."""
    fake = losses.class_loss(outputs["fake_class_logits"], outputs["fake_labels"])
    real = losses.class_loss(outputs["real_class_logits"], outputs["real_labels"])
    found["d_loss"] += options.class_weight * (real + fake)
    found["g_loss"] += options.class_weight * fake
    found["class_loss_real"], found["class_loss_fake"] = real, fake


# ------------------------------------------------------------------------------------ the penalties


def penalty_points(run, name, reals, labels, fakes, fake_labels):
    """Where the penalty looks at the discriminator: images [B or 2B, H, W, C] and their labels or None."""
    if run.options.penalty in ("wgan-gp", "lp"):
        shape = tf.concat([tf.shape(reals)[:1], [1] * (reals.shape.ndims - 1)], 0)
        return penalties.between(reals, fakes, run.uniform(name + "/between", shape)), labels
    if run.options.penalty == "dragan":
        return penalties.around(reals, run.uniform(name + "/around", tf.shape(reals))), labels
    if run.options.penalty == "r1":
        return reals, labels
    classes = None if fake_labels is None else tf.concat([labels, fake_labels], 0)
    return tf.concat([reals, fakes], 0), classes


def penalty_of(outputs, options):
    """The weighted penalty, a scalar, from the gradients of a pass."""
    kind, weight = options.penalty, options.penalty_weight
    weight = penalties.DEFAULT_WEIGHT[kind] if weight is None else weight
    gradients = outputs["gradients"]
    if kind == "lp":
        return penalties.one_sided(gradients, weight)
    if kind in ("wgan-gp", "dragan"):
        return penalties.gradient_penalty(gradients, weight)
    if kind == "r1":
        return penalties.zero_centred(gradients, weight)
    return 2 * penalties.zero_centred(gradients, weight)  # of reals plus of fakes, B each


# --------------------------------------------------------------------------------------- the checks


def check_method(options):
    """Raise UsageError for options that contradict one another."""
    if options.accumulate > 1 and options.n_critic > 1:
        raise UsageError(
            f"accumulate is {options.accumulate} and n_critic is {options.n_critic}: the "
            "discriminator's gradients of one step would be"
            " added up.",
            hint="Set one of them to 1.",
        )
