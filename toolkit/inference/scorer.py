"""Measures of a whole split, which no mean over its examples gives: what a plugin's hook `scorers`
returns.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, NamedTuple, Optional, Sequence


class ScoreResult(NamedTuple):
    """What a scorer found.

    metrics: name -> number, of the scorer's `names`; NAME_noise is the standard deviation of NAME.
    lines: what to print below the metrics. details: JSON values for the result.
    """

    metrics: Dict[str, float]
    lines: Sequence[str] = ()
    details: Dict[str, Any] = {}  # never changed in place


class Scorer:
    """Base class of measures. `names`: of all metrics that it may return.

    With a metric NAME_noise, `--best-metric NAME` moves only by a gain that is larger than it.
    """

    names: Sequence[str] = ()

    def score(self, split: Any, predict: Callable, folder: Optional[str]) -> ScoreResult:
        """Called after a split was evaluated, with a graph of its own as the default one.

        split: the `toolkit.Split`. predict(inputs, batch_size=None): each tensor of the hook
        `predict` as an array, with the checkpoint in force; inputs: examples [N, ...], or a dict
        of arrays where the hook `inputs` names some. folder: an existing one for reports, or None
        for the quick score in the midst of training.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Called when no more is to be scored."""
