"""What is said of a model before it trains: omitted losses of regularizers, and its size."""

import pytest
from linear_fixtures import Linear

import toolkit
from toolkit import UsageError, hookimpl, tf
from toolkit.graph import model_size
from toolkit.graph.model_size import check_model_size
from toolkit.graph.networks import NetworkList

L2 = tf.keras.regularizers.l2


def test_losses_of_the_collection_are_counted_where_they_are_not_added():
    w = tf.get_variable("w", [3], regularizer=lambda w: 0.1 * tf.reduce_sum(tf.square(w)))
    networks, loss = NetworkList(), tf.reduce_sum(w)
    networks.begin_step()
    assert networks.count_omitted([loss]) == 1
    assert networks.count_omitted([loss, 2 * tf.losses.get_regularization_loss()]) == 0


class Regularized(Linear):
    """Linear, and a Keras layer with a penalty of its weights and one of its outputs."""

    def __init__(self, adds_penalties):
        self.adds_penalties = adds_penalties

    @hookimpl
    def build(self, run):
        penalties = {"kernel_regularizer": L2(0.1), "activity_regularizer": L2(0.1)}
        model = tf.keras.Sequential([tf.keras.layers.Dense(3, input_shape=(36,), **penalties)])
        self.net = run.keras(model)
        return Linear.build(self, run)

    @hookimpl
    def call(self, model, features, run):
        outputs = Linear.call(self, model, features, run)
        return dict(outputs, logits=outputs["logits"] + self.net(outputs["flat"]))

    @hookimpl
    def loss(self, labels, outputs):
        penalties = self.net.losses() if self.adds_penalties else []
        return Linear.loss(self, labels, outputs) + sum(penalties)


@pytest.mark.parametrize("adds_penalties, count", [(False, 1), (True, 0)])
def test_a_run_says_once_how_many_losses_it_does_not_minimize(data, adds_penalties, count):
    lines, options = [], {"data": data, "steps": 4, "evaluate": "no"}
    toolkit.train(Regularized(adds_penalties), "run", options, lines.append)
    notes = [line for line in lines if "not minimized" in line]
    assert len(notes) == count
    start = "note   2 losses of regularizers are not minimized. Add sum(net.losses()) of "
    assert all(note.startswith(start) for note in notes)


AVAILABLE = 10**9  # bytes


def variable(name, shape, dtype=tf.float32):
    return tf.get_variable(name, shape, dtype, tf.zeros_initializer(), use_resource=True)


@pytest.mark.usefixtures("graph")
@pytest.mark.parametrize("dtype, count", [(tf.float32, AVAILABLE // 4), (tf.int64, AVAILABLE // 8)])
def test_variables_may_take_all_memory_and_not_a_byte_more(monkeypatch, dtype, count):
    monkeypatch.setattr(model_size, "available_memory", lambda: AVAILABLE)
    check_model_size([variable("all", [count], dtype)])
    variables = [*tf.global_variables(), variable("one", [1])]
    with pytest.raises(UsageError, match=r"take 1\.0 GB, and 1\.0 GB are available: 'all' alone"):
        check_model_size(variables)
    monkeypatch.setattr(model_size, "available_memory", lambda: None)
    check_model_size(variables)  # nothing is refused where the memory is not known


class Large(Linear):
    """Linear, with a matrix of 144 x 10^9 numbers."""

    @hookimpl
    def build(self, run):
        variable("dense/kernel", [144, 10**9])
        return Linear.build(self, run)


def test_a_run_with_a_larger_model_than_memory_ends_with_its_size(cli, data):
    argv = ["--plugin", "test_model_checks:Large", "--data", data, "--steps", 1]
    words = "The model's variables and their slots take 576.0 GB, and "
    result = cli.refuse(2, words, "run", *argv, "--run-dir", "run")
    assert "'dense/kernel' alone is [144, 1000000000].\nChoose a smaller network." in result.err
