"""What TensorFlow 1.15 answers: graphs of `tf.contrib`, batches of MNIST, an Estimator.

Each graph gives its variables values that follow from their names, so that no generator matters.
Run on TensorFlow 1.15 as `python tests/adopt/known_answers.py`, it writes known_answers.npz.
"""

import gzip
import os
import re
import tempfile
import zlib

import numpy as np

from toolkit import tf

RANDOM = r"weights|kernel|diag|transitions|attention_v"  # names of variables that are drawn
PATH = os.path.join(os.path.dirname(__file__), "known_answers.npz")


def images(*shape):
    """Values of a wave, from -1 to 1."""
    return np.sin(np.arange(np.prod(shape), dtype=np.float32) * 0.7).reshape(shape)


def variable(name, shape, value=1.0):
    """A variable of equal values, which is trained if they are not 0."""
    start = tf.constant_initializer(value)
    return tf.get_variable(name, shape, initializer=start, trainable=value != 0)


def optimize_loss(slim):
    """A step of Momentum with a rate that falls, a clipped norm and an update before the loss."""
    one, two = variable("one", [2]), variable("two", [3, 2])
    count = variable("count", [], 0.0)
    tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, tf.assign_add(count, 1.0).op)
    rows = tf.nn.embedding_lookup(two, [2, 0])
    loss = tf.exp(tf.reduce_sum(one * one) * 0.3) + tf.reduce_sum(rows * rows)
    options = {
        "gradient_multipliers": {"one": 0.1, two: 0.5},
        "clip_gradients": 0.4,
        "learning_rate_decay_fn": lambda rate, at: rate / (1.0 + tf.cast(at, tf.float32)),
        "summaries": slim.OPTIMIZER_SUMMARIES,
    }
    step = tf.train.get_or_create_global_step()
    return slim.optimize_loss(loss, step, 0.2, "Momentum", **options)


def small_ones(slim):
    flat = slim.flatten(images(2, 2, 4))
    return tf.concat([slim.softmax(flat), slim.one_hot_encoding([1, 0], 3)], 1)


def repeat_and_stack(slim):
    net = slim.repeat(images(2, 4, 4, 3), 2, slim.conv2d, 3, 3)
    net = slim.stack(net, slim.conv2d, [(2, 1), (3, 3)])
    net = slim.repeat(slim.flatten(net), 2, slim.fully_connected, 5, scope="r")
    return slim.stack(net, slim.fully_connected, [4, 3])


def network_in_arg_scopes(slim):
    """Nested defaults, a normalizer, regularizers, reuse and collections of outputs."""
    layers = [slim.conv2d, slim.fully_connected]
    with slim.arg_scope(layers, normalizer_fn=slim.batch_norm):
        with slim.arg_scope([slim.conv2d], weights_regularizer=slim.l2_regularizer(0.1)) as scope:
            net = slim.conv2d(images(2, 4, 4, 2), 3, 3, outputs_collections="ends")
        with slim.arg_scope(scope), tf.variable_scope("again", reuse=tf.AUTO_REUSE):
            net = slim.conv2d(net, 3, 3, scope="same")
            net = slim.conv2d(net, 3, 3, scope="same", activation_fn=tf.nn.elu)
    net = slim.flatten(net)
    net = slim.fully_connected(net, 2, weights_regularizer=slim.l1_regularizer(0.2))
    losses = tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)
    return tf.reduce_sum(net, 1) + tf.add_n(losses)


def losses(slim):
    """Each loss of contrib, whose arguments are (predictions, labels)."""
    losses = slim.losses
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


def create_train_op(slim):
    """Two variables, clipped gradients, one of them multiplied, and an update before the loss."""
    one, two, count = variable("one", [2]), variable("two", [2]), variable("count", [], 0.0)
    tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, tf.assign_add(count, 1.0).op)
    # Both gradients need the loss, which is therefore that of the values before the update.
    loss = tf.exp(tf.reduce_sum(one * one) * 0.3 + tf.reduce_sum(two) * 0.1)
    optimizer = tf.train.GradientDescentOptimizer(0.1)
    options = {"clip_gradient_norm": 1.5, "gradient_multipliers": {"two": 0.5}}
    return slim.learning.create_train_op(loss, optimizer, **options)


def sequence_loss(seq2seq):
    logits, targets = tf.constant(images(2, 3, 4)), tf.constant([[0, 1, 2], [3, 0, 1]])
    weights = tf.constant([[1.0, 1.0, 0.0], [1.0, 0.5, 0.0]])

    flags = [(1, 1), (1, 0), (0, 1), (0, 0)]
    values = [seq2seq.sequence_loss(logits, targets, weights, *each) for each in flags]
    return tf.concat([tf.reshape(each, [-1]) for each in values], 0)


def decoders(seq2seq):
    """Cells with attention, by given inputs and then by their own outputs."""
    memory, inputs = tf.constant(images(2, 3, 4)), tf.constant(images(2, 4, 3))
    values = [seq2seq.tile_batch(memory, 2)]
    for kind, flag, size in (("Luong", "scale", 3), ("Bahdanau", "normalize", None)):
        with tf.variable_scope(kind):
            layer = tf.layers.Dense(5, name="projection")
            make, options = getattr(seq2seq, f"{kind}Attention"), {flag: True}
            arguments = tf.nn.rnn_cell.GRUCell(2), make(2, memory, [3, 2], **options), size
            cell = seq2seq.AttentionWrapper(*arguments, alignment_history=True)
            given = seq2seq.TrainingHelper(inputs, [4, 2])
            own = seq2seq.GreedyEmbeddingHelper(tf.constant(images(5, 3)), [1, 2], 0)
            for helper, longest in ((given, None), (own, 5)):
                state = cell.zero_state(2, tf.float32).clone(cell_state=tf.constant(images(2, 2)))
                decoder = seq2seq.BasicDecoder(cell, helper, state, layer)
                words = {"impute_finished": helper is given, "output_time_major": helper is own}
                words.update(maximum_iterations=longest, scope="decoder")
                with tf.variable_scope(tf.get_variable_scope(), reuse=helper is own or None):
                    outputs, last, lengths = seq2seq.dynamic_decode(decoder, **words)
                values += [*outputs, last.cell_state, last.attention, lengths]
                values.append(last.alignment_history.stack())
            values += tf.gradients(values[-6], [memory])
    return tf.concat([tf.reshape(tf.cast(each, tf.float32), [-1]) for each in values], 0)


def legacy_decoder(legacy):
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


def crf(module):
    """Probabilities of tags with their gradients, and the best ones, of 4, 2 and 1 steps."""
    inputs, lengths = tf.constant(images(3, 4, 3)), tf.constant([4, 2, 1])
    tags = tf.constant([[0, 2, 1, 1], [1, 0, 0, 0], [2, 0, 0, 0]])
    likelihood, transitions = module.crf_log_likelihood(inputs, tags, lengths)
    shortest = inputs[:, :1], tags[:, :1], tf.constant([1, 1, 1]), transitions
    best, score = module.crf_decode(inputs, transitions, lengths)
    path, of_path = module.viterbi_decode(images(4, 3), images(3, 3))
    gradients = tf.gradients(likelihood, [inputs, transitions])
    scores = [likelihood, module.crf_log_likelihood(*shortest)[0], score, of_path]
    values = [*scores, *gradients, best, path]
    return tf.concat([tf.reshape(tf.cast(each, tf.float32), [-1]) for each in values], 0)


def fused_cells(rnn):
    """Both directions of sequences of 3 steps and of 1, and two layers of both."""
    inputs, lengths = tf.constant(images(3, 2, 2)), tf.constant([3, 1])
    forward = rnn.LSTMBlockFusedCell(3)(inputs, dtype=tf.float32, sequence_length=lengths)
    backward = rnn.TimeReversedFusedRNN(rnn.LSTMBlockFusedCell(3, use_peephole=False))
    backward = backward(inputs, dtype=tf.float32, sequence_length=lengths)
    there, back = ([cell(2) for cell in (rnn.GRUCell, rnn.BasicRNNCell)] for _ in range(2))
    stacked = rnn.stack_bidirectional_dynamic_rnn(there, back, inputs, dtype=tf.float32)
    values = tf.nest.flatten([forward, backward, stacked])
    return tf.concat([tf.reshape(each, [-1]) for each in values], 0)


def unroll(make):
    """A graph of the cell that is made of `tf.contrib.rnn`."""

    def build(rnn):
        inputs = tf.unstack(tf.constant(images(3, 2, 2)))
        return tf.concat(rnn.static_rnn(make(rnn), inputs, dtype=tf.float32)[0], 0)

    return build


def norm(**options):
    """A graph of batch norm of pictures."""
    return lambda slim: slim.batch_norm(images(3, 4, 4, 2), **options)


AT_ONCE = {"updates_collections": None, "scale": True}
SLIM = {
    "conv2d": lambda s: s.conv2d(images(2, 6, 6, 3), 4, [3, 2], stride=2, scope="c"),
    "conv2d_valid_with_rate": lambda s: s.conv2d(
        images(2, 7, 7, 2), 3, 3, padding="VALID", rate=2, activation_fn=None
    ),
    "conv1d": lambda s: s.convolution(images(2, 8, 3), 4, 3),
    "conv2d_transpose": lambda s: s.conv2d_transpose(images(2, 3, 3, 3), 2, [4, 3], stride=2),
    "conv2d_transpose_valid": lambda s: s.conv2d_transpose(images(2, 3, 3, 3), 2, 5, 3, "VALID"),
    "separable_conv2d": lambda s: s.separable_conv2d(images(2, 6, 6, 2), 5, 3, 2, stride=2),
    "depthwise_conv2d": lambda s: s.separable_conv2d(images(2, 6, 6, 2), None, 3, 1),
    "fully_connected_of_rank_3": lambda s: s.fully_connected(images(2, 3, 4), 5, tf.nn.tanh),
    "optimize_loss": optimize_loss,
    "bias_add": lambda s: s.bias_add(images(2, 3)),
    "pools": lambda s: s.avg_pool2d(
        s.max_pool2d(images(2, 5, 5, 3), 2), [2, 1], stride=1, padding="SAME"
    ),
    "batch_norm": norm(decay=0.9, scale=True),
    "batch_norm_of_rank_2": lambda s: s.batch_norm(images(6, 3), decay=0.9, **AT_ONCE),
    "batch_norm_not_fused": norm(decay=0.8, fused=False, center=False),
    "batch_norm_not_fused_at_once": norm(decay=0.8, fused=False, **AT_ONCE),
    "batch_norm_without_bias_of_its_average": norm(decay=0.8, zero_debias_moving_mean=True),
    "batch_norm_in_evaluation": norm(is_training=False),
    "batch_norm_of_a_placeholder": lambda s: norm(
        decay=0.9, is_training=tf.placeholder_with_default(True, [])
    )(s),
    "layer_norm": lambda s: s.layer_norm(images(3, 4, 5), activation_fn=tf.nn.relu),
    "instance_norm": lambda s: s.instance_norm(images(3, 4, 4, 2), data_format="NCHW"),
    "small_ones": small_ones,
    "dropout_in_evaluation": lambda s: s.dropout(images(4, 5), 0.3, is_training=False),
    "repeat_and_stack": repeat_and_stack,
    "network_in_arg_scopes": network_in_arg_scopes,
    "losses": losses,
    "create_train_op": create_train_op,
}
CELLS = {
    "block": lambda rnn: rnn.LSTMBlockCell(3, 0.5, cell_clip=0.2),
    "peepholes": lambda rnn: rnn.LSTMCell(3, use_peepholes=True, num_proj=2),
    "two": lambda rnn: rnn.MultiRNNCell(
        [
            rnn.DropoutWrapper(rnn.BasicLSTMCell(2, forget_bias=0.5), 1.0),
            rnn.ResidualWrapper(rnn.GRUCell(2)),
            rnn.BasicRNNCell(3),
        ]
    ),
}
GRAPHS = {  # name -> its module of contrib, and a function of that module
    **{name: ("slim", build) for name, build in SLIM.items()},
    **{name: ("rnn", unroll(make)) for name, make in CELLS.items()},
    "crf": ("crf", crf),
    "fused_cells": ("rnn", fused_cells),
    "decoders": ("seq2seq", decoders),
    "sequence_loss": ("seq2seq", sequence_loss),
    "legacy_decoder": ("legacy_seq2seq", legacy_decoder),
}
INITIALIZERS = {
    "xavier": lambda slim: slim.xavier_initializer(seed=7),
    "xavier normal": lambda slim: slim.xavier_initializer(uniform=False, seed=7),
    "he": lambda slim: slim.variance_scaling_initializer(seed=7),
    "fan out": lambda slim: slim.variance_scaling_initializer(1.0, "FAN_OUT", True, 7),
}


def answer(build, module):
    """What a graph does that `build` makes by a module of contrib: a dictionary of arrays."""
    output = build(module)
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
        session.run([output, *updates[:1]])
        for update in updates[1:]:  # two of one variable have no order in one call
            session.run(update)
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


def answers(contrib):
    """All of them, by a namespace of modules as `tf.contrib` is one: "graph/array" -> array."""
    found = {}
    for name, (module, build) in GRAPHS.items():
        with tf.Graph().as_default():
            for key, value in answer(build, getattr(contrib, module)).items():
                found[f"{name}/{key}"] = value
    for name, make in INITIALIZERS.items():
        with tf.Graph().as_default(), tf.Session() as session:
            tf.set_random_seed(5)
            drawn = make(contrib.slim)([2, 2, 3, 4], dtype=tf.float32)
            found[f"{name}/drawn"] = session.run(drawn)
    return found


def assert_known(found, prefix, **tolerances):
    """Compare the arrays whose names start with a prefix with those of TensorFlow 1.15."""
    mine = {key: value for key, value in found.items() if key.startswith(prefix + "/")}
    with np.load(PATH) as known:
        assert set(mine) == {key for key in known.files if key.startswith(prefix + "/")}
        for key, value in mine.items():
            assert value.shape == known[key].shape, key
            if value.dtype.kind == "U":
                assert list(value) == list(known[key]), key
            else:
                np.testing.assert_allclose(value, known[key], err_msg=key, **tolerances)


def write_mnist(folder, suffix=".gz", opened=gzip.open):
    """MNIST of eight examples for training and three for tests, of 2 x 2 pixels."""
    for kind, count in (("train", 8), ("t10k", 3)):
        for name, shape, step in (
            ("images-idx3", [2051, count, 2, 2], 5),
            ("labels-idx1", [2049, count], 1),
        ):
            values = np.arange(np.prod(shape[1:])) * step % 256
            with opened(os.path.join(folder, f"{kind}-{name}-ubyte{suffix}"), "wb") as file:
                file.write(np.array(shape, ">u4").tobytes() + values.astype(np.uint8).tobytes())


def mnist_answers(read_data_sets, folder):
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


def estimator_answers(estimator, folder):
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
    import tensorflow

    arrays = answers(tensorflow.contrib)
    reader = tensorflow.contrib.learn.datasets.mnist.read_data_sets
    with tempfile.TemporaryDirectory() as temporary:
        arrays.update(mnist_answers(reader, temporary))
    with tempfile.TemporaryDirectory() as temporary:
        arrays.update(estimator_answers(tensorflow.estimator, temporary))
    np.savez_compressed(PATH, **arrays)
