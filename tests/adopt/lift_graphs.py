"""Small graphs as scripts of TensorFlow 1 write them, saved as files .meta.

The files in `tests/adopt/graphs` are `write("noisy", FOLDER, resource=False, checkpoint=True)` on
TensorFlow 1.15, without what TensorFlow finds out by itself (`stripped_op_list`, `_output_shapes`).
"""

import os

from toolkit import tf

B = 8  # where a graph fixes its batch


def dense(x, units, name):
    """A layer with weights that follow from its name alone."""
    w = tf.get_variable(
        f"{name}/w", [x.shape.as_list()[1], units], initializer=tf.random_normal_initializer(0, 0.3)
    )
    b = tf.get_variable(f"{name}/b", [units], initializer=tf.zeros_initializer())
    return tf.matmul(x, w) + b


def mlp():
    """Softmax on one-hot labels, dropout by a fed keep_prob, Momentum with a fed rate."""
    x = tf.placeholder(tf.float32, [None, 16], name="x")
    y = tf.placeholder(tf.float32, [None, 3], name="y")
    keep = tf.placeholder(tf.float32, [], name="keep_prob")
    rate = tf.placeholder(tf.float32, [], name="rate")
    h = tf.nn.dropout(tf.nn.relu(dense(x, 12, "h")), keep)
    logits = dense(h, 3, "out")
    tf.nn.softmax(logits, name="probabilities")
    losses = tf.nn.softmax_cross_entropy_with_logits(labels=y, logits=logits)
    loss = tf.reduce_mean(losses, name="loss")
    tf.train.MomentumOptimizer(rate, 0.9).minimize(loss, name="train")


def gan():
    """Two Adam ops; the generator is fed z; batch norm's averages are updated."""
    x = tf.placeholder(tf.float32, [B, 4, 4, 1], name="real")
    z = tf.placeholder(tf.float32, [B, 5], name="z")

    def norm(h, name):
        mean, variance = tf.nn.moments(h, [0])
        average = tf.get_variable(
            f"{name}/mean", h.shape[1:], trainable=False, initializer=tf.zeros_initializer()
        )
        update = average.assign_sub(0.1 * (average - mean))
        tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, update.op)
        return tf.nn.batch_normalization(h, mean, variance, None, None, 1e-3)

    def critic(images, reuse=None):
        with tf.variable_scope("d", reuse=reuse):
            h = tf.nn.relu(norm(dense(tf.reshape(images, [B, 16]), 8, "h"), "h"))
            return dense(h, 1, "out")

    with tf.variable_scope("g"):
        fake = tf.nn.sigmoid(dense(tf.nn.relu(norm(dense(z, 8, "h"), "h")), 16, "out"))
    fake = tf.reshape(fake, [B, 4, 4, 1], name="fake")
    real_logits, fake_logits = critic(x), critic(fake, True)
    d_loss = tf.reduce_mean(
        tf.nn.softplus(-real_logits) + tf.nn.softplus(fake_logits), name="d_loss"
    )
    g_loss = tf.reduce_mean(tf.nn.softplus(-fake_logits), name="g_loss")
    own = {k: [v for v in tf.trainable_variables() if v.op.name.startswith(k)] for k in "dg"}
    with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
        tf.train.AdamOptimizer(1e-3, 0.5).minimize(d_loss, var_list=own["d"], name="train_d")
        tf.train.AdamOptimizer(2e-3, 0.5).minimize(g_loss, var_list=own["g"], name="train_g")


def noisy():
    """Noise of its own, an average of weights, and a global step that a schedule reads."""
    x = tf.placeholder(tf.float32, [None, 16], name="x")
    step = tf.train.get_or_create_global_step()
    code = dense(x, 4, "encoder")
    code = code + 0.1 * tf.random_normal(tf.shape(code))
    loss = tf.reduce_mean(tf.square(dense(code, 16, "decoder") - x), name="loss")
    rate = tf.train.exponential_decay(0.05, step, 10, 0.9)
    op = tf.train.GradientDescentOptimizer(rate).minimize(loss, global_step=step)
    with tf.control_dependencies([op]):
        averages = tf.train.ExponentialMovingAverage(0.9)
        tf.group(averages.apply(tf.trainable_variables()), name="train")


GRAPHS = {"mlp": mlp, "gan": gan, "noisy": noisy}


def write(name, folder, resource=True, checkpoint=False):
    """Write `folder/name.meta`, beside its initial values with `checkpoint`; return its path."""
    path = os.path.join(str(folder), name)
    with tf.Graph().as_default(), tf.Session() as session:
        tf.set_random_seed(1)
        with tf.variable_scope("", use_resource=resource):
            GRAPHS[name]()
        saver = tf.train.Saver()
        if checkpoint:
            session.run(tf.global_variables_initializer())
            saver.save(session, path)
        else:
            saver.export_meta_graph(path + ".meta")
    return path + ".meta"
