"""A small model plugin, to check extensions and commands with."""

from __future__ import annotations

from typing import Any, Dict, Tuple

import numpy as np

from ..compat import tf
from ..hookspecs import hookimpl

TINY_MODEL = "toolkit.testing.tiny:TinyModel"  # as a plugin's reference
_UNITS = 8  # of the hidden layer


class TinyModel:
    """Two dense layers with batch norm and dropout between them, for examples with one class."""

    @hookimpl
    def build(self, run: Any) -> Tuple[Any, Any, Any]:
        size = int(np.prod(run.data.shape))
        return (
            _build_layer(_dense(run, "hidden", _UNITS), "hidden", size),
            _build_layer(tf.keras.layers.BatchNormalization(momentum=0.9), "norm", _UNITS),
            _build_layer(_dense(run, "logits", run.data.num_classes), "logits", _UNITS),
        )

    @hookimpl
    def call(self, model: Any, features: Any, run: Any) -> Dict[str, Any]:
        hidden, norm, logits = model
        x = tf.reshape(features, [-1, int(np.prod(run.data.shape))])  # [N, D]
        x = norm(hidden(x), training=run.mode == "train")
        x = run.dropout(tf.nn.relu(x), 0.1, "dropout")
        return {"hidden": x, "logits": logits(x)}

    @hookimpl
    def loss(self, labels: Any, outputs: Dict[str, Any]) -> Any:
        return tf.reduce_mean(
            tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=outputs["logits"])
        )

    @hookimpl
    def optimize(self, losses: Any, run: Any) -> Any:
        return run.minimize(losses)

    @hookimpl
    def predict(self, outputs: Dict[str, Any]) -> Dict[str, Any]:
        logits = outputs["logits"]
        label = tf.argmax(logits, axis=1, output_type=tf.int32)
        return {"label": label, "probabilities": tf.nn.softmax(logits)}

    @hookimpl
    def metrics(self, labels: Any, outputs: Dict[str, Any]) -> Dict[str, Any]:
        return {"accuracy": tf.metrics.accuracy(labels, tf.argmax(outputs["logits"], axis=1))}

    @hookimpl
    def metric_directions(self) -> Dict[str, str]:
        return {"accuracy": "max"}


def _dense(run: Any, name: str, units: int) -> Any:
    start = run.initializer("glorot_uniform", name)
    return tf.keras.layers.Dense(units, kernel_initializer=start)


def _build_layer(layer: Any, name: str, size: int) -> Any:
    """Create the variables of a layer that takes [N, size]; return the layer."""
    with tf.name_scope(name + "/"):
        layer.build(tf.TensorShape([None, size]))
    return layer
