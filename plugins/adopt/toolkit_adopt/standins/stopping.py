"""`tf.contrib.estimator`: hooks that end a training whose evaluations get no better."""

from __future__ import annotations

from typing import Any

from toolkit import tf


class _Stop(tf.train.SessionRunHook):
    """Ends a training when the best evaluation is so many steps before the last one."""

    def __init__(self, sign: int, estimator: Any, metric: str, most: int, min_steps: int):
        self._sign, self._estimator, self._metric = sign, estimator, metric
        self._most, self._min_steps = most, min_steps

    def after_run(self, run_context: Any, run_values: Any) -> None:
        found = [
            (self._sign * metrics[self._metric], -step)
            for step, metrics in self._estimator.evaluations.items()
            if step >= self._min_steps
        ]
        if found and max(found)[1] - min(step for _, step in found) >= self._most:
            run_context.request_stop()


def stop_if_no_increase_hook(
    estimator, metric_name, max_steps_without_increase, eval_dir=None, min_steps=0, **_
):
    """A hook that ends a training when a metric of its evaluations has not increased for so many
    steps, of those from `min_steps` on. No clock decides when it looks.
    """
    return _Stop(1, estimator, metric_name, max_steps_without_increase, min_steps)


def stop_if_no_decrease_hook(
    estimator, metric_name, max_steps_without_decrease, eval_dir=None, min_steps=0, **_
):
    """The same for a metric that is to decrease."""
    return _Stop(-1, estimator, metric_name, max_steps_without_decrease, min_steps)
