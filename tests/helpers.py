"""What tests share: a linear model as a plugin, quick to build, and data that it can learn."""

from __future__ import annotations

import contextlib
import json
import os
from typing import Any, NamedTuple

import numpy as np

from toolkit import Options, hookimpl, option

REPOSITORY = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LINEAR = "helpers:Linear"


class LinearOptions(Options):
    core_defaults = {"learning_rate": 0.02, "batch_size": 8, "checkpoint_steps": 2}

    gain: float = option(1.0, "factor on the features", unit="times", group="Network", gt=0)


class Linear:
    """Logits are x W + b: `linear/w` [D, K] and `linear/b` [K]."""

    @hookimpl
    def options(self):
        return LinearOptions

    @hookimpl
    def build(self, run):
        from toolkit import tf

        sizes = [int(np.prod(run.data.shape)), run.data.num_classes]
        start = run.initializer("glorot_uniform", "linear/w")
        w = tf.get_variable("linear/w", sizes, initializer=start)
        return w, tf.get_variable("linear/b", sizes[1:], initializer=tf.zeros_initializer())

    @hookimpl
    def call(self, model, features, run):
        from toolkit import tf

        w, b = model
        flat = tf.reshape(features, [-1, int(w.shape[0])])
        return {"flat": flat, "logits": run.options.gain * tf.matmul(flat, w) + b}

    @hookimpl
    def loss(self, labels, outputs):
        from toolkit import tf

        return tf.reduce_mean(
            tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=outputs["logits"])
        )

    @hookimpl
    def optimize(self, losses, run):
        return run.minimize(losses)

    @hookimpl
    def predict(self, outputs):
        from toolkit import tf

        logits = outputs["logits"]
        return {
            "label": tf.argmax(logits, axis=1, output_type=tf.int32),
            "logits": logits,
            "features": outputs["flat"],
        }

    @hookimpl
    def metrics(self, labels, outputs):
        from toolkit import tf

        return {"accuracy": tf.metrics.accuracy(labels, tf.argmax(outputs["logits"], axis=1))}


def bars(labels, seed=0):
    """uint8 [N, 6, 6, 1]: light bars on a black border; the one of class k lies in row k + 1."""
    images = np.zeros((len(labels), 6, 6, 1), np.uint8)
    noise = np.random.RandomState(seed).randint(0, 120, (len(labels), 4, 4, 1))
    images[:, 1:5, 1:5] = noise
    for i, label in enumerate(labels):
        images[i, label + 1, 1:5] = 200
    return images


def write_bars(path, train=40, validation=7, test=13):
    """An .npz of three classes. Neither 7 nor 13 is a multiple of a batch."""
    arrays = {}
    for seed, (name, count) in enumerate([("train", train), ("val", validation), ("test", test)]):
        labels = np.arange(count) * 7 % 3
        arrays["x_" + name], arrays["y_" + name] = bars(labels, seed), labels
    np.savez(str(path), **arrays)
    return f"npz:{path}"


class Spec(NamedTuple):
    """The part of a `DataSpec` that a model reads."""

    shape: Any = (4,)
    dtype: str = "float32"
    num_classes: int = 2
    class_names: Any = ()


class Constant:
    """A reader that gives the same batch in every step."""

    def __init__(self, features, labels):
        self._batch = features, labels
        self.num_examples = self.batch_size = len(features)

    def batch(self, step):
        from toolkit import tf

        features, labels = self._batch
        return tf.constant(features, tf.float32), tf.constant(labels, tf.int32)


def run_of(mode="train", data=None, classes=(), total_steps=None, **options):
    """A Run with resolved options, as no command line made it."""
    from toolkit import Run
    from toolkit.options import resolve

    resolved = resolve(classes, [("test", options)]).options
    return Run(mode, resolved, data or Spec(), total_steps=total_steps)


@contextlib.contextmanager
def session():
    """A session of the default graph with initialised variables."""
    from toolkit import tf

    with tf.Session() as made:
        made.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        yield made


def plugin_of(made, name="tiny", kind="model"):
    """An object (or a class) with hooks, checked as `--plugin` and `--with` check one."""
    from toolkit.plugins import Plugin

    return Plugin.from_object(made, kind, name)


def read_json(*parts):
    with open(os.path.join(*map(str, parts))) as file:
        return json.load(file)
