"""Small graphs as scripts of TensorFlow 1 write them, and files .meta of them.

The files in `tests/adopt/graphs` are `write("noisy", FOLDER, resource=False, checkpoint=True)` on
TensorFlow 1.15, without what TensorFlow finds out by itself (`stripped_op_list`, `_output_shapes`).
"""

import os

from toolkit import tf

GRAPHS = {
    # Softmax on one-hot labels, dropout by a fed rate, Adam with a fed rate.
    "classifier": """
x = tf.placeholder(tf.float32, [None, 16], name="x")
y = tf.placeholder(tf.float32, [None, 3], name="y")
keep, rate = tf.placeholder(tf.float32, name="keep"), tf.placeholder(tf.float32, [], name="rate")
w = tf.get_variable("w", [16, 3], initializer=tf.zeros_initializer())
logits = tf.matmul(tf.nn.dropout(x, keep), w)
tf.nn.softmax(logits, name="probabilities")
loss = tf.losses.softmax_cross_entropy(y, logits)
train = tf.train.AdamOptimizer(rate).minimize(loss)
""",
    # Two train ops of a fixed batch; the generator is fed z; batch norm's averages are updated.
    "gan": """
x, z = tf.placeholder(tf.float32, [8, 16], name="x"), tf.placeholder(tf.float32, [8, 5], name="z")
hidden = tf.layers.batch_normalization(tf.layers.dense(z, 6, name="g"), training=True, name="gnorm")
fake = tf.layers.dense(tf.nn.relu(hidden), 16, tf.tanh, name="g_out")
real_out, fake_out = (tf.layers.dense(a, 1, name="d", reuse=tf.AUTO_REUSE) for a in (x, fake))
losses = tf.reduce_mean(fake_out - real_out), tf.reduce_mean(-fake_out)
with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
    d_train, g_train = (
        tf.train.AdamOptimizer(name=name).minimize(loss, var_list=tf.trainable_variables(name[0]))
        for name, loss in zip(("d_adam", "g_adam"), losses)
    )
""",
    # Noise of its own, an average of weights, and a global step that a schedule reads.
    "noisy": """
def dense(x, units, name):
    start = tf.random_normal_initializer(0, 0.3)
    w = tf.get_variable(f"{name}/w", [x.shape.as_list()[1], units], initializer=start)
    b = tf.get_variable(f"{name}/b", [units], initializer=tf.zeros_initializer())
    return tf.matmul(x, w) + b

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
""",
}


def write(name, folder, resource=True, checkpoint=False):
    """Write `folder/name.meta`, beside its initial values with `checkpoint`; return its path."""
    path = os.path.join(str(folder), name)
    with tf.Graph().as_default(), tf.Session() as session:
        tf.set_random_seed(1)
        with tf.variable_scope("", use_resource=resource):
            exec(GRAPHS[name], {"tf": tf})
        saver = tf.train.Saver()
        if checkpoint:
            session.run(tf.global_variables_initializer())
            saver.save(session, path)
        else:
            saver.export_meta_graph(path + ".meta")
    return path + ".meta"
