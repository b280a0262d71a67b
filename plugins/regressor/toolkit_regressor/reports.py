"""Reports of an evaluation: errors with intervals, a scatter plot, the worst predictions.

Legend: N examples, L numbers of an example.
"""

from __future__ import annotations

import os

import numpy as np

from toolkit import save_grid, statistics

from .targets import label_names

MAX_ROWS, MAX_COLUMNS, MAX_HEADLINE = 20, 12, 6  # of tables and quantities on the page
MAX_PLOTS, MAX_POINTS = 6, 5000  # in scatter.png
INK = "#7d848e"  # on a clear ground: legible on a white and on a dark page


def write(examples, data, folder):
    """Write scatter.png and, for images, worst.png. Return a summary for the result of the
    evaluation; None, without a file, without labels. The examples are numpy arrays: "features" and
    "labels" as the hooks get them, and each predicted number [N] by its name.
    """
    from matplotlib import style

    labels, features = examples.get("labels"), examples["features"]
    if labels is None:
        return None
    names = label_names(data)
    true = np.reshape(labels, [len(labels), -1]).astype(np.float64)  # [N, L]
    predicted = np.stack([examples[name] for name in names], 1).astype(np.float64)
    scores = {name: score(true[:, i], predicted[:, i]) for i, name in enumerate(names)}
    varies = np.ptp(true, axis=0) > 0  # the others count where there are no such numbers
    scale = np.where(varies, true.std(axis=0), np.inf if varies.any() else 1)
    distances = np.abs(predicted - true) / scale
    worst = np.argsort(-distances.max(axis=1), kind="stable")[:MAX_ROWS]
    with style.context("default"):  # anybody can put a matplotlibrc in the working directory
        draw_scatter(names, true, predicted, os.path.join(folder, "scatter.png"))
    pictures = [{"file": "scatter.png", "title": "Predicted and true", "alt": "A point an example"}]
    if not isinstance(features, dict) and features.ndim == 4 and features.shape[3] in (1, 3):
        save_grid(os.path.join(folder, "worst.png"), features[worst], columns=10)
        pictures.append({"file": "worst.png", "title": "Worst predictions", "alt": "Images"})
    headline = [dict(q, name=f"{q['name']} of {n}") for n, qs in scores.items() for q in qs]
    page = {"headline": headline[:MAX_HEADLINE], "pictures": pictures}
    page["tables"] = [worst_table(names, true, predicted, worst, features, data)]
    return {"files": [each["file"] for each in pictures], "errors": scores, "page": page}


def score(true, predicted):
    """The quantities of the page for one number; true and predicted are float64 [N]."""
    squares, spread = np.square(predicted - true), np.square(true - true.mean())
    note = f"{np.abs(true - true.mean()).mean():.4g} if each prediction were the mean"
    error = mean_of(np.abs(predicted - true), "mean absolute error", note)
    root = mean_of(squares, "root mean squared error", "large errors count more")
    for end in {"value", "low", "high"} & set(root):
        root[end] = max(root[end], 0.0) ** 0.5
    if true.min() == true.max():
        return [error, root]
    share = 1 - squares.mean() / spread.mean()
    # The ratio of two means varies like the mean of these values (delta method).
    shares = share + ((1 - share) * spread - squares) / spread.mean()
    note = "of the variance: 0 if each prediction were the mean, 1 without an error"
    return [error, root, mean_of(shares, "explained share", note)]


def mean_of(values, name, note):
    interval = statistics.bootstrap(values).as_json() if len(values) > 1 else {}
    return dict(interval, value=float(values.mean()), name=name, note=note)


def worst_table(names, true, predicted, rows, features, data):
    """A row for each of some examples: its place in the split, its numbers, and its inputs."""
    numbers = features.get("numbers") if isinstance(features, dict) else features
    titles = ["example", *(f"{name}, {kind}" for name in names for kind in ("true", "predicted"))]
    both = np.stack([true, predicted], 2).reshape(len(true), -1)[rows]
    if numbers is not None and numbers.ndim == 2:
        columns = list((data.table or {}).get("numbers", ()))
        titles += columns + [f"input {i}" for i in range(len(columns), numbers.shape[1])]
        both = np.concatenate([both, numbers[rows]], 1)
    table = [[int(row), *(float(f"{x:.5g}") for x in each)] for row, each in zip(rows, both)]
    return {
        "title": "Worst predictions",
        "columns": titles[:MAX_COLUMNS],
        "rows": [row[:MAX_COLUMNS] for row in table],
    }


def draw_scatter(names, true, predicted, path):
    """A plot for each of the first numbers. pyplot has a global state: it is not used."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    count = min(len(names), MAX_PLOTS)
    columns = min(count, 3)
    rows = -(-count // columns)
    figure = Figure(figsize=(4.2 * columns, 4.2 * rows), dpi=120, facecolor="white")
    FigureCanvasAgg(figure)
    shown = np.linspace(0, len(true) - 1, min(MAX_POINTS, len(true))).astype(int)
    for i in range(count):
        axes = figure.add_subplot(rows, columns, i + 1)
        x, y = true[shown, i], predicted[shown, i]
        ends = [min(x.min(), y.min()), max(x.max(), y.max())]
        axes.plot(ends, ends, color="0.6", linewidth=1)
        axes.scatter(x, y, s=9, alpha=0.6, color="#2f7fd6")
        axes.set_xlabel(f"{names[i]}, true", color=INK)
        axes.set_ylabel("predicted", color=INK)
        axes.tick_params(colors=INK)
        for spine in axes.spines.values():
            spine.set_color(INK)
    figure.tight_layout()
    figure.savefig(path, transparent=True)
