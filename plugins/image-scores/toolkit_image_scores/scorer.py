"""Scores of generated images against a whole split: quick ones in training, full ones in a report.

Legend: n generated and m real images, F features, H height, W width, C channels.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, Mapping, Optional, Sequence, Tuple

import numpy as np

import toolkit
from toolkit import DataError, UsageError, statistics

from . import copies, damage, neighbours, report, two_sample
from .distances import frechet_distance, frechet_floor, frechet_interval, frechet_noise
from .features import Features, list_kinds, open_features
from .sets import MIN_IMAGES, ImageSet, class_histogram, even_positions, hash_source, to_bytes

QUICK_SEED, FULL_SEED = 0, 1  # of the samples in training, and of a full score
_WAY_OUT = (
    "a run with larger --validation-share and --test-share holds out more of data without splits "
    "of their own"
)
MAX_DAMAGED = 4000  # real images that are damaged, to judge the measures
FULL_SCORE_METRICS = ("precision", "recall", "two_sample_accuracy")


class ImageScorer(toolkit.Scorer):
    """Frechet distance with its noise and floor, coverage, lost classes; the full score adds more.
    `splits` is name -> `Split`, or None; `features` replaces those that the options name.
    """

    draws_samples = True
    directions: Mapping[str, str] = {  # runs are compared by the first that is not refused
        "frechet_distance": "min",
        "frechet_ratio": "min",
        "two_sample_accuracy": "min",
        "coverage": "max",
        "classes_lost": "min",
        "precision": "max",
        "recall": "max",
    }
    names: Sequence[str] = (*directions, "frechet_distance_noise")

    def __init__(self, run: Any, splits: Callable[[str], Any], features: Optional[Features] = None):
        self._options, self._data, self._splits = run.options, run.data, splits
        self._opened = features
        self._sets: Dict[str, ImageSet] = {}  # the real images and those of the training
        kind = list_kinds(run.options, run.data, splits("train"))[0]
        knows_classes = kind == "classifier"
        if features is not None or kind not in ("classifier", "self"):  # which are trained later
            knows_classes = self._open().knows_classes
        if not knows_classes:
            self.names = tuple(name for name in self.names if name != "classes_lost")

    def score(self, split, predict, folder=None) -> toolkit.ScoreResult:
        """Score the samples that `draw` returns against the real images of a split: the quick
        score, or with a folder, which gets scores.json and the sheets, the full one.

        A split that is too small gets a line instead of a score; it is no reason to end a training
        with an error.
        """
        if len(split) < MIN_IMAGES:
            line = f"no score: it needs {MIN_IMAGES} images or more, and the split has {len(split)}"
            return toolkit.ScoreResult({}, [f"{line} ({_WAY_OUT})"])
        self._open()  # perhaps trained now: a wait of its own
        with toolkit.waiting("Scoring the samples"):
            reals = self._featurize("reals", split, self._max_reals())
            return self._quick_score(reals) if folder is None else self._full_score(reals, folder)

    def dependencies(self, split, samples: Optional[int] = None) -> Dict[str, Any]:
        """The features, and the sizes of the two sets, on which the floor of a distance depends; by
        default with the number of samples of the quick score.
        """
        return {
            "features": self._open().sha256,
            "samples": self._options.quick_samples if samples is None else samples,
            "real images": min(len(split), self._max_reals()),
        }

    def close(self) -> None:
        if self._opened is not None:
            self._opened.close()

    def _max_reals(self) -> int:
        return max(self._options.score_samples, self._options.quick_samples)

    def _open(self) -> Features:
        """The features, which are opened, and if need be trained, at their first use."""
        if self._opened is None:
            self._opened = open_features(self._options, self._data, self._splits("train"))
        return self._opened

    def _featurize(self, role: str, split: Any, limit: int) -> ImageSet:
        """At most `limit` images of a split, featurized once."""
        if role not in self._sets or self._sets[role].source is not split:
            self._sets[role] = ImageSet(split, self._open().compute, limit)
        return self._sets[role]

    def _draw(self, count: int, seed: int) -> Tuple[ImageSet, Optional[np.ndarray]]:
        """Samples, and the classes for which they were generated, if their plugin says so."""
        parts = list(self.draw(count, seed))
        shape = self._data.shape
        if "images" not in parts[0] or parts[0]["images"].shape[1:] != tuple(shape):
            found = ", ".join(f"{name} {list(part.shape[1:])}" for name, part in parts[0].items())
            raise DataError(
                f"The samples are {found}, and no 'images' {list(shape)} that could be scored.",
                hint="Name them 'images' in the hook 'sample', or leave out --with image-scores.",
            )
        images = np.concatenate([to_bytes(part["images"]) for part in parts])
        labels = [part["label"] for part in parts if "label" in part]
        return ImageSet(images, self._open().compute), np.concatenate(labels) if labels else None

    def _measure_distance(
        self, fakes: ImageSet, classes: Optional[np.ndarray], reals: ImageSet
    ) -> Dict[str, Any]:
        """What the quick and the full score have in common: the distance and the classes."""
        distance = frechet_distance(fakes.features, reals.moments)
        floor = frechet_floor(reals.moments, len(fakes), len(reals))
        noise, histogram = frechet_noise(fakes.features, reals.moments, classes), None
        if fakes.labels is not None and reals.labels is not None:
            histogram = class_histogram(fakes.labels, reals.labels, self._open().class_names)
        return {
            "n": len(fakes),
            "m": len(reals),
            "frechet_distance": {"mean": distance, "noise": noise},
            "frechet_floor": floor,
            "frechet_ratio": distance / floor if floor else None,
            "classes": histogram,
        }

    def _quick_score(self, reals: ImageSet) -> toolkit.ScoreResult:
        fakes, classes = self._draw(self._options.quick_samples, QUICK_SEED)
        details = self._measure_distance(fakes, classes, reals)
        near = neighbours.compare(fakes.features, reals.features, real_radii=reals.radii)
        details["coverage"] = near.coverage
        lost = details["classes"] and details["classes"]["lost"]
        lines = [report.classes_line(details["classes"])] if lost else []
        return toolkit.ScoreResult(metrics_of(details), lines, {"scores": details})

    def _full_score(self, reals: ImageSet, folder: str) -> toolkit.ScoreResult:
        """All scores, and their report.

        Precision, recall and coverage are of no more samples than training images are damaged:
        recall and coverage depend on the number, and the values of damaged images are beside them.
        """
        fakes, classes = self._draw(self._options.score_samples, FULL_SEED)
        train = self._splits("train")
        training, digests, count = None, set(), 0
        # Images that are damaged must not be in the reference, where they would be their nearest.
        if train is not None and not have_same_examples(train, reals.source):
            training = self._featurize("training", train, copies.MAX_TRAINING_IMAGES)
            count = len(training)
        if training is not None and count == len(train):
            digests = set(training.digests)
        elif train is not None:
            digests = hash_source(train)
        num_damaged = min(count, self._options.score_samples, MAX_DAMAGED)
        near = even_positions(len(fakes), num_damaged or len(fakes))
        features, values, files = self._open(), {}, ["scores.json", "scores.txt"]
        details = self._measure_distance(fakes, classes, reals)
        distance = details["frechet_distance"]
        interval = frechet_interval(distance["mean"], fakes.features, reals.features)
        distance["interval"] = interval.as_json()
        details["training_reals"] = sum(digest in digests for digest in reals.digests)
        if training is not None and count >= MIN_IMAGES:
            values = damage.measure(training, num_damaged, reals)
            details.update(damage.place(fakes.features[near], values, reals))
            details["nearest"], pairs = copies.compare_with_training(fakes, reals, training)
            if pairs:
                rows, others = map(list, zip(*pairs))
                files += report.draw_nearest(fakes.images(rows), training.images(others), folder)
        else:
            near, text = even_positions(len(fakes), len(fakes)), f"only {count}" if count else "no"
            details["not_judged"] = f"there are {text} other real images to damage"
        shares = neighbours.compare(fakes.features[near], reals.features, real_radii=reals.radii)
        details.update(shares._asdict(), k=neighbours.K, n_neighbours=len(near))
        details["measures"] = damage.judge(
            values, num_damaged, len(fakes), len(reals), features.size
        )
        details["features"] = {n: getattr(features, n) for n in ("name", "sha256", "size")}
        if self._options.two_sample:
            test = two_sample.compare_with_split(
                fakes.source, reals.source, train if count else None, digests
            )
            details.update(test)
        details = damage.remove_refused(details)
        report.write_scores(details, folder)
        return toolkit.ScoreResult(
            metrics_of(details),
            [fact.text for fact in report.list_facts(details) if fact.is_shown],
            {"scores": dict(details, files=files), "page": report.page_content(details, files)},
            depends_on=self.dependencies(reals.source, details["n"]),
            intervals=intervals_of(details),
        )


def have_same_examples(a: Any, b: Any) -> bool:
    """Whether two splits are equal, judged by their length and their first hundred examples."""
    first = np.arange(min(100, len(a)))
    return len(a) == len(b) and np.array_equal(a.take(first)[0], b.take(first)[0])


def check_best_metric(options: Any, validation: Any) -> None:
    """Check, before a training, that its best checkpoint can be chosen by the option's metric.
    Raises UsageError if that is one of the full score, or the features may know no classes,
    DataError if the validation split has too few images.
    """
    metric = (options.best_metric or "").split(":")[-1]
    if metric in FULL_SCORE_METRICS:
        raise UsageError(
            f"The best checkpoint is chosen by {metric}, which only 'toolkit evaluate' measures.",
            hint="Choose it by frechet_distance or coverage, or set --best-metric none.",
        )
    if metric == "classes_lost" and options.features == "auto":  # which may end up at "self"
        raise UsageError(
            "The best checkpoint is chosen by classes_lost, and the features are not certain to "
            "know classes: features is auto.",
            hint="Set --features classifier, or choose it by frechet_distance or coverage.",
        )
    count = 0 if validation is None else len(validation)
    if metric in ImageScorer.names and options.evaluate and 0 < count < MIN_IMAGES:
        raise DataError(
            f"The best checkpoint is chosen by {metric}, which needs {MIN_IMAGES} images or "
            f"more, and the split 'validation' has {count}.",
            hint="Hold out more of the data with --validation-share, or set --best-metric none.",
        )


def note_small_splits(run: Any, splits: Callable[[str], Any]) -> None:
    """Say, before a training, which splits have too few images for a score."""
    sizes = {name: len(splits(name) or ()) for name in ("validation", "test")}
    small = [f"the {name} split has {n}" for name, n in sizes.items() if 0 < n < MIN_IMAGES]
    if small:
        lack = f"no score: it needs {MIN_IMAGES} images or more, and {' and '.join(small)}"
        run.note(f"{lack} ({_WAY_OUT})")


def metrics_of(details: Dict[str, Any]) -> Dict[str, float]:
    """The metrics of `ImageScorer.names` that `details` has; there, a refused one is None."""
    distance, classes = details["frechet_distance"] or {}, details["classes"]
    values = dict(
        details,
        frechet_distance=distance.get("mean"),
        frechet_distance_noise=distance.get("noise"),
        classes_lost=float(len(classes["lost"])) if classes else None,
        two_sample_accuracy=(details.get("two_sample") or {}).get("accuracy"),
    )
    return {name: values[name] for name in ImageScorer.names if values.get(name) is not None}


def intervals_of(details: Dict[str, Any]) -> Dict[str, statistics.Interval]:
    """The intervals of a full score, that of the distance also as multiples of its floor."""
    test, distance = details.get("two_sample"), details["frechet_distance"]
    intervals = {"two_sample_accuracy": two_sample.as_interval(test)} if test else {}
    if distance is not None:
        ends = intervals["frechet_distance"] = statistics.Interval(**distance["interval"])
        if details["frechet_ratio"] is not None:
            low, high = (end / details["frechet_floor"] for end in ends[:2])
            intervals["frechet_ratio"] = ends._replace(low=low, high=high)
    return intervals
