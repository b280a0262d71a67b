"""`Scorer`: a measure of a whole split that is not a mean over its examples.

Plugins return scorers from the hook `scorers`.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterable, Mapping, NamedTuple, Optional, Sequence

import numpy as np

from ..data.examples import Split
from ..statistics.intervals import Interval


class ScoreResult(NamedTuple):
    """The result of a scorer.

    Attributes:
        metrics: name -> number; the names are among the scorer's `names`. NAME_noise is the
            standard deviation of NAME.
        lines: text to print below the metrics.
        details: JSON values for the result of the evaluation; "page" among them is what the run
            shows on its page, see docs/plugins/pages.md.
        depends_on: what these metrics depend on besides the model and the split: JSON values by
            name, such as the hash of a feature extractor and the number of samples. Two runs are
            compared by a metric only if this is equal. {}: what `Scorer.dependencies` returns.
        intervals: the name of a metric -> its `toolkit.statistics.Interval`.
    """

    metrics: Dict[str, float]
    lines: Sequence[str] = ()
    details: Dict[str, Any] = {}  # never changed in place
    depends_on: Dict[str, Any] = {}  # likewise
    intervals: Dict[str, Interval] = {}  # likewise


class Scorer:
    """Base class of scorers.

    Attributes:
        names: all metrics that `score` may return. With a metric NAME_noise, the best checkpoint
            by NAME is the newest one within this noise of the best value.
        directions: the name of a metric -> "min" if lower values are better, or "max". The best
            checkpoint is chosen by a metric without a direction only where --best-metric sets one.
        draws_samples: whether `score` calls `draw`; a plugin without the hook `sample` is then
            refused.
        draw: `draw(count, seed)` yields samples in parts: arrays [n, ...] by name, "images" as
            uint8, as the hook `sample` draws them with the loaded checkpoint. The core sets it.
    """

    names: Sequence[str] = ()
    directions: Mapping[str, str] = {}
    draws_samples: bool = False
    draw: Callable[[int, int], Iterable[Dict[str, np.ndarray]]]

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

    def dependencies(self, split: Split) -> Dict[str, Any]:
        """Return what the scores of a split in training depend on besides the model and the split.

        A resumed run compares its scores with earlier ones only if this is equal.

        Args:
            split: the `toolkit.Split`.

        Returns:
            JSON values by name, for instance the hash of a feature extractor.
        """
        return {}

    def close(self) -> None:
        """Release resources; called once, after the last score."""
