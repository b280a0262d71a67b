"""Scores of a generator against a whole split: quick ones in training, full ones in a folder.

Legend: n fakes, m reals, F features, H height, W width, C channels.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional

import numpy as np

import toolkit
from toolkit import DataError, UsageError

from ..latents import draw
from . import reports, ruler
from .distances import bootstrap_noise, frechet_distance, frechet_floor, kernel_distance
from .extractor import Features, open_features
from .neighbours import K, nearest, neighbours
from .sides import (
    Reference,
    Side,
    classes_of,
    real_images,
    reference_of,
    same_examples,
    seen,
    spread,
    to_bytes,
)

QUICK_SEED = 0  # of z in training; full scores take 1, 2, ...
FEWEST = 10  # images that a score makes sense from
COMPARED = 1000  # samples whose nearest training image is sought
SHOWN = 32  # pairs in nearest.png
MOST_TRAINING = 60000  # training images that are searched
IN_FULL = ("kernel_distance", "kernel_distance_noise", "precision", "recall", "density")


class GanScorer(toolkit.Scorer):
    """Frechet distance with its noise and floor, coverage, lost classes; in full also the rest.

    run: the `toolkit.Run`. splits: name -> Split or None. say: told when a classifier is trained
    for its features. features: in place of those that the options name.
    """

    names = (
        "frechet_distance",
        "frechet_distance_noise",
        "frechet_ratio",
        "coverage",
        "classes_lost",
    ) + IN_FULL

    def __init__(
        self,
        run: Any,
        splits: Callable[[str], Any],
        say: Optional[Callable[[str], None]] = None,
        features: Optional[Features] = None,
    ):
        self._run, self._splits = run, splits
        self._features = features or open_features(run.options, run.data, splits("train"), say)
        if not (self._features.knows_classes and run.data.num_classes):
            self.names = tuple(name for name in self.names if name != "classes_lost")
        self._reference: Optional[Reference] = None
        self._training: Optional[Side] = None

    def score(self, split, predict, folder=None):
        """split: the reals. predict: inputs to {"image": float32 [n, H, W, C] in [0, 1]}.

        folder: None for the quick score, else where scores.json and nearest.png go. A split that is
        too small gets no score but a line: it is no reason to end a training with an error.
        """
        if len(split) < FEWEST:
            told = "no score: the split has {}, and a score needs {} or more"
            return toolkit.ScoreResult({}, [told.format(reports.images(len(split)), FEWEST)])
        reals = self._refer(split)
        if folder is None:
            return self._quick(reals, predict)
        return self._full(reals, predict, folder)

    def close(self) -> None:
        self._features.close()

    # -------------------------------------------------------------------------------- the two sides

    def _refer(self, split) -> Reference:
        """The real side; computed when the split is a new one."""
        if self._reference is None or self._reference.split is not split:
            options = self._run.options
            most = max(options.score_samples, options.quick_samples)
            self._reference = reference_of(split, self._features, most)
        return self._reference

    def _draw(self, predict, count: int, seed: int) -> Side:
        images = to_bytes(predict(self._inputs(count, seed))["image"])
        return Side(images, *self._features.both(images))

    def _inputs(self, count: int, seed: int) -> Dict[str, np.ndarray]:
        return draw(self._run.options, self._run.data, count, seed)

    # ---------------------------------------------------------------------------------- in training

    def _quick(self, reals, predict):
        count = self._run.options.quick_samples
        fakes = self._draw(predict, count, QUICK_SEED)
        asked = self._inputs(count, QUICK_SEED).get("label")  # the classes, where there are some
        distance = frechet_distance(fakes.features, reals.moments)
        details = {
            "frechet_distance": {
                "mean": distance,
                "noise": bootstrap_noise(fakes.features, reals.moments, groups=asked),
            },
            "frechet_ratio": ratio(distance, fakes, reals),
            "coverage": around(fakes, reals).coverage,
            "classes": self._classes(fakes, reals),
        }
        lost = details["classes"] and details["classes"]["lost"]
        lines = [reports.lost_line(details["classes"])] if lost else []
        return toolkit.ScoreResult(metrics_of(details), lines, {"scores": details})

    def _classes(self, fakes, reals) -> Optional[Dict[str, Any]]:
        if fakes.labels is None or reals.side.labels is None:
            return None
        return classes_of(fakes.labels, reals.side.labels, self._run.data.class_names or ())

    # -------------------------------------------------------------------------------------- in full

    def _full(self, reals, predict, folder):
        options = self._run.options
        fakes = self._draw(predict, options.score_samples, 1)
        distances = [frechet_distance(fakes.features, reals.moments)]
        for seed in range(2, options.score_seeds + 1):
            more = self._draw(predict, options.score_samples, seed)
            distances.append(frechet_distance(more.features, reals.moments))
        details = self._compared(distances, fakes, reals)
        files = ["scores.json"]
        train = self._splits("train")
        # The ruler's images may not be in the reference, nor is a real image near itself news.
        if train is not None and len(train) >= FEWEST and not same_examples(train, reals.split):
            details.update(self._placed(details["frechet_distance"]["mean"], train, reals))
            details["nearest"], drawn = self._nearest(fakes, reals, train, folder)
            files += drawn
        reports.write_scores(details, folder)
        told = {"scores": dict(details, files=files)}
        return toolkit.ScoreResult(metrics_of(details), reports.score_lines(details), told)

    def _compared(self, distances: List[float], fakes, reals) -> Dict[str, Any]:
        """What the two sides tell; all but the distance is of the first set of samples."""
        told = interval(distances)
        if len(distances) < 2:
            told["noise"] = bootstrap_noise(fakes.features, reals.moments)
        kernel, error = kernel_distance(fakes.features, reals.side.features)
        n, m = len(fakes.features), len(reals.side.features)
        details = {
            "n": n,
            "m": m,
            "frechet_distance": told,
            "frechet_floor": frechet_floor(reals.moments, n, m),
            "frechet_ratio": ratio(told["mean"], fakes, reals),
            "kernel_distance": {"mean": kernel, "standard_error": error},
            "k": K,
        }
        details.update(around(fakes, reals)._asdict())
        details["classes"] = self._classes(fakes, reals)
        names = ("name", "sha256", "size", "accuracy")
        details["features"] = {name: getattr(self._features, name) for name in names}
        return details

    def _placed(self, distance: float, train, reals) -> Dict[str, Any]:
        """The ruler, measured on as many training images as there are samples."""
        known = self._learn(train)
        chosen = spread(len(known.features), self._run.options.score_samples)
        positions = spread(len(train), MOST_TRAINING)[chosen]
        marks = ruler.measure_ruler(
            real_images(train, positions),
            None if known.labels is None else known.labels[chosen],
            reals.moments,
            self._features,
            known.features[chosen],
        )
        return {"ruler": ruler.to_json(marks), "place": ruler.place(distance, marks)}

    def _learn(self, train) -> Side:
        """The training images as scores see them, computed once."""
        if self._training is None:
            self._training = seen(train, spread(len(train), MOST_TRAINING), self._features)
        return self._training

    def _nearest(self, fakes, reals, train, folder):
        """How near samples are to training images, against how near reals are; and the files.

        A ratio far below 1 says that training images were copied. The sheet has the nearest pairs.
        """
        known = self._learn(train).features
        index, apart = nearest(fakes.features[:COMPARED], known)
        _, usual = nearest(reals.side.features[:COMPARED], known)
        order = np.argsort(apart, kind="stable")[:SHOWN]
        positions = spread(len(train), MOST_TRAINING)[index[order]]
        files = reports.draw_nearest(fakes.images[order], real_images(train, positions), folder)
        medians = float(np.median(apart)), float(np.median(usual))
        told = {"samples": medians[0], "reals": medians[1], "ratio": share(*medians)}
        return told, list(files)


def check_selection(options: Any, validation: Any) -> None:
    """Raise before a training that could not choose its best checkpoint by a score.

    UsageError for a metric of the full score; DataError for too few images to choose by.
    """
    metric = (options.best or "").split(":")[-1]
    if metric in IN_FULL:
        raise UsageError(
            f"The best checkpoint is chosen by {metric}, which is measured by 'toolkit evaluate'"
            " alone.",
            hint="Choose it by frechet_distance or coverage, or set --best none.",
        )
    count = 0 if validation is None else len(validation)
    if metric in GanScorer.names and options.evaluate and 0 < count < FEWEST:
        raise DataError(
            f"The best checkpoint is chosen by {metric}, which needs {FEWEST} images or "
            "more, and the split"
            f" 'validation' has {count}.",
            hint="Hold out more of the data with --validation-share, or set --best none.",
        )


def metrics_of(details: Dict[str, Any]) -> Dict[str, float]:
    """The metrics of `GanScorer.names` that `details` has."""
    distance, classes = details["frechet_distance"], details["classes"]
    kernel = details.get("kernel_distance", {})
    metrics = {
        "frechet_distance": distance["mean"],
        "frechet_distance_noise": distance["noise"],
        "classes_lost": float(len(classes["lost"])) if classes else None,
        "kernel_distance": kernel.get("mean"),
        "kernel_distance_noise": kernel.get("standard_error"),
    }
    for name in ("frechet_ratio", "precision", "recall", "density", "coverage"):
        metrics[name] = details.get(name)
    return {name: metrics[name] for name in GanScorer.names if metrics[name] is not None}


def around(fakes: Side, reals: Reference):
    return neighbours(fakes.features, reals.side.features, real_radii=reals.radii)


def ratio(distance: float, fakes: Side, reals: Reference) -> float:
    """The distance in floors."""
    floor = frechet_floor(reals.moments, len(fakes.features), len(reals.side.features))
    return share(distance, floor)


def share(part: float, whole: float) -> float:
    """part / whole; of nothing, nothing is one."""
    return part / whole if whole else 1.0


def interval(values: List[float]) -> Dict[str, Any]:
    """Mean, standard deviation ("noise") and the 95 % interval of the mean (Student's t)."""
    mean = float(np.mean(values))
    told = {"mean": mean, "noise": 0.0, "low": None, "high": None, "values": list(values)}
    if len(values) > 1:
        from scipy.stats import t

        told["noise"] = float(np.std(values, ddof=1))
        reach = float(t.ppf(0.975, len(values) - 1)) * told["noise"] / len(values) ** 0.5
        told["low"], told["high"] = mean - reach, mean + reach
    return told
