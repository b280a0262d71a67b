"""The unconditional GAN of TF-GAN's MNIST example, on TensorFlow 1.15.

Convolutional networks with spectral and batch norm, TF-GAN's default losses (Wasserstein), Adam at
1e-3 and 1e-4, 0.5, joint updates.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import functools

import protocol
import tensorflow as tf
import tensorflow_gan as tfgan

NOISE, BATCH_SIZE, DECAY = 64, 64, 2.5e-5


def decay():
    return tf.keras.regularizers.l2(DECAY)


def norm(x):
    """Batch norm with the moments of the batch."""
    return tf.layers.batch_normalization(x, momentum=0.999, epsilon=0.001, training=True)


def generator(shape, noise):
    """[N, NOISE] -> [N, H, W, C]; H and W are multiples of 4."""
    rows, columns = shape[0] // 4, shape[1] // 4
    x = noise
    for units in (1024, rows * columns * 128):
        x = tf.layers.dense(x, units, use_bias=False, kernel_regularizer=decay())
        x = tf.nn.relu(norm(x))
    x = tf.reshape(x, [-1, rows, columns, 128])
    for filters in (64, 32):
        x = tf.layers.conv2d_transpose(x, filters, 4, 2, "same", kernel_regularizer=decay())
        x = tf.nn.relu(norm(x))
    return tf.tanh(tf.layers.conv2d(x, shape[2], 4, 1, "same", kernel_regularizer=decay()))


def discriminator(images, _):
    """[N, H, W, C] -> [N, 1]."""
    getter = tfgan.features.spectral_normalization_custom_getter(training=True)
    x = images
    with tf.variable_scope("spectral", custom_getter=getter):
        for filters in (64, 128):
            x = tf.layers.conv2d(x, filters, 4, 2, "same", kernel_regularizer=decay())
            x = tf.nn.leaky_relu(x, 0.01)
        x = tf.layers.flatten(x)
        x = tf.layers.dense(x, 1024, use_bias=False, kernel_regularizer=decay())
        x = tf.nn.leaky_relu(norm(x), 0.01)
    return tf.layers.dense(x, 1, kernel_regularizer=decay())


def create_train_ops(model):
    """The ops of both updates."""
    loss = tfgan.gan_loss(model, add_summaries=False)
    return tfgan.gan_train_ops(
        model,
        loss,
        generator_optimizer=tf.train.AdamOptimizer(1e-3, 0.5),
        discriminator_optimizer=tf.train.AdamOptimizer(1e-4, 0.5),
        check_for_unused_update_ops=False,
    )


def main():
    task = protocol.Task()
    tf.compat.v1.logging.set_verbosity("ERROR")
    tf.set_random_seed(task.seed)
    shape = [protocol.round_up(side, 4) for side in task.shape[:2]] + [task.shape[2]]
    task.resize(*shape[:2])
    tf.train.create_global_step()
    reals = tf.placeholder(tf.float32, [None, *shape])
    noise = tf.random.normal([tf.shape(reals)[0], NOISE])
    model = tfgan.gan_model(functools.partial(generator, shape), discriminator, reals, noise)
    ops = create_train_ops(model)
    updates = [ops.generator_train_op, ops.discriminator_train_op]
    with tf.variable_scope("Generator", reuse=True):
        samples = generator(shape, tf.random.normal([BATCH_SIZE, NOISE]))
    batches = task.batches(BATCH_SIZE)
    with tf.train.MonitoredTrainingSession() as session:
        for _ in task.steps():
            session.run(updates, {reals: next(batches)})
        task.write(lambda count: session.run(samples), BATCH_SIZE)


if __name__ == "__main__":
    main()
