"""A DCGAN with the settings of TensorFlow's tutorial "Deep Convolutional GAN", in Keras.

Batches of 256, Adam at 1e-4, kernels of 5 x 5, dropout in the discriminator.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import protocol
import tensorflow as tf
from keras import layers

NOISE, BATCH_SIZE = 100, 256


def create_generator(height, width, channels):
    """[N, NOISE] -> [N, H, W, C]; H and W are multiples of 4."""
    start = (height // 4, width // 4, 256)
    model = keras.Sequential([keras.Input((NOISE,))])
    model.add(layers.Dense(start[0] * start[1] * start[2], use_bias=False))
    model.add(layers.BatchNormalization())
    model.add(layers.LeakyReLU(0.3))
    model.add(layers.Reshape(start))
    for filters, strides in ((128, 1), (64, 2)):
        model.add(layers.Conv2DTranspose(filters, 5, strides, padding="same", use_bias=False))
        model.add(layers.BatchNormalization())
        model.add(layers.LeakyReLU(0.3))
    last = {"padding": "same", "use_bias": False, "activation": "tanh"}
    model.add(layers.Conv2DTranspose(channels, 5, 2, **last))
    return model


def create_discriminator(height, width, channels):
    """[N, H, W, C] -> logits [N, 1]."""
    model = keras.Sequential([keras.Input((height, width, channels))])
    for filters in (64, 128):
        model.add(layers.Conv2D(filters, 5, 2, padding="same"))
        model.add(layers.LeakyReLU(0.3))
        model.add(layers.Dropout(0.3))
    model.add(layers.Flatten())
    model.add(layers.Dense(1))
    return model


def create_step(generator, discriminator):
    """Return a function of a batch that updates both players at once."""
    cross_entropy = keras.losses.BinaryCrossentropy(from_logits=True)
    optimizers = [keras.optimizers.Adam(1e-4), keras.optimizers.Adam(1e-4)]

    @tf.function
    def step(reals):
        noise = tf.random.normal([tf.shape(reals)[0], NOISE])
        with tf.GradientTape(persistent=True) as tape:
            fakes = generator(noise, training=True)
            real_logits = discriminator(reals, training=True)
            fake_logits = discriminator(fakes, training=True)
            generator_loss = cross_entropy(tf.ones_like(fake_logits), fake_logits)
            discriminator_loss = cross_entropy(tf.ones_like(real_logits), real_logits)
            discriminator_loss += cross_entropy(tf.zeros_like(fake_logits), fake_logits)
        losses = (generator_loss, discriminator_loss)
        gradients = [
            tape.gradient(loss, player.trainable_variables)
            for loss, player in zip(losses, (generator, discriminator))
        ]
        optimizers[0].apply_gradients(zip(gradients[0], generator.trainable_variables))
        optimizers[1].apply_gradients(zip(gradients[1], discriminator.trainable_variables))

    return step


def main():
    task = protocol.Task()
    keras.utils.set_random_seed(task.seed)
    height, width = (protocol.round_up(side, 4) for side in task.shape[:2])
    task.resize(height, width)
    generator = create_generator(height, width, task.shape[-1])
    step = create_step(generator, create_discriminator(height, width, task.shape[-1]))
    batches = task.batches(BATCH_SIZE)
    for _ in task.steps():
        step(next(batches))
    draw = tf.function(lambda noise: generator(noise, training=True))  # moments of the batch
    task.write(lambda count: draw(tf.random.normal([count, NOISE])).numpy(), BATCH_SIZE)


if __name__ == "__main__":
    main()
