"""A Keras model as it is: a small convolutional network for images of digits.

    toolkit run --plugin samples/plugins/keras_cnn.py

`make_model` is what a script around `compile` and `fit` has. `run.keras` makes it a part of a
plugin: initial weights follow from the run's seed and the names of the variables, dropout from seed
and step, the averages of batch normalization move with the step's update, and `model.losses()` are
those of the regularizers. The hooks `loss`, `optimize` and `example_metrics` say what `compile`
said, the command line what `fit` said.

Legend: N examples in a batch, H height, W width, C channels, K classes.
"""

from __future__ import annotations

from typing import Any, ClassVar, Mapping

from toolkit import DataError, Options, hookimpl, option, tf


class KerasCnnOptions(Options):
    core_defaults: ClassVar[Mapping[str, Any]] = {
        "data": "mnist5k",
        "epochs": 3.0,
        "clip": "none",
        "best_metric": "accuracy",
    }

    filters: int = option(16, "channels of the first layer", unit="channels", ge=1)
    dropout: float = option(0.4, "share of the units that training drops", ge=0, lt=1)
    l2: float = option(1e-4, "factor of the kernels' squares in the loss", ge=0)


def make_model(shape, num_classes, filters, dropout, l2):
    """Images [N, H, W, C] in [0, 1] -> logits [N, K]."""
    layers, regularizer = tf.keras.layers, tf.keras.regularizers.l2(l2)
    return tf.keras.Sequential(
        [
            layers.Conv2D(
                filters, 3, input_shape=shape, use_bias=False, kernel_regularizer=regularizer
            ),
            layers.BatchNormalization(),
            layers.Activation("relu"),
            layers.MaxPooling2D(),
            layers.Conv2D(2 * filters, 3, activation="relu", kernel_regularizer=regularizer),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dropout(dropout),
            layers.Dense(num_classes, kernel_regularizer=regularizer),
        ]
    )


@hookimpl
def options():
    return KerasCnnOptions


@hookimpl
def build(run):
    if run.data.feature_names or len(run.data.shape) != 3 or not run.data.num_classes:
        raise DataError("The plugin 'keras_cnn' needs images with one class each.")
    options = run.options
    return run.keras(
        make_model(
            run.data.shape, run.data.num_classes, options.filters, options.dropout, options.l2
        )
    )


@hookimpl
def call(model, features):
    return {"logits": model(features)}  # dropout and batch norm follow run.mode


@hookimpl
def loss(model, labels, outputs):
    errors = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=outputs["logits"])
    return tf.reduce_mean(errors) + sum(model.losses())


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
