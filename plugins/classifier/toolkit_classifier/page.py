"""What a classifier puts on the page of a run, as docs/plugins/pages.md describes it."""

from __future__ import annotations

from . import scores

MAX_CLASSES = 60  # of the confusion matrix
MAX_ROWS = 200  # of the table


def content(matrix, report, names, values, files):
    """The value of the key "page".

    Args:
        matrix: int [K, K], true class in rows.
        report: a dict with precision, recall, f1 and examples of each class.
        names: of the classes.
        values: of `scores.to_json`.
        files: the names of the files of the report.
    """
    sections = {
        "headline": headline(matrix, values),
        "pictures": pictures(files),
        "tables": [class_table(report)],
    }
    if len(names) <= MAX_CLASSES:
        counts = {"title": "Confusion", "names": names, "counts": matrix.tolist()}
        sections["matrices"] = [counts]
    if values["calibration"]:
        sections["charts"] = [calibration_chart(values["calibration"])]
    return sections


def headline(matrix, values):
    quantities = [
        {"name": "accuracy", **scores.with_ends(*scores.accuracy(matrix))},
        {"name": "macro F1", **values["f1"]["macro"]},
    ]
    if values["calibration"]:
        quantities.append({"name": "calibration error", "value": values["calibration"]["ece"]})
    return quantities


def pictures(files):
    """The most confident mistakes first, if there is a picture of them."""
    texts = {
        "mistakes.png": ("Most confident mistakes", "Images with true and predicted class"),
        "confusion.png": ("Confusion matrix", "True classes in rows, predicted ones in columns"),
    }
    return [{"file": f, "title": t, "alt": alt} for f, (t, alt) in texts.items() if f in files]


def class_table(report):
    rows = [
        [row[key] for key in ("class", "precision", "recall", "f1", "examples")] for row in report
    ]
    title = "Per class"
    if len(rows) > MAX_ROWS:
        rows = sorted(rows, key=lambda row: row[2])[:MAX_ROWS]
        title += f", the {MAX_ROWS} of the lowest recall"
    return {
        "title": title,
        "columns": ["class", "precision", "recall", "F1", "examples"],
        "rows": rows,
    }


def calibration_chart(calibration):
    points = [
        [each["confidence"], each["accuracy"], each["interval"]["low"], each["interval"]["high"]]
        for each in calibration["bins"]
    ]
    return {
        "title": f"Calibration, {calibration['num_bins']} bins of equal width: "
        f"ECE {calibration['ece']:.4f}",
        "x": "probability of the prediction",
        "y": "share that is right",
        "lines": [{"name": "bins", "points": points}],
        "diagonal": True,
    }
