"""The lines that a run ends with."""

from __future__ import annotations

from toolkit.training.best_metric import BestMetric
from toolkit.training.run_summary import describe_best


def best_of(*evaluations):
    metric, best = BestMetric("distance", "min"), None
    for step, (value, noise) in enumerate(evaluations, start=1):
        best = metric.choose(best, step, value, noise)
    return describe_best(best)


def test_the_best_value_is_called_the_lowest():
    assert best_of((4.0, 0.5), (3.0, 0.5)) == "lowest distance 3.0000 (validation, step 2)"
    assert best_of((4.0, 0.0)) == "lowest distance 4.0000 (validation, step 1)"


def test_a_newer_value_within_the_noise_is_not_called_the_lowest():
    assert best_of((4.0, 0.5), (4.25, 0.5)) == (
        "distance 4.2500 (validation, step 2: the newest within the noise, 0.5000, of the lowest, "
        "4.0000)"
    )
