"""Which measures mean something for this data: real images with severe damage must score worse.

A measure that gives blurred or shuffled images the value of real ones cannot tell good samples from
bad ones: here, with these features and these numbers of images. It is then refused, whatever value
the samples have. The damaged images are training images, compared with the reference as samples
are; undamaged training images have the value that a perfect generator would have.

A judgement is a dict of JSON values: "real", the value of undamaged training images (None without
any), "damages", those of severely damaged ones by the name of the damage, and, where the measure is
refused, "refusal", the reason.

Legend: n generated images, m real images (the reference), F features.
"""

from __future__ import annotations

from typing import Any, Dict, Mapping, Tuple

import numpy as np

from . import neighbours, ruler
from .distances import frechet_distance
from .sets import ReferenceSet

DISTANCE = "frechet_distance"  # lower is better; higher, of the other measures
# Damage that leaves no image like a real one.
SPOILED = ("a 5-tap blur", "shuffled patches", "Gaussian pixels", "each class's mean image")
# Measure -> the damage that it has to notice. Precision is about single images; recall is about
# their variety, and large distances between bad images must not pass for variety.
SEVERE: Dict[str, Tuple[str, ...]] = {
    DISTANCE: (*SPOILED, "10 images repeated"),
    "precision": SPOILED,
    "recall": ("Gaussian pixels", "10 images repeated", "each class's mean image"),
    "coverage": (*SPOILED, "10 images repeated"),
}
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
Judgements = Dict[str, Dict[str, Any]]  # by measure


def judge(feature_sets: Mapping[str, np.ndarray], reference: ReferenceSet, n: int) -> Judgements:
    """Judge each measure of `SEVERE`.

    Args:
        feature_sets: of `ruler.damage_features`, float [N, F] each; empty if there are no images to
            damage: then only a shortage is judged.
        reference: the m real images.
        n: the number of samples of which the Frechet distance is computed.
    """
    m, size = reference.samples.features.shape
    shortage = explain_shortage(n, m, size)
    if not feature_sets:
        return {DISTANCE: {"real": None, "damages": {}, "refusal": shortage}} if shortage else {}
    severe = {name for names in SEVERE.values() for name in names} | {ruler.REAL}
    values = {
        name: measure_set(features, reference)
        for name, features in feature_sets.items()
        if name in severe
    }
    num_images = min(len(feature_sets[ruler.REAL]), m)
    judgements: Judgements = {}
    for measure, names in SEVERE.items():
        real = values[ruler.REAL][measure]
        damages = {name: values[name][measure] for name in names if name in values}
        refusal = shortage if measure == DISTANCE else ""
        refusal = refusal or explain_refusal(measure, real, damages, num_images)
        judgements[measure] = {"real": real, "damages": damages}
        if refusal:
            judgements[measure]["refusal"] = refusal
    return judgements


def measure_set(features: np.ndarray, reference: ReferenceSet) -> Dict[str, float]:
    """Measure -> value of a set of features [N, F]."""
    near = neighbours.compare(features, reference.samples.features, real_radii=reference.radii)
    return dict(near._asdict(), **{DISTANCE: frechet_distance(features, reference.moments)})


def bound_of(measure: str, real: float, num_images: int) -> float:
    """The value than which severely damaged images must be worse: equal images have equal values.

    The standard error of a share of `num_images` images is at most half of the inverse root of
    their number.

    Args:
        measure: one of `SEVERE`.
        real: the value of real images.
        num_images: in the smaller of the two sets.
    """
    if measure == DISTANCE:
        return MULTIPLE * real
    return real - max(LOSS * real, ERRORS * 0.5 / num_images**0.5)


def explain_refusal(
    measure: str, real: float, damages: Mapping[str, float], num_images: int
) -> str:
    """Why a measure says nothing: the damage that it notices least; "" if it notices all."""
    bound = bound_of(measure, real, num_images)
    sign = -1 if measure == DISTANCE else 1
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
    names, result = refusals(details), dict(details)
    result["measures"] = dict(details["measures"])
    for name in names:
        value = details[name]["mean"] if name == DISTANCE else details[name]
        result["measures"][name] = dict(result["measures"][name], value=value)
        result[name] = None
    if DISTANCE in names:
        result.update(frechet_ratio=None, place=None)
    if best_metric.replace("_ratio", "_distance") in names:
        result["refused_best_metric"] = best_metric
    return result
