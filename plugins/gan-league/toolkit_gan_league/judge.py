"""Scores of the images of programs, as the runs of the tournament have them.

Legend: n images, H height, W width, C channels.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import types
from typing import Any, Dict, Mapping

import numpy as np
from toolkit_image_scores.scorer import ImageScorer

from toolkit import UsageError, open_trained


class Judge:
    """Scores images like those of a run. `close` it.

    Args:
        path: of the run; its options, test split and features are those of all scores.
        scores: of that run.

    Raises:
        UsageError: its features are no longer those of the scores.
    """

    def __init__(self, path: str, scores: Mapping[str, Any]):
        self._trained: Any = open_trained(path)
        self._split: Any = self._trained.split("test")
        run = types.SimpleNamespace(options=self._trained.options, data=self._trained.data)
        self._scorer = ImageScorer(run, self._trained.split)
        facts = self._scorer.dependencies(self._split, run.options.score_samples)
        expected = {"features": scores["features"]["sha256"]}
        expected.update({"samples": scores["n"], "real images": scores["m"]})
        if facts != expected:
            self.close()
            raise UsageError(
                "The features of the scores have changed since, so that programs cannot be "
                "compared with the others.",
                hint="Repeat the tournament in another --dir.",
            )
        self._facts = facts

    def close(self) -> None:
        self._scorer.close()
        self._trained.close()

    def score(self, images: np.ndarray, folder: str) -> Dict[str, Any]:
        """Return the scores of images, which are computed once.

        Args:
            images: uint8 [n, H, W, C].
            folder: for the scores.
        """
        identity = [hashlib.sha256(images.tobytes()).hexdigest(), self._split.sha256()]
        text = json.dumps([*identity, self._facts], sort_keys=True)
        place = os.path.join(folder, f"scores-{hashlib.sha256(text.encode()).hexdigest()[:16]}")
        if not os.path.isdir(place):  # which appears when it is complete
            shutil.rmtree(place + ".partial", ignore_errors=True)
            os.makedirs(place + ".partial")
            self._scorer.draw = lambda count, seed: [{"images": images[:count]}]
            self._scorer.score(self._split, None, place + ".partial")
            os.rename(place + ".partial", place)
        with open(os.path.join(place, "scores.json"), encoding="utf-8") as file:
            scores: Dict[str, Any] = json.load(file)
            return scores
