"""The report of a full score: the same facts for the console, scores.txt and the page of a run.

Legend: n generated and m real images, F features, H height, W width, C channels.
"""

from __future__ import annotations

import json
import os
from typing import Any, Dict, List, NamedTuple, Sequence

import numpy as np

from toolkit import save_grid

from . import sensitivity, two_sample

PAIRS_PER_ROW = 4  # of the sheet of nearest images
GIVEAWAYS_PER_ROW, GIVEAWAY_ROWS = 8, 5
COPIED_TIMES = 3  # so many times the share of near samples that is expected suggests copies
COPIED_RATIO = 0.5  # and so does a lower nearest-neighbour ratio
MAX_CLASSES = 200  # of the page's table
MANY = 0.9  # of the samples are recognised: a first advice is what every generator begins with

SHARES = ("precision", "recall", "coverage")
# Definitions of the terms in a report.
FLOOR = "floor: the FD that two sets of real images reach by sampling noise"
RULER = "ruler: the FD of real images with known damage"
COVERAGE = "coverage: real images with a sample nearer than their k-th nearest real image"
NO_COPIES = "no sign of copied training images"
SHEETS = {
    "giveaways.png": {
        "title": "Left: the surest fakes. Right: those that look most real to the network. Below "
        "each: the probability of being real",
        "alt": "Generated images, each with the probability of being real that a network gives it",
    },
    "nearest.png": {
        "title": "Left: random samples. Right: the nearest. Each with its nearest training image",
        "alt": "Pairs of a generated image and the training image that is nearest to it",
    },
}


class Fact(NamedTuple):
    """One thing that a report says.

    Attributes:
        text: a line of scores.txt.
        is_shown: whether the console has it, too.
        warning: its rank among the warnings of the page, 1 for the worst; 0 if it is none.
        headline: what the page shows of it, as docs/plugins/pages.md describes; {} for nothing.
    """

    text: str
    is_shown: bool = False
    warning: int = 0
    headline: Dict[str, Any] = {}  # never changed in place


def list_facts(details: Dict[str, Any]) -> List[Fact]:
    """All that a report says, in its order.

    Args:
        details: the content of scores.json.
    """
    facts = [*_two_sample(details), *_distance(details), *_shares(details)]
    facts += [
        Fact(f"{_title(name)} says nothing here: {reason}", warning=5)
        for name, reason in sensitivity.refusals(details).items()
    ]
    metric = details.get("refused_best_metric")
    if metric:
        text = f"the best checkpoint was chosen by {metric}, which says nothing here; set "
        facts.append(Fact(text + "--best-metric none to use the last one", True, 5))
    if details.get("nearest"):
        facts += _nearest(details["nearest"])
    if details.get("classes"):
        line = classes_line(details["classes"])
        facts.append(Fact(line, True, 3 if details["classes"]["lost"] else 0))
    if details.get("not_judged"):
        facts.append(Fact(f"not judged: {details['not_judged']}", warning=6))
    if details.get("training_reals"):
        text = f"{details['training_reals']} of the {details['m']} real images are also training "
        facts.append(Fact(text + "images", warning=1))
    return [*facts, Fact(features_line(details["features"]))]


def page_content(details: Dict[str, Any], files: Sequence[str]) -> Dict[str, Any]:
    """The value of the key "page", as docs/plugins/pages.md describes it.

    Args:
        details: the content of scores.json.
        files: the names of the files of the report.
    """
    facts = list_facts(details)
    test, tables = details.get("two_sample"), []
    if details.get("classes"):
        tables.append(_class_table(details["classes"]))
    if details.get("ruler"):
        tables.append(_ruler_table(details))
    warnings = sorted((fact for fact in facts if fact.warning), key=lambda fact: fact.warning)
    advice = [
        "Look at the surest fakes: that is what gives the samples away.",
        "If they still got better at the end, train longer with --steps.",
    ]
    return {
        "headline": [fact.headline for fact in facts if fact.headline],
        "pictures": [dict(sheet, file=name) for name, sheet in SHEETS.items() if name in files],
        "tables": tables,
        "warnings": [{"text": fact.text} for fact in warnings],
        "advice": advice if test and test["low"] >= MANY else [],
    }


def write_scores(details: Dict[str, Any], folder: str) -> None:
    """Write scores.json, where no number is infinite or NaN, and scores.txt into `folder`."""
    with open(os.path.join(folder, "scores.json"), "w", encoding="utf-8") as file:
        json.dump(details, file, indent=2, ensure_ascii=False)
        file.write("\n")
    with open(os.path.join(folder, "scores.txt"), "w", encoding="utf-8") as file:
        file.writelines(f"{fact.text}\n" for fact in list_facts(details))


# ------------------------------------------------------------------------------------------- facts


def _two_sample(details: Dict[str, Any]) -> List[Fact]:
    """As "97 % of samples and real images are recognised as generated or real; ..."."""
    test, reason = details.get("two_sample"), details.get("no_two_sample")
    if not test:
        return [Fact(f"no two-sample test: {reason}", True, 4)] if reason else []
    counts = f"n = {test['n']:,}, m = {test['m']:,}"
    share, low, high = (100 * test[name] for name in ("accuracy", "low", "high"))
    text = (
        f"{share:.0f} % of samples and real images are recognised as generated or real; 50 % would "
        f"be indistinguishable (95 % interval {low:.0f} to {high:.0f} %; {counts})"
    )
    headline = {
        "name": "two-sample accuracy",
        "value": test["accuracy"],
        **two_sample.as_interval(test).as_json(),
        "direction": "min",
        "ends": [two_sample.CHANCE, 1.0],
        "text": f"{share:.1f} % of the samples and real images are told apart by a network; 50 % "
        "would be indistinguishable.",
        "note": counts,
    }
    return [Fact(text, True, headline=headline)]


def _distance(details: Dict[str, Any]) -> List[Fact]:
    """The Frechet distance, its terms and its interval; nothing if it is refused."""
    distance, place = details["frechet_distance"], details.get("place")
    if distance is None:
        return []
    multiple, floors = details["frechet_ratio"], ""
    text = f"Frechet distance (FD) {short(distance['mean'])}"
    if multiple is None:
        text += ", and the floor is 0: all real images have the same features"
    else:
        floors = f"{short(multiple, 2)} times what real images reach by sampling noise. "
        text += f" = {short(multiple, 2)} x floor"
    text += f" (n = {details['n']}, m = {details['m']})"
    headline = {
        "name": "Frechet distance",
        "value": distance["mean"],
        **distance["interval"],
        "floor": details["frechet_floor"],
        "direction": "min",
        "text": floors
        + (f"It lies {place}, on the ruler of damaged real images." if place else ""),
        "note": f"n = {details['n']:,}, m = {details['m']:,}",
    }
    facts = [Fact(text + (f", on the ruler {place}" if place else ""), True, headline=headline)]
    facts.append(Fact(f"{FLOOR}; {RULER}" if place else FLOOR))
    low, high = (short(distance["interval"][end]) for end in ("low", "high"))
    facts.append(Fact(f"95 % interval of the FD, over samples and real images: {low} to {high}"))
    return facts


def _shares(details: Dict[str, Any]) -> List[Fact]:
    """Precision, recall and coverage without those that are refused, beside those of damage."""
    names = [name for name in SHARES if details[name] is not None]
    facts = []
    for name in names:
        note = measure_note(details, name)
        headline = {"name": name, "value": details[name], "direction": "max"}
        headline = dict(headline, note=note) if note else headline
        note = f" ({note})" if note else ""
        facts.append(Fact(f"{name} {details[name]:.3f}{note}", headline=headline))
    if names:
        terms = f"of {' and '.join(names)}: n = {details['n_neighbours']}, k = {details['k']}"
        facts.append(Fact(terms + (f"; {COVERAGE}" if "coverage" in names else "")))
    return facts


def measure_note(details: Dict[str, Any], name: str) -> str:
    """As "real 0.93; a 5-tap blur 0.40; Gaussian pixels 0.00"; "" if it is not known."""
    judgement = (details.get("measures") or {}).get(name)
    if not judgement:
        return ""
    values = dict({"real": judgement["real"]}, **judgement["damages"])
    return "; ".join(f"{key} {sensitivity.format_value(value)}" for key, value in values.items())


def _title(measure: str) -> str:
    """The measure as the subject of a sentence."""
    return "the Frechet distance" if measure == sensitivity.DISTANCE else measure


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


def _nearest(nearest: Dict[str, Any]) -> List[Fact]:
    """Distances to training images, in features and pixels, and whether they suggest copies."""
    kinds = {"features": nearest, "blurred pixels": nearest.get("pixels")}
    facts: List[Fact] = []
    for kind, values in kinds.items():
        if not values:
            continue
        near, expected, ratio = values["near_samples"], values["near_reals"], values["ratio"]
        # Of few real images, one that is nearly a training image hides copies from the shares.
        is_warning = near > COPIED_TIMES * max(expected, 0.01)
        is_warning |= ratio is not None and ratio < COPIED_RATIO
        text = f"unknown: half of the real images or more are also training images, in {kind}"
        if ratio is not None:
            text = f"{ratio:.2f} in {kind} (well below 1 would suggest copied training images)"
        text = (
            f"nearest-neighbour ratio {text}; {near:.1%} of the samples are as near to a training "
            f"image as the nearest {expected:.1%} of the real images"
        )
        facts.append(Fact(text, is_warning, 2 if is_warning else 0))
    return facts if any(fact.warning for fact in facts) else [Fact(NO_COPIES, True), *facts]


def features_line(features: Dict[str, Any]) -> str:
    """Which features the scores use, with the hash and the accuracy of their classifier."""
    text = f"features {features['name']}, F = {features['size']}, sha256 {features['sha256'][:16]}"
    accuracy = features.get("accuracy")
    return text if accuracy is None else f"{text}, test accuracy {accuracy:.1%}"


def short(number: float, digits: int = 3) -> str:
    """A number with so many significant digits and no exponent."""
    if not np.isfinite(number) or number == 0:
        return f"{number:g}"
    decimals = digits - 1 - int(np.floor(np.log10(abs(number))))
    return f"{number:.{max(0, decimals)}f}"


# ------------------------------------------------------------------------------------------ tables


def _class_table(classes: Dict[str, Any]) -> Dict[str, Any]:
    """The share of each class in the generated and in the real images."""
    fakes, reals = classes["fakes"], classes["reals"]
    rows = [
        [name, fake / max(sum(fakes), 1), real / max(sum(reals), 1)]
        for name, fake, real in zip(classes["names"], fakes, reals)
    ]
    return {
        "title": "Share of each class",
        "columns": ["class", "generated", "real"],
        "rows": rows[:MAX_CLASSES],
        "bars": ["generated", "real"],
    }


def _ruler_table(details: Dict[str, Any]) -> Dict[str, Any]:
    """The marks of the ruler, with the run between them, all of the same number of images."""
    rows = [[mark["name"], mark["distance"]] for mark in details["ruler"]]
    if details["frechet_distance"] is not None:
        rows += [["this run", details["ruler_distance"]]]
    rows += [["floor", details["ruler_floor"]]]
    return {
        "title": "Ruler: the distance of real images with known damage",
        "columns": ["images", "Frechet distance"],
        "rows": sorted(rows, key=lambda row: row[1]),
        "bars": ["Frechet distance"],
        "log": True,
        "marked": "this run",
    }


# ------------------------------------------------------------------------------------------ sheets


def draw_nearest(samples: np.ndarray, images: np.ndarray, folder: str) -> List[str]:
    """Write nearest.png: pairs of a sample ("fake") and a training image ("real").

    Args:
        samples: uint8 [n, H, W, C]; of none, and of other shapes, nothing is drawn.
        images: uint8 [n, H, W, C].
        folder: for the file.

    Returns:
        The names of the written files.
    """
    if not len(samples) or samples.ndim != 4 or samples.shape[3] not in (1, 3, 4):
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
    if images.ndim != 4 or images.shape[3] not in (1, 3, 4) or not rows:
        return []
    order, count = np.argsort(logits, kind="stable"), rows * half
    fakest, realest = (part[:count].reshape(rows, half) for part in (order, order[::-1]))
    sheet = np.concatenate([fakest, realest], axis=1).ravel()
    captions = [f"{share:.0%}" for share in (1 + np.tanh(logits[sheet] / 2)) / 2]  # sigmoids
    save_grid(os.path.join(folder, "giveaways.png"), images[sheet], 2 * half, captions)
    return ["giveaways.png"]
