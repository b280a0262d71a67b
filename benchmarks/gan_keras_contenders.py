"""The DCGAN of the preset dcgan as a Keras model with a `train_step`; `gan_speed.py` starts it.

This process never imports the toolkit. tf_keras is Keras 2, keras is Keras 3. The networks are
`toolkit_gan`'s Dcgan at 28 pixels, layer by layer, and the update order is "alternating".
"""

from __future__ import annotations

import argparse

import numpy as np
import terms
from arrays import Arrays
from keras_contenders import load
from link import Link

EPOCH = 50  # steps; a multiple of --steps-per-execution


def generator(keras, latent_size: int, width: int):
    """float32 [N, Z] -> [N, 28, 28, 1] in [-1, 1]."""
    layers, small = keras.layers, keras.initializers.RandomNormal(stddev=0.02)
    return keras.Sequential(
        [
            keras.Input((latent_size,)),
            layers.Dense(7 * 7 * 2 * width, use_bias=False, kernel_initializer=small),
            layers.Reshape((7, 7, 2 * width)),
            layers.BatchNormalization(epsilon=terms.GAN_NORM_EPSILON),
            layers.ReLU(),
            layers.Conv2DTranspose(width, 4, 2, "same", use_bias=False, kernel_initializer=small),
            layers.BatchNormalization(epsilon=terms.GAN_NORM_EPSILON),
            layers.ReLU(),
            layers.Conv2DTranspose(1, 4, 2, "same", activation="tanh", kernel_initializer=small),
        ]
    )


def discriminator(keras, width: int):
    """float32 [N, 28, 28, 1] -> [N, 1]."""
    layers, small = keras.layers, keras.initializers.RandomNormal(stddev=0.02)
    return keras.Sequential(
        [
            keras.Input((28, 28, 1)),
            layers.Conv2D(width, 4, 2, "same", kernel_initializer=small),
            layers.LeakyReLU(0.2),
            layers.Conv2D(2 * width, 4, 2, "same", use_bias=False, kernel_initializer=small),
            layers.BatchNormalization(epsilon=terms.GAN_NORM_EPSILON),
            layers.LeakyReLU(0.2),
            layers.Flatten(),
            layers.Dense(1, kernel_initializer=small),
        ]
    )


def gan(keras, tf, arguments):
    """The model: one call of `train_step` updates the discriminator, then the generator."""
    latent_size, width = arguments.latent_size, arguments.width

    class Gan(keras.Model):
        def __init__(self):
            super().__init__()
            self.generator = generator(keras, latent_size, width)
            self.discriminator = discriminator(keras, width)
            for name, network in (
                ("generator", self.generator),
                ("discriminator", self.discriminator),
            ):
                count = sum(int(np.prod(weight.shape)) for weight in network.trainable_weights)
                terms.check_gan_parameters(name, width, latent_size, count)
            rates = terms.GAN_RATE, terms.GAN_BETA_1
            self.optimizers = [keras.optimizers.Adam(*rates) for _ in range(2)]
            for network, optimizer in zip((self.discriminator, self.generator), self.optimizers):
                optimizer.build(network.trainable_variables)

        def noise(self):
            return tf.random.normal([arguments.batch_size, latent_size])

        def train_step(self, reals):
            fakes = self.generator(self.noise(), training=True)
            with tf.GradientTape() as tape:
                real = self.discriminator(reals, training=True)
                fake = self.discriminator(fakes, training=True)
                d_loss = tf.reduce_mean(tf.nn.softplus(-real))
                d_loss += tf.reduce_mean(tf.nn.softplus(fake))
            self.update(tape, d_loss, self.discriminator, self.optimizers[0])
            with tf.GradientTape() as tape:
                fakes = self.generator(self.noise(), training=True)
                g_loss = tf.reduce_mean(tf.nn.softplus(-self.discriminator(fakes, training=True)))
            self.update(tape, g_loss, self.generator, self.optimizers[1])
            return {"d_loss": d_loss, "g_loss": g_loss}

        def update(self, tape, loss, network, optimizer):
            variables = network.trainable_variables
            optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))

    return Gan()


def batches(tf, arrays, size: int):
    """An endless tf.data of float32 [size, 28, 28, 1] in [-1, 1], reshuffled each epoch."""
    dataset = tf.data.Dataset.from_tensor_slices(2 * arrays.features - 1)
    dataset = dataset.shuffle(len(arrays.labels)).repeat()
    return dataset.batch(size, drop_remainder=True).prefetch(tf.data.AUTOTUNE)


def fit(link: Link, keras, tf, arguments, arrays) -> None:
    model = gan(keras, tf, arguments)
    per_execution, compile_options = arguments.steps_per_execution, {}
    if arguments.jit != "auto":
        compile_options["jit_compile"] = arguments.jit == "on"
    model.compile(steps_per_execution=per_execution, **compile_options)
    dataset = batches(tf, arrays, arguments.batch_size)
    link.mark("build")
    model.fit(dataset, steps_per_epoch=per_execution, epochs=1, verbose=0)
    link.mark("step")

    class Pause(keras.callbacks.Callback):
        steps = 0

        def on_epoch_end(self, epoch, logs=None):
            self.steps += EPOCH
            self.model.stop_training = not link.should_continue(self.steps)

    model.fit(dataset, steps_per_epoch=EPOCH, epochs=10**6, verbose=0, callbacks=[Pause()])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("keras", choices=("tf_keras", "keras"))
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--latent-size", type=int, default=64)
    parser.add_argument("--steps-per-execution", type=int, default=1)
    parser.add_argument("--jit", choices=("auto", "on", "off"), default="auto", help="use XLA")
    parser.add_argument("--folder", help="folder of digits.npz")
    arguments = parser.parse_args()
    link = Link()
    keras = load(arguments.keras)
    import tensorflow as tf

    arrays = Arrays(arguments.folder)
    link.mark("import")
    fit(link, keras, tf, arguments, arrays)


if __name__ == "__main__":
    main()
