"""What the scores put on the page of a run, as docs/plugins/pages.md describes it."""

from __future__ import annotations

from typing import Any, Dict, List

from . import reports, two_sample

MAX_CLASSES = 200  # of the table
MANY = 0.9  # of the samples are recognised: a first advice is what every GAN begins with
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
    sections: Dict[str, Any] = {
        "headline": [*_two_sample(details), *_distance(details), *_shares(details)],
        "pictures": [each for each in (GIVEAWAYS, NEAREST) if each["file"] in files],
        "tables": [_class_table(classes)] if classes else [],
    }
    if details.get("ruler"):
        sections["tables"].append(_ruler_table(details))
        sections["tables"].append(_measure_table(details["measures"]))
    sections["warnings"] = [{"text": line} for line in _warnings(details)]
    sections["advice"] = _advice(details)
    return sections


def _advice(details: Dict[str, Any]) -> List[str]:
    """What to do where most of the samples are recognised."""
    test = details.get("two_sample")
    if not test or test["low"] < MANY:
        return []
    return [
        "Look at the surest fakes: that is what gives the samples away.",
        "If they still got better at the end, train longer with --steps.",
    ]


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
    text = f"It lies {place}, on the ruler of damaged real images." if place else ""
    if details["frechet_ratio"] is not None:
        multiple = reports.short(details["frechet_ratio"], 2)
        text = f"{multiple} times what real images reach by sampling noise. {text}"
    headline = {
        "name": "Frechet distance",
        "value": distance["mean"],
        **distance["interval"],
        "floor": details["frechet_floor"],
        "direction": "min",
        "text": text,
        "note": f"n = {details['n']:,}, m = {details['m']:,}",
    }
    return [headline]


def _two_sample(details: Dict[str, Any]) -> List[Dict[str, Any]]:
    """The accuracy of the two-sample test with its interval, if it was made."""
    test = details.get("two_sample")
    if not test:
        return []
    headline = {
        "name": "two-sample accuracy",
        "value": test["accuracy"],
        **two_sample.as_interval(test).as_json(),
        "direction": "min",
        "ends": [two_sample.CHANCE, 1.0],
        "text": f"{test['accuracy']:.1%} of the samples and real images are told apart by a "
        "network; 50 % would be indistinguishable.",
        "note": f"n = {test['n']:,}, m = {test['m']:,}",
    }
    return [headline]


def _shares(details: Dict[str, Any]) -> List[Dict[str, Any]]:
    """Those that are not refused, with the values of real images and of damaged ones beside."""
    headlines = []
    for name in ("precision", "recall", "coverage"):
        note = reports.format_judgement(details, name).strip(" ()")
        if details[name] is not None:
            headline = {"name": name, "value": details[name], "direction": "max"}
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
