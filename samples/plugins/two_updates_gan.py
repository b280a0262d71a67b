"""A GAN of two functions, ported from a loop with two calls of `sess.run` for each step.

    toolkit run --plugin samples/plugins/two_updates_gan.py

A script trains the discriminator in one call of `sess.run` and the generator in the next. Here a
step is one op that does both: `optimize` builds the update of the discriminator, and under a
control dependency on it everything of the generator's, so that the generator learns from the new
discriminator. Where a loss or gradient is not finite, both updates are undone. The codes are drawn
by `run.normal`, in the place of `np.random.normal` and a placeholder.

`generator` and `discriminator` are as in the script; `run.function` creates their variables once.

Legend: N examples in a batch, H height, W width, C channels, Z size of a code.
"""

from __future__ import annotations

from typing import Any, ClassVar, Mapping

import numpy as np

from toolkit import DataError, Options, hookimpl, option, tf


class TwoUpdatesOptions(Options):
    core_defaults: ClassVar[Mapping[str, Any]] = {
        "data": "mnist5k",
        "epochs": 10.0,
        "learning_rate": 2e-4,
        "clip": "none",
        "optimizer_args": {"beta1": 0.5},
    }

    code_size: int = option(32, "numbers from which an image is generated", unit="values", ge=1)
    units: int = option(128, "size of the hidden layers", unit="units", ge=1)


def generator(codes, shape, units):
    """Codes [N, Z] -> images [N, H, W, C] in [0, 1]."""
    with tf.variable_scope("generator"):
        x = tf.layers.dense(codes, units, activation=tf.nn.relu)
        x = tf.layers.dense(x, int(np.prod(shape)), activation=tf.nn.sigmoid)
        return tf.reshape(x, [-1, *shape])


def discriminator(images, units):
    """Images [N, H, W, C] -> logits [N]: positive where an image looks real."""
    with tf.variable_scope("discriminator"):
        x = tf.layers.dense(tf.layers.flatten(images), units, activation=tf.nn.leaky_relu)
        return tf.layers.dense(x, 1)[:, 0]


def mean_error(logits, label):
    """The mean cross-entropy of logits [N] against one label, 0 or 1."""
    labels = tf.fill(tf.shape(logits), float(label))
    errors = tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits)
    return tf.reduce_mean(errors)


class Players:
    """Both networks; the constructor creates every variable."""

    def __init__(self, run):
        shape, units = run.data.shape, run.options.units
        codes = tf.placeholder(tf.float32, [None, run.options.code_size])
        self.generator = run.function(generator, shape, units, inputs=codes)
        self.discriminator = run.function(discriminator, units)


def draw_codes(run, name, images):
    return run.normal(name, [tf.shape(images)[0], run.options.code_size])  # [N, Z]


@hookimpl
def options():
    return TwoUpdatesOptions


@hookimpl
def inputs(run):
    return {"codes": ("float32", [run.options.code_size])}  # what `predict` and an export are fed


@hookimpl
def build(run):
    if run.data.feature_names or len(run.data.shape) != 3:
        raise DataError("The plugin 'two_updates_gan' needs images.")
    return Players(run)


@hookimpl
def call(model, features, run):
    if run.mode == "predict":
        return {"images": model.generator(features["codes"])}
    images = model.generator(draw_codes(run, "discriminator/codes", features))
    logits = {"real": model.discriminator(features), "generated": model.discriminator(images)}
    return {"images": images, **logits}


@hookimpl
def loss(outputs):
    real, generated = mean_error(outputs["real"], 1), mean_error(outputs["generated"], 0)
    return {"discriminator": real + generated, "generator": mean_error(outputs["generated"], 1)}


@hookimpl
def optimize(model, features, losses, run):
    first = run.minimize(
        losses["discriminator"],
        model.discriminator.trainable_variables,
        "discriminator",
        advance_step=False,
    )
    with tf.control_dependencies([first]):
        images = model.generator(draw_codes(run, "generator/codes", features))
        error = mean_error(model.discriminator(images), 1)
        return run.minimize(error, model.generator.trainable_variables, "generator")


@hookimpl
def predict(outputs):
    return {"images": outputs["images"]}


@hookimpl
def sample(request, run):
    for part in request.parts():
        codes = part.normal("codes", [run.options.code_size])
        yield {"images": part.predict({"codes": codes})["images"]}
