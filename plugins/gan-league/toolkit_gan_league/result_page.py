"""The result of `toolkit gan-league` as a table; parts of the page of the benchmark."""

from __future__ import annotations

from typing import Callable, List, Sequence

import numpy as np
from toolkit_image_scores.report import short

from toolkit import open_trained, save_grid

from . import programs
from .standings import DISTANCE, TWO_SAMPLE, Entrant, estimates_of, means_of, read_json

NUM_IMAGES = 12  # in a row of samples
LEGEND = """\
- FD is the Frechet distance between samples and test images, on the features of a network of
  the same data; lower is better. It compares runs with the same features and numbers of images
  alone, and not with distances on Inception features. "x floor" divides it by its floor, which
  two sets of real images of these sizes reach by sampling noise.
- Two-sample is the share, in percent, of images that a small network, trained for it, tells right
  as generated or as held-out real ones; 50 would be indistinguishable.
- With one seed, the brackets are the interval of the run's own test; with several, the lowest
  and the highest of the seeds, whose mean is before them.
- Coverage is the share of real images that have a sample nearer than their k-th nearest real
  image. Precision is the share of samples that are so near to a real image; recall is the same
  with real images and samples exchanged. "lost" counts the classes with less than a tenth of
  their share. A score that says nothing on this data is refused: "-".
- The checkpoint is the one that the validation split chose. Equal time is no equal number of
  steps, and a preset with the low learning rate of its paper may need more of both: the rows
  show what this budget achieves. A budget in CPU time becomes a number of steps before a run
  begins, by a short timing, which is less exact on a busy machine. "CPU" is what a run took in
  all: with its start, and of a preset or a plugin with its scores, of a program with drawing
  and with the processes that it waited for.
- Other plugins draw their images by their hook `sample`, and score them themselves.
- Programs are other tools. Each gets the training images of the presets and as many cores as a
  preset has threads, and trains by itself for the CPU time of the budget, all its processes
  included; one that takes much longer is killed. Its samples are scored by the same code, on the
  same features and test images, in the same numbers.
"""


# ------------------------------------------------------------------------------------------- table

COLUMNS = (
    *("method", "seeds", "steps", "CPU", "FD", "x floor", "two-sample"),
    *("coverage", "precision", "recall", "lost"),
)
_NUM_FACTS = 4  # columns of an entrant without scores, before its reason


def cells_of(entrant: Entrant) -> List[str]:
    """The texts of a row."""
    facts = [
        entrant.name,
        str(len(entrant.scores)),
        "-" if entrant.program else str(entrant.step),
        f"{entrant.cpu_secs:.0f} s",
    ]
    if not entrant.scores:
        reason = f": {entrant.reason}" if entrant.reason else ", without scores"
        rest = [""] * (len(COLUMNS) - _NUM_FACTS - 1)
        return [*facts, f"{entrant.status}{reason}", *rest]
    means = means_of(entrant)
    shares = [means[name] for name in ("coverage", "precision", "recall")]
    return [
        *facts,
        format_estimate(entrant, DISTANCE, lambda value: short(value, 3)),
        "-" if means["ratio"] is None else short(means["ratio"], 2),
        format_estimate(entrant, TWO_SAMPLE, lambda value: f"{100 * value:.0f}"),
        *["-" if share is None else f"{share:.2f}" for share in shares],
        "-" if means["lost"] is None else f"{means['lost']:.3g}",
    ]


def format_estimate(entrant: Entrant, measure: str, format_value: Callable[[float], str]) -> str:
    """The mean of a score over the seeds; with the interval of one seed, or the lowest and the
    highest of several. "-" without a value.
    """
    estimates = estimates_of(entrant, measure)
    if not estimates:
        return "-"
    values = [each.value for each in estimates]
    ends = estimates[0][1:] if len(estimates) == 1 else (min(values), max(values))
    text = format_value(float(np.mean(values)))
    return f"{text} [{', '.join(map(format_value, ends))}]" if np.isfinite(ends).all() else text


def table_lines(entrants: Sequence[Entrant]) -> List[str]:
    """The table for a terminal."""
    rows = [COLUMNS, *map(cells_of, entrants)]
    # A reason is as long as it is: nothing is beside it, and it widens no column.
    sizes = [[len(cell) if row[-1] else 0 for cell in row[_NUM_FACTS:]] for row in rows]
    widths = [max(len(row[n]) for row in rows) for n in range(_NUM_FACTS)]
    widths += map(max, zip(*sizes))
    return ["  ".join(c.ljust(w) for c, w in zip(row, widths)).rstrip() for row in rows]


# -------------------------------------------------------------------------------------------- page


def escape(text: str) -> str:
    """A text as a page shows it: on one line, without HTML and without columns."""
    for letter, replacement in (("&", "&amp;"), ("<", "&lt;"), ("|", "\\|")):
        text = text.replace(letter, replacement)
    return " ".join(text.splitlines())


def describe_scores(entrants: Sequence[Entrant], data: str) -> str:
    """What all distances have in common: data, features, numbers of images, floor, versions.

    `data` is the name of the data, in place of a path of this machine.
    """
    runs = [pair for each in entrants if not each.program for pair in zip(each.paths, each.scores)]
    if not runs:
        return "No run has scores."
    path, score = runs[0]
    version = read_json(path, "manifest.json").get("versions", {}).get("tensorflow", "?")
    features = score["features"]["name"].replace(read_json(path, "config.json")["data"], data)
    floor = score.get("frechet_floor")
    return (
        f"Data `{data}`, TensorFlow {version}; FD of {score['n']} samples and {score['m']} test "
        f"images{'' if floor is None else f', whose floor is {short(floor, 3)}'}; "
        f"features: {features}."
    )


def write_samples(entrants: Sequence[Entrant], path: str) -> bool:
    """Write a picture with a row of samples for each; return whether any could be drawn."""
    rows = []  # uint8 [NUM_IMAGES, H, W, C], of the first run of each
    for each in entrants:
        if each.scores and each.program:
            rows.append(programs.load_images(each.paths[0])[:NUM_IMAGES])
        elif each.scores:
            with open_trained(each.paths[0]) as trained:
                rows.append(trained.sample(NUM_IMAGES, seed=1)["images"])
    if rows:
        save_grid(path, np.concatenate(rows), NUM_IMAGES)
    return bool(rows)
