"""`tensorflow.examples.tutorials.mnist.mnist`: the two hidden layers of a tutorial."""

from __future__ import annotations

import math

from toolkit import tf

NUM_CLASSES = 10
IMAGE_SIZE = 28
IMAGE_PIXELS = IMAGE_SIZE * IMAGE_SIZE


def inference(images, hidden1_units, hidden2_units):
    """The logits [N, 10] of images, float32 [N, 784], by two layers of rectified units."""
    hidden1 = tf.nn.relu(_linear("hidden1", images, IMAGE_PIXELS, hidden1_units))
    hidden2 = tf.nn.relu(_linear("hidden2", hidden1, hidden1_units, hidden2_units))
    return _linear("softmax_linear", hidden2, hidden2_units, NUM_CLASSES)


def _linear(name: str, values: tf.Tensor, inputs: int, outputs: int) -> tf.Tensor:
    """Values [N, inputs] times weights that keep their scale, plus biases: [N, outputs]."""
    with tf.name_scope(name):
        scale = 1.0 / math.sqrt(float(inputs))
        weights = tf.Variable(tf.truncated_normal([inputs, outputs], stddev=scale), name="weights")
        biases = tf.Variable(tf.zeros([outputs]), name="biases")
        return tf.matmul(values, weights) + biases


def loss(logits, labels):
    """The mean cross entropy of classes, integers [N]."""
    return tf.losses.sparse_softmax_cross_entropy(tf.to_int64(labels), logits)


def training(loss, learning_rate):
    """The train op of gradient descent, which counts `global_step`; the loss is summarized."""
    tf.summary.scalar("loss", loss)
    global_step = tf.Variable(0, name="global_step", trainable=False)
    optimizer = tf.train.GradientDescentOptimizer(learning_rate)
    return optimizer.minimize(loss, global_step=global_step)


def evaluation(logits, labels):
    """How many of the classes, integers [N], are the largest logit of their example: int32."""
    return tf.reduce_sum(tf.cast(tf.nn.in_top_k(logits, labels, 1), tf.int32))
