"""Metrics and predictions equal their recomputation in numpy."""

from __future__ import annotations

import numpy as np
import pytest
from classifier_fixtures import Data, evaluate, make_run
from toolkit_classifier import measures

from toolkit import tf

LOGITS = np.random.RandomState(3).randn(23, 5).astype(np.float32) * 3
LABELS = np.random.RandomState(4).randint(0, 5, 23).astype(np.int32)


def streamed(batch, **values):
    """The metrics over 23 examples in batches, the last of which is smaller."""
    run = make_run("eval", Data(num_classes=5), **values)
    logits = tf.placeholder(tf.float32, [None, 5])
    labels = tf.placeholder(tf.int32, [None])
    metrics = measures.streamed(labels, {"logits": logits}, run)
    with tf.Session() as session:
        session.run(tf.local_variables_initializer())
        for start in range(0, 23, batch):
            part = slice(start, start + batch)
            updates = [update for _, update in metrics.values()]
            session.run(updates, {logits: LOGITS[part], labels: LABELS[part]})
        return session.run({name: value for name, (value, _) in metrics.items()})


@pytest.mark.parametrize("batch", [23, 10, 4])
def test_metrics_do_not_depend_on_the_batches(batch):
    values = streamed(batch, top_k=2, label_smoothing=0.3, class_weights="1,2,3,4,0")
    ranks = (LOGITS[np.arange(23), LABELS][:, None] < LOGITS).sum(axis=1)
    log_sums = np.log(np.exp(LOGITS).sum(axis=1))
    losses = log_sums - LOGITS[np.arange(23), LABELS]
    assert sorted(values) == ["accuracy", "loss", "top2"]
    assert values["accuracy"] == pytest.approx((ranks == 0).mean())
    assert values["top2"] == pytest.approx((ranks < 2).mean())
    assert values["loss"] == pytest.approx(losses.mean(), rel=1e-5)


def test_a_k_beyond_the_number_of_classes_becomes_that_number():
    assert streamed(23, top_k=99)["top5"] == 1.0


def test_a_prediction_is_the_likeliest_label_with_its_probability():
    logits = np.log(np.array([[1.0, 2.0, 1.0], [6.0, 1.0, 1.0]], np.float32))
    outputs = {"logits": tf.constant(logits), "features": tf.zeros([2, 9])}
    values = dict(zip("lpqf", evaluate(*measures.prediction(outputs).values())))
    assert values["l"].tolist() == [1, 0] and values["l"].dtype == np.int32
    np.testing.assert_allclose(values["p"], [0.5, 0.75], rtol=1e-6)
    np.testing.assert_allclose(values["q"][0], [0.25, 0.5, 0.25], rtol=1e-6)
    assert values["f"].shape == (2, 9)
