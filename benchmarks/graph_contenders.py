"""The graph-mode contenders besides `toolkit run`; `training_speed.py` starts them."""

from __future__ import annotations

import argparse
import os

import numpy as np
from arrays import Arrays
from link import Link
from step import Step

from toolkit import tf

STEPS_PER_CALL = {"mlp": 500, "cnn": 10}
SHUFFLE_BUFFER = 10000


def limit(link, arguments, arrays) -> None:
    """Steps on one constant batch in a loop of the graph: kernels and executor only."""
    step = Step(arguments.network, arguments.batch_size, arrays.spec)
    features = tf.constant(arrays.features[: arguments.batch_size])
    labels = tf.constant(arrays.labels[: arguments.batch_size])
    count = STEPS_PER_CALL[arguments.network]

    def body(index):
        with tf.control_dependencies([step(features, labels)]):
            return index + 1

    loop = tf.while_loop(
        lambda i: i < count, body, [tf.constant(0)], parallel_iterations=1, back_prop=False
    )
    link.mark("build")
    with tf.Session(config=arguments.config) as session:
        session.run(tf.global_variables_initializer())
        link.repeat(count, session.make_callable(loop.op))


def raw(link, arguments, arrays) -> None:
    """`session.run` of the train op with fed batches, and nothing else."""
    size = arguments.batch_size
    features = tf.placeholder(tf.float32, [size] + list(arrays.spec.shape))
    labels = tf.placeholder(tf.int32, [size])
    train_op = Step(arguments.network, size, arrays.spec)(features, labels)
    link.mark("build")
    batches = arrays.shuffled_batches(size)
    with tf.Session(config=arguments.config) as session:
        session.run(tf.global_variables_initializer())

        def call():
            images, targets = next(batches)
            session.run(train_op, {features: images, labels: targets})

        link.repeat(1, call)


def per_example(link, arguments, arrays) -> None:
    """TFRecords, a Python function per example, shuffle, batch, prefetch; TensorFlow's hooks."""
    tf.train.get_or_create_global_step()
    dataset = tf.data.TFRecordDataset(write_records(arguments.folder, arrays))
    dataset = dataset.map(parse, num_parallel_calls=2).shuffle(SHUFFLE_BUFFER, seed=1).repeat()
    dataset = dataset.batch(arguments.batch_size, drop_remainder=True).prefetch(2)
    features, labels = tf.data.make_one_shot_iterator(dataset).get_next()
    step = Step(arguments.network, arguments.batch_size, arrays.spec)
    train_op = step(features, labels)
    tf.summary.scalar("loss", step.loss)
    link.mark("build")
    hooks = [
        tf.train.NanTensorHook(step.loss),
        tf.train.LoggingTensorHook({"loss": step.loss, "step": step.global_step}, 100),
    ]
    # Its defaults: a checkpoint every 600 s, summaries and the step counter every 100 steps.
    with tf.train.MonitoredTrainingSession(
        checkpoint_dir=os.path.join(arguments.folder, "per_example"),
        hooks=hooks,
        config=arguments.config,
    ) as session:
        link.repeat(1, lambda: session.run(train_op))


def write_records(folder: str, arrays) -> str:
    """A TFRecord file with one tf.train.Example per digit."""
    path = os.path.join(folder, f"digits-{os.getpid()}.tfrecord")
    with tf.python_io.TFRecordWriter(path) as writer:
        for image, label in zip(arrays.images, arrays.labels):
            image = tf.train.Feature(bytes_list=tf.train.BytesList(value=[image.tobytes()]))
            label = tf.train.Feature(int64_list=tf.train.Int64List(value=[int(label)]))
            both = tf.train.Features(feature={"image": image, "label": label})
            writer.write(tf.train.Example(features=both).SerializeToString())
    return path


def parse(record):
    """A record -> float32 [28, 28, 1] in [0, 1], converted in Python, and int32 scalar."""
    fields = tf.parse_single_example(
        record,
        {"image": tf.FixedLenFeature([], tf.string), "label": tf.FixedLenFeature([], tf.int64)},
    )

    def convert(image):
        return np.frombuffer(image, np.uint8).reshape(28, 28, 1).astype(np.float32) / 255

    image = tf.py_func(convert, [fields["image"]], tf.float32)
    image.set_shape([28, 28, 1])
    return image, tf.cast(fields["label"], tf.int32)


CONTENDERS = {"limit": limit, "raw": raw, "per_example": per_example}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("contender", choices=sorted(CONTENDERS))
    parser.add_argument("--network", default="mlp")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--folder", help="folder of digits.npz and of temporary files")
    parser.add_argument("--intra-op-threads", type=int, default=0)
    parser.add_argument("--inter-op-threads", type=int, default=0)
    arguments = parser.parse_args()
    arguments.config = tf.ConfigProto(
        intra_op_parallelism_threads=arguments.intra_op_threads,
        inter_op_parallelism_threads=arguments.inter_op_threads,
    )
    link = Link()
    arrays = Arrays(arguments.folder)
    link.mark("import")
    CONTENDERS[arguments.contender](link, arguments, arrays)


if __name__ == "__main__":
    main()
