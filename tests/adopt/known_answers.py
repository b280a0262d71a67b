"""What TensorFlow 1.15 answers: graphs of `tf.contrib`, batches of MNIST, an Estimator.

Each graph gives its variables values that follow from their names, so that no generator matters.
Run on TensorFlow 1.15 as `python tests/adopt/known_answers.py`, it writes known_answers.npz.
"""

from __future__ import annotations

import functools
import gzip
import os
import re
import tempfile
import zlib

import numpy as np

RANDOM = r"weights|kernel|diag"  # names of variables that are drawn
PATH = os.path.join(os.path.dirname(__file__), "known_answers.npz")


def images(*shape):
    """Values of a wave, from -1 to 1."""
    return np.sin(np.arange(np.prod(shape), dtype=np.float32) * 0.7).reshape(shape)


def conv2d(tf, layers, framework):
    return layers.conv2d(images(2, 6, 6, 3), 4, [3, 2], stride=2, scope="c")


def conv2d_valid_with_rate(tf, layers, framework):
    return layers.conv2d(images(2, 7, 7, 2), 3, 3, padding="VALID", rate=2, activation_fn=None)


def conv1d(tf, layers, framework):
    return layers.convolution(images(2, 8, 3), 4, 3)


def conv2d_transpose(tf, layers, framework):
    return layers.conv2d_transpose(images(2, 3, 3, 3), 2, [4, 3], stride=2)


def conv2d_transpose_valid(tf, layers, framework):
    return layers.conv2d_transpose(images(2, 3, 3, 3), 2, 5, stride=3, padding="VALID")


def separable_conv2d(tf, layers, framework):
    return layers.separable_conv2d(images(2, 6, 6, 2), 5, 3, depth_multiplier=2, stride=2)


def depthwise_conv2d(tf, layers, framework):
    return layers.separable_conv2d(images(2, 6, 6, 2), None, 3, 1)


def fully_connected_of_rank_3(tf, layers, framework):
    return layers.fully_connected(images(2, 3, 4), 5, activation_fn=tf.nn.tanh)


def optimize_loss(tf, layers, framework):
    """A step of Momentum with a rate that falls, a clipped norm and an update before the loss."""
    one = tf.get_variable("one", [2], initializer=tf.ones_initializer())
    two = tf.get_variable("two", [3, 2], initializer=tf.ones_initializer())
    count = tf.get_variable("count", [], initializer=tf.zeros_initializer(), trainable=False)
    tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, tf.assign_add(count, 1.0).op)
    rows = tf.nn.embedding_lookup(two, [2, 0])
    loss = tf.exp(tf.reduce_sum(one * one) * 0.3) + tf.reduce_sum(rows * rows)
    step = tf.train.get_or_create_global_step()
    options = {
        "gradient_multipliers": {"one": 0.1, two: 0.5},
        "clip_gradients": 0.4,
        "learning_rate_decay_fn": lambda rate, at: rate / (1.0 + tf.cast(at, tf.float32)),
        "summaries": layers.OPTIMIZER_SUMMARIES,
    }
    return layers.optimize_loss(loss, step, 0.2, "Momentum", **options)


def bias_add(tf, layers, framework):
    return layers.bias_add(images(2, 3))


def pools(tf, layers, framework):
    largest = layers.max_pool2d(images(2, 5, 5, 3), 2)
    return layers.avg_pool2d(largest, [2, 1], stride=1, padding="SAME")


def batch_norm(tf, layers, framework):
    return layers.batch_norm(images(3, 4, 4, 2), decay=0.9, scale=True)


def batch_norm_of_rank_2(tf, layers, framework):
    return layers.batch_norm(images(6, 3), decay=0.9, scale=True, updates_collections=None)


def batch_norm_not_fused(tf, layers, framework):
    return layers.batch_norm(images(3, 4, 4, 2), decay=0.8, fused=False, center=False)


def batch_norm_not_fused_at_once(tf, layers, framework):
    arguments = {"fused": False, "scale": True, "updates_collections": None}
    return layers.batch_norm(images(3, 4, 4, 2), decay=0.8, **arguments)


def batch_norm_without_bias_of_its_average(tf, layers, framework):
    return layers.batch_norm(images(3, 4, 4, 2), decay=0.8, zero_debias_moving_mean=True)


def batch_norm_in_evaluation(tf, layers, framework):
    return layers.batch_norm(images(3, 4, 4, 2), is_training=False)


def batch_norm_of_a_placeholder(tf, layers, framework):
    is_training = tf.placeholder_with_default(True, [])
    return layers.batch_norm(images(3, 4, 4, 2), decay=0.9, is_training=is_training)


def layer_norm(tf, layers, framework):
    return layers.layer_norm(images(3, 4, 5), activation_fn=tf.nn.relu)


def instance_norm(tf, layers, framework):
    return layers.instance_norm(images(3, 4, 4, 2), data_format="NCHW")


def small_ones(tf, layers, framework):
    flat = layers.flatten(images(2, 2, 4))
    parts = [layers.softmax(flat), layers.unit_norm(flat, 1), layers.maxout(flat, 2)]
    return tf.concat([*parts, layers.one_hot_encoding([1, 0], 3)], 1)


def dropout_in_evaluation(tf, layers, framework):
    return layers.dropout(images(4, 5), 0.3, is_training=False)


def repeat_and_stack(tf, layers, framework):
    net = layers.repeat(images(2, 6), 2, layers.fully_connected, 5, scope="r")
    return layers.stack(net, layers.fully_connected, [4, 3])


def network_in_arg_scopes(tf, layers, framework):
    """Nested defaults, a normalizer, regularizers, reuse and collections of outputs."""
    regularizer = layers.l2_regularizer(0.1)
    with framework.arg_scope(
        [layers.conv2d, layers.fully_connected], normalizer_fn=layers.batch_norm
    ):
        with framework.arg_scope([layers.conv2d], weights_regularizer=regularizer) as scope:
            net = layers.conv2d(images(2, 4, 4, 2), 3, 3, outputs_collections="ends")
        with framework.arg_scope(scope), tf.variable_scope("again", reuse=tf.AUTO_REUSE):
            net = layers.conv2d(net, 3, 3, scope="same")
            net = layers.conv2d(net, 3, 3, scope="same", activation_fn=tf.nn.elu)
    net = layers.flatten(net)
    net = layers.fully_connected(net, 2, weights_regularizer=layers.l1_regularizer(0.2))
    losses = tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)
    return tf.reduce_sum(net, 1) + tf.add_n(losses)


def losses(tf, losses, learning, seq2seq, legacy):
    """Each loss of contrib, whose arguments are (predictions, labels)."""
    logits, labels = tf.constant(images(3, 4)), tf.constant(np.eye(3, 4, dtype=np.float32))
    probabilities, weights = tf.nn.sigmoid(logits), tf.constant([1.0, 0.0, 2.0])
    values = [
        losses.softmax_cross_entropy(logits, labels, weights, 0.1),
        losses.sigmoid_cross_entropy(logits, labels, label_smoothing=0.2),
        losses.sparse_softmax_cross_entropy(logits, [0, 1, 3], weights),
        losses.mean_squared_error(logits, labels),
        losses.absolute_difference(logits, labels, 2.0),
        losses.log_loss(probabilities, labels),
        losses.cosine_distance(tf.nn.l2_normalize(logits, 1), labels, 1),
        tf.reduce_sum(losses.hinge_loss(logits, labels)),
    ]
    losses.add_loss(tf.constant(3.0))
    return tf.stack([*values, losses.get_total_loss()])


def sequence_loss(tf, losses, learning, seq2seq, legacy):
    logits, targets = tf.constant(images(2, 3, 4)), tf.constant([[0, 1, 2], [3, 0, 1]])
    weights = tf.constant([[1.0, 1.0, 0.0], [1.0, 0.5, 0.0]])

    def averaged(steps, batch):
        value = seq2seq.sequence_loss(logits, targets, weights, steps, batch)
        return tf.reshape(value, [-1])

    return tf.concat([averaged(*each) for each in ((1, 1), (1, 0), (0, 1), (0, 0))], 0)


def legacy_decoder(tf, losses, learning, seq2seq, legacy):
    inputs = [tf.constant(images(2, 3) + step) for step in range(3)]
    cell = tf.nn.rnn_cell.BasicRNNCell(3)
    outputs, state = legacy.rnn_decoder(inputs, tf.zeros([2, 3]), cell)
    fed, _ = legacy.rnn_decoder(
        inputs, tf.zeros([2, 3]), cell, lambda before, step: before * step, scope="fed"
    )
    targets = [tf.constant([0, 2]), tf.constant([1, 1]), tf.constant([2, 0])]
    weights = [tf.constant([1.0, 0.5]), tf.constant([1.0, 1.0]), tf.constant([0.0, 2.0])]
    values = [
        legacy.sequence_loss_by_example(outputs, targets, weights),
        legacy.sequence_loss_by_example(outputs, targets, weights, False),
        [legacy.sequence_loss(fed, targets, weights)],
        [legacy.sequence_loss(fed, targets, weights, True, False)],
    ]
    return tf.concat([*values, tf.reshape(state, [-1])], 0)


def create_train_op(tf, losses, learning, seq2seq, legacy):
    """Two variables, clipped gradients, one of them multiplied, and an update before the loss."""
    one = tf.get_variable("one", [2], initializer=tf.ones_initializer())
    two = tf.get_variable("two", [2], initializer=tf.ones_initializer())
    count = tf.get_variable("count", [], initializer=tf.zeros_initializer(), trainable=False)
    tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, tf.assign_add(count, 1.0).op)
    # Both gradients need the loss, which is therefore that of the values before the update.
    loss = tf.exp(tf.reduce_sum(one * one) * 0.3 + tf.reduce_sum(two) * 0.1)
    optimizer = tf.train.GradientDescentOptimizer(0.1)
    options = {"clip_gradient_norm": 1.5, "gradient_multipliers": {"two": 0.5}}
    return learning.create_train_op(loss, optimizer, **options)


OTHER_GRAPHS = [losses, sequence_loss, legacy_decoder, create_train_op]
GRAPHS = [
    conv2d,
    conv2d_valid_with_rate,
    conv1d,
    conv2d_transpose,
    conv2d_transpose_valid,
    separable_conv2d,
    depthwise_conv2d,
    fully_connected_of_rank_3,
    optimize_loss,
    bias_add,
    pools,
    batch_norm,
    batch_norm_of_rank_2,
    batch_norm_not_fused,
    batch_norm_not_fused_at_once,
    batch_norm_without_bias_of_its_average,
    batch_norm_in_evaluation,
    batch_norm_of_a_placeholder,
    layer_norm,
    instance_norm,
    small_ones,
    dropout_in_evaluation,
    repeat_and_stack,
    network_in_arg_scopes,
]
INITIALIZERS = {
    "xavier": lambda layers: layers.xavier_initializer(seed=7),
    "xavier normal": lambda layers: layers.xavier_initializer(uniform=False, seed=7),
    "he": lambda layers: layers.variance_scaling_initializer(seed=7),
    "fan out": lambda layers: layers.variance_scaling_initializer(1.0, "FAN_OUT", True, 7),
}


def cells(rnn):
    """Recurrent cells by name."""
    return {
        "basic": lambda: rnn.BasicRNNCell(3),
        "lstm": lambda: rnn.BasicLSTMCell(3, forget_bias=0.5),
        "peepholes": lambda: rnn.LSTMCell(3, use_peepholes=True, num_proj=2),
        "gru": lambda: rnn.GRUCell(3),
        "two": lambda: rnn.MultiRNNCell(
            [rnn.DropoutWrapper(rnn.BasicLSTMCell(2), 1.0), rnn.ResidualWrapper(rnn.GRUCell(2))]
        ),
    }


def answer(tf, build):
    """What a graph does: a dictionary of arrays.

    Args:
        tf: TensorFlow, whose default graph is empty.
        build: () -> tensor.
    """
    output = build()
    variables = tf.global_variables()
    values = {}
    for each in variables:  # from 0.5 to 1.5: variances, too
        generator = np.random.RandomState(zlib.crc32(each.op.name.encode()) % 2**31)
        values[each] = generator.uniform(0.5, 1.5, each.shape.as_list()).astype(np.float32)
    updates = tf.get_collection(tf.GraphKeys.UPDATE_OPS)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        constant = [each for each in variables if not re.search(RANDOM, each.op.name)]
        initial = [np.sum(session.run(each)) for each in constant]
        for each, value in values.items():
            each.load(value, session)
        result = {"output": session.run(output)}
        session.run([output, *updates])
        for each in variables:
            now = session.run(each)
            if not np.array_equal(now, values[each]):
                result["after " + each.op.name] = now
    keys = tf.GraphKeys.GLOBAL_VARIABLES, tf.GraphKeys.TRAINABLE_VARIABLES
    collections = [*keys, tf.GraphKeys.MODEL_VARIABLES, "ends"]
    names = [[each.name for each in tf.get_collection(key)] for key in collections]
    result["collections"] = np.array([";".join(each) for each in names])
    result["initial"] = np.array(initial)
    return result


def answers(tf, layers, framework, rnn, others):
    """All of them: "graph/array" -> array.

    Args:
        tf: TensorFlow.
        layers, framework, rnn: those of contrib.
        others: its losses, slim's learning, its seq2seq and legacy_seq2seq.
    """
    found = {}

    def add(name, build):
        with tf.Graph().as_default():
            for key, value in answer(tf, build).items():
                found[f"{name}/{key}"] = value

    for graph in GRAPHS:
        add(graph.__name__, functools.partial(graph, tf, layers, framework))
    for graph in OTHER_GRAPHS:
        add(graph.__name__, functools.partial(graph, tf, *others))
    for name in cells(rnn):

        def unroll(name=name):
            inputs = tf.unstack(tf.constant(images(3, 2, 2)))
            return tf.concat(rnn.static_rnn(cells(rnn)[name](), inputs, dtype=tf.float32)[0], 0)

        add(name, unroll)
    for name, make in INITIALIZERS.items():
        with tf.Graph().as_default(), tf.Session() as session:
            tf.set_random_seed(5)
            found[f"{name}/drawn"] = session.run(make(layers)([2, 2, 3, 4], dtype=tf.float32))
    return found


def write_mnist(folder):
    """MNIST of eight examples for training and three for tests, of 2 x 2 pixels."""
    for kind, count in (("train", 8), ("t10k", 3)):
        pixels = (np.arange(count * 4) * 5 % 256).astype(np.uint8)
        labels = (np.arange(count) % 10).astype(np.uint8)
        for name, shape, values in (
            ("images-idx3", [2051, count, 2, 2], pixels),
            ("labels-idx1", [2049, count], labels),
        ):
            with gzip.open(os.path.join(folder, f"{kind}-{name}-ubyte.gz"), "wb") as file:
                file.write(np.array(shape, ">u4").tobytes() + values.tobytes())


def mnist_answers(tf, read_data_sets, folder):
    """Batches of `write_mnist`: "mnist/..." -> array."""
    write_mnist(folder)
    found = {}
    settings = {
        "plain": {"seed": 3},
        "raw": {"seed": 3, "dtype": tf.uint8, "reshape": False, "one_hot": True},
    }
    for name, arguments in settings.items():
        with tf.Graph().as_default():
            data = read_data_sets(folder, validation_size=2, **arguments)
        calls = [(4, True), (4, True), (5, False), (3, True)]
        batches = [data.train.next_batch(size, shuffle=shuffle) for size, shuffle in calls]
        for part, arrays in zip(("images", "labels"), zip(*batches)):
            found[f"mnist/{name} {part}"] = np.concatenate(arrays)
        found[f"mnist/{name} epochs"] = np.array(data.train.epochs_completed)
        found[f"mnist/{name} validation"] = data.validation.images
        found[f"mnist/{name} test"] = data.test.next_batch(2)[1]
    return found


def estimator_answers(tf, estimator, folder):
    """A linear model that is trained, continued, evaluated and asked: "estimator/..." -> array."""
    x = np.arange(10, dtype=np.float32).reshape(10, 1) / 10
    rows = {"x": x, "unused": x}

    def model_fn(features, labels, mode, params):
        with tf.variable_scope("linear"):
            slope = tf.get_variable("slope", [1, 1], initializer=tf.ones_initializer())
        predictions = {"y": tf.matmul(features["x"], slope), "x": features["x"]}
        if mode == estimator.ModeKeys.PREDICT:
            return estimator.EstimatorSpec(mode, predictions)
        loss = tf.losses.mean_squared_error(labels, predictions["y"])
        optimizer = tf.train.MomentumOptimizer(params["rate"], 0.5)
        train_op = optimizer.minimize(loss, tf.train.get_global_step())
        error = tf.metrics.mean_absolute_error(labels, predictions["y"])
        return estimator.EstimatorSpec(mode, None, loss, train_op, {"error": error})

    def inputs(**arguments):
        numpy_input_fn = estimator.inputs.numpy_input_fn
        return numpy_input_fn(rows, 3 * x, batch_size=4, shuffle=False, **arguments)

    def data_set(mode, params):
        pairs = tf.data.Dataset.from_tensor_slices(({"x": x}, params["rate"] * x))
        return pairs.batch(3).repeat(1 if mode == estimator.ModeKeys.EVAL else 2)

    found = {}

    def add(key, value):
        found[f"estimator/{key}"] = np.array(value)

    config = estimator.RunConfig(tf_random_seed=1, save_checkpoints_steps=2, keep_checkpoint_max=3)
    model = estimator.Estimator(model_fn, folder, config, {"rate": 0.2})
    model.train(inputs(num_epochs=2))  # five batches, the third with rows of both epochs
    add("slope after two epochs", model.get_variable_value("linear/slope"))
    model.train(inputs(num_epochs=None), steps=4)
    model.train(data_set, max_steps=12)
    for name, result in (
        ("all", model.evaluate(inputs())),
        ("two batches", model.evaluate(inputs(), steps=2, name="two")),
        ("data set", model.evaluate(data_set)),
    ):
        for key in sorted(result):
            add(f"{name} {key}", result[key])
    add("predictions", [row["y"] for row in model.predict(inputs())])
    add("batches", [len(b["x"]) for b in model.predict(inputs(), yield_single_examples=False)])
    add("names", sorted(model.get_variable_names()))
    add("checkpoints", sorted(each for each in os.listdir(folder) if each.endswith("index")))
    train = estimator.TrainSpec(inputs(num_epochs=None), max_steps=14)
    last, _ = estimator.train_and_evaluate(model, train, estimator.EvalSpec(inputs(), steps=None))
    add("last error", last["error"])
    return found


if __name__ == "__main__":
    import tensorflow as tensorflow1

    contrib = tensorflow1.contrib
    rest = (
        contrib.losses,
        contrib.slim.learning,
        contrib.seq2seq,
        contrib.legacy_seq2seq,
    )
    arrays = answers(tensorflow1, contrib.layers, contrib.framework, contrib.rnn, rest)
    reader = contrib.learn.datasets.mnist.read_data_sets
    with tempfile.TemporaryDirectory() as temporary:
        arrays.update(mnist_answers(tensorflow1, reader, temporary))
    with tempfile.TemporaryDirectory() as temporary:
        arrays.update(estimator_answers(tensorflow1, tensorflow1.estimator, temporary))
    np.savez_compressed(PATH, **arrays)
