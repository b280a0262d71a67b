"""Which measures mean something for this data: real images with severe damage must score worse.

A measure that gives blurred or shuffled images the value of real ones cannot tell good samples from
bad ones: here, with these features and these numbers of images. It is then refused, whatever value
the samples have. The damaged images are training images, compared with the reference as samples
are; undamaged training images have the value that a perfect generator would have.

Legend: n generated images, m real images (the reference), F features.
"""

from __future__ import annotations

from typing import Any, Dict, Mapping, NamedTuple, Optional, Tuple

import numpy as np

from . import neighbours, ruler
from .distances import frechet_distance, kernel_distance
from .sample_sets import ReferenceSet

# Damage that leaves no image like a real one.
SPOILED = ("a 5-tap blur", "shuffled patches", "Gaussian pixels", "each class's mean image")
# Measure -> the damage that it has to notice. Precision and density are about single images; recall
# is about their variety, and large distances between bad images must not pass for variety.
SEVERE: Dict[str, Tuple[str, ...]] = {
    "frechet_distance": (*SPOILED, "10 images repeated"),
    "kernel_distance": (*SPOILED, "10 images repeated"),
    "precision": SPOILED,
    "recall": ("Gaussian pixels", "10 images repeated", "each class's mean image"),
    "density": SPOILED,
    "coverage": (*SPOILED, "10 images repeated"),
}
DISTANCES = ("frechet_distance", "kernel_distance")  # lower is better; higher, of the others
TITLES = {"frechet_distance": "the Frechet distance", "kernel_distance": "the kernel distance"}
# Of images that are damaged in one way, as the subject of a sentence, if not as the ruler has it.
SUBJECTS = {
    "a 5-tap blur": "real images with a 5-tap blur",
    "shuffled patches": "real images with shuffled patches",
    "10 images repeated": "10 real images, repeated,",
    "each class's mean image": "mean images of the classes",
}
LOSS = 0.1  # of the value of real images: the least that severe damage takes away ...
ERRORS = 3  # ... and so many standard errors
MULTIPLE = 2  # of the distance of real images: the least of severely damaged ones
IMAGES_PER_FEATURE = 2  # of which n and m make a covariance of F features more than noise


class Judgement(NamedTuple):
    """What a measure gives for images whose quality is known.

    Attributes:
        real: of undamaged training images; None if there are none.
        damages: of severely damaged ones, by the name of the damage.
        refusal: why the measure says nothing here; "" if it means something.
    """

    real: Optional[float]
    damages: Dict[str, float]
    refusal: str

    def as_json(self) -> Dict[str, Any]:
        """The values as JSON; "refusal" is missing if there is none."""
        values = {"real": self.real, "damages": self.damages}
        return dict(values, refusal=self.refusal) if self.refusal else values


def judge(
    feature_sets: Mapping[str, np.ndarray], reference: ReferenceSet, n: int
) -> Dict[str, Judgement]:
    """Judge each measure of `SEVERE`.

    Args:
        feature_sets: of `ruler.damage_features`, float [N, F] each.
        reference: the m real images.
        n: the number of samples of which the Frechet distance is computed.
    """
    m, size = reference.samples.features.shape
    severe = {name for names in SEVERE.values() for name in names}
    values = {
        name: measure_set(features, reference)
        for name, features in feature_sets.items()
        if name in severe or name == ruler.REAL
    }
    real = values[ruler.REAL]
    error = kernel_distance(feature_sets[ruler.REAL], reference.samples.features)[1]
    num_images = min(len(feature_sets[ruler.REAL]), m)
    judgements = {}
    for measure, names in SEVERE.items():
        damages = {name: values[name][measure] for name in names if name in values}
        bound = bound_of(measure, real[measure], num_images, error)
        refusal = explain_refusal(measure, real[measure], damages, bound)
        judgements[measure] = Judgement(real[measure], damages, refusal)
    shortage = explain_shortage(n, m, size)
    if shortage:
        distance = judgements["frechet_distance"]
        judgements["frechet_distance"] = distance._replace(refusal=shortage)
    return judgements


def judge_without_images(n: int, m: int, size: int) -> Dict[str, Judgement]:
    """The judgements where no real images can be damaged: a shortage shows without them.

    Args:
        n: the number of samples.
        m: the number of real images.
        size: F.
    """
    shortage = explain_shortage(n, m, size)
    return {"frechet_distance": Judgement(None, {}, shortage)} if shortage else {}


def measure_set(features: np.ndarray, reference: ReferenceSet) -> Dict[str, float]:
    """Measure -> value of a set of features [N, F]."""
    reals = reference.samples.features
    near = neighbours.compare(features, reals, real_radii=reference.radii)
    return dict(
        near._asdict(),
        frechet_distance=frechet_distance(features, reference.moments),
        kernel_distance=kernel_distance(features, reals)[0],
    )


def bound_of(measure: str, real: float, num_images: int, kernel_error: float) -> float:
    """The value than which severely damaged images must be worse: equal images have equal values.

    The standard error of a share of `num_images` images is at most half of the inverse root of
    their number.

    Args:
        measure: one of `SEVERE`.
        real: the value of real images.
        num_images: in the smaller of the two sets.
        kernel_error: the standard error of the kernel distance.
    """
    if measure == "frechet_distance":
        return MULTIPLE * real
    if measure == "kernel_distance":
        return MULTIPLE * max(real, 0.0) + ERRORS * kernel_error
    return real - max(LOSS * real, ERRORS * 0.5 / num_images**0.5)


def explain_refusal(measure: str, real: float, damages: Mapping[str, float], bound: float) -> str:
    """Why a measure says nothing: the damage that it notices least; "" if it notices all."""
    sign = -1 if measure in DISTANCES else 1
    unnoticed = {name: v for name, v in damages.items() if not sign * v < sign * bound}
    if not unnoticed:
        return ""
    name = max(unnoticed, key=lambda name: sign * unnoticed[name])
    verb = "reach" if sign > 0 else "have"
    subject = SUBJECTS.get(name, name)
    return f"{subject} {verb} {format_value(unnoticed[name])}, real ones {format_value(real)}"


def explain_shortage(n: int, m: int, size: int) -> str:
    """Why there is no Frechet distance of so few images; "" if there are enough."""
    needed = IMAGES_PER_FEATURE * size
    if min(n, m) >= needed:
        return ""
    return (
        f"{size} features need {needed} samples and {needed} real images or more, and there are "
        f"{n} and {m}"
    )


def format_value(value: float) -> str:
    """Two decimals, and more for small numbers."""
    return f"{value:.2f}" if abs(value) >= 0.1 or value == 0 else f"{value:.2g}"


def title(measure: str) -> str:
    """The measure as the subject of a sentence."""
    return TITLES.get(measure, measure)


def refusals(details: Mapping[str, Any]) -> Dict[str, str]:
    """Measure -> why it is refused, from the content of scores.json."""
    measures = details.get("measures") or {}
    return {name: m["refusal"] for name, m in measures.items() if m.get("refusal")}


def remove_refused(details: Mapping[str, Any], best_metric: str = "") -> Dict[str, Any]:
    """The content of scores.json with None in place of each refused measure.

    The value is still under "measures", beside those of the damaged images.

    Args:
        details: the content.
        best_metric: the metric by which the run chose its best checkpoint; "" for none. If its
            measure is refused, it is the value of "refused_best_metric".
    """
    names = refusals(details)
    result = dict(details)
    for name in names:
        value = details[name]["mean"] if name in DISTANCES else details[name]
        measures = dict(result["measures"])
        measures[name] = dict(measures[name], value=value)
        result.update({"measures": measures, name: None})
    if "frechet_distance" in names:
        result.update(frechet_ratio=None, place=None)
    if best_metric.replace("_ratio", "_distance") in names:
        result["refused_best_metric"] = best_metric
    return result
