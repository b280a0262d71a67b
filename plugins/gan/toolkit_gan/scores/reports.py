"""What a full score tells: lines for a person, scores.json, and the sheet of nearest images.

Legend: n fakes, m reals, F features, H height, W width, C channels.
"""

from __future__ import annotations

import json
import os
from typing import Any, Dict, List, Sequence

import numpy as np

from toolkit import save_grid

PAIRS = 4  # in a row of the sheet

TRUSTED = 0.99  # of a classifier's test images, from which on its features can be relied on


def score_lines(details: Dict[str, Any]) -> List[str]:
    """A sentence for each kind of number in `details`, the content of scores.json."""
    lines = [distance_line(details), spread_line(details["frechet_distance"])]
    lines += [kernel_line(details["kernel_distance"]), neighbours_line(details)]
    if details.get("classes"):
        lines.append(lost_line(details["classes"]))
    if details.get("nearest"):
        lines.append(nearest_line(details["nearest"]))
    return [
        line for line in lines + [features_line(details["features"]), few_line(details)] if line
    ]


def distance_line(details) -> str:
    """As "FD 4.1 = 12 x floor (n = 10000, m = 500), between a 3-tap blur and a 5-tap blur"."""
    distance = details["frechet_distance"]["mean"]
    line = (
        f"FD {short(distance)} = {short(details['frechet_ratio'], 2)} x floor (n = "
        f"{details['n']}, m = {details['m']})"
    )
    return line + (f", {details['place']}" if details.get("place") else "")


def spread_line(distance) -> str:
    if distance["low"] is None:
        return ""
    return (
        f"95 % interval of the mean FD: {short(distance['low'])} to "
        f"{short(distance['high'])}, from {len(distance['values'])} sets of samples"
    )


def kernel_line(kernel) -> str:
    return f"KID {short(kernel['mean'])} with standard error {short(kernel['standard_error'], 2)}"


def neighbours_line(details) -> str:
    names = ("precision", "recall", "density", "coverage")
    told = ", ".join(f"{name} {details[name]:.3f}" for name in names)
    return f"{told} (k = {details['k']})"


def lost_line(classes) -> str:
    """The lost classes by name; where none is lost, the class with the least of its share."""
    if classes["lost"]:
        return f"classes lost: {', '.join(classes['lost'])}"
    fakes, reals = np.array(classes["fakes"], float), np.array(classes["reals"], float)
    there = reals > 0
    shares = np.full(len(reals), np.inf)
    shares[there] = (fakes[there] / fakes.sum()) / (reals[there] / reals.sum())
    rarest = int(shares.argmin())
    return (
        f"no class lost; the rarest, {classes['names'][rarest]}, has {shares[rarest]:.2f} "
        "of its share"
    )


def nearest_line(found) -> str:
    return f"the nearest training image is {found['ratio']:.2f} times as far as from real images"


def features_line(features) -> str:
    told = f"features {features['name']}, F = {features['size']}, sha256 {features['sha256'][:16]}"
    accuracy = features.get("accuracy")
    if accuracy is None:
        return told
    told += f", right on {accuracy:.1%} of its test images"
    return told if accuracy >= TRUSTED else told + " (below 99 %: the scores see less)"


def few_line(details) -> str:
    size = details["features"]["size"]
    if details["m"] >= 2 * size:
        return ""
    return f"only {details['m']} real images for {size} features: the distance is mostly noise"


def images(count: int) -> str:
    return "1 image" if count == 1 else f"{count} images"


def short(number: float, digits: int = 3) -> str:
    """A number with this many significant digits and no exponent."""
    if not np.isfinite(number) or number == 0:
        return f"{number:g}"
    decimals = digits - 1 - int(np.floor(np.log10(abs(number))))
    return "{:.{}f}".format(number, max(0, decimals))


def write_scores(details: Dict[str, Any], folder: str) -> str:
    """Write scores.json into `folder`; return its name. No number there is infinite or NaN."""
    with open(os.path.join(folder, "scores.json"), "w", encoding="utf-8") as file:
        json.dump(details, file, indent=2, ensure_ascii=False)
        file.write("\n")
    return "scores.json"


def draw_nearest(samples: np.ndarray, images: np.ndarray, folder: str) -> Sequence[str]:
    """Write nearest.png: pairs of a sample ("fake") and a training image. Return its name.

    samples, images: uint8 [n, H, W, C]; nothing is drawn where they are no images.
    """
    if samples.ndim != 4 or samples.shape[3] not in (1, 3, 4):
        return []
    pairs = np.stack([samples, images], axis=1)  # [n, 2, H, W, C]
    flat = pairs.reshape((-1,) + samples.shape[1:])  # [2n, H, W, C]
    captions = ["fake", "real"] * len(samples)
    save_grid(os.path.join(folder, "nearest.png"), flat, 2 * PAIRS, captions)
    return ["nearest.png"]
