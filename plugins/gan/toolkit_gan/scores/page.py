"""What the scores put on the page of a run, as docs/plugins/pages.md describes it."""

from __future__ import annotations

from typing import Any, Dict, List

from . import reports, two_sample

MAX_CLASSES = 200  # of the table
NEAREST = {
    "file": "nearest.png",
    "title": "Left: random samples. Right: the nearest. Each with its nearest training image",
    "alt": "Pairs of a generated image and the training image that is nearest to it",
}
GIVEAWAYS = {
    "file": "giveaways.png",
    "title": "Left: the surest fakes. Right: those that look most real to the network. Below each: "
    "the probability of being real",
    "alt": "Generated images, each with the probability of being real that a network gives it",
}


def content(details: Dict[str, Any], files: List[str]) -> Dict[str, Any]:
    """The value of the key "page".

    Args:
        details: the content of scores.json.
        files: the names of the files of the report.
    """
    classes = details.get("classes")
    sections = {
        "headline": [*_two_sample(details), *_distance(details), *_shares(details)],
        "pictures": [each for each in (GIVEAWAYS, NEAREST) if each["file"] in files],
        "tables": [_class_table(classes)] if classes else [],
    }
    if details.get("ruler"):
        sections["tables"].append(_ruler_table(details))
        sections["tables"].append(_measure_table(details["measures"]))
    sections["warnings"] = [{"text": line} for line in _warnings(details)]
    return sections


def _warnings(details: Dict[str, Any]) -> List[str]:
    """What is wrong, the worst first: a page shows three warnings."""
    classes, nearest = details.get("classes"), details.get("nearest")
    lines = [reports.seen_line(details)]
    lines += reports.copy_warnings(nearest) if nearest else []
    lines += [reports.classes_line(classes)] if classes and classes["lost"] else []
    lines += [reports.no_two_sample_line(details), *reports.refused_lines(details)]
    lines += [reports.not_judged_line(details)]
    return [line for line in lines if line]


def _distance(details: Dict[str, Any]) -> List[Dict[str, Any]]:
    """The Frechet distance with its interval and its floor, unless it is refused."""
    distance, place = details["frechet_distance"], details.get("place")
    if distance is None:
        return []
    notes = [f"n = {details['n']}, m = {details['m']}"]
    if details["frechet_ratio"] is not None:
        notes.insert(0, f"{reports.short(details['frechet_ratio'], 2)} x floor")
    if place:
        notes.append(f"on the ruler {place}")
    headline = {
        "name": "Frechet distance",
        "value": distance["mean"],
        **distance["interval"],
        "floor": details["frechet_floor"],
        "note": ", ".join(notes),
    }
    return [headline]


def _two_sample(details: Dict[str, Any]) -> List[Dict[str, Any]]:
    """The accuracy of the two-sample test with its interval, if it was made."""
    test = details.get("two_sample")
    if not test:
        return []
    ends = two_sample.as_interval(test).as_json()
    note = f"50 % would be indistinguishable, n = {test['n']}, m = {test['m']}"
    numbers = {"value": test["accuracy"], "floor": two_sample.CHANCE, **ends}
    return [{"name": "two-sample accuracy", "note": note, **numbers}]


def _shares(details: Dict[str, Any]) -> List[Dict[str, Any]]:
    """Those that are not refused, with the values of real images and of damaged ones beside."""
    headlines = []
    for name in ("precision", "recall", "coverage"):
        note = reports.format_judgement(details, name).strip(" ()")
        if details[name] is not None:
            headline = {"name": name, "value": details[name]}
            headlines.append(dict(headline, note=note) if note else headline)
    return headlines


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
    }


def _measure_table(measures: Dict[str, Any]) -> Dict[str, Any]:
    """What each measure gives for real images and for damaged ones, and whether it is refused."""
    names = list(dict.fromkeys(name for each in measures.values() for name in each["damages"]))
    rows = [
        [
            measure.replace("_", " "),
            each["real"],
            *[each["damages"].get(name) for name in names],
            "refused" if each.get("refusal") else "",
        ]
        for measure, each in measures.items()
    ]
    return {
        "title": "What each measure gives for real images, and for real images with severe damage",
        "columns": ["measure", "real images", *names, ""],
        "rows": rows,
    }
