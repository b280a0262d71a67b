"""A WGAN-GP with the settings of the Keras example "WGAN-GP overriding Model.train_step".

Gulrajani et al. 2017; batches of 512, three updates of the critic for one of the generator, Adam at
2e-4, 0.5, 0.9, a penalty of weight 10.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import protocol
import tensorflow as tf
from keras import layers

NOISE, BATCH_SIZE = 128, 512
CRITIC_STEPS, PENALTY = 3, 10.0


def border(side):
    """The zeros on both ends of a side, up to the next multiple of 8."""
    missing = protocol.round_up(side, 8) - side
    return missing // 2, missing - missing // 2


def create_generator(height, width, channels):
    """[N, NOISE] -> [N, H, W, C], from an eighth of the sides."""
    start = (protocol.round_up(height, 8) // 8, protocol.round_up(width, 8) // 8, 256)
    model = keras.Sequential([keras.Input((NOISE,))])
    model.add(layers.Dense(start[0] * start[1] * start[2], use_bias=False))
    model.add(layers.BatchNormalization())
    model.add(layers.LeakyReLU(0.2))
    model.add(layers.Reshape(start))
    for filters in (128, 64, channels):
        model.add(layers.UpSampling2D(2))
        model.add(layers.Conv2D(filters, 3, padding="same", use_bias=False))
        model.add(layers.BatchNormalization())
        model.add(layers.Activation("tanh") if filters == channels else layers.LeakyReLU(0.2))
    model.add(layers.Cropping2D((border(height), border(width))))
    return model


def create_critic(height, width, channels):
    """[N, H, W, C] -> [N, 1]."""
    model = keras.Sequential([keras.Input((height, width, channels))])
    model.add(layers.ZeroPadding2D((border(height), border(width))))
    for filters, dropout in ((64, 0), (128, 0.3), (256, 0.3), (512, 0)):
        model.add(layers.Conv2D(filters, 5, 2, padding="same"))
        model.add(layers.LeakyReLU(0.2))
        if dropout:
            model.add(layers.Dropout(dropout))
    model.add(layers.Flatten())
    model.add(layers.Dropout(0.2))
    model.add(layers.Dense(1))
    return model


def gradient_penalty(critic, reals, fakes):
    """(norm of the gradient - 1) ^ 2 at random points between real and generated images."""
    share = tf.random.uniform([tf.shape(reals)[0], 1, 1, 1])
    images = reals + share * (fakes - reals)
    with tf.GradientTape() as tape:
        tape.watch(images)
        values = critic(images, training=True)
    squares = tf.square(tape.gradient(values, images))
    norms = tf.sqrt(tf.reduce_sum(squares, [1, 2, 3]) + 1e-12)
    return tf.reduce_mean(tf.square(norms - 1))


def create_step(generator, critic):
    """Return a function of a batch that updates the critic three times and then the generator."""
    settings = {"learning_rate": 2e-4, "beta_1": 0.5, "beta_2": 0.9}
    optimizers = [keras.optimizers.Adam(**settings), keras.optimizers.Adam(**settings)]

    def draw(reals):
        return generator(tf.random.normal([tf.shape(reals)[0], NOISE]), training=True)

    @tf.function
    def step(reals):
        for _ in range(CRITIC_STEPS):
            with tf.GradientTape() as tape:
                fakes = draw(reals)
                loss = tf.reduce_mean(critic(fakes, training=True))
                loss -= tf.reduce_mean(critic(reals, training=True))
                loss += PENALTY * gradient_penalty(critic, reals, fakes)
            gradients = tape.gradient(loss, critic.trainable_variables)
            optimizers[0].apply_gradients(zip(gradients, critic.trainable_variables))
        with tf.GradientTape() as tape:
            loss = -tf.reduce_mean(critic(draw(reals), training=True))
        gradients = tape.gradient(loss, generator.trainable_variables)
        optimizers[1].apply_gradients(zip(gradients, generator.trainable_variables))

    return step


def main():
    task = protocol.Task()
    keras.utils.set_random_seed(task.seed)
    generator = create_generator(*task.shape)
    step = create_step(generator, create_critic(*task.shape))
    batches = task.batches(BATCH_SIZE)
    for _ in task.steps():
        step(next(batches))
    draw = tf.function(lambda noise: generator(noise, training=True))  # moments of the batch
    task.write(lambda count: draw(tf.random.normal([count, NOISE])).numpy(), BATCH_SIZE)


if __name__ == "__main__":
    main()
