"""The report of a full score: lines to print, scores.json, and the sheet of nearest images.

Legend: n generated and m real images, F features, H height, W width, C channels.
"""

from __future__ import annotations

import json
import os
from typing import Any, Dict, List

import numpy as np

from toolkit import save_grid

PAIRS_PER_ROW = 4  # of the sheet

# A classifier with a lower test accuracy gives less reliable scores.
RELIABLE_ACCURACY = 0.99

# Definitions of the terms in a report.
FLOOR = "floor: the FD that two sets of real images reach by sampling noise"
RULER = "ruler: the FD of real images with known damage"
KERNEL = "squared MMD, cubic kernel, on standardised features; not a KID, whose features are raw"
COVERAGE = "coverage: real images with a sample nearer than their k-th nearest real image"


def score_lines(details: Dict[str, Any]) -> List[str]:
    """The report, a line for each kind of number.

    Args:
        details: the content of scores.json.
    """
    lines = [
        distance_line(details),
        f"{FLOOR}; {RULER}" if details.get("place") else FLOOR,
        interval_line(details["frechet_distance"]),
        kernel_line(details["kernel_distance"]),
        neighbours_line(details),
    ]
    if details.get("classes"):
        lines.append(classes_line(details["classes"]))
    if details.get("nearest"):
        lines += [nearest_line(details["nearest"]), copies_line(details["nearest"])]
    lines += [features_line(details["features"]), few_images_line(details)]
    return [line for line in lines if line]


def distance_line(details: Dict[str, Any]) -> str:
    """As "Frechet distance (FD) 4.10 = 12 x floor (n = 10000, m = 500), between A and B"."""
    distance, multiple = details["frechet_distance"]["mean"], details["frechet_ratio"]
    floors = ", and the floor is 0: all real images have the same features"
    if multiple is not None:
        floors = f" = {short(multiple, 2)} x floor"
    line = (
        f"Frechet distance (FD) {short(distance)}{floors} (n = {details['n']}, m = {details['m']})"
    )
    return line + (f", on the ruler {details['place']}" if details.get("place") else "")


def interval_line(distance: Dict[str, Any]) -> str:
    """The confidence interval; empty for a single set of samples."""
    if distance["low"] is None:
        return ""
    return (
        f"95 % interval of the mean FD: {short(distance['low'])} to "
        f"{short(distance['high'])}, from {len(distance['values'])} sets of samples"
    )


def kernel_line(kernel: Dict[str, float]) -> str:
    """The kernel distance, as "kernel distance 0.0123 with standard error 0.001 (...)"."""
    mean, error = short(kernel["mean"]), short(kernel["standard_error"], 2)
    return f"kernel distance {mean} with standard error {error} ({KERNEL})"


def neighbours_line(details: Dict[str, Any]) -> str:
    """Precision, recall, density and coverage."""
    names = ("precision", "recall", "density", "coverage")
    values = ", ".join(f"{name} {details[name]:.3f}" for name in names)
    return f"{values} (k = {details['k']}; {COVERAGE})"


def classes_line(classes: Dict[str, Any]) -> str:
    """The lost classes; without any, the class with the smallest part of its share.

    A class that is too rare to be called lost may have no sample.
    """
    if classes["lost"]:
        return f"classes lost (below a tenth of their share): {', '.join(classes['lost'])}"
    fakes, reals = np.array(classes["fakes"], float), np.array(classes["reals"], float)
    is_real = reals > 0
    shares = np.full(len(reals), np.inf)
    shares[is_real] = (fakes[is_real] / fakes.sum()) / (reals[is_real] / reals.sum())
    rarest = int(shares.argmin())
    summary = "all classes present" if fakes[is_real].all() else "no class is certainly lost"
    return (
        f"{summary}; least frequent: {classes['names'][rarest]}, at {shares[rarest]:.2f} of its "
        "share"
    )


def nearest_line(nearest: Dict[str, Any]) -> str:
    """The nearest-neighbour ratio: distances to training images, of samples over real images."""
    if nearest["ratio"] is None:
        return (
            "nearest-neighbour ratio unknown: half of the real images or more are also training "
            "images"
        )
    return (
        f"nearest-neighbour ratio {nearest['ratio']:.2f} (well below 1 would suggest copied "
        "training images)"
    )


def copies_line(nearest: Dict[str, Any]) -> str:
    """How many samples are as near to a training image as few real images are."""
    return (
        f"{nearest['near_samples']:.1%} of the samples are as near to a training image as the "
        f"nearest {nearest['near_reals']:.1%} of the real images (many more would suggest that "
        "some are copies)"
    )


def features_line(features: Dict[str, Any]) -> str:
    """Which features the scores use, with the hash and the accuracy of their classifier."""
    text = f"features {features['name']}, F = {features['size']}, sha256 {features['sha256'][:16]}"
    accuracy = features.get("accuracy")
    if accuracy is None:
        return text
    text += f", test accuracy {accuracy:.1%}"
    return text if accuracy >= RELIABLE_ACCURACY else text + " (below 99 %: less reliable scores)"


def few_images_line(details: Dict[str, Any]) -> str:
    """A warning if one set has too few images for so many features; otherwise empty.

    The distance of two sets of real images is then up to twice the floor, too.
    """
    size = details["features"]["size"]
    counts = {"real images": details["m"], details.get("source", "samples"): details["n"]}
    few = [f"{count} {name}" for name, count in counts.items() if count < 2 * size]
    return f"only {' and '.join(few)} for {size} features: the FD is mostly noise" if few else ""


def image_count(count: int) -> str:
    """As "1 image" or "2 images"."""
    return "1 image" if count == 1 else f"{count} images"


def short(number: float, digits: int = 3) -> str:
    """A number with so many significant digits and no exponent."""
    if not np.isfinite(number) or number == 0:
        return f"{number:g}"
    decimals = digits - 1 - int(np.floor(np.log10(abs(number))))
    return f"{number:.{max(0, decimals)}f}"


def write_scores(details: Dict[str, Any], folder: str) -> None:
    """Write scores.json into `folder`. No number there is infinite or NaN."""
    with open(os.path.join(folder, "scores.json"), "w", encoding="utf-8") as file:
        json.dump(details, file, indent=2, ensure_ascii=False)
        file.write("\n")


def draw_nearest(samples: np.ndarray, images: np.ndarray, folder: str) -> List[str]:
    """Write nearest.png: pairs of a sample ("fake") and a training image ("real").

    Args:
        samples: uint8 [n, H, W, C]; of other shapes, nothing is drawn.
        images: uint8 [n, H, W, C].
        folder: for the file.

    Returns:
        The names of the written files.
    """
    if samples.ndim != 4 or samples.shape[3] not in (1, 3, 4):
        return []
    pairs = np.stack([samples, images], axis=1)  # [n, 2, H, W, C]
    flat = pairs.reshape((-1,) + samples.shape[1:])  # [2n, H, W, C]
    captions = ["fake", "real"] * len(samples)
    save_grid(os.path.join(folder, "nearest.png"), flat, 2 * PAIRS_PER_ROW, captions)
    return ["nearest.png"]
