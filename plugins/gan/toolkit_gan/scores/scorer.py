"""Scores of a generator against a whole split: quick ones in training, full ones in a report.

Legend: n generated and m real images, F features, H height, W width, C channels.
"""

from __future__ import annotations

from typing import AbstractSet, Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

import numpy as np

import toolkit
from toolkit import DataError, UsageError, statistics

from .. import latents
from ..architecture import num_values
from . import memorisation, neighbours, page, reports, ruler, sensitivity, two_sample
from .distances import (
    bootstrap_noise,
    frechet_distance,
    frechet_floor,
    frechet_interval,
    kernel_distance,
)
from .extractor import Features
from .memorisation import MAX_TRAINING_IMAGES
from .principal import open_score_features
from .sample_sets import (
    MIN_IMAGES,
    ReferenceSet,
    SampleSet,
    class_histogram,
    classes_of,
    even_positions,
    featurize_split,
    have_same_examples,
    make_reference,
    real_images,
    to_bytes,
)

QUICK_SEED = 0  # of z in training; full scores use 1, 2, ...
MAX_FLOATS = 5 * 10**7  # of generated images, 200 MB: 1,000 images of 128 x 128 x 3
FULL_SCORE_METRICS = (
    "kernel_distance",
    "kernel_distance_noise",
    "precision",
    "recall",
    "density",
    "two_sample_accuracy",
)


class GanScorer(toolkit.Scorer):
    """Frechet distance with its noise and floor, coverage, lost classes; the full score adds more.

    Args:
        run: the `toolkit.Run`.
        splits: name -> `Split`, or None.
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
        "two_sample_accuracy": "min",
        "coverage": "max",
        "precision": "max",
        "recall": "max",
        "density": "max",
    }

    def __init__(
        self,
        run: Any,
        splits: Callable[[str], Any],
        features: Optional[Features] = None,
    ):
        self._run, self._splits = run, splits
        self._features = features or open_score_features(run.options, run.data, splits)
        if not self._features.knows_classes:
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
        with toolkit.waiting("Scoring the samples"):
            if folder is None:
                return self._quick_score(reals, predict)
            return self._full_score(reals, predict, folder)

    def dependencies(self, split) -> Dict[str, Any]:
        """The features, and the sizes of the two sets, on which the floor of a distance depends."""
        real_images = min(len(split), self._max_reals())
        return self._depends_on(self._run.options.quick_samples, real_images)

    def _depends_on(self, samples: int, real_images: int) -> Dict[str, Any]:
        digest = self._features.sha256
        return {"features": digest, "samples": samples, "real images": real_images}

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
        inputs, size = self._inputs(count, seed), self._part_size()
        parts = (
            {name: values[start : start + size] for name, values in inputs.items()}
            for start in range(0, count, size)
        )
        images = np.concatenate([to_bytes(predict(part)["image"]) for part in parts])
        return SampleSet(images, *self._features.features_and_labels(images))

    def _part_size(self) -> int:
        """The images that are floats at a time, in whole batches: ten thousand take gigabytes."""
        size = self._run.options.eval_batch_size
        return size * max(1, MAX_FLOATS // (size * num_values(self._run.data.shape)))

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
            "coverage": compare_neighbours(fakes.features, reals).coverage,
            "classes": histogram,
        }
        return toolkit.ScoreResult(metrics_of(details), details={"scores": details})

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
        train = self._splits("train")
        # The ruler's images must not be in the reference, where they would also be their nearest.
        has_others = train is not None and not have_same_examples(train, reals.split)
        has_ruler = has_others and len(train) >= MIN_IMAGES
        num_near = min(len(train), MAX_TRAINING_IMAGES) if has_ruler else len(fakes.features)
        details = self._compare(distances, fakes, reals, num_near)
        digests = set(self._featurize_training_set(train).digests) if has_others else set()
        details["training_reals"] = sum(digest in digests for digest in reals.samples.digests)
        files = ["scores.json", "scores.txt"]
        if has_ruler:
            details.update(self._measure_ruler(fakes, train, reals))
            details["nearest"], sheets = self._compare_nearest(fakes, reals, train, folder)
            files += sheets
        else:
            details.update(explain_no_ruler(details, len(train) if has_others else 0))
        if options.two_sample:
            test, sheets = self._tell_apart(
                fakes.images, reals.split, train if has_others else None, digests, folder
            )
            details.update(test)
            files += sheets
        details = sensitivity.remove_refused(details, self._best_metric())
        reports.write_scores(details, folder)
        scores = dict(details, files=files)
        return toolkit.ScoreResult(
            metrics_of(details),
            reports.summary_lines(details),
            {"scores": scores, "page": page.content(details, files)},
            depends_on=self._depends_on(details["n"], details["m"]),
            intervals=intervals_of(details),
        )

    def _best_metric(self) -> str:
        """The metric by which the run chooses its best checkpoint; "" if it chooses none."""
        options = self._run.options
        metric = (options.best_metric or "").split(":")[-1]
        is_chosen = metric and options.evaluate and self._splits("validation") is not None
        return metric if is_chosen else ""

    def _compare(
        self, distances: List[float], fakes: SampleSet, reals: ReferenceSet, num_near: int
    ) -> Dict[str, Any]:
        """The scores of the two sets; all but the distance are of the first set of samples.

        Precision, recall, density and coverage are of at most `num_near` samples, as many as there
        are training images: recall and coverage depend on the number, and the values of damaged
        training images are beside them.
        """
        distance = confidence_interval(distances)
        if len(distances) < 2:
            distance["noise"] = bootstrap_noise(fakes.features, reals.moments)
        kernel, error = kernel_distance(fakes.features, reals.samples.features)
        n, m = len(fakes.features), len(reals.samples.features)
        interval = frechet_interval(distances, fakes.features, reals.samples.features)
        distance["interval"] = interval.as_json()
        details = {
            "n": n,
            "m": m,
            "frechet_distance": distance,
            "frechet_floor": frechet_floor(reals.moments, n, m),
            "frechet_ratio": floor_ratio(distance["mean"], fakes, reals),
            "kernel_distance": {"mean": kernel, "standard_error": error},
            "k": neighbours.K,
        }
        near = even_positions(n, num_near)
        details["n_neighbours"] = len(near)
        details.update(compare_neighbours(fakes.features[near], reals)._asdict())
        details["classes"] = self._class_histogram(fakes, reals)
        names = ("name", "sha256", "size", "accuracy")
        details["features"] = {name: getattr(self._features, name) for name in names}
        return details

    def _measure_ruler(self, fakes: SampleSet, train, reals: ReferenceSet) -> Dict[str, Any]:
        """The ruler, measured on as many training images as there are samples, or on all; the place
        of the samples on it; and which measures notice its damage.

        Fewer images are farther from the reference: of the first set of samples, as many are
        compared as the ruler has training images.
        """
        training_set = self._featurize_training_set(train)
        part = even_positions(len(training_set.features), self._run.options.score_samples)
        positions = memorisation.training_positions(train)[part]
        labels = classes_of(train, positions)  # without a classifier, the data's own
        labels = labels if training_set.labels is None else training_set.labels[part]
        feature_sets = ruler.damage_features(
            real_images(train, positions), labels, self._features, training_set.features[part]
        )
        marks = ruler.measure_marks(feature_sets, labels, reals.moments)
        judgements = sensitivity.judge(feature_sets, reals, self._run.options.score_samples)
        near = even_positions(len(fakes.features), len(part))
        distance = frechet_distance(fakes.features[near], reals.moments)
        return {
            "ruler": ruler.to_json(marks),
            "n_ruler": len(part),
            "ruler_distance": distance,
            "ruler_floor": frechet_floor(reals.moments, len(part), reals.moments.num_examples),
            "place": ruler.locate(distance, marks),
            "measures": {name: each.as_json() for name, each in judgements.items()},
        }

    def _featurize_training_set(self, train) -> SampleSet:
        """The training images, featurized once."""
        if self._training_set is None:
            positions = memorisation.training_positions(train)
            self._training_set = featurize_split(train, positions, self._features)
        return self._training_set

    def _tell_apart(
        self, fakes: Optional[np.ndarray], split, train, digests: AbstractSet[bytes], folder: str
    ) -> Tuple[Dict[str, Any], List[str]]:
        """Let a network tell generated from real images.

        Returns:
            "two_sample": `two_sample.TwoSample` as JSON values, or None; "no_two_sample": why there
            is none; and the names of the written files.
        """
        if fakes is None:
            return {"two_sample": None}, []
        result, absence = two_sample.compare_with_split(fakes, split, train, digests)
        if result is None:
            return {"two_sample": None, "no_two_sample": absence}, []
        files = reports.draw_giveaways(fakes[result.positions], result.logits, folder)
        return {"two_sample": result.as_json()}, files

    def _compare_nearest(
        self, fakes: SampleSet, reals: ReferenceSet, train, folder: str
    ) -> Tuple[Dict[str, Any], List[str]]:
        """Compare the distance of samples to training images with that of real images."""
        training = self._featurize_training_set(train).features
        names = self._run.data.class_names or ()
        return memorisation.compare_with_training(fakes, reals, train, training, names, folder)


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


def explain_no_ruler(details: Dict[str, Any], num_others: int) -> Dict[str, Any]:
    """Why no measure is judged by damaged images, and what is refused without them.

    Args:
        details: the scores.
        num_others: the number of real images that are not in the reference, below `MIN_IMAGES`.
    """
    count = f"only {num_others}" if num_others else "no"
    size = details["features"]["size"]
    judgements = sensitivity.judge_without_images(details["n"], details["m"], size)
    return {
        "not_judged": f"there are {count} other real images to damage",
        "measures": {name: each.as_json() for name, each in judgements.items()},
    }


def metrics_of(details: Dict[str, Any]) -> Dict[str, float]:
    """The metrics of `GanScorer.names` that `details` has; there, a refused one is None."""
    distance, classes = details.get("frechet_distance") or {}, details["classes"]
    kernel, test = details.get("kernel_distance") or {}, details.get("two_sample") or {}
    metrics: Dict[str, Any] = {
        "frechet_distance": distance.get("mean"),
        "frechet_distance_noise": distance.get("noise"),
        "classes_lost": float(len(classes["lost"])) if classes else None,
        "kernel_distance": kernel.get("mean"),
        "kernel_distance_noise": kernel.get("standard_error"),
        "two_sample_accuracy": test.get("accuracy"),
    }
    for name in ("frechet_ratio", "precision", "recall", "density", "coverage"):
        metrics[name] = details.get(name)
    return {name: metrics[name] for name in GanScorer.names if metrics[name] is not None}


def intervals_of(details: Dict[str, Any]) -> Dict[str, statistics.Interval]:
    """The intervals of a full score."""
    test = details.get("two_sample")
    intervals = {"two_sample_accuracy": two_sample.as_interval(test)} if test else {}
    return dict(distance_intervals(details), **intervals)


def distance_intervals(details: Dict[str, Any]) -> Dict[str, statistics.Interval]:
    """The intervals of the Frechet distance and of its multiple of the floor."""
    if details["frechet_distance"] is None:
        return {}
    interval = statistics.Interval(**details["frechet_distance"]["interval"])
    floor = details["frechet_floor"]
    if details["frechet_ratio"] is None:
        return {"frechet_distance": interval}
    scaled = interval._replace(low=interval.low / floor, high=interval.high / floor)
    return {"frechet_distance": interval, "frechet_ratio": scaled}


def compare_neighbours(fakes: np.ndarray, reals: ReferenceSet) -> neighbours.Neighbours:
    """Precision, recall, density and coverage of fakes, float [n, F]."""
    return neighbours.compare(fakes, reals.samples.features, real_radii=reals.radii)


def floor_ratio(distance: float, fakes: SampleSet, reals: ReferenceSet) -> Optional[float]:
    """A Frechet distance as a multiple of its floor; None where the floor is 0."""
    floor = frechet_floor(reals.moments, len(fakes.features), len(reals.samples.features))
    return ratio(distance, floor)


def ratio(part: float, whole: float) -> Optional[float]:
    """part / whole; None if the whole is zero."""
    return part / whole if whole else None


def confidence_interval(values: List[float]) -> Dict[str, Any]:
    """Mean, standard deviation ("noise") and the 95 % interval of the mean (Student's t).

    Args:
        values: squared distances: the interval has nothing below 0.
    """
    mean = float(np.mean(values))
    interval = {"mean": mean, "noise": 0.0, "low": None, "high": None, "values": list(values)}
    if len(values) > 1:
        from scipy.stats import t

        noise = float(np.std(values, ddof=1))
        reach = float(t.ppf(0.975, len(values) - 1)) * noise / len(values) ** 0.5
        interval.update(noise=noise, low=max(0.0, mean - reach), high=mean + reach)
    return interval
