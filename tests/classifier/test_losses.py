"""The losses, against values that can be checked by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from classifier_fixtures import Data, evaluate, make_run
from toolkit_classifier import losses

from toolkit import UsageError, tf


def loss_of(logits, targets, **kwargs):
    return losses.classification_loss(tf.constant(logits), tf.constant(targets), **kwargs)


def test_equal_logits_cost_the_logarithm_of_the_number_of_classes():
    loss = loss_of([[7.0, 7.0, 7.0, 7.0]], [[0.0, 1.0, 0.0, 0.0]])
    assert evaluate(loss) == pytest.approx(math.log(4))


def test_odds_of_three_to_one_cost_the_logarithm_of_four_thirds():
    loss = loss_of([[math.log(3.0), 0.0]], [[1.0, 0.0]])
    assert evaluate(loss) == pytest.approx(math.log(4 / 3))


def test_smoothing_of_a_fifth_over_four_classes_leaves_0_85_and_spreads_0_05():
    targets = losses.smooth(tf.constant([[1.0, 0.0, 0.0, 0.0]]), 0.2)
    np.testing.assert_allclose(evaluate(targets), [[0.85, 0.05, 0.05, 0.05]], rtol=1e-6)


def test_smoothed_loss_of_a_certain_logit_is_the_mass_moved_times_the_gap():
    # The log-probabilities are 0 and -20; half of the share 0.2 is on the wrong class.
    loss = loss_of([[20.0, 0.0]], [[1.0, 0.0]], smoothing=0.2)
    assert evaluate(loss) == pytest.approx(0.1 * 20, abs=1e-5)


def test_class_weights_give_a_weighted_mean():
    # Costs log 2 and log 4 / 3 with weights 3 and 1.
    logits, targets = [[0.0, 0.0], [0.0, math.log(3.0)]], [[1.0, 0.0], [0.0, 1.0]]
    loss = loss_of(logits, targets, weights=[3.0, 1.0])
    assert evaluate(loss) == pytest.approx((3 * math.log(2) + math.log(4 / 3)) / 4)


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
    assert value == pytest.approx(
        1e4
    )  # 20,000 for one of two; smoothing adds as much as it removes
    half = smoothing / 2  # softmax is (1, 0): gradient (softmax - target) / 2
    expected = [[half / 2, -half / 2], [(1 - half) / 2, -(1 - half) / 2]]
    np.testing.assert_allclose(gradient, expected, atol=1e-7)


def test_balanced_weights_are_total_over_classes_times_count_and_zero_for_none():
    data = Data(num_classes=3, class_counts=(6, 3, 0))
    assert losses.class_weights("balanced", data).tolist() == [0.5, 1.0, 0.0]


def test_listed_weights_need_one_value_per_class():
    assert losses.class_weights("1,0.5,2", Data(num_classes=3)).tolist() == [1.0, 0.5, 2.0]
    with pytest.raises(UsageError, match="class_weights has 2 values, but the data has 3 classes"):
        losses.class_weights("1,2", Data(num_classes=3))


def test_training_logs_the_share_of_right_answers():
    run = make_run(data=Data(num_classes=2))
    logits = tf.constant([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    losses.total(tf.constant([0, 1, 1, 0]), {"logits": logits}, run)
    assert evaluate(run.logged["accuracy"]) == 0.75


def test_evaluation_uses_the_plain_cross_entropy():
    run = make_run("eval", Data(num_classes=2), label_smoothing=0.5, class_weights="1,9")
    logits = tf.constant([[0.0, 0.0], [0.0, math.log(3.0)]])
    loss = losses.total(tf.constant([0, 1]), {"logits": logits}, run)
    assert evaluate(loss) == pytest.approx((math.log(2) + math.log(4 / 3)) / 2)


def test_targets_of_mixup_replace_the_labels():
    run = make_run(data=Data(num_classes=2))
    outputs = {"logits": tf.constant([[0.0, math.log(3.0)]]), "targets": tf.constant([[0.5, 0.5]])}
    loss = losses.total(tf.constant([0]), outputs, run)
    assert evaluate(loss) == pytest.approx((math.log(4) + math.log(4 / 3)) / 2)


def test_balanced_weights_without_counts_are_refused():
    with pytest.raises(UsageError, match="needs the count of each class"):
        losses.class_weights("balanced", Data())
