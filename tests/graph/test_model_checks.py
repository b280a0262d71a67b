"""What is said of a model before it trains: omitted losses of regularizers."""

import pytest
from linear_fixtures import Linear, write_bars

import toolkit
from toolkit import hookimpl, tf
from toolkit.graph.regularization import NetworkList

L2 = tf.keras.regularizers.l2


@pytest.mark.usefixtures("graph")
def test_losses_of_the_collection_are_counted_where_they_are_not_added():
    w = tf.get_variable("w", [3], regularizer=lambda w: 0.1 * tf.reduce_sum(tf.square(w)))
    networks, loss = NetworkList(), tf.reduce_sum(w)
    networks.begin_step()
    assert networks.count_omitted([loss]) == 1
    assert networks.count_omitted([loss, 2 * tf.losses.get_regularization_loss()]) == 0


class Regularized(Linear):
    """Linear, and a Keras layer with a penalty of its weights and one of its outputs."""

    added = staticmethod(lambda net: [0.0])

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
        return Linear.loss(self, labels, outputs) + sum(self.added(self.net))


class Added(Regularized):
    """Regularized, with the penalties in its loss."""

    added = staticmethod(lambda net: net.losses())


@pytest.mark.parametrize("plugin, count", [(Regularized, 1), (Added, 0)])
def test_a_run_says_once_how_many_losses_it_does_not_minimize(tmp_path, plugin, count):
    lines = []
    options = {"data": write_bars(tmp_path / "bars.npz"), "steps": 4, "evaluate": "no"}
    toolkit.train(plugin, str(tmp_path / "run"), options, lines.append)
    notes = [line for line in lines if "not minimized" in line]
    assert len(notes) == count
    for note in notes:
        assert note.startswith(
            "note   2 losses of regularizers are not minimized. Add sum(net.losses()) of "
        )
