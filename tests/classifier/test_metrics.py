"""Metrics equal their computation in numpy."""

from __future__ import annotations

import numpy as np
import pytest
from classifier_fixtures import Data, make_run
from toolkit_classifier.metrics import build

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
