"""tf.estimator and tensorpack on TensorFlow 1.15; `training_speed.py` starts them.

This process never imports the toolkit. Both read the same tf.data, which shuffles indices and
gathers whole batches from memory: batching single examples took twice as long.
"""

from __future__ import annotations

import argparse
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import terms
from arrays import Arrays
from link import Link


def mlp(tf, images):
    """Logits [N, 10] of images [N, 28, 28, 1]."""
    x = tf.layers.flatten(images)
    x = tf.layers.dense(x, terms.HIDDEN, tf.nn.relu, kernel_initializer=he_normal(tf))
    return tf.layers.dense(tf.layers.dropout(x, terms.DROPOUT, training=True), terms.CLASSES)


def cnn(tf, images):
    """The classifier plugin's Cnn."""
    x, last = images, len(terms.FILTERS) - 1
    for stage, filters in enumerate(terms.FILTERS):
        for position in range(2):
            x = tf.layers.conv2d(
                x, filters, 3, padding="same", use_bias=False, kernel_initializer=he_normal(tf)
            )
            if position == 1 and stage < last:
                x = tf.layers.max_pooling2d(x, 2, 2, padding="same")
            x = tf.layers.batch_normalization(
                x, momentum=terms.NORM_MOMENTUM, epsilon=terms.NORM_EPSILON, training=True
            )
            x = tf.nn.relu(x)
    return tf.layers.dense(tf.reduce_mean(x, axis=[1, 2]), terms.CLASSES)


def he_normal(tf):
    return tf.keras.initializers.he_normal()


NETWORKS = {"mlp": mlp, "cnn": cnn}


def loss_of(tf, network: str, images, labels):
    """A scalar, computed after the updates of batch norm's averages."""
    logits = NETWORKS[network](tf, images)
    count = sum(v.shape.num_elements() for v in tf.trainable_variables())
    terms.check_parameters(network, count)
    loss = tf.losses.sparse_softmax_cross_entropy(labels, logits)
    with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
        return tf.identity(loss)


def clip(tf, gradient):
    return tf.clip_by_value(gradient, -terms.CLIP, terms.CLIP)


def dataset(tf, arrays, size: int):
    """float32 [size, 28, 28, 1] and int32 [size] endlessly, reshuffled each epoch."""
    features, labels = tf.constant(arrays.features), tf.constant(arrays.labels)
    count = len(arrays.labels)
    indices = tf.data.Dataset.range(count).shuffle(count).repeat().batch(size, drop_remainder=True)
    return indices.map(lambda i: (tf.gather(features, i), tf.gather(labels, i))).prefetch(2)


def session_config(tf, arguments):
    return tf.ConfigProto(intra_op_parallelism_threads=arguments.threads)


def train_estimator(link: Link, tf, arguments, arrays) -> None:
    """`Estimator.train` with its default hooks, which save and summarise nothing."""

    def model_fn(features, labels, mode):
        loss = loss_of(tf, arguments.network, features, labels)
        optimizer = tf.train.AdamOptimizer(terms.LEARNING_RATE)
        pairs = [(clip(tf, g), v) for g, v in optimizer.compute_gradients(loss)]
        train_op = optimizer.apply_gradients(pairs, tf.train.get_global_step())
        link.mark("build")
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    class Pause(tf.train.SessionRunHook):
        steps = 0

        def after_run(self, run_context, run_values):
            self.steps += 1
            if self.steps == 1:
                link.mark("step")
            elif not link.should_continue(self.steps):
                run_context.request_stop()

    config = tf.estimator.RunConfig(
        session_config=session_config(tf, arguments),
        save_summary_steps=None,
        save_checkpoints_steps=None,
        save_checkpoints_secs=None,
        log_step_count_steps=None,
    )
    estimator = tf.estimator.Estimator(
        model_fn, os.path.join(arguments.folder, "estimator"), config
    )
    estimator.train(lambda: dataset(tf, arrays, arguments.batch_size), hooks=[Pause()])


def train_tensorpack(link: Link, tf, arguments, arrays) -> None:
    """tensorpack's SimpleTrainer on that tf.data, with no callback but the pausing one."""
    from tensorpack import input_source, train
    from tensorpack.callbacks import Callback
    from tensorpack.tfutils import gradproc
    from tensorpack.tfutils.optimizer import apply_grad_processors
    from tensorpack.tfutils.sesscreate import NewSessionCreator

    size = arguments.batch_size

    class Model(train.ModelDesc):
        def inputs(self):
            return [
                tf.TensorSpec([size, 28, 28, 1], tf.float32, "images"),
                tf.TensorSpec([size], tf.int32, "labels"),
            ]

        def build_graph(self, images, labels):
            return loss_of(tf, arguments.network, images, labels)

        def optimizer(self):
            clip = gradproc.MapGradient(lambda gradient: clip(tf, gradient))
            adam = tf.train.AdamOptimizer(terms.LEARNING_RATE)
            return apply_grad_processors(adam, [clip])

    class Pause(Callback):
        steps = 0

        def _setup_graph(self):
            link.mark("build")

        def _trigger_step(self):
            self.steps += 1
            if self.steps == 1:
                link.mark("step")
            elif not link.should_continue(self.steps):
                raise train.StopTraining()

    config = train.TrainConfig(
        model=Model(),
        data=input_source.TFDatasetInput(dataset(tf, arrays, size)),
        callbacks=[Pause()],
        extra_callbacks=[],
        monitors=[],
        steps_per_epoch=10**9,
        session_creator=NewSessionCreator(config=session_config(tf, arguments)),
    )
    train.launch_train_with_config(config, train.SimpleTrainer())


CONTENDERS = {"estimator": train_estimator, "tensorpack": train_tensorpack}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("contender", choices=sorted(CONTENDERS))
    parser.add_argument("--network", default="mlp", choices=sorted(NETWORKS))
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--threads", type=int, default=0, help="intra-op threads; 0: all")
    parser.add_argument("--folder", help="folder of digits.npz and of temporary files")
    arguments = parser.parse_args()
    link = Link()
    import tensorflow as tf

    tf.compat.v1.logging.set_verbosity("ERROR")
    arrays = Arrays(arguments.folder)
    link.mark("import")
    CONTENDERS[arguments.contender](link, tf, arguments, arrays)


if __name__ == "__main__":
    main()
