"""Scores of a generator against a whole split: quick ones in training, full ones in a report.

Legend: n generated and m real images, F features, H height, W width, C channels.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

import numpy as np

import toolkit
from toolkit import DataError, UsageError

from .. import latents
from . import neighbours, reports, ruler
from .distances import bootstrap_noise, frechet_distance, frechet_floor, kernel_distance
from .extractor import Features, open_features
from .sample_sets import (
    ReferenceSet,
    SampleSet,
    class_histogram,
    even_positions,
    featurize_split,
    have_same_examples,
    make_reference,
    real_images,
    to_bytes,
)

QUICK_SEED = 0  # of z in training; full scores use 1, 2, ...
MIN_IMAGES = 10  # a score of fewer means nothing
NUM_COMPARED = 1000  # samples whose nearest training image is searched
NUM_PAIRS = 32  # in nearest.png
MAX_TRAINING_IMAGES = 60000  # of which the nearest are searched
FULL_SCORE_METRICS = (
    "kernel_distance",
    "kernel_distance_noise",
    "precision",
    "recall",
    "density",
)


class GanScorer(toolkit.Scorer):
    """Frechet distance with its noise and floor, coverage, lost classes; the full score adds more.

    Args:
        run: the `toolkit.Run`.
        splits: name -> `Split`, or None.
        log: called with a text if a classifier is trained for its features.
        features: replaces those that the options name.
    """

    names: Sequence[str] = (
        "frechet_distance",
        "frechet_distance_noise",
        "frechet_ratio",
        "coverage",
        "classes_lost",
        *FULL_SCORE_METRICS,
    )
    directions: Mapping[str, str] = {
        "frechet_distance": "min",
        "frechet_ratio": "min",
        "kernel_distance": "min",
        "classes_lost": "min",
        "coverage": "max",
        "precision": "max",
        "recall": "max",
        "density": "max",
    }

    def __init__(
        self,
        run: Any,
        splits: Callable[[str], Any],
        log: Optional[Callable[[str], None]] = None,
        features: Optional[Features] = None,
    ):
        self._run, self._splits = run, splits
        self._features = features or open_features(run.options, run.data, splits("train"), log)
        if not (self._features.knows_classes and run.data.num_classes):
            self.names = tuple(name for name in self.names if name != "classes_lost")
        self._reference: Optional[ReferenceSet] = None
        self._training_set: Optional[SampleSet] = None

    def score(self, split, predict, folder=None) -> toolkit.ScoreResult:
        """Score the generator.

        A split that is too small gets a line instead of a score; it is no reason to end a training
        with an error.

        Args:
            split: the real images.
            predict: maps inputs to {"image": float32 [n, H, W, C] in [0, 1]}.
            folder: None for the quick score, otherwise the folder of scores.json and nearest.png.
        """
        if len(split) < MIN_IMAGES:
            count = reports.image_count(len(split))
            line = f"no score: the split has {count}, and a score needs {MIN_IMAGES} or more"
            return toolkit.ScoreResult({}, [line])
        reals = self._reference_of(split)
        if folder is None:
            return self._quick_score(reals, predict)
        return self._full_score(reals, predict, folder)

    def dependencies(self, split) -> Dict[str, Any]:
        """The features, and the sizes of the two sets, on which the floor of a distance depends."""
        return {
            "features": self._features.sha256,
            "samples": self._run.options.quick_samples,
            "real images": min(len(split), self._max_reals()),
        }

    def close(self) -> None:
        self._features.close()

    # --------------------------------------------------------------------------------- the two sets

    def _reference_of(self, split) -> ReferenceSet:
        """The real images, featurized once per split."""
        if self._reference is None or self._reference.split is not split:
            self._reference = make_reference(split, self._features, self._max_reals())
        return self._reference

    def _max_reals(self) -> int:
        return max(self._run.options.score_samples, self._run.options.quick_samples)

    def _generate(self, predict, count: int, seed: int) -> SampleSet:
        images = to_bytes(predict(self._inputs(count, seed))["image"])
        return SampleSet(images, *self._features.features_and_labels(images))

    def _inputs(self, count: int, seed: int) -> latents.Inputs:
        return latents.random_inputs(self._run.options, self._run.data, count, seed)

    # ---------------------------------------------------------------------------------- in training

    def _quick_score(self, reals: ReferenceSet, predict) -> toolkit.ScoreResult:
        count = self._run.options.quick_samples
        fakes = self._generate(predict, count, QUICK_SEED)
        classes = self._inputs(count, QUICK_SEED).get("label")  # of a conditional generator
        distance = frechet_distance(fakes.features, reals.moments)
        histogram = self._class_histogram(fakes, reals)
        details = {
            "frechet_distance": {
                "mean": distance,
                "noise": bootstrap_noise(fakes.features, reals.moments, groups=classes),
            },
            "frechet_ratio": floor_ratio(distance, fakes, reals),
            "coverage": compare_neighbours(fakes, reals).coverage,
            "classes": histogram,
        }
        lines = [reports.classes_line(histogram)] if histogram and histogram["lost"] else []
        return toolkit.ScoreResult(metrics_of(details), lines, {"scores": details})

    def _class_histogram(self, fakes: SampleSet, reals: ReferenceSet) -> Optional[Dict[str, Any]]:
        if fakes.labels is None or reals.samples.labels is None:
            return None
        return class_histogram(fakes.labels, reals.samples.labels, self._run.data.class_names or ())

    # -------------------------------------------------------------------------------------- in full

    def _full_score(self, reals: ReferenceSet, predict, folder: str) -> toolkit.ScoreResult:
        options = self._run.options
        fakes = self._generate(predict, options.score_samples, 1)
        distances = [frechet_distance(fakes.features, reals.moments)]
        for seed in range(2, options.score_seeds + 1):
            more = self._generate(predict, options.score_samples, seed)
            distances.append(frechet_distance(more.features, reals.moments))
        details = self._compare(distances, fakes, reals)
        files = ["scores.json"]
        train = self._splits("train")
        # The ruler's images must not be in the reference, where they would also be their nearest.
        has_others = train is not None and not have_same_examples(train, reals.split)
        if has_others and len(train) >= MIN_IMAGES:
            details.update(self._measure_ruler(details["frechet_distance"]["mean"], train, reals))
            details["nearest"], sheets = self._compare_nearest(fakes, reals, train, folder)
            files += sheets
        reports.write_scores(details, folder)
        scores = dict(details, files=files)
        return toolkit.ScoreResult(
            metrics_of(details), reports.score_lines(details), {"scores": scores}
        )

    def _compare(
        self, distances: List[float], fakes: SampleSet, reals: ReferenceSet
    ) -> Dict[str, Any]:
        """The scores of the two sets; all but the distance are of the first set of samples."""
        distance = confidence_interval(distances)
        if len(distances) < 2:
            distance["noise"] = bootstrap_noise(fakes.features, reals.moments)
        kernel, error = kernel_distance(fakes.features, reals.samples.features)
        n, m = len(fakes.features), len(reals.samples.features)
        details = {
            "n": n,
            "m": m,
            "frechet_distance": distance,
            "frechet_floor": frechet_floor(reals.moments, n, m),
            "frechet_ratio": floor_ratio(distance["mean"], fakes, reals),
            "kernel_distance": {"mean": kernel, "standard_error": error},
            "k": neighbours.K,
        }
        details.update(compare_neighbours(fakes, reals)._asdict())
        details["classes"] = self._class_histogram(fakes, reals)
        names = ("name", "sha256", "size", "accuracy")
        details["features"] = {name: getattr(self._features, name) for name in names}
        return details

    def _measure_ruler(self, distance: float, train, reals: ReferenceSet) -> Dict[str, Any]:
        """The ruler, measured on as many training images as there are samples, or on all."""
        training_set = self._featurize_training_set(train)
        part = even_positions(len(training_set.features), self._run.options.score_samples)
        positions = even_positions(len(train), MAX_TRAINING_IMAGES)[part]
        marks = ruler.measure_ruler(
            real_images(train, positions),
            None if training_set.labels is None else training_set.labels[part],
            reals.moments,
            self._features,
            training_set.features[part],
        )
        return {"ruler": ruler.to_json(marks), "place": ruler.locate(distance, marks)}

    def _featurize_training_set(self, train) -> SampleSet:
        """The training images, featurized once."""
        if self._training_set is None:
            positions = even_positions(len(train), MAX_TRAINING_IMAGES)
            self._training_set = featurize_split(train, positions, self._features)
        return self._training_set

    def _compare_nearest(
        self, fakes: SampleSet, reals: ReferenceSet, train, folder: str
    ) -> Tuple[Dict[str, Any], List[str]]:
        """Compare the distance of samples to training images with that of real images.

        Returns:
            `neighbours.TrainingDistances` as JSON values, and the names of the written files: a
            sheet of the nearest pairs.
        """
        training = self._featurize_training_set(train).features
        index, fake_distances = neighbours.nearest(fakes.features[:NUM_COMPARED], training)
        # Evenly spaced: a folder of images is read class after class.
        compared = even_positions(len(reals.samples.features), NUM_COMPARED)
        _, real_distances = neighbours.nearest(reals.samples.features[compared], training)
        order = np.argsort(fake_distances, kind="stable")[:NUM_PAIRS]
        positions = even_positions(len(train), MAX_TRAINING_IMAGES)[index[order]]
        files: List[str] = []
        if fakes.images is not None:
            pairs = fakes.images[order], real_images(train, positions)
            files = reports.draw_nearest(*pairs, folder)
        comparison = neighbours.compare_distances(fake_distances, real_distances)
        return dict(comparison._asdict()), files


def check_best_metric(options: Any, validation: Any) -> None:
    """Check, before a training, that its best checkpoint can be chosen by the option's metric.

    Raises:
        UsageError: the metric is one of the full score.
        DataError: the validation split has too few images.
    """
    metric = (options.best_metric or "").split(":")[-1]
    if metric in FULL_SCORE_METRICS:
        raise UsageError(
            f"The best checkpoint is chosen by {metric}, which only 'toolkit evaluate' measures.",
            hint="Choose it by frechet_distance or coverage, or set --best-metric none.",
        )
    count = 0 if validation is None else len(validation)
    if metric in GanScorer.names and options.evaluate and 0 < count < MIN_IMAGES:
        raise DataError(
            f"The best checkpoint is chosen by {metric}, which needs {MIN_IMAGES} images or "
            f"more, and the split 'validation' has {count}.",
            hint="Hold out more of the data with --validation-share, or set --best-metric none.",
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


def compare_neighbours(fakes: SampleSet, reals: ReferenceSet) -> neighbours.Neighbours:
    """Precision, recall, density and coverage."""
    return neighbours.compare(fakes.features, reals.samples.features, real_radii=reals.radii)


def floor_ratio(distance: float, fakes: SampleSet, reals: ReferenceSet) -> Optional[float]:
    """A Frechet distance as a multiple of its floor; None where the floor is 0."""
    floor = frechet_floor(reals.moments, len(fakes.features), len(reals.samples.features))
    return ratio(distance, floor)


def ratio(part: float, whole: float) -> Optional[float]:
    """part / whole; None if the whole is zero."""
    return part / whole if whole else None


def confidence_interval(values: List[float]) -> Dict[str, Any]:
    """Mean, standard deviation ("noise") and the 95 % interval of the mean (Student's t)."""
    mean = float(np.mean(values))
    interval = {"mean": mean, "noise": 0.0, "low": None, "high": None, "values": list(values)}
    if len(values) > 1:
        from scipy.stats import t

        noise = float(np.std(values, ddof=1))
        reach = float(t.ppf(0.975, len(values) - 1)) * noise / len(values) ** 0.5
        interval.update(noise=noise, low=mean - reach, high=mean + reach)
    return interval
