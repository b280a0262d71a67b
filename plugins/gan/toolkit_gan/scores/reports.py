"""The report of a full score: lines for people, scores.json, scores.txt, and sheets of images.

Legend: n generated and m real images, F features, H height, W width, C channels.
"""

from __future__ import annotations

import json
import os
from typing import Any, Dict, List, Tuple

import numpy as np

from toolkit import save_grid

from . import sensitivity

PAIRS_PER_ROW = 4  # of the sheet of nearest images
GIVEAWAYS_PER_ROW, GIVEAWAY_ROWS = 8, 5
COPIED_TIMES = 3  # so many times the share of near samples that is expected suggests copies
COPIED_RATIO = 0.5  # and so does a lower nearest-neighbour ratio, of all or of a class

SHARES = ("precision", "recall", "density", "coverage")
# Definitions of the terms in a report.
FLOOR = "floor: the FD that two sets of real images reach by sampling noise"
RULER = "ruler: the FD of real images with known damage"
KERNEL = "squared MMD, cubic kernel, on standardised features; not a KID, whose features are raw"
NO_COPIES = "no sign of copied training images"
COVERAGE = "coverage: real images with a sample nearer than their k-th nearest real image"


def summary_lines(details: Dict[str, Any]) -> List[str]:
    """What a person wants to know first: whether the samples look real, how far they are from real
    images, and whether they are copies or lack classes; and what to do if a choice was of no use.

    Args:
        details: the content of scores.json.
    """
    test, nearest, classes = map(details.get, ("two_sample", "nearest", "classes"))
    lines = [verdict_line(test) if test else no_two_sample_line(details)]
    lines += distance_lines(details)[:1]
    found = (copy_warnings(nearest) or [NO_COPIES])[:1] if nearest else []
    lines.append("; ".join(found + ([classes_line(classes)] if classes else [])))
    return [line for line in [*lines, best_metric_line(details)] if line]


def verdict_line(test: Dict[str, Any]) -> str:
    """As "97 % of samples and real images are recognised as what they are (95 to 98 %; ...)"."""
    share, low, high = (100 * test[name] for name in ("accuracy", "low", "high"))
    return (
        f"{share:.0f} % of samples and real images are recognised as what they are ({low:.0f} to "
        f"{high:.0f} %; 50 % would be indistinguishable)"
    )


def score_lines(details: Dict[str, Any]) -> List[str]:
    """The whole report, a line for each kind of number.

    Args:
        details: the content of scores.json.
    """
    lines = distance_lines(details)
    if details["kernel_distance"] is not None:
        beside = format_judgement(details, "kernel_distance")
        lines.append(kernel_line(details["kernel_distance"], beside))
    lines += [*neighbours_lines(details), *refused_lines(details)]
    test = details.get("two_sample")
    lines.insert(0, two_sample_line(test) if test else no_two_sample_line(details))
    if details.get("classes"):
        lines.append(classes_line(details["classes"]))
    if details.get("nearest"):
        lines += [nearest_line(details["nearest"]), copies_line(details["nearest"])]
        lines += [pixels_line(details["nearest"])]
    lines += [not_judged_line(details), seen_line(details), features_line(details["features"])]
    return [line for line in lines if line]


def distance_lines(details: Dict[str, Any]) -> List[str]:
    """The Frechet distance, its terms and its interval; nothing if it is refused."""
    if details["frechet_distance"] is None:
        return []
    return [
        distance_line(details),
        f"{FLOOR}; {RULER}" if details.get("place") else FLOOR,
        interval_line(details["frechet_distance"]),
    ]


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
    """The interval over sets of samples, and that over real images, too; empty for a single set."""
    if distance["low"] is None:
        return ""
    ends = distance["interval"]
    both = f"{short(ends['low'])} to {short(ends['high'])}"
    return (
        f"95 % interval of the mean FD: {short(distance['low'])} to "
        f"{short(distance['high'])}, from {len(distance['values'])} sets of samples; "
        f"over real images, too: {both}"
    )


def two_sample_line(test: Dict[str, Any]) -> str:
    """As "a network tells 97.1% [95.0, 98.2] of them apart (...)"."""
    return (
        f"two-sample test: a network tells {test['accuracy']:.1%} "
        f"[{100 * test['low']:.1f}, {100 * test['high']:.1f}] of generated and real images apart "
        f"(50% would be indistinguishable; n = {test['n']}, m = {test['m']})"
    )


def no_two_sample_line(details: Dict[str, Any]) -> str:
    """As "no two-sample test: it needs 20 held-out images, and there are 12"; else empty."""
    reason = details.get("no_two_sample")
    return f"no two-sample test: {reason}" if reason else ""


def kernel_line(kernel: Dict[str, float], beside: str = "") -> str:
    """The kernel distance, as "kernel distance 0.0123 with standard error 0.001 (...)"."""
    mean, error = short(kernel["mean"]), short(kernel["standard_error"], 2)
    return f"kernel distance {mean} with standard error {error}{beside} ({KERNEL})"


def neighbours_lines(details: Dict[str, Any]) -> List[str]:
    """Precision, recall, density and coverage without those that are refused.

    Without a ruler, there are no values of damaged images, and all are in one line.
    """
    values = {name: f"{name} {details[name]:.3f}" for name in SHARES if details[name] is not None}
    terms = f"(k = {details['k']}; {COVERAGE})"
    if not details.get("ruler"):
        return [f"{', '.join(values.values())} {terms}"]
    lines = [text + format_judgement(details, name) for name, text in values.items()]
    terms = f"n = {details['n_neighbours']}, k = {details['k']}"
    terms += f"; {COVERAGE}" if "coverage" in values else ""
    return lines + [f"of {' and '.join(values)}: {terms}"] * bool(lines)


def format_judgement(details: Dict[str, Any], name: str) -> str:
    """As " (real 0.93; a 5-tap blur 0.40; Gaussian pixels 0.00)"; "" if it is not known."""
    judgement = (details.get("measures") or {}).get(name)
    if not judgement:
        return ""
    values = dict({"real": judgement["real"]}, **judgement["damages"])
    texts = [f"{key} {sensitivity.format_value(value)}" for key, value in values.items()]
    return f" ({'; '.join(texts)})"


def refused_lines(details: Dict[str, Any]) -> List[str]:
    """As "coverage says nothing here: real images with a 5-tap blur reach 0.97, real ones 0.98"."""
    lines = [
        f"{sensitivity.title(name)} says nothing here: {reason}"
        for name, reason in sensitivity.refusals(details).items()
    ]
    return lines + [best_metric_line(details)] * bool(details.get("refused_best_metric"))


def best_metric_line(details: Dict[str, Any]) -> str:
    """That the best checkpoint was chosen by a metric that is refused; empty if it was not."""
    metric = details.get("refused_best_metric")
    text = (
        "the best checkpoint was chosen by {}, which says nothing here; set --best-metric none to "
    )
    return text.format(metric) + "use the last one" if metric else ""


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
        f"training images){lowest_class(nearest)}"
    )


def lowest_class(nearest: Dict[str, Any]) -> str:
    """As "; lowest of a class: 0.85 (cats)"; empty where no class was measured."""
    ratios = nearest.get("classes")
    if not ratios:
        return ""
    name = min(ratios, key=ratios.get)
    return f"; lowest of a class: {ratios[name]:.2f} ({name})"


def pixels_line(nearest: Dict[str, Any]) -> str:
    """The ratio and the near samples in blurred pixels; empty where they were not measured."""
    pixels = nearest.get("pixels")
    if not pixels:
        return ""
    ratio = "unknown" if pixels["ratio"] is None else f"{pixels['ratio']:.2f}"
    return (
        f"in blurred pixels: ratio {ratio}, {pixels['near_samples']:.1%} as near as the nearest "
        f"{pixels['near_reals']:.1%} of the real images{lowest_class(pixels)}"
    )


def copy_warnings(nearest: Dict[str, Any]) -> List[str]:
    """What suggests, in features or in blurred pixels, that samples are copies."""
    kinds = [
        (nearest, copies_line, nearest_line),
        (nearest.get("pixels"), pixels_line, pixels_line),
    ]
    warnings = []
    for values, near_line, ratio_line in kinds:
        if values and values["near_samples"] > COPIED_TIMES * max(values["near_reals"], 0.01):
            warnings.append(near_line(nearest))
        # Of few real images, one that is nearly a training image hides copies from the test above.
        elif values and values["ratio"] is not None and values["ratio"] < COPIED_RATIO:
            warnings.append(ratio_line(nearest))
    ratios = [values.get("classes") or {} for values, _, _ in kinds if values]
    names = {name: None for each in ratios for name in each if each[name] < COPIED_RATIO}
    if names:
        warnings.append(
            f"much nearer to training images than other real images are: samples of "
            f"{', '.join(names)}"
        )
    return warnings


def copies_line(nearest: Dict[str, Any]) -> str:
    """How many samples are as near to a training image as few real images are."""
    return (
        f"{nearest['near_samples']:.1%} of the samples are as near to a training image as the "
        f"nearest {nearest['near_reals']:.1%} of the real images (many more would suggest that "
        "some are copies)"
    )


def not_judged_line(details: Dict[str, Any]) -> str:
    """Why no measure is compared with its values of damaged images; empty if they are."""
    return f"not judged: {details['not_judged']}" if details.get("not_judged") else ""


def seen_line(details: Dict[str, Any]) -> str:
    """How many of the real images the generator was trained on; empty if there are none."""
    count = details.get("training_reals")
    return f"{count} of the {details['m']} real images are also training images" if count else ""


def features_line(features: Dict[str, Any]) -> str:
    """Which features the scores use, with the hash and the accuracy of their classifier."""
    text = f"features {features['name']}, F = {features['size']}, sha256 {features['sha256'][:16]}"
    accuracy = features.get("accuracy")
    return text if accuracy is None else f"{text}, test accuracy {accuracy:.1%}"


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
    """Write scores.json, where no number is infinite or NaN, and scores.txt into `folder`."""
    with open(os.path.join(folder, "scores.json"), "w", encoding="utf-8") as file:
        json.dump(details, file, indent=2, ensure_ascii=False)
        file.write("\n")
    with open(os.path.join(folder, "scores.txt"), "w", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in score_lines(details))


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


def draw_giveaways(images: np.ndarray, logits: np.ndarray, folder: str) -> List[str]:
    """Write giveaways.png: left the surest fakes, right those that look most real to the network.

    Below each is the probability, by the network of the two-sample test, that it is real. Where the
    network recognises all samples, it is small on the right, too.

    Args:
        images: uint8 [n, H, W, C]; of other shapes, and of fewer than a row, nothing is drawn.
        logits: float [n], of being real.
        folder: for the file.

    Returns:
        The names of the written files.
    """
    half, rows = GIVEAWAYS_PER_ROW // 2, min(GIVEAWAY_ROWS, len(images) // GIVEAWAYS_PER_ROW)
    if images.shape[3] not in (1, 3, 4) or not rows:
        return []
    order = np.argsort(logits, kind="stable")
    fakest, realest = (part.reshape(rows, half) for part in _ends(order, rows * half))
    sheet = np.concatenate([fakest, realest], axis=1).ravel()
    captions = [f"{share:.0%}" for share in (1 + np.tanh(logits[sheet] / 2)) / 2]  # sigmoids
    save_grid(os.path.join(folder, "giveaways.png"), images[sheet], 2 * half, captions)
    return ["giveaways.png"]


def _ends(values: np.ndarray, count: int) -> Tuple[np.ndarray, np.ndarray]:
    """The first values, and the last from the end."""
    return values[:count], values[::-1][:count]
