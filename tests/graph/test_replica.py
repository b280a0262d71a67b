"""Replicas: parts of a batch, draws, averages; workers with parameter servers: devices."""

import functools

import numpy as np
import pytest
from graph_fixtures import Constant, Spec, Stream, make_plugin, make_run, session
from linear_fixtures import Linear
from process_fixtures import free_port, run_threads

from toolkit import Run, ToolkitError, hookimpl, tf
from toolkit.cluster.layout import LOOPBACK
from toolkit.cluster.server import configure, start_server
from toolkit.cluster.tasks import Cluster, ClusterSettings, Task
from toolkit.graph.build import build_training
from toolkit.graph.replica import Replica
from toolkit.graph.step_strategy import AsynchronousStep
from toolkit.plugins import Plugins
from toolkit.training import variable_values

NUM_REPLICAS = 3
BATCH = 64
FEATURES = np.random.RandomState(5).normal(1.0, 2.0, [BATCH, 4, 4, 3]).astype(np.float32)


@pytest.fixture
def run_replicas():
    """A function that runs what `build(rank)` makes in a graph of its own, on servers at once."""
    addresses = [f"{LOOPBACK}:{free_port()}" for _ in range(NUM_REPLICAS)]
    tasks = [Task("worker", rank, address) for rank, address in enumerate(addresses)]
    clusters = [Cluster({"worker": addresses}, task, ClusterSettings()) for task in tasks]
    configs = [configure(tf.ConfigProto(), cluster) for cluster in clusters]
    servers = [start_server(*pair) for pair in zip(clusters, configs)]

    def run(build):
        graphs, fetches = [tf.Graph() for _ in servers], []
        for rank, graph in enumerate(graphs):
            with graph.as_default():
                fetches.append((build(rank), tf.global_variables_initializer()))

        def work(rank):
            tensors, initializer = fetches[rank]
            with tf.Session(servers[rank].target, graphs[rank], configs[rank]) as tf_session:
                tf_session.run(initializer)
                return tf_session.run(tensors)

        return run_threads([functools.partial(work, rank) for rank in range(NUM_REPLICAS)])

    return run


def part_of(values, rank, count=NUM_REPLICAS):
    replica = Replica(rank, count, len(values))
    return values[replica.start : replica.start + replica.num_examples]


@pytest.mark.parametrize(("batch_size", "count"), [(64, 1), (64, 2), (64, 3), (7, 5), (3, 3)])
def test_the_parts_of_a_batch_are_disjoint_complete_and_alike_in_size(batch_size, count):
    examples = np.arange(batch_size)
    parts = [part_of(examples, rank, count) for rank in range(count)]
    assert np.concatenate(parts).tolist() == examples.tolist()
    sizes = [len(part) for part in parts]
    assert max(sizes) - min(sizes) <= 1 and sizes[0] == max(sizes)
    assert sum(Replica(rank, count, batch_size).weight for rank in range(count)) == pytest.approx(1)


def draw(rank, count, make):
    """The numbers that `make(run)` draws in training, for one replica of a batch."""
    with tf.Graph().as_default():
        run = Run("train", make_run(batch_size=6).options, replica=Replica(rank, count, 6))
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


def draw_by_all(make):
    """The numbers of a process alone and of each of two replicas."""
    return [draw(rank, count, make) for rank, count in ((0, 1), (0, 2), (1, 2))]


@pytest.mark.parametrize("shape", [[], [4], [4, 5], [1]])
def test_other_numbers_are_the_same_for_all_replicas(shape):
    whole, first, second = draw_by_all(lambda run: run.normal("z", shape))
    assert whole.tolist() == first.tolist() == second.tolist()


def test_numbers_of_a_size_that_is_unknown_are_each_replicas_own():
    def normal(run):
        rows = tf.boolean_mask(tf.zeros([6, 4]), [True] * 3 + [False] * 3)
        return run.normal("z", tf.shape(tf.reshape(rows, [-1, 2])))

    whole, first, second = draw_by_all(normal)
    assert whole.shape == (6, 2) and whole.tolist() == first.tolist() != second.tolist()


def test_an_average_is_weighted_by_examples_and_keeps_shapes_and_dtypes(run_replicas):
    def average(rank):
        part = tf.constant(part_of(FEATURES, rank))
        tensors = [tf.reduce_mean(part, 0), tf.constant(float(rank), tf.float64)]
        means = Replica(rank, NUM_REPLICAS, BATCH).mean(tensors)
        assert [m.shape.as_list() for m in means] == [[4, 4, 3], []]
        return means

    first, *others = run_replicas(average)
    np.testing.assert_allclose(first[0], FEATURES.mean(0), rtol=1e-5, atol=1e-6)
    assert (first[1].dtype, first[1]) == (np.float64, pytest.approx((21 * 1 + 21 * 2) / 64))
    for other in others:  # equal to the bit
        assert [x.tobytes() for x in other] == [x.tobytes() for x in first]


def test_equal_scalars_keep_their_bits(run_replicas):
    def average(rank):
        scalars = {
            "rate": tf.constant(0.1),
            "count": tf.constant(7, tf.int64),
            "loss": tf.constant(float(rank)),
            "text": tf.constant("a"),
        }
        return Replica(rank, NUM_REPLICAS, 6).mean_scalars(scalars)

    for result in run_replicas(average):
        assert result["rate"] == np.float32(0.1)
        assert (result["count"], result["count"].dtype) == (7, np.int64)
        assert (result["loss"], result["text"]) == (1.0, b"a")


def test_the_gradient_of_an_average_is_that_of_the_whole_batch(run_replicas):
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
    for part in run_replicas(of_part):
        np.testing.assert_allclose(part, whole, rtol=1e-4)


def test_batch_norm_of_parts_moves_all_averages_alike(run_replicas):
    def train_norm(rank):
        """Gradients of a loss by the variables, then the values that state updates assign."""
        features = tf.constant(part_of(FEATURES, rank))
        kernel = tf.get_variable("kernel", [3, 3], initializer=tf.initializers.identity())
        norm = tf.keras.layers.BatchNormalization(momentum=0.5)
        y = norm(tf.tensordot(features, kernel, 1), training=True)
        loss = tf.reduce_mean(tf.sin(y) * features)
        gradients = tf.gradients(loss, tf.trainable_variables())
        updates = tf.get_default_graph().get_operations()
        updates = [op for op in updates if op.type == "AssignSubVariableOp"]
        updates, gradients = Replica(rank, NUM_REPLICAS, BATCH).mean_updates(updates, gradients)
        return [*gradients, *[op.inputs[1] for op in updates]]

    results = run_replicas(train_norm)
    first, *others = ([np.asarray(x).tobytes() for x in result] for result in results)
    assert len(first) == 5 and all(other == first for other in others)


class Averaging(Linear):
    """A linear model that averages its inputs over all replicas, for one use or another."""

    def __init__(self, use):
        self._use = use

    @hookimpl
    def call(self, model, features, run):
        (mean,) = run.mean_over_replicas([tf.reduce_mean(features)])
        outputs = Linear.call(self, model, features, run)
        if self._use == "output":
            outputs["mean"] = mean
        if self._use == "summary":
            tf.summary.scalar("mean", mean)
        if self._use == "log":
            run.log("mean", mean)
        if self._use == "loss":
            outputs["logits"] -= mean
        return outputs


def build_averaging(use, count, in_loop):
    plugins = Plugins(make_plugin(Averaging(use)))
    with tf.Graph().as_default() as graph:
        options = make_run(classes=plugins.options(), batch_size=2).options
        run = Run("train", options, Spec(), replica=Replica(0, count, 2 * count))
        reader = Stream(np.ones([2, 4], np.float32), np.zeros([2], np.int32))
        return build_training(plugins, run, reader, graph, in_loop)


@pytest.mark.parametrize(
    "use, in_loop", [("loss", False), ("log", True), ("summary", True), ("output", False)]
)
def test_an_average_is_refused_only_where_the_first_replica_alone_fetches_it(use, in_loop):
    build_averaging(use, 1, in_loop)
    if use in ("loss", "log"):  # each step computes it
        assert ("mean" in build_averaging(use, 2, in_loop).step.logged) is (use == "log")
        return
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
    variables = [tf.get_variable(name, initializer=tf.constant(arrays[name])) for name in arrays]
    with session() as tf_session, tf.Session() as other:
        variable_values.assign(other, variable_values.read(tf_session))
        assert variable_values.hashes(other) == variable_values.hashes(tf_session)
        assert other.run(variables[2]).tolist() == arrays["c"].tolist()


WORKER = "/job:worker/task:1"


def build():
    """The graph of Linear with two servers, trained by momentum."""
    plugins = Plugins(make_plugin(Linear), [])
    options = make_run(classes=plugins.options(), optimizer="momentum", weight_decay=0.01).options
    strategy, tf_graph = AsynchronousStep(WORKER, 2), tf.Graph()
    run = Run("train", options, Spec(), total_steps=9, strategy=strategy)
    with tf_graph.as_default(), tf.device(strategy.input_device):
        reader = Constant(np.zeros([2, 4]), np.zeros([2]))
    return build_training(plugins, run, reader, tf_graph)


def server_of(device):
    spec = tf.DeviceSpec.from_string(device)
    return spec.task if spec.job == "ps" else None


def test_variables_their_slots_and_writes_are_on_servers_and_computations_on_the_worker():
    ops = build().tf_graph.get_operations()
    servers = {op.name: op.device for op in ops if op.type == "VarHandleOp"}
    writes = [op for op in ops if op.type.startswith(("Assign", "ResourceApply"))]
    products = [op for op in ops if op.type == "MatMul"]
    assert products and all(op.device.startswith(WORKER) for op in products)
    types = {op.type for op in writes}
    assert types & {"ResourceApplyMomentum", "ResourceApplyKerasMomentum"}
    assert "AssignSubVariableOp" in types  # weight decay
    assert len(servers) > 4
    for device in [*servers.values(), *(op.device for op in writes)]:
        assert server_of(device) is not None
    (slot,) = (name for name in servers if name.endswith("linear/w/Momentum"))
    assert servers[slot] == servers["linear/w"]


def test_variables_are_balanced_by_their_bytes_alike_in_each_process():
    strategy, devices = AsynchronousStep(WORKER, 2), []
    for _ in range(2):
        with tf.Graph().as_default(), tf.device(strategy.model_device()):
            for number in range(4):  # as layers are: a matrix, then its biases
                tf.get_variable(f"w{number}", [8, 8])
                tf.get_variable(f"b{number}", [8])
            devices.append([variable.device for variable in tf.global_variables()])
    assert devices[0] == devices[1]
    assert sorted([server_of(device) for device in devices[0][::2]]) == [0, 0, 1, 1]
