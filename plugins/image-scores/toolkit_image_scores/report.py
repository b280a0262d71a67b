"""The report of a full score: the same facts for the console, scores.txt and the page of a run.

Legend: n generated and m real images, F features, H height, W width, C channels.
"""

from __future__ import annotations

import json
import os
from typing import Any, Dict, List, NamedTuple, Sequence

import numpy as np

from toolkit import save_grid

from . import damage, two_sample

PAIRS_PER_ROW = 4  # of the sheet of nearest images
COPIED_TIMES = 3  # so many times the share of near samples that is expected suggests copies
COPIED_RATIO = 0.5  # and so does a lower nearest-neighbour ratio
MAX_CLASSES = 200  # of the page's table
CHOOSING = (damage.DISTANCE, "coverage")  # measures by which a best checkpoint may be chosen

NO_COPIES = "no sign of copied training images"
NEAREST = {
    "file": "nearest.png",
    "title": "Left: random samples. Right: the nearest. Each with its nearest training image",
    "alt": "Pairs of a generated image and the training image that is nearest to it",
}


class Fact(NamedTuple):
    """One thing that a report says."""

    text: str  # a line of scores.txt
    is_shown: bool = False  # by the console, too
    warning: int = 0  # its rank among the warnings of the page, 1 for the worst; 0 if it is none
    headline: Dict[str, Any] = {}  # of the page, see docs/plugins/pages.md; never changed in place


def list_facts(details: Dict[str, Any]) -> List[Fact]:
    """All that a report says, in its order, from the content of scores.json."""
    facts = [*_two_sample(details), *_distance(details), *_shares(details)]
    for name, reason in damage.refusals(details).items():
        subject = "the Frechet distance" if name == damage.DISTANCE else name
        text = f"{subject} says nothing here: {reason}"
        if name in CHOOSING:
            text += "; if it chose the best checkpoint, --best-metric none uses the last one"
        facts.append(Fact(text, True, 5))
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
    features = details["features"]
    text = f"features {features['name']}, F = {features['size']}, sha256 {features['sha256'][:16]}"
    return [*facts, Fact(text)]


def page_content(details: Dict[str, Any], files: Sequence[str]) -> Dict[str, Any]:
    """The value of the key "page", see docs/plugins/pages.md, from the content of scores.json.

    `files` are the names of those of the report.
    """
    facts = list_facts(details)
    warnings = sorted((fact for fact in facts if fact.warning), key=lambda fact: fact.warning)
    return {
        "headline": [fact.headline for fact in facts if fact.headline],
        "pictures": [NEAREST] if NEAREST["file"] in files else [],
        "tables": _tables(details),
        "warnings": [{"text": fact.text} for fact in warnings],
    }


def write_scores(details: Dict[str, Any], folder: str) -> None:
    """Write scores.json, where no number is infinite or NaN, and scores.txt into `folder`."""
    with open(os.path.join(folder, "scores.json"), "w", encoding="utf-8") as file:
        file.write(json.dumps(details, indent=2, ensure_ascii=False) + "\n")
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
    text = f"{share:.0f} % of samples and real images are recognised as generated or real; 50 % "
    text += "would be indistinguishable"
    headline = {
        "name": "two-sample accuracy",
        "value": test["accuracy"],
        **two_sample.as_interval(test).as_json(),
        "direction": "min",
        "ends": [two_sample.CHANCE, 1.0],
        "text": f"{text}.",
        "note": counts,
    }
    text += f" (95 % interval {low:.0f} to {high:.0f} %; {counts})"
    return [Fact(text, True, headline=headline)]


def _distance(details: Dict[str, Any]) -> List[Fact]:
    """The Frechet distance, its terms and its interval; nothing if it is refused."""
    distance, place, n, m = (details.get(key) for key in ("frechet_distance", "place", "n", "m"))
    if distance is None:
        return []
    text, meaning = ", and the floor is 0: all real images have the same features", ""
    if details["frechet_ratio"] is not None:
        multiple = short(details["frechet_ratio"], 2)
        text = f" = {multiple} x floor"
        meaning = f"{multiple} times what real images reach by sampling noise. "
    text = f"Frechet distance (FD) {short(distance['mean'])}{text} (n = {n}, m = {m})"
    headline = {
        "name": "Frechet distance",
        "value": distance["mean"],
        **distance["interval"],
        "floor": details["frechet_floor"],
        "direction": "min",
        "text": meaning
        + (f"It lies {place}, on the ruler of damaged real images." if place else ""),
        "note": f"n = {n:,}, m = {m:,}",
    }
    low, high = (short(distance["interval"][end]) for end in ("low", "high"))
    terms = "floor: the FD that two sets of real images reach by sampling noise"
    if place:
        text += f", on the ruler {place}"
        terms += "; ruler: the FD of real images with known damage"
    return [
        Fact(text, True, headline=headline),
        Fact(terms),
        Fact(f"95 % interval of the FD, over samples and real images: {low} to {high}"),
    ]


def _shares(details: Dict[str, Any]) -> List[Fact]:
    """Precision, recall and coverage without those that are refused.

    Beside each are its values of real and of damaged images, if they are known.
    """
    names = [name for name in ("precision", "recall", "coverage") if details[name] is not None]
    facts, judgements = [], details.get("measures") or {}
    for name in names:
        headline = {"name": name, "value": details[name], "direction": "max"}
        text = f"{name} {details[name]:.3f}"
        if judgements.get(name):
            values = {"real": judgements[name]["real"], **judgements[name]["damages"]}
            pairs = (f"{key} {damage.format_value(value)}" for key, value in values.items())
            headline["note"] = "; ".join(pairs)
            text += f" ({headline['note']})"
        facts.append(Fact(text, headline=headline))
    if names:
        terms = f"of {' and '.join(names)}: n = {details['n_neighbours']}, k = {details['k']}"
        if "coverage" in names:
            terms += (
                "; coverage: real images with a sample nearer than their k-th nearest real image"
            )
        facts.append(Fact(terms))
    return facts


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
    name = classes["names"][rarest]
    return f"{summary}; least frequent: {name}, at {shares[rarest]:.2f} of its share"


def _nearest(nearest: Dict[str, Any]) -> List[Fact]:
    """Distances to training images, in features and pixels, and whether they suggest copies."""
    facts: List[Fact] = []
    for kind, values in (("features", nearest), ("blurred pixels", nearest.get("pixels"))):
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


def short(number: float, digits: int = 3) -> str:
    """A number with so many significant digits and no exponent."""
    if not np.isfinite(number) or number == 0:
        return f"{number:g}"
    decimals = digits - 1 - int(np.floor(np.log10(abs(number))))
    return f"{number:.{max(0, decimals)}f}"


# ------------------------------------------------------------------------------ tables and sheets


def _tables(details: Dict[str, Any]) -> List[Dict[str, Any]]:
    """The share of each class; and the marks of the ruler, with the run and the floor."""
    tables: List[Dict[str, Any]] = []
    if details.get("classes"):
        names, *counts = (details["classes"][key] for key in ("names", "fakes", "reals"))
        shares = [[number / max(sum(each), 1) for number in each] for each in counts]
        tables.append(
            {
                "title": "Share of each class",
                "columns": ["class", "generated", "real"],
                "rows": [list(row) for row in zip(names, *shares)][:MAX_CLASSES],
                "bars": ["generated", "real"],
            }
        )
    if details.get("ruler"):
        rows = [[mark["name"], mark["distance"]] for mark in details["ruler"]]
        rows += [["floor", details["ruler_floor"]]]
        if details["frechet_distance"] is not None:
            rows += [["this run", details["ruler_distance"]]]
        tables.append(
            {
                "title": "Ruler: the distance of real images with known damage",
                "columns": ["images", "Frechet distance"],
                "rows": sorted(rows, key=lambda row: row[1]),
                "bars": ["Frechet distance"],
                "log": True,
                "marked": "this run",
            }
        )
    return tables


def draw_nearest(samples: np.ndarray, images: np.ndarray, folder: str) -> List[str]:
    """Write nearest.png: pairs of a sample ("fake") and a training image ("real").

    Both are uint8 [n, H, W, C]. Returns the names of the written files: none if the channels of the
    images make no picture.
    """
    if samples.shape[3] not in (1, 3, 4):
        return []
    sheet = np.stack([samples, images], axis=1).reshape((-1, *samples.shape[1:]))  # [2n, H, W, C]
    path = os.path.join(folder, NEAREST["file"])
    save_grid(path, sheet, 2 * PAIRS_PER_ROW, ["fake", "real"] * len(samples))
    return [NEAREST["file"]]
