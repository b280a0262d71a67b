"""What a classifier puts on the page of a run, as docs/plugins/pages.md describes it."""

from __future__ import annotations

from . import scores

MAX_CLASSES = 60  # of the confusion matrix
MAX_ROWS = 200  # of the table


def content(confusion, report, names, values, files):
    """The value of the key "page" from a `scores.Confusion`, the scores and examples of each class,
    values of `scores.to_json`, and the names of the files.
    """
    sections = {
        "headline": headline(confusion, values),
        "tables": [class_table(report)],
        "charts": [calibration_chart(values["calibration"])] if values["calibration"] else [],
    }
    pictures = {"mistakes.png": ("Most confident mistakes", "Images with true and predicted class")}
    if len(names) <= MAX_CLASSES:  # confusion.png would say the same again
        counts = {"title": "Confusion", "names": names, "counts": confusion.matrix().tolist()}
        sections["matrices"] = [counts]
    else:
        pictures["confusion.png"] = "Confusion", "True classes in rows, predicted ones in columns"
    sections["pictures"] = [
        {"file": file, "title": title, "alt": alt}
        for file, (title, alt) in pictures.items()
        if file in files
    ]
    return sections


def headline(confusion, values):
    """Accuracy beside that of always naming the largest class, macro F1, and the calibration."""
    hits, examples, _ = scores.class_sums(*confusion)
    errors, total = int(examples.sum() - hits.sum()), int(examples.sum())
    text = f"{errors:,} of {total:,} examples {'is' if errors == 1 else 'are'} wrong."
    quantities = [
        {
            "name": "accuracy",
            **scores.with_ends(*scores.accuracy(confusion)),
            **{"direction": "max", "chance": examples.max() / total, "text": text},
        },
        {"name": "macro F1", "direction": "max", **values["f1"]["macro"]},
    ]
    if values["calibration"]:
        error = values["calibration"]["ece"]
        text = f"The probabilities are off by {100 * error:.1f} points on average."
        quantities.append({"name": "calibration error", "value": error, "text": text})
    return quantities


def class_table(report):
    rows = [
        [row[key] for key in ("class", "precision", "recall", "f1", "examples")] for row in report
    ]
    title = "Per class, by recall"
    rows = sorted(rows, key=lambda row: row[2])[:MAX_ROWS]
    return {
        "title": title,
        "columns": ["class", "precision", "recall", "F1", "examples"],
        "rows": rows,
        "bars": ["recall"],
    }


def calibration_chart(calibration):
    """The bins as dots, whose areas are their numbers of examples."""
    bins = calibration["bins"]
    points = [
        [each["confidence"], each["accuracy"], each["interval"]["low"], each["interval"]["high"]]
        for each in bins
    ]
    dots = {"name": "bins, by their number of examples", "points": points, "draw": "dots"}
    return {
        "title": f"Calibration: error {calibration['ece']:.4f}",
        "x": "probability of the prediction",
        "y": "share that is right",
        "lines": [dict(dots, sizes=[each["examples"] for each in bins])],
        "diagonal": True,
    }
