"""The DCGAN of the preset dcgan with TF-GAN on TensorFlow 1.15; `gan_speed.py` starts it.

This process never imports the toolkit. The networks are `toolkit_gan`'s Dcgan at 28 pixels, layer
by layer, and `tfgan.gan_train` alternates one update of each player, each on its own noise.
"""

from __future__ import annotations

import argparse
import functools
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import terms
from arrays import Arrays
from link import Link


def generator(tf, width: int, z):
    """float32 [N, Z] -> [N, 28, 28, 1] in [-1, 1]."""
    small, layers = tf.random_normal_initializer(stddev=0.02), tf.layers
    x = layers.dense(z, 7 * 7 * 2 * width, use_bias=False, kernel_initializer=small)
    x = tf.nn.relu(norm(tf, tf.reshape(x, [-1, 7, 7, 2 * width])))
    x = layers.conv2d_transpose(x, width, 4, 2, "same", use_bias=False, kernel_initializer=small)
    x = tf.nn.relu(norm(tf, x))
    return layers.conv2d_transpose(x, 1, 4, 2, "same", activation=tf.tanh, kernel_initializer=small)


def discriminator(tf, width: int, images, _):
    """float32 [N, 28, 28, 1] -> [N, 1]."""
    small, layers = tf.random_normal_initializer(stddev=0.02), tf.layers
    x = tf.nn.leaky_relu(layers.conv2d(images, width, 4, 2, "same", kernel_initializer=small), 0.2)
    x = layers.conv2d(x, 2 * width, 4, 2, "same", use_bias=False, kernel_initializer=small)
    x = layers.flatten(tf.nn.leaky_relu(norm(tf, x), 0.2))
    return layers.dense(x, 1, kernel_initializer=small)


def norm(tf, x):
    """Batch norm with the batch's moments; no moving averages are stored."""
    return tf.layers.batch_normalization(x, epsilon=terms.GAN_NORM_EPSILON, training=True)


def batches(tf, arrays, size: int):
    """float32 [size, 28, 28, 1] in [-1, 1] endlessly, reshuffled each epoch."""
    features, count = tf.constant(2 * arrays.features - 1), len(arrays.labels)
    indices = tf.data.Dataset.range(count).shuffle(count).repeat().batch(size, drop_remainder=True)
    dataset = indices.map(lambda positions: tf.gather(features, positions)).prefetch(2)
    return tf.data.make_one_shot_iterator(dataset).get_next()


def train_ops(tf, tfgan, arguments, arrays):
    """The ops of both updates. TF-GAN's loss without smoothing equals the preset's, in logits."""
    noise = tf.random.normal([arguments.batch_size, arguments.latent_size])
    model = tfgan.gan_model(
        functools.partial(generator, tf, arguments.width),
        functools.partial(discriminator, tf, arguments.width),
        batches(tf, arrays, arguments.batch_size),
        noise,
    )
    for name, variables in (
        ("generator", model.generator_variables),
        ("discriminator", model.discriminator_variables),
    ):
        count = sum(variable.shape.num_elements() for variable in variables)
        terms.check_gan_parameters(name, arguments.width, arguments.latent_size, count)
    losses = tfgan.losses
    adam = functools.partial(tf.train.AdamOptimizer, terms.GAN_RATE, terms.GAN_BETA_1)
    loss = tfgan.gan_loss(
        model,
        losses.modified_generator_loss,
        functools.partial(losses.modified_discriminator_loss, label_smoothing=0.0),
        add_summaries=False,
    )
    return tfgan.gan_train_ops(model, loss, adam(), adam(), check_for_unused_update_ops=False)


def train(link: Link, tf, tfgan, arguments, arrays) -> None:
    tf.train.create_global_step()
    ops = train_ops(tf, tfgan, arguments, arrays)
    link.mark("build")

    class Pause(tf.train.SessionRunHook):
        steps = 0

        def after_run(self, run_context, run_values):
            self.steps += 1
            if self.steps == 1:
                link.mark("step")
            elif not link.should_continue(self.steps):
                run_context.request_stop()

    def discriminator_first(gan_ops):
        players = [gan_ops.discriminator_train_op, gan_ops.generator_train_op]
        return [tfgan.RunTrainOpsHook(op, 1) for op in players]

    tfgan.gan_train(
        ops,
        None,
        discriminator_first,
        hooks=[Pause()],
        save_checkpoint_secs=None,
        save_summaries_steps=None,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--latent-size", type=int, default=64)
    parser.add_argument("--folder", help="folder of digits.npz")
    arguments = parser.parse_args()
    link = Link()
    import tensorflow as tf
    import tensorflow_gan as tfgan

    tf.compat.v1.logging.set_verbosity("ERROR")
    arrays = Arrays(arguments.folder)
    link.mark("import")
    train(link, tf, tfgan, arguments, arrays)


if __name__ == "__main__":
    main()
