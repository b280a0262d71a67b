"""Reports of an evaluation: scores per class, confusion matrix, the most confident mistakes.

Legend: N examples, K classes. A confusion matrix is int [K, K]: true class in rows, predicted class
in columns. Figures are drawn without pyplot, whose global state a notebook or another run may use.
"""

from __future__ import annotations

import json
import os
import unicodedata

import numpy as np

from . import page, scores

MISTAKE_COLUMNS, MISTAKE_ROWS = 8, 5  # of images in mistakes.png
MAX_LISTED = 5  # classes and confusions in the summary
MAX_NAME = 40  # letters of a name in report.txt
DPI = 120  # pixels per inch of a figure
TILE, GAP, TITLE = 118, 20, 40  # pixels of mistakes.png: side of an image, between two, at the top
FRAME = 120  # grey level
INK = "#7d848e"  # of text on a clear ground: legible on a white and on a dark page
MAX_LABELLED = 25  # classes up to which confusion.png has numbers and names
MAX_SHOWN = 1500  # classes up to which the confusion matrix is written: as many as pixels
BLUE, ORANGE = np.array([0.13, 0.38, 0.66]), np.array([0.85, 0.37, 0.05])


def write(examples, data, folder):
    """Write report.txt, report.json, confusion.png unless of many classes, and, for images,
    mistakes.png. Return a summary for the result of the evaluation; None, without writing a file,
    if there are no labels.

    The examples are numpy arrays: "labels" int [N], "label" int [N] (the prediction), "probability"
    float [N], and "features", which are [N, H, W, C] in [0, 1] for images.
    """
    labels = examples.get("labels")
    if labels is None or len(labels) == 0:
        return None
    names = class_names(data)
    confusion = scores.Confusion.of(labels, examples["label"], len(names))
    matrix = confusion.matrix() if len(names) <= MAX_SHOWN else None
    report = class_scores(confusion, names)
    calibrated = scores.calibration(examples)
    values = scores.to_json(confusion, calibrated)
    files = ["report.txt", "report.json"]
    with open_text(folder, "report.txt") as file:
        file.write(format_report(confusion, matrix, report, names))
        file.write(format_scores(confusion, values))
    with open_text(folder, "report.json") as file:
        content = {"classes": report, "class_names": names}
        content.update({} if matrix is None else {"confusion": matrix.tolist()}, **values)
        json.dump(content, file, indent=2, ensure_ascii=False)
    indices = worst_mistakes(examples, data.shape)
    with default_style():
        drawable = drawable_names(names)
        if matrix is not None:
            draw_confusion(matrix, drawable, os.path.join(folder, "confusion.png"))
            files.append("confusion.png")
        if len(indices):
            draw_mistakes(examples, indices, drawable, os.path.join(folder, "mistakes.png"))
            files.append("mistakes.png")
    return {
        "files": files,
        "mistakes": int((labels != examples["label"]).sum()),
        "worst_classes": worst_classes(report),
        "confusions": most_common_confusions(confusion, names),
        "f1": values["f1"],
        "calibration": values["calibration"]
        and {key: values["calibration"][key] for key in ("ece", "num_bins")},
        "page": page.content(confusion, report, names, values, files),
    }


def open_text(folder, name):
    """A new text file. Of a name that is not valid text, it gets the escapes that JSON uses."""
    path = os.path.join(folder, name)
    return open(path, "w", encoding="utf-8", errors="backslashreplace")


def class_names(data):
    """A list of K names; a class without a name is called by its number."""
    names = [str(name) for name in data.class_names or ()]
    return names + [str(k) for k in range(len(names), data.num_classes)]


def class_scores(confusion, names):
    """One dict per class: class, precision, recall, f1, examples; a score is 0 if undefined."""
    sums = scores.class_sums(*confusion)
    hits, examples, predicted = (each.astype(np.int64) for each in sums)
    columns = {
        "precision": share(hits, predicted),
        "recall": share(hits, examples),
        "f1": share(2 * hits, examples + predicted),
        "examples": examples,
    }
    rows = zip(*(column.tolist() for column in columns.values()))
    return [dict(zip(columns, row), **{"class": name}) for name, row in zip(names, rows)]


def share(part, whole):
    """part / whole for each element; 0 where `whole` is 0 (then `part` is 0 as well)."""
    return part / np.maximum(whole, 1)


def format_report(confusion, matrix, report, names):
    """The scores and the confusion matrix, None of many classes, as plain text."""
    names = [shorten(escape(name), MAX_NAME) for name in names]
    wide = max(8, max(columns(name) for name in names))
    lines = [f"{align('class', wide)}  precision  recall      f1  examples"]
    for name, row in zip(names, report):
        lines.append(
            "{}     {:.4f}  {:.4f}  {:.4f}  {:>8}".format(
                align(name, wide), row["precision"], row["recall"], row["f1"], row["examples"]
            )
        )
    accuracy, total = scores.accuracy(confusion)[0], confusion.counts.sum()
    lines += ["", f"accuracy {accuracy:.4f} on {total} examples"]
    if matrix is None:
        return "\n".join(lines) + "\n"
    lines += ["", f"{align('true', wide)}  predicted, in the order of the rows"]
    cell = len(str(matrix.max())) + 1
    for name, row in zip(names, matrix):
        counts = "".join("{:>{}}".format(count or ".", cell) for count in row.tolist())
        lines.append(f"{align(name, wide)} {counts}")
    return "\n".join(lines) + "\n"


def format_scores(confusion, values):
    """Accuracy and F1 with their intervals, and the calibration, as plain text, of the confusions
    and the values of `scores.to_json`.
    """
    rows = [("accuracy", scores.with_ends(*scores.accuracy(confusion)))]
    rows += [(f"{name} F1", score) for name, score in values["f1"].items()]
    lines = ["", "             value  95 % interval"]
    for name, v in rows:
        interval = f"  {v['low']:.4f} to {v['high']:.4f}" if "low" in v else ""
        lines.append(f"{name:>11} {v['value']:.4f}{interval}")
    calibration = values["calibration"]
    if calibration:
        lines += ["", f"calibration error (ECE) {calibration['ece']:.4f}: the mean distance of"]
        lines += [f"probability and share in {calibration['num_bins']} bins of equal width"]
        lines += ["", "   bin          examples  probability  right   95 % interval"]
        lines += map(format_bin, calibration["bins"])
    return "\n".join(lines) + "\n"


def format_bin(values):
    interval = values["interval"]
    return (
        f"   {values['low']:.3f}-{values['high']:.3f}  {values['examples']:>8}       "
        f"{values['confidence']:.4f}  {values['accuracy']:.4f}  "
        f"{interval['low']:.4f} to {interval['high']:.4f}"
    )


def worst_classes(report):
    """The classes with the lowest recall among those that have examples and mistakes."""
    rows = [row for row in report if row["examples"] and row["recall"] < 1]
    rows.sort(key=lambda row: row["recall"])
    return [{key: row[key] for key in ("class", "recall", "examples")} for row in rows[:MAX_LISTED]]


def most_common_confusions(confusion, names):
    """The largest counts outside of the diagonal."""
    true, predicted = np.divmod(confusion.cells, confusion.num_classes)
    counts = np.where(true == predicted, 0, confusion.counts)
    order = np.argsort(-counts, kind="stable")[:MAX_LISTED]
    return [
        {"true": names[true[k]], "predicted": names[predicted[k]], "count": int(counts[k])}
        for k in order
        if counts[k]
    ]


def worst_mistakes(examples, shape):
    """Indices of wrong predictions, the most confident first; [] for other data than images."""
    images = examples.get("features")
    if images is None or images.shape[1:] != tuple(shape) or images.ndim != 4:
        return []
    if images.shape[3] not in (1, 3):
        return []
    wrong = np.flatnonzero(examples["label"] != examples["labels"])
    order = np.argsort(-examples["probability"][wrong], kind="stable")
    return wrong[order][: MISTAKE_COLUMNS * MISTAKE_ROWS]


def default_style():
    """matplotlib's own settings: anybody can put a matplotlibrc in the working directory.

    One with `text.usetex` would pass the names of classes to LaTeX.
    """
    from matplotlib import style

    return style.context("default")


def new_figure(width, height):
    """A matplotlib Figure of this many inches that renders with Agg."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=DPI, facecolor="white")
    FigureCanvasAgg(figure)
    return figure


def confusion_colours(matrix):
    """float [K, K, 3]: on the diagonal blue by recall, elsewhere orange by share of the largest."""
    shares = matrix / np.maximum(matrix.sum(axis=1, keepdims=True), 1)
    diagonal = np.eye(len(matrix), dtype=bool)
    wrong = np.where(diagonal, 0, shares)
    # The square root makes a single mistake among thousands visible.
    depth = np.where(diagonal, 0.85 * shares, 0.9 * np.sqrt(wrong / max(wrong.max(), 1e-9)))
    colour = np.where(diagonal[..., None], BLUE, ORANGE)
    return 1 - depth[..., None] * (1 - colour)


def draw_confusion(matrix, names, path):
    count = len(names)
    side = min(max(3.6, 1.6 + 0.46 * count), 13)
    figure = new_figure(side + 0.4, side)
    axes = figure.add_subplot(1, 1, 1)
    axes.imshow(confusion_colours(matrix), interpolation="nearest")
    accuracy = matrix.trace() / max(matrix.sum(), 1)
    axes.set_title(f"{accuracy:.2%} of {matrix.sum()} right", fontsize=11)
    axes.set_xlabel("predicted")
    axes.set_ylabel("true")
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_color("0.75")
    if count <= MAX_LABELLED:
        label_confusion(axes, matrix, names)
    figure.tight_layout()
    figure.savefig(path)


def label_confusion(axes, matrix, names):
    short = [without_tex(shorten(name, 12)) for name in names]
    rotation = {"rotation": 45, "ha": "right"} if max(map(len, short)) > 2 else {}
    axes.set_xticks(range(len(names)))
    axes.set_xticklabels(short, **rotation)
    axes.set_yticks(range(len(names)))
    axes.set_yticklabels(short)
    for (row, column), number in np.ndenumerate(matrix):
        if number:
            dark = row == column and number * 2 > matrix[row].sum()
            size = 8 if matrix.max() < 1000 else 7
            axes.text(
                column,
                row,
                number,
                ha="center",
                va="center",
                fontsize=size,
                color="white" if dark else "black",
            )


def draw_mistakes(examples, indices, names, path):
    """Framed images in rows, each below its caption: without axes, which take most of the time."""
    columns = min(MISTAKE_COLUMNS, max(len(indices), 5))  # the title is five images wide
    captions = [caption(examples, index, names) for index in indices]
    short = max(map(len, captions)) <= 12
    images = [scale(examples["features"][index]) for index in indices]
    high, wide = images[0].shape[:2]
    pitch = high + (32 if short else 44)  # with a caption of one line or two
    rows = -(-len(indices) // columns)
    height, width = TITLE + rows * pitch, columns * (TILE + GAP)
    figure = new_figure(width / DPI, height / DPI)
    wrong = int((examples["label"] != examples["labels"]).sum())
    title = "{} of {} mistakes, most confident first: true \u2192 predicted, probability"
    figure.suptitle(
        title.format(len(indices), wrong), fontsize=10, y=1 - 12 / height, va="top", color=INK
    )
    for place, (image, text) in enumerate(zip(images, captions)):
        row, column = divmod(place, columns)
        bottom = TITLE + (row + 1) * pitch - 4
        left = column * (TILE + GAP) + (TILE + GAP - wide) // 2
        framed = np.pad(image, [(1, 1), (1, 1), (0, 0)], "constant", constant_values=FRAME)
        figure.figimage(framed, left - 1, height - bottom - 1)
        figure.text(
            (left + wide / 2) / width,
            1 - (bottom - high - 5) / height,
            text.replace("\n", "  ") if short else text,
            ha="center",
            va="bottom",
            fontsize=8 if short else 6.5,
            color=INK,
        )
    figure.savefig(path, transparent=True)


def caption(examples, index, names):
    pair = (int(examples[key][index]) for key in ("labels", "label"))
    words = " \u2192 ".join(without_tex(shorten(names[k], 9)) for k in pair)
    return f"{words}\n{examples['probability'][index]:.2f}"


def scale(image):
    """uint8 [h, w, 3] of an image in [0, 1], its longer side `TILE`; small pixels are squares."""
    from PIL import Image

    pixels = np.rint(np.clip(np.nan_to_num(image), 0, 1) * 255).astype(np.uint8)
    factor = TILE / max(pixels.shape[:2])
    size = [max(round(n * factor), 1) for n in (pixels.shape[1], pixels.shape[0])]
    kinds = Image.Resampling
    drawn = Image.fromarray(np.broadcast_to(pixels, [*pixels.shape[:2], 3]).copy())
    return np.asarray(drawn.resize(size, kinds.NEAREST if factor >= 1 else kinds.LANCZOS))


def shorten(name, length):
    return name if len(name) <= length else name[: length - 1] + "\u2026"


def escape(name):
    """The name in one line: an escape in place of each letter that does not print."""
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode("ascii")
        for letter in name
    )


def columns(text):
    """How many columns of a terminal a text takes: two for a wide letter, none for an accent."""
    return sum(
        0 if unicodedata.combining(letter) else 1 + (unicodedata.east_asian_width(letter) in "WF")
        for letter in text
    )


def align(text, wide):
    """The text at the right of so many columns."""
    return " " * (wide - columns(text)) + text


def drawable_names(names):
    """The names for a figure; in place of a name that the font cannot draw, the class's number.

    matplotlib would warn, and draw a box for each letter.
    """
    from matplotlib.font_manager import FontProperties, findfont, get_font

    glyphs = get_font(findfont(FontProperties())).get_charmap()
    escaped = [escape(name).strip() for name in names]
    return [
        name if name and all(ord(letter) in glyphs for letter in name) else str(number)
        for number, name in enumerate(escaped)
    ]


def without_tex(text):
    """The text as matplotlib draws it unchanged; text between two dollars would be a formula."""
    return text.replace("$", r"\$")
