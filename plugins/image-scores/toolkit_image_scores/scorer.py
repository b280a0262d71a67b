"""Scores of generated images against a whole split: quick ones in training, full ones in a report.

Legend: n generated and m real images, F features, H height, W width, C channels.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, Mapping, Optional, Sequence, Tuple

import numpy as np

import toolkit
from toolkit import DataError, UsageError, statistics

from . import copies, neighbours, report, ruler, sensitivity, two_sample
from .distances import frechet_distance, frechet_floor, frechet_interval, frechet_noise
from .features import TRAINED, Features, list_kinds, open_features
from .sets import (
    MIN_IMAGES,
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

QUICK_SEED, FULL_SEED = 0, 1  # of the samples in training, and of a full score
MAX_DAMAGED = 4000  # real images that are damaged, to judge the measures
FULL_SCORE_METRICS = ("precision", "recall", "two_sample_accuracy")


class ImageScorer(toolkit.Scorer):
    """Frechet distance with its noise and floor, coverage, lost classes; the full score adds more.

    Args:
        run: the `toolkit.Run`.
        splits: name -> `Split`, or None.
        features: replaces those that the options name.
    """

    draws_samples = True
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
        "classes_lost": "min",
        "two_sample_accuracy": "min",
        "coverage": "max",
        "precision": "max",
        "recall": "max",
    }

    def __init__(self, run: Any, splits: Callable[[str], Any], features: Optional[Features] = None):
        self._options, self._data, self._splits = run.options, run.data, splits
        self._opened = features
        self._reference: Optional[ReferenceSet] = None
        self._training_set: Optional[SampleSet] = None
        kind = list_kinds(run.options, run.data, splits("train"))[0]
        knows_classes = kind == "classifier"
        if features is not None or kind not in TRAINED:
            knows_classes = self._features.knows_classes
        if not knows_classes:
            self.names = tuple(name for name in self.names if name != "classes_lost")

    @property
    def _features(self) -> Features:
        """Opened, and if need be trained, at their first use."""
        if self._opened is None:
            train = self._splits("train")
            self._opened = open_features(self._options, self._data, train)
        return self._opened

    def score(self, split, predict, folder=None) -> toolkit.ScoreResult:
        """Score the samples that `draw` returns.

        A split that is too small gets a line instead of a score; it is no reason to end a training
        with an error.

        Args:
            split: the real images.
            predict: not used.
            folder: None for the quick score, otherwise the folder of scores.json and the sheets.
        """
        if len(split) < MIN_IMAGES:
            count = "1 image" if len(split) == 1 else f"{len(split)} images"
            line = f"no score: the split has {count}, and a score needs {MIN_IMAGES} or more"
            return toolkit.ScoreResult({}, [line])
        features = self._features  # perhaps trained now: a wait of its own
        with toolkit.waiting("Scoring the samples"):
            if self._reference is None or self._reference.split is not split:
                self._reference = make_reference(split, features, self._max_reals())
            if folder is None:
                return self._quick_score(self._reference)
            return self._full_score(self._reference, folder)

    def dependencies(self, split, samples: Optional[int] = None) -> Dict[str, Any]:
        """The features, and the sizes of the two sets, on which the floor of a distance depends.

        Args:
            split: the real images.
            samples: their number; None for that of the quick score.
        """
        return {
            "features": self._features.sha256,
            "samples": self._options.quick_samples if samples is None else samples,
            "real images": min(len(split), self._max_reals()),
        }

    def close(self) -> None:
        if self._opened is not None:
            self._opened.close()

    def _max_reals(self) -> int:
        return max(self._options.score_samples, self._options.quick_samples)

    def _draw(self, count: int, seed: int) -> Tuple[SampleSet, Optional[np.ndarray]]:
        """Samples, and the classes for which they were generated, if their plugin says so."""
        parts = list(self.draw(count, seed))
        if "images" not in parts[0]:
            raise DataError(
                f"The samples are {', '.join(parts[0])}, and no 'images' that could be scored.",
                hint="Name them 'images' in the hook 'sample', or leave out --with image-scores.",
            )
        images = np.concatenate([to_bytes(part["images"]) for part in parts])
        labels = [part["label"] for part in parts if "label" in part]
        classes = np.concatenate(labels) if labels else None
        return SampleSet(images, *self._features.compute(images)), classes

    def _measure_distance(
        self, fakes: SampleSet, classes: Optional[np.ndarray], reals: ReferenceSet
    ) -> Dict[str, Any]:
        """What the quick and the full score have in common: the distance and the classes."""
        distance = frechet_distance(fakes.features, reals.moments)
        floor = frechet_floor(reals.moments, len(fakes.features), len(reals.samples.features))
        histogram = None
        if fakes.labels is not None and reals.samples.labels is not None:
            names = self._data.class_names or ()
            histogram = class_histogram(fakes.labels, reals.samples.labels, names)
        noise = frechet_noise(fakes.features, reals.moments, classes)
        return {
            "frechet_distance": {"mean": distance, "noise": noise},
            "frechet_floor": floor,
            "frechet_ratio": distance / floor if floor else None,
            "classes": histogram,
        }

    def _quick_score(self, reals: ReferenceSet) -> toolkit.ScoreResult:
        fakes, classes = self._draw(self._options.quick_samples, QUICK_SEED)
        details = self._measure_distance(fakes, classes, reals)
        near = neighbours.compare(fakes.features, reals.samples.features, real_radii=reals.radii)
        details["coverage"] = near.coverage
        lost = details["classes"] and details["classes"]["lost"]
        lines = [report.classes_line(details["classes"])] if lost else []
        return toolkit.ScoreResult(metrics_of(details), lines, {"scores": details})

    # -------------------------------------------------------------------------------------- in full

    def _full_score(self, reals: ReferenceSet, folder: str) -> toolkit.ScoreResult:
        fakes, classes = self._draw(self._options.score_samples, FULL_SEED)
        # The ruler's images must not be in the reference, where they would also be their nearest.
        others = self._splits("train")
        if others is not None and have_same_examples(others, reals.split):
            others = None
        training = None if others is None else self._featurize_training_set(others)
        digests = set() if training is None else set(training.digests)
        has_ruler = training is not None and len(training.features) >= MIN_IMAGES
        details = self._compare(fakes, classes, reals, training if has_ruler else None)
        details["training_reals"] = sum(digest in digests for digest in reals.samples.digests)
        files = ["scores.json", "scores.txt"]
        if training is not None and has_ruler:
            details.update(self._measure_ruler(fakes, others, training, reals))
            details["nearest"], pairs = copies.compare_with_training(
                fakes, reals, others, training.features
            )
            if pairs and fakes.images is not None:
                rows, positions = map(list, zip(*pairs))
                near_images = real_images(others, np.array(positions))
                files += report.draw_nearest(fakes.images[rows], near_images, folder)
        else:
            count = "no" if others is None else f"only {len(others)}"
            details["not_judged"] = f"there are {count} other real images to damage"
            details["measures"] = sensitivity.judge({}, reals, details["n"])
        if self._options.two_sample and fakes.images is not None:
            test, images, logits = two_sample.compare_with_split(
                fakes.images, reals.split, others, digests
            )
            details.update(test)
            files += report.draw_giveaways(images, logits, folder)
        details = sensitivity.remove_refused(details, self._best_metric())
        report.write_scores(details, folder)
        return toolkit.ScoreResult(
            metrics_of(details),
            [fact.text for fact in report.list_facts(details) if fact.is_shown],
            {
                "scores": dict(details, files=files),
                "page": report.page_content(details, files),
            },
            depends_on=self.dependencies(reals.split, details["n"]),
            intervals=intervals_of(details),
        )

    def _best_metric(self) -> str:
        """The metric by which the run chooses its best checkpoint; "" if it chooses none."""
        metric = (self._options.best_metric or "").split(":")[-1]
        is_chosen = self._options.evaluate and self._splits("validation") is not None
        return metric if is_chosen else ""

    def _compare(
        self,
        fakes: SampleSet,
        classes: Optional[np.ndarray],
        reals: ReferenceSet,
        training: Optional[SampleSet],
    ) -> Dict[str, Any]:
        """The scores of the two sets.

        Precision, recall and coverage are of no more samples than training images are damaged:
        recall and coverage depend on the number, and the values of damaged images are beside them.
        """
        n, features = len(fakes.features), self._features
        details = self._measure_distance(fakes, classes, reals)
        distance = details["frechet_distance"]
        interval = frechet_interval(distance["mean"], fakes.features, reals.samples.features)
        distance["interval"] = interval.as_json()
        near = even_positions(n, n if training is None else self._num_damaged(training))
        shares = neighbours.compare(
            fakes.features[near], reals.samples.features, real_radii=reals.radii
        )
        return {
            "n": n,
            "m": len(reals.samples.features),
            **details,
            "k": neighbours.K,
            "n_neighbours": len(near),
            **shares._asdict(),
            "features": {
                "name": features.name,
                "sha256": features.sha256,
                "size": features.size,
                "accuracy": features.accuracy,
            },
        }

    def _measure_ruler(
        self, fakes: SampleSet, train: Any, training: SampleSet, reals: ReferenceSet
    ) -> Dict[str, Any]:
        """The ruler, the place of the samples on it, and which measures notice its damage.

        Fewer images are farther from the reference: of the samples, as many are compared as the
        ruler has training images.
        """
        part = even_positions(len(training.features), self._num_damaged(training))
        positions, features = copies.training_positions(train)[part], training.features[part]
        labels = None if training.labels is None else training.labels[part]
        if labels is None and train.class_labels is not None:  # the data's own
            labels = train.class_labels[positions]
        feature_sets = ruler.damage_features(
            real_images(train, positions),
            labels,
            lambda images: self._features.compute(images)[0],
            features,
        )
        marks = ruler.measure_marks(feature_sets, labels, reals.moments)
        near = even_positions(len(fakes.features), len(part))
        distance = frechet_distance(fakes.features[near], reals.moments)
        return {
            "ruler": marks,
            "measures": sensitivity.judge(feature_sets, reals, self._options.score_samples),
            "n_ruler": len(part),
            "ruler_distance": distance,
            "ruler_floor": frechet_floor(reals.moments, len(part), reals.moments.num_examples),
            "place": ruler.locate(distance, marks),
        }

    def _num_damaged(self, training: SampleSet) -> int:
        return min(len(training.features), self._options.score_samples, MAX_DAMAGED)

    def _featurize_training_set(self, train: Any) -> SampleSet:
        """The training images, featurized once."""
        if self._training_set is None:
            positions = copies.training_positions(train)
            self._training_set = featurize_split(train, positions, self._features)
        return self._training_set


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
    if metric in ImageScorer.names and options.evaluate and 0 < count < MIN_IMAGES:
        raise DataError(
            f"The best checkpoint is chosen by {metric}, which needs {MIN_IMAGES} images or "
            f"more, and the split 'validation' has {count}.",
            hint="Hold out more of the data with --validation-share, or set --best-metric none.",
        )


def metrics_of(details: Dict[str, Any]) -> Dict[str, float]:
    """The metrics of `ImageScorer.names` that `details` has; there, a refused one is None."""
    distance, classes = details.get("frechet_distance") or {}, details["classes"]
    metrics: Dict[str, Any] = {
        "frechet_distance": distance.get("mean"),
        "frechet_distance_noise": distance.get("noise"),
        "classes_lost": float(len(classes["lost"])) if classes else None,
        "two_sample_accuracy": (details.get("two_sample") or {}).get("accuracy"),
    }
    for name in ("frechet_ratio", "precision", "recall", "coverage"):
        metrics[name] = details.get(name)
    return {name: metrics[name] for name in ImageScorer.names if metrics[name] is not None}


def intervals_of(details: Dict[str, Any]) -> Dict[str, statistics.Interval]:
    """The intervals of a full score, that of the distance also as multiples of its floor."""
    test, distance = details.get("two_sample"), details["frechet_distance"]
    intervals = {"two_sample_accuracy": two_sample.as_interval(test)} if test else {}
    if distance is not None:
        ends, floor = statistics.Interval(**distance["interval"]), details["frechet_floor"]
        intervals["frechet_distance"] = ends
        if details["frechet_ratio"] is not None:
            scaled = ends._replace(low=ends.low / floor, high=ends.high / floor)
            intervals["frechet_ratio"] = scaled
    return intervals
