"""Random numbers of an evaluation or a prediction: a function of each example's position."""

from __future__ import annotations

import numpy as np
import pytest
from linear_fixtures import Linear, write_bars

from toolkit import hookimpl, testing, tf
from toolkit.api import open_trained
from toolkit.graph.positions import BLOCK_SIZE, draw_by_position

pytestmark = pytest.mark.usefixtures("graph")


def draw(position, count, sizes=(3,)):
    """The numbers of `count` examples from a position on."""
    rows = tf.placeholder(tf.float32, [None])
    shape = tf.concat([tf.shape(rows), list(sizes)], 0)
    start = tf.constant(position, tf.int64)
    numbers = draw_by_position(tf.random.stateless_normal, shape, start, 7)
    assert numbers.shape.as_list() == [None, *sizes]
    with tf.Session() as session:
        return session.run(numbers, {rows: np.zeros(count)})


def test_a_row_depends_on_its_position_alone():
    whole = draw(0, 3 * BLOCK_SIZE)
    assert np.unique(whole, axis=0).shape == whole.shape
    for start, count in [(0, 1), (BLOCK_SIZE - 1, 2), (BLOCK_SIZE, 5), (300, BLOCK_SIZE)]:
        np.testing.assert_array_equal(draw(start, count), whole[start : start + count])


@pytest.mark.parametrize("sizes", [(), (2, 3)], ids=["scalars", "matrices"])
def test_rows_have_any_shape(sizes):
    assert draw(5, 4, sizes).shape == (4, *sizes)


def test_no_examples_have_no_numbers():
    assert draw(5, 0).shape == (0, 3)


class Noisy(Linear):
    """Its logits have noise in every mode."""

    @hookimpl
    def call(self, model, features, run):
        outputs = Linear.call(self, model, features, run)
        noise = run.normal("noise", tf.shape(outputs["logits"]))
        return dict(outputs, logits=outputs["logits"] + noise)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The folder of a run of the noisy model."""
    folder = tmp_path_factory.mktemp("noisy")
    data = write_bars(str(folder / "bars.npz"))
    with tf.Graph().as_default():
        testing.train("test_positions:Noisy", str(folder / "run"), data=data, steps=2)
    return str(folder / "run")


def test_metrics_do_not_depend_on_the_batch_size_of_an_evaluation(trained):
    with open_trained(trained) as run:
        evaluator = run.evaluator("eval")
        evaluator.load(run.checkpoint.path)
        split = run.split("test")
        losses = [evaluator.evaluate(split, size).metrics["loss"] for size in (1, 5, 100)]
        evaluator.close()
    one, five, all_at_once = losses
    assert one == pytest.approx(all_at_once, rel=1e-5)
    assert five == pytest.approx(all_at_once, rel=1e-5)


def test_examples_of_one_evaluation_have_different_numbers(trained):
    with open_trained(trained) as run:
        same = np.zeros([6, 6, 6, 1], np.uint8)
        logits = run.predict(same, batch_size=2)["logits"]
        again = run.predict(same, batch_size=5)["logits"]
    assert len(np.unique(logits, axis=0)) == 6
    np.testing.assert_array_equal(logits, again)


def test_a_shape_that_is_known_draws_the_same_in_every_batch():
    run = testing.make_run(Linear, "eval", None)
    numbers = run.uniform("latents", [4, 2], 1.0, 3.0)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        first, second = session.run(numbers), session.run(numbers)
    np.testing.assert_array_equal(first, second)
    assert first.shape == (4, 2) and first.min() >= 1 and first.max() < 3
