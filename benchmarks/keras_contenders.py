"""Keras's own `fit` from arrays in memory; `training_speed.py` starts it.

This process never imports the toolkit: eager TensorFlow on 2.x (tf_keras is Keras 2, keras is
Keras 3), and the graph-mode `tf.keras` of 1.15.
"""

from __future__ import annotations

import argparse
import os

import numpy as np
import terms
from arrays import Arrays
from link import Link

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

# Each epoch has a start-up cost in Keras that would weigh on epochs of 31 steps. In Keras's favour,
# the digits are repeated so often within an epoch.
TIMES = {"mlp": 8, "cnn": 1}


def load(name: str):
    """The Keras module called `name`."""
    if name == "tf_keras":
        import tf_keras as keras
    elif name == "keras":
        os.environ["KERAS_BACKEND"] = "tensorflow"
        import keras
    else:
        import tensorflow

        tensorflow.compat.v1.logging.set_verbosity("ERROR")
        keras = tensorflow.keras
    return keras


def mlp(keras):
    layers = keras.layers
    return keras.Sequential(
        [
            layers.Flatten(input_shape=(28, 28, 1)),
            layers.Dense(terms.HIDDEN, "relu", kernel_initializer="he_normal"),
            layers.Dropout(terms.DROPOUT),
            layers.Dense(terms.CLASSES),
        ]
    )


def cnn(keras):
    """The classifier plugin's Cnn: three stages of two convolutions."""
    layers, parts = keras.layers, [keras.layers.InputLayer(input_shape=(28, 28, 1))]
    for stage, filters in enumerate(terms.FILTERS):
        for position in range(2):
            parts.append(
                layers.Conv2D(
                    filters, 3, padding="same", use_bias=False, kernel_initializer="he_normal"
                )
            )
            if position == 1 and stage < 2:
                parts.append(layers.MaxPool2D(2, 2, padding="same"))
            parts.append(layers.BatchNormalization(momentum=terms.NORM_MOMENTUM))
            parts.append(layers.Activation("relu"))
    return keras.Sequential(parts + [layers.GlobalAveragePooling2D(), layers.Dense(terms.CLASSES)])


def fit(link: Link, keras, arguments, features, labels) -> None:
    model = {"mlp": mlp, "cnn": cnn}[arguments.network](keras)
    count = sum(int(np.prod(weight.shape)) for weight in model.trainable_weights)
    terms.check_parameters(arguments.network, count)
    compile_options = {}
    if arguments.steps_per_execution > 1:
        compile_options["steps_per_execution"] = arguments.steps_per_execution
    if arguments.jit != "auto":
        compile_options["jit_compile"] = arguments.jit == "on"
    model.compile(
        optimizer=keras.optimizers.Adam(terms.LEARNING_RATE, clipvalue=terms.CLIP),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        **compile_options,
    )
    link.mark("build")
    size = arguments.batch_size
    model.fit(features[:size], labels[:size], batch_size=size, epochs=1, verbose=0)
    link.mark("step")
    whole = len(labels) // size * size
    steps_per_epoch = whole // size

    class Pause(keras.callbacks.Callback):
        steps = 0

        def on_epoch_end(self, epoch, logs=None):
            self.steps += steps_per_epoch
            self.model.stop_training = not link.should_continue(self.steps)

    model.fit(
        features[:whole],
        labels[:whole],
        batch_size=size,
        epochs=10**6,
        verbose=0,
        callbacks=[Pause()],
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("keras", choices=("tf_keras", "keras", "tf.keras"))
    parser.add_argument("--network", default="mlp")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--steps-per-execution", type=int, default=1)
    parser.add_argument("--jit", choices=("auto", "on", "off"), default="auto", help="use XLA")
    parser.add_argument(
        "--threads", type=int, default=0, help="intra-op threads; 0: Keras's default"
    )
    parser.add_argument("--folder", help="folder of digits.npz")
    arguments = parser.parse_args()
    link = Link()
    keras = load(arguments.keras)
    if arguments.threads:
        import tensorflow as tf

        tf.config.threading.set_intra_op_parallelism_threads(arguments.threads)
    arrays = Arrays(arguments.folder)
    features, labels = arrays.features, arrays.labels
    times = TIMES[arguments.network]
    features, labels = np.tile(features, (times, 1, 1, 1)), np.tile(labels, times)
    link.mark("import")
    fit(link, keras, arguments, features, labels)


if __name__ == "__main__":
    main()
