"""`Scorer`: a measure of a whole split that is not a mean over its examples.

Plugins return scorers from the hook `scorers`.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, NamedTuple, Optional, Sequence

from ..data.examples import Split


class ScoreResult(NamedTuple):
    """The result of a scorer.

    Attributes:
        metrics: name -> number; the names are among the scorer's `names`. NAME_noise is the
            standard deviation of NAME.
        lines: text to print below the metrics.
        details: JSON values for the result of the evaluation.
    """

    metrics: Dict[str, float]
    lines: Sequence[str] = ()
    details: Dict[str, Any] = {}  # never changed in place


class Scorer:
    """Base class of scorers.

    Attributes:
        names: all metrics that `score` may return. With a metric NAME_noise, the best checkpoint
            by NAME changes only for a gain larger than this noise.
    """

    names: Sequence[str] = ()

    def score(
        self, split: Split, predict: Callable[..., Dict[str, Any]], folder: Optional[str]
    ) -> ScoreResult:
        """Score a split; called after its evaluation. The default graph is a new, empty one.

        Args:
            split: the `toolkit.Split`.
            predict: `predict(inputs, batch_size=None)` returns the tensors of the hook `predict`
                as arrays, batch first, computed with the loaded checkpoint. inputs: examples
                [N, ...], or a dict of arrays [N, ...] where the hook `inputs` names some.
            folder: an existing folder for reports, or None during training, where a quick score
                is enough.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Release resources; called once, after the last score."""
