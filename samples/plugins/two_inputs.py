"""Two inputs: classify by an image and a number together.

    toolkit run --plugin samples/plugins/two_inputs.py

Features that have names are a dict of arrays, in `Split` and in every hook. Each has its own shape
and dtype: the image is uint8 and reaches the hooks as float32 in [0, 1], the number as it is
stored. An export takes the features by these names; so does `toolkit predict RUN FILE.npz`, of a
file with an array of each name.

The data is the plugin's own: crates of four classes. The image shows whether the stripes of a crate
are horizontal or vertical, and its weight tells the full ones from the empty. One input alone is
right for half of the crates.

Legend: N examples in a batch, H height, W width, K classes.
"""

from __future__ import annotations

from typing import Any, ClassVar, Mapping

import numpy as np

from toolkit import Column, Options, Split, hookimpl, option, tf

CLASSES = ("horizontal, empty", "horizontal, full", "vertical, empty", "vertical, full")
CRATES = {"train": 320, "validation": 80, "test": 120}
SIDE = 12  # pixels


class TwoInputsOptions(Options):
    core_defaults: ClassVar[Mapping[str, Any]] = {
        "epochs": 20.0,
        "learning_rate": 0.01,
        "best_metric": "accuracy",
    }

    units: int = option(16, "size of the hidden layers", unit="units", ge=1)


def generate_crates(count: int, seed: int):
    """Features by name, and classes [count]."""
    random = np.random.RandomState(seed)
    is_vertical, is_full = random.randint(0, 2, [2, count])
    stripes = np.tile(np.arange(SIDE) % 4 < 2, [SIDE, 1])  # vertical
    images = np.where(is_vertical[:, np.newaxis, np.newaxis], stripes, stripes.T)
    images = 100 * images + random.randint(0, 100, images.shape)
    weights = random.normal(20 + 60 * is_full, 10)  # kg
    features = {"photo": images.astype(np.uint8), "weight": weights.astype(np.float32)}
    return features, 2 * is_vertical + is_full


@hookimpl
def options():
    return TwoInputsOptions


@hookimpl
def data(split):
    features, labels = generate_crates(CRATES[split], seed=list(CRATES).index(split))
    return Split(features, Column(labels, class_names=CLASSES))


class Network:
    """The layers; the constructor creates every variable."""

    def __init__(self, run):
        units = run.options.units
        self.num_pixels = run.data.features["photo"].size
        self.image_layer = _dense(run, "image", self.num_pixels, units)
        self.number_layer = _dense(run, "number", 1, units)
        self.top_layer = _dense(run, "top", 2 * units, run.data.num_classes)


def _dense(run, name, inputs, units):
    layer = tf.keras.layers.Dense(units, kernel_initializer=run.initializer("he_normal", name))
    with tf.name_scope(name + "/"):  # the final slash: the same name in every graph
        layer.build(tf.TensorShape([None, inputs]))
    return layer


@hookimpl
def build(run):
    return Network(run)


@hookimpl
def call(model, features):
    pixels = tf.reshape(features["photo"], [-1, model.num_pixels]) - 0.4
    weights = features["weight"][:, tf.newaxis] / 50.0 - 1.0  # [N, 1]
    x = tf.concat([model.image_layer(pixels), model.number_layer(weights)], axis=1)
    return {"logits": model.top_layer(tf.nn.relu(x))}  # [N, K]


@hookimpl
def loss(labels, outputs):
    return tf.losses.sparse_softmax_cross_entropy(labels, outputs["logits"])


@hookimpl
def optimize(losses, run):
    return run.minimize(losses)


@hookimpl
def predict(outputs):
    probabilities = tf.nn.softmax(outputs["logits"])
    return {"label": tf.argmax(probabilities, axis=1), "probabilities": probabilities}


@hookimpl
def example_metrics(labels, outputs):
    predicted = tf.argmax(outputs["logits"], axis=1, output_type=tf.int32)
    return {"accuracy": tf.equal(predicted, labels)}


@hookimpl
def metric_directions():
    return {"accuracy": "max"}
