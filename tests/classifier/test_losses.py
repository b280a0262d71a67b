"""The losses and metrics, against values that can be checked by hand."""

import math

import numpy as np
import pytest
from classifier_fixtures import make_data, make_run
from graph_fixtures import evaluate, session
from toolkit_classifier import losses
from toolkit_classifier.metrics import build

from toolkit import UsageError, tf

LN = math.log


@pytest.mark.parametrize(
    "logits, targets, settings, expected",
    [
        # Equal logits cost the logarithm of the number of classes.
        ([[7.0, 7.0, 7.0, 7.0]], [[0.0, 1.0, 0.0, 0.0]], {}, LN(4)),
        # Odds of three to one.
        ([[LN(3), 0.0]], [[1.0, 0.0]], {}, LN(4 / 3)),
        # The log-probabilities are 0 and -20; half of the share 0.2 is on the wrong class.
        ([[20.0, 0.0]], [[1.0, 0.0]], {"smoothing": 0.2}, 0.1 * 20),
        # The mean of log 2 and log 4 / 3 with weights 3 and 1.
        (
            [[0.0, 0.0], [0.0, LN(3)]],
            [[1.0, 0.0], [0.0, 1.0]],
            {"weights": [3.0, 1.0]},
            (3 * LN(2) + LN(4 / 3)) / 4,
        ),
    ],
)
def test_a_loss_is_of_smoothed_and_weighted_targets(logits, targets, settings, expected):
    loss = losses.classification_loss(tf.constant(logits), tf.constant(targets), **settings)
    assert evaluate(loss) == pytest.approx(expected, abs=1e-5)


def test_a_batch_whose_classes_weigh_nothing_costs_nothing_and_has_no_gradient():
    logits = tf.constant([[1.0, 2.0]])
    loss = losses.classification_loss(logits, tf.constant([[1.0, 0.0]]), weights=[0.0, 1.0])
    value, gradient = evaluate(loss, tf.gradients(loss, logits)[0])
    assert value == 0 and gradient.tolist() == [[0.0, 0.0]]


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("weights", [None, [1.0, 1.0]])
def test_extreme_logits_give_a_finite_loss_and_the_right_gradient(smoothing, weights):
    logits = tf.constant([[1e4, -1e4], [1e4, -1e4]])
    targets = tf.constant([[1.0, 0.0], [0.0, 1.0]])
    loss = losses.classification_loss(logits, targets, smoothing, weights)
    value, gradient = evaluate(loss, tf.gradients(loss, logits)[0])
    # 20,000 for one of two; smoothing adds as much as it removes.
    assert value == pytest.approx(1e4)
    half = smoothing / 2  # softmax is (1, 0): gradient (softmax - target) / 2
    expected = [[half / 2, -half / 2], [(1 - half) / 2, -(1 - half) / 2]]
    np.testing.assert_allclose(gradient, expected, atol=1e-7)


def test_balanced_weights_are_total_over_classes_times_count_and_zero_for_none():
    data = make_data(num_classes=3, class_counts=(6, 3, 0))
    assert losses.class_weights("balanced", data).tolist() == [0.5, 1.0, 0.0]


@pytest.mark.parametrize(
    "weights, data, message",
    [
        ("1,2", make_data(num_classes=3), "class_weights has 2 values, but the data has 3 classes"),
        ("balanced", make_data(), "needs the count of each class"),
    ],
)
def test_weights_need_one_value_per_class_or_its_count(weights, data, message):
    assert losses.class_weights("1,0.5,2", make_data(num_classes=3)).tolist() == [1.0, 0.5, 2.0]
    with pytest.raises(UsageError, match=message):
        losses.class_weights(weights, data)


def test_training_logs_the_share_of_right_answers():
    run = make_run(data=make_data(num_classes=2))
    logits = tf.constant([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    losses.total(tf.constant([0, 1, 1, 0]), {"logits": logits}, run)
    assert evaluate(run.logged["accuracy"]) == 0.75


def test_evaluation_uses_the_plain_cross_entropy():
    run = make_run("eval", make_data(num_classes=2), label_smoothing=0.5, class_weights="1,9")
    logits = tf.constant([[0.0, 0.0], [0.0, LN(3)]])
    loss = losses.total(tf.constant([0, 1]), {"logits": logits}, run)
    assert evaluate(loss) == pytest.approx((LN(2) + LN(4 / 3)) / 2)


def test_targets_of_mixup_replace_the_labels():
    run = make_run(data=make_data(num_classes=2))
    outputs = {"logits": tf.constant([[0.0, LN(3)]]), "targets": tf.constant([[0.5, 0.5]])}
    loss = losses.total(tf.constant([0]), outputs, run)
    assert evaluate(loss) == pytest.approx((LN(4) + LN(4 / 3)) / 2)


@pytest.mark.parametrize("top_k, name, expected", [(99, "top3", 1), (3, "top3", 1), (1, "top1", 0)])
def test_a_k_beyond_the_number_of_classes_becomes_that_number(top_k, name, expected):
    run = make_run("eval", make_data(num_classes=3), top_k=top_k)
    metrics = build(tf.constant([2]), {"logits": tf.constant([[2.0, 1.0, 0.0]])}, run)
    value, update = metrics[name]
    with session() as tf_session:
        tf_session.run(update)
        assert tf_session.run(value) == expected


def test_of_few_classes_no_top_k_is_measured_unless_it_is_set():
    run = make_run("eval", make_data(num_classes=3))
    metrics = build(tf.constant([2]), {"logits": tf.constant([[2.0, 1.0, 0.0]])}, run)
    assert set(metrics) == {"accuracy", "loss"}
