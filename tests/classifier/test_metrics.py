"""Metrics equal their computation in numpy."""

from __future__ import annotations

import numpy as np
import pytest
from classifier_fixtures import Data, make_run
from toolkit_classifier.metrics import build, streaming_mean

from toolkit import tf

LOGITS = np.random.RandomState(3).randn(23, 5).astype(np.float32) * 3
LABELS = np.random.RandomState(4).randint(0, 5, 23).astype(np.int32)


def stream(batch, **values):
    """The metrics over 23 examples in batches; the last batch may be smaller."""
    run = make_run("eval", Data(num_classes=5), **values)
    logits = tf.placeholder(tf.float32, [None, 5])
    labels = tf.placeholder(tf.int32, [None])
    pairs = build(labels, {"logits": logits}, run)
    with tf.Session() as session:
        session.run(tf.local_variables_initializer())
        for start in range(0, 23, batch):
            part = slice(start, start + batch)
            updates = [update for _, update in pairs.values()]
            session.run(updates, {logits: LOGITS[part], labels: LABELS[part]})
        return session.run({name: value for name, (value, _) in pairs.items()})


@pytest.mark.parametrize("batch", [23, 10, 4])
def test_metrics_do_not_depend_on_the_batches(batch):
    values = stream(batch, top_k=2, label_smoothing=0.3, class_weights="1,2,3,4,0")
    ranks = (LOGITS[np.arange(23), LABELS][:, None] < LOGITS).sum(axis=1)
    log_sums = np.log(np.exp(LOGITS).sum(axis=1))
    losses = log_sums - LOGITS[np.arange(23), LABELS]
    assert sorted(values) == ["accuracy", "loss", "top2"]
    assert values["accuracy"] == pytest.approx((ranks == 0).mean())
    assert values["top2"] == pytest.approx((ranks < 2).mean())
    assert values["loss"] == pytest.approx(losses.mean(), rel=1e-5)


def test_a_k_beyond_the_number_of_classes_becomes_that_number():
    assert stream(23, top_k=99)["top5"] == 1.0


# --------------------------------------------------------------------------------- known answers


def metrics_of(logits, labels, batch=None, **values):
    """The metrics of known logits [N, K] and labels [N] after one pass in batches."""
    logits, labels = np.asarray(logits, np.float32), np.asarray(labels, np.int32)
    run = make_run("eval", Data(num_classes=logits.shape[1]), **values)
    feeds = tf.placeholder(tf.float32, [None, logits.shape[1]]), tf.placeholder(tf.int32, [None])
    pairs = build(feeds[1], {"logits": feeds[0]}, run)
    with tf.Session() as session:
        session.run(tf.local_variables_initializer())
        for start in range(0, len(labels), batch or len(labels)):
            part = slice(start, start + (batch or len(labels)))
            updates = [update for _, update in pairs.values()]
            session.run(updates, dict(zip(feeds, (logits[part], labels[part]))))
        return session.run({name: value for name, (value, _) in pairs.items()})


LN2 = np.log(2.0)


@pytest.mark.parametrize(
    "logits, labels, expected",
    [
        # One example: the second most likely of two equal and one impossible class.
        ([[0, 0, -1000]], [0], {"accuracy": 1, "top2": 1, "loss": LN2}),
        ([[0, 1000, -1000]], [0], {"accuracy": 0, "top2": 1, "loss": 1000}),
        # Equal logits of K classes cost ln K, whatever the label.
        ([[7, 7, 7, 7]] * 3, [0, 0, 0], {"accuracy": 1, "top2": 1, "loss": 2 * LN2}),
        # Half right, and one of the wrong ones second; class 3 has no example.
        (
            [[9, 0, 0, -9], [0, 9, 0, -9], [9, 1, 0, -9], [1, 0, -9, 9]],
            [0, 1, 1, 2],
            {"accuracy": 0.5, "top2": 0.75},
        ),
    ],
    ids=["one right", "one wrong", "equal logits", "a class absent"],
)
@pytest.mark.parametrize("batch", [None, 3])
def test_metrics_of_known_logits(logits, labels, expected, batch):
    values = metrics_of(logits, labels, batch, top_k=2)
    assert {name: values[name] for name in expected} == pytest.approx(expected, rel=1e-6)


def test_half_of_the_probability_on_the_label_costs_ln_2_in_every_batch():
    logits = np.zeros([7, 3])
    logits[:, 1:] = -LN2  # 1/2, 1/4, 1/4
    labels = [0, 1, 2, 0, 0, 1, 2]
    values = metrics_of(logits, labels, 3, top_k=1)
    assert values["accuracy"] == values["top1"] == pytest.approx(3 / 7)
    assert values["loss"] == pytest.approx(LN2 * (3 + 2 * 4) / 7, rel=1e-6)


def test_examples_beyond_16_7_million_still_count():
    values = tf.placeholder(tf.float32, [None])
    mean, update = streaming_mean(values, "many")
    total, count = tf.get_collection(tf.GraphKeys.METRIC_VARIABLES)
    with tf.Session() as session:
        session.run(tf.local_variables_initializer())
        session.run([total.assign(2.0**24), count.assign(2**24)])  # all right so far
        for _ in range(64):
            session.run(update, {values: np.zeros(2**18)})  # as many again, all wrong
        assert session.run(mean) == 0.5
        session.run(update, {values: [1.0]})
        assert session.run(total) == 2**24 + 1


def test_before_the_first_example_the_mean_is_not_a_number():
    mean, _ = streaming_mean(tf.constant([1.0]), "none")
    with tf.Session() as session:
        session.run(tf.local_variables_initializer())
        assert np.isnan(session.run(mean))
