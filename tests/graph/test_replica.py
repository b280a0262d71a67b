"""Replicas: parts of a batch, draws, and averages, also those of batch norm."""

from __future__ import annotations

import numpy as np
import pytest
from graph_fixtures import Constant, Spec, make_plugin, make_run, session
from replica_fixtures import Replicas

from toolkit import Run, ToolkitError, UsageError, hookimpl, tf
from toolkit.graph.build import build_training
from toolkit.graph.replica import ALONE, Replica
from toolkit.plugins import Plugins
from toolkit.training import variable_values

NUM_REPLICAS = 3
BATCH = 64
FEATURES = np.random.RandomState(5).normal(1.0, 2.0, [BATCH, 4, 4, 3]).astype(np.float32)


@pytest.fixture
def replicas():
    return Replicas(NUM_REPLICAS)


def part_of(values, rank, count=NUM_REPLICAS):
    replica = Replica(rank, count, len(values))
    return values[replica.start : replica.start + replica.num_examples]


# -------------------------------------------------------------------------------------- the parts


@pytest.mark.parametrize(("batch_size", "count"), [(64, 1), (64, 2), (64, 3), (7, 5), (3, 3)])
def test_the_parts_of_a_batch_are_disjoint_complete_and_alike_in_size(batch_size, count):
    examples = np.arange(batch_size)
    parts = [part_of(examples, rank, count) for rank in range(count)]
    assert np.concatenate(parts).tolist() == examples.tolist()
    sizes = [len(part) for part in parts]
    assert max(sizes) - min(sizes) <= 1 and sizes[0] == max(sizes)
    assert sum(Replica(rank, count, batch_size).weight for rank in range(count)) == pytest.approx(1)


def test_a_batch_that_is_too_small_is_refused():
    Replica(0, 3, 3).check_batch_size()
    with pytest.raises(UsageError, match=r"^--batch-size is 2, fewer than the 3 replicas"):
        Replica(0, 3, 2).check_batch_size()


# -------------------------------------------------------------------------------------- the draws


def draw(rank, count, make, batch_size=6):
    """The numbers that `make(run)` draws in training, for one replica of a batch."""
    with tf.Graph().as_default():
        options = make_run(batch_size=batch_size).options
        run = Run("train", options, replica=Replica(rank, count, batch_size))
        tensor = make(run)
        with session() as tf_session:
            return tf_session.run(tensor)


SHAPES = {
    "a number for each example": (lambda n: [n], 0, 1),
    "numbers for each example": (lambda n: [n, 4], 0, 1),
    "two batches": (lambda n: [2 * n, 3], 0, 2),
    "an axis before that of the examples": (lambda n: [5, n, 2], 1, 1),
    "a tensor of sizes": (lambda n: tf.shape(tf.zeros([n, 4])), 0, 1),
}


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("kind", ["uniform", "normal"])
def test_replicas_draw_the_numbers_of_one_process(name, kind):
    shape, axis, blocks = SHAPES[name]
    whole = draw(0, 1, lambda run: getattr(run, kind)("z", shape(6)))
    parts = [draw(rank, 2, lambda run: getattr(run, kind)("z", shape(3))) for rank in range(2)]
    groups = [np.split(part, blocks, axis) for part in parts]
    rows = [groups[rank][block] for block in range(blocks) for rank in range(2)]
    assert np.concatenate(rows, axis).tolist() == whole.tolist()


@pytest.mark.parametrize("shape", [[], [4], [4, 5], [1]])
def test_other_numbers_are_the_same_for_all_replicas(shape):
    whole, first, second = (
        draw(rank, count, lambda run: run.normal("z", shape))
        for rank, count in ((0, 1), (0, 2), (1, 2))
    )
    assert whole.tolist() == first.tolist() == second.tolist()


@pytest.mark.parametrize("size", [36, 102])
def test_a_first_size_that_is_no_small_multiple_is_not_that_of_examples(size):
    """Of parts of 3 and 2 examples: 36 is 12 times 3 and 18 times 2, 102 is 34 times 3."""
    first, second = (
        draw(rank, 2, lambda run: run.normal("z", [size, 4]), batch_size=5) for rank in (0, 1)
    )
    assert (first.tolist() == second.tolist()) is (size == 102)


def test_numbers_of_a_size_that_is_unknown_are_each_replicas_own():
    def normal(run):
        rows = tf.boolean_mask(tf.zeros([6, 4]), [True] * 3 + [False] * 3)
        return run.normal("z", tf.shape(tf.reshape(rows, [-1, 2])))

    whole, first, second = (draw(rank, count, normal) for rank, count in ((0, 1), (0, 2), (1, 2)))
    assert whole.shape == (6, 2) and whole.tolist() == first.tolist()
    assert first.tolist() != second.tolist()


def test_dropout_drops_what_one_process_drops():
    x = np.ones([6, 50], np.float32)
    whole = draw(0, 1, lambda run: run.dropout(tf.constant(x), 0.5, "d"))
    parts = [draw(r, 2, lambda run: run.dropout(tf.constant(x[:3]), 0.5, "d")) for r in range(2)]
    assert np.concatenate(parts).tolist() == whole.tolist()


# ----------------------------------------------------------------------------------- the averages


def test_an_average_is_weighted_by_examples_and_keeps_shapes_and_dtypes(replicas):
    def average(rank):
        part = part_of(FEATURES, rank)
        replica = Replica(rank, NUM_REPLICAS, BATCH)
        tensors = [
            tf.reduce_mean(tf.constant(part), 0),
            tf.constant(float(rank), tf.float64),
            tf.reduce_mean(tf.constant(part)),
        ]
        means = replica.mean(tensors)
        assert [m.shape.as_list() for m in means] == [[4, 4, 3], [], []]
        assert means[1].dtype == tf.float64
        return means

    results = replicas.run(average)
    np.testing.assert_allclose(results[0][0], FEATURES.mean(0), rtol=1e-5, atol=1e-6)
    assert results[0][1] == pytest.approx((21 * 1 + 21 * 2) / 64)
    np.testing.assert_allclose(results[0][2], FEATURES.mean(), rtol=1e-5)
    for result in results[1:]:  # equal to the bit
        assert [np.asarray(x).tobytes() for x in result] == [
            np.asarray(x).tobytes() for x in results[0]
        ]


def test_equal_scalars_keep_their_bits(replicas):
    def average(rank):
        scalars = {
            "rate": tf.constant(0.1),
            "count": tf.constant(7, tf.int64),
            "loss": tf.constant(float(rank)),
            "text": tf.constant("a"),
        }
        return Replica(rank, NUM_REPLICAS, 6).mean_scalars(scalars)

    for result in replicas.run(average):
        assert result["rate"] == np.float32(0.1)
        assert (result["count"], result["count"].dtype) == (7, np.int64)
        assert (result["loss"], result["text"]) == (1.0, b"a")


def test_alone_nothing_changes():
    with tf.Graph().as_default() as graph:
        x = tf.constant(1.0)
        count = len(graph.get_operations())
        assert ALONE.mean([x]) == [x] and ALONE.mean_updates([], [x]) == ([], [x])
        assert ALONE.mean_scalars({"x": x}) == {"x": x}
        assert len(graph.get_operations()) == count


def test_the_gradient_of_an_average_is_that_of_the_whole_batch(replicas):
    """The loss mean((x w - mean(x w)) ** 3) depends on all examples through the inner mean."""

    def gradient(part, average):
        w = tf.constant([0.3, -0.2, 0.5])
        y = tf.tensordot(tf.constant(part), w, 1)
        (mean,) = average([tf.reduce_mean(y)])
        return tf.gradients(tf.reduce_mean((y - mean) ** 3), w)[0]

    def of_part(rank):
        replica = Replica(rank, NUM_REPLICAS, BATCH)
        part = gradient(part_of(FEATURES, rank), lambda x: replica.mean(x, True))
        return replica.mean([part])[0]

    with tf.Graph().as_default(), session() as tf_session:
        whole = tf_session.run(gradient(FEATURES, list))
    for part in replicas.run(of_part):
        np.testing.assert_allclose(part, whole, rtol=1e-4)


# ------------------------------------------------------------------------------------- batch norm


def train_norm(features, replica):
    """Gradients of a loss by the variables, then the values that the state updates assign."""
    kernel = tf.get_variable("kernel", [3, 3], initializer=tf.initializers.identity())
    x = tf.tensordot(tf.constant(features), kernel, 1)
    norm = tf.keras.layers.BatchNormalization(momentum=0.5)
    y = norm(tf.reshape(x, [-1, 4, 4, 3]), training=True)
    loss = tf.reduce_mean(tf.sin(y) * tf.reshape(tf.constant(features), tf.shape(y)))
    gradients = tf.gradients(loss, tf.trainable_variables())
    updates = tf.get_default_graph().get_operations()
    updates = [op for op in updates if op.type == "AssignSubVariableOp"]
    updates, gradients = replica.mean_updates(updates, gradients)
    return [*gradients, *[op.inputs[1] for op in updates]]


def test_batch_norm_of_parts_moves_all_averages_alike(replicas):
    def of_part(rank):
        replica = Replica(rank, NUM_REPLICAS, BATCH)
        return train_norm(part_of(FEATURES, rank), replica)

    first, *others = ([np.asarray(x).tobytes() for x in result] for result in replicas.run(of_part))
    assert all(other == first for other in others)


# -------------------------------------------------------------------------- averages that may hang


class Averaging:
    """A linear model that averages its inputs over all replicas, for one use or another.

    Args:
        use: "loss", "log", "summary" or "output".
    """

    def __init__(self, use):
        self._use = use

    @hookimpl
    def build(self, run):
        return tf.get_variable("w", [4, 2], initializer=tf.ones_initializer())

    @hookimpl
    def call(self, model, features, run):
        (mean,) = run.mean_over_replicas([tf.reduce_mean(features)])
        outputs = {"logits": features @ model}
        if self._use == "output":
            outputs["mean"] = mean
        if self._use == "summary":
            tf.summary.scalar("mean", mean)
        if self._use == "log":
            run.log("mean", mean)
        if self._use == "loss":
            outputs["logits"] -= mean
        return outputs

    @hookimpl
    def loss(self, labels, outputs):
        return tf.losses.sparse_softmax_cross_entropy(labels, outputs["logits"])

    @hookimpl
    def optimize(self, losses, run):
        return run.minimize(losses)

    @hookimpl
    def predict(self, outputs):
        return {"label": tf.argmax(outputs["logits"], axis=1)}


def build_averaging(use, count, in_loop):
    plugins = Plugins(make_plugin(Averaging(use)))
    with tf.Graph().as_default() as graph:
        options = make_run(batch_size=2).options
        run = Run("train", options, Spec(), replica=Replica(0, count, 2 * count))
        reader = Constant(np.ones([2, 4], np.float32), np.zeros([2], np.int32))
        reader.in_memory = False
        return build_training(plugins, run, reader, graph, in_loop)


@pytest.mark.parametrize("in_loop", [False, True])
@pytest.mark.parametrize("use", ["loss", "log"])
def test_an_average_that_each_step_computes_is_built(use, in_loop):
    graph = build_averaging(use, 2, in_loop)
    assert "mean" in graph.logged or use == "loss"


@pytest.mark.parametrize("in_loop", [False, True])
@pytest.mark.parametrize("use", ["summary", "output"])
def test_an_average_that_only_the_first_replica_fetches_is_refused(use, in_loop):
    build_averaging(use, 1, in_loop)
    with pytest.raises(ToolkitError, match="needs an average over all replicas that the step does"):
        build_averaging(use, 2, in_loop)


def test_values_of_any_dtype_survive_the_way_to_another_process():
    arrays = {
        "a": np.array([1.5, -0.0, np.nan], np.float32),
        "b": np.array([[1, 2], [3, 4]], tf.bfloat16.as_numpy_dtype),
        "c": np.array([b"text", b"", b"\x00\x00"], object),
        "d": np.array(True),
        "e": np.zeros([0, 3], np.int64),
    }
    with tf.Graph().as_default():
        variables = {
            name: tf.get_variable(name, initializer=tf.constant(value), trainable=False)
            for name, value in arrays.items()
        }
        zeros = [v.assign(tf.zeros_like(v)) for n, v in variables.items() if n != "c"]
        with session() as tf_session:
            data = variable_values.read(tf_session)
            before = variable_values.hashes(tf_session)
            tf_session.run([zeros, variables["c"].assign([b"x", b"x", b"x"])])
            assert variable_values.hashes(tf_session) != before
            variable_values.assign(tf_session, data)
            assert variable_values.hashes(tf_session) == before
            assert tf_session.run(variables["c"]).tolist() == arrays["c"].tolist()
