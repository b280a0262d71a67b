"""Scores of images that any plugin draws, by the code and the options of a GAN's run."""

from __future__ import annotations

from typing import Any, Dict

from .sample_sets import SampleSet
from .scorer import GanScorer


class SampleScorer(GanScorer):
    """A `GanScorer` whose `predict` maps a number and a seed to images, uint8 [n, H, W, C]."""

    def _generate(self, predict, count: int, seed: int) -> SampleSet:
        images = predict(count, seed)
        return SampleSet(images, *self._features.features_and_labels(images))

    def _best_metric(self) -> str:
        """No metric: that of the GAN's run chose no checkpoint of another plugin."""
        return ""

    def full_dependencies(self, split) -> Dict[str, Any]:
        """The features, and the sizes of the two sets, of the full score of a split."""
        real_images = min(len(split), self._max_reals())
        return self._depends_on(self._run.options.score_samples, real_images)
