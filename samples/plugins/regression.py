"""Regression: predict a number, such as a price, from the numbers in a row of a table.

    toolkit run --plugin samples/plugins/regression.py
    toolkit run --plugin samples/plugins/regression.py --data table:FILE --label-column price

Without `--data`, the plugin trains on data of its own: houses whose price follows from their area,
age and distance to the centre. Labels that are floats are values: they reach the hooks as float32
[N], and there are no classes; with `--label-kind value`, whole numbers of a table are values, too.
The inputs have different units, so the plugin turns `--normalize` on and calls
`toolkit.normalize`. Evaluation, `predict` and exports then normalize with the numbers of the
training split.

Legend: N examples in a batch, F numbers of one example.
"""

from __future__ import annotations

from typing import Any, ClassVar, List, Mapping

import numpy as np

from toolkit import DataError, Options, Split, hookimpl, normalize, option, tf

GENERATED = "generated"  # the value of --data for the plugin's own houses
HOUSES = {"train": 600, "validation": 100, "test": 200}


class RegressionOptions(Options):
    core_defaults: ClassVar[Mapping[str, Any]] = {
        "data": GENERATED,
        "normalize": True,
        "learning_rate": 0.01,
        "epochs": 40.0,
    }

    hidden: List[int] = option([32, 32], "sizes of the hidden layers", unit="units")
    label_scale: float = option(100.0, "usual size of a label; the network predicts parts", gt=0)


def generate_houses(count: int, seed: int):
    """Features float32 [count, 3] (square metres, years, kilometres) and prices float32 [count]."""
    random = np.random.RandomState(seed)
    area, age, distance = (
        random.uniform(*limits, count) for limits in ((30, 200), (0, 90), (1, 9))
    )
    price = area * 6 / np.sqrt(distance) - age + random.normal(0, 10, count)
    return np.stack([area, age, distance], 1).astype(np.float32), price.astype(np.float32)


@hookimpl
def options():
    return RegressionOptions


@hookimpl
def data(split, run):
    if run.options.data != GENERATED:
        return None  # the core opens what --data names
    return Split(*generate_houses(HOUSES[split], seed=list(HOUSES).index(split)))


@hookimpl
def build(run):
    features, labels = run.data.features, run.data.labels  # a `Component` each, or a dict of them
    if isinstance(features, dict) or len(features.shape) != 1 or features.dtype != "float32":
        raise DataError("The plugin 'regression' needs rows of numbers.")
    if labels is None or isinstance(labels, dict) or (labels.kind, labels.shape) != ("value", ()):
        raise DataError("The plugin 'regression' needs one value as label of each example.")
    sizes = [features.shape[0], *run.options.hidden, 1]
    layers = []
    for number, (inputs, units) in enumerate(zip(sizes, sizes[1:]), start=1):
        name = f"dense{number}"
        kernel_initializer = run.initializer("glorot_uniform", name)
        layer = tf.keras.layers.Dense(units, kernel_initializer=kernel_initializer)
        with tf.name_scope(name + "/"):  # the final slash: the same name in every graph
            layer.build(tf.TensorShape([None, inputs]))
        layers.append(layer)
    return layers


@hookimpl
def call(model, features, run):
    x = normalize(features, run.data)  # [N, F]
    for layer in model[:-1]:
        x = tf.nn.relu(layer(x))
    return {"value": model[-1](x)[:, 0] * run.options.label_scale}  # [N]


@hookimpl
def loss(labels, outputs, run):
    return tf.reduce_mean(tf.square((outputs["value"] - labels) / run.options.label_scale))


@hookimpl
def optimize(losses, run):
    return run.minimize(losses)


@hookimpl
def predict(outputs):
    return {"value": outputs["value"]}


@hookimpl
def example_metrics(labels, outputs):
    return {"mean_absolute_error": tf.abs(outputs["value"] - labels)}


@hookimpl
def metric_directions():
    return {"mean_absolute_error": "min"}
