"""Tables and plots of measurements: on the console, in Markdown, as an image.

    python benchmarks/outputs.py speed-2.json speed-1.json --markdown speed.md --plot docs/speed.png

joins files that the benchmarks wrote with --json, for example runs on both TensorFlow versions.
"""

from __future__ import annotations

import argparse
import json
import sys

MARKS = ("import", "build", "step")  # the stages of the start-up that a contender reports
HEADS = ["ratio", "(rounds)", "to best peer", "(rounds)", "steps/s", "us/step"]
HEADS += list(MARKS) + ["MiB", "others"]
OURS, OTHERS, BASE = "#c2410c", "#94a3b8", "#334155"


def add_arguments(parser) -> None:
    """Add the options for output files."""
    parser.add_argument("--json", metavar="FILE", help="also write all measurements")
    parser.add_argument("--markdown", metavar="FILE", help="also write the tables as Markdown")
    parser.add_argument("--plot", metavar="FILE", help="also plot the ratios with their spread")


def write_all(results, arguments) -> None:
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump(results[0], file, indent=1)
    if arguments.markdown:
        write(arguments.markdown, [line for result in results for line in markdown(result)])
    if arguments.plot:
        plot(results, arguments.plot)


def write(path: str, lines) -> None:
    with open(path, "w") as file:
        file.write("\n".join(lines) + "\n")


# ---------------------------------------------------------------------------------------- tables


def show(setting: str, rows) -> None:
    """Print the table of one setting."""
    print("\n" + "\n".join(align(cells(setting, rows)) + notes(rows)))
    sys.stdout.flush()


def cells(setting: str, rows):
    """The table as lists of cells: the heads, then the contenders, the fastest first."""
    return [[setting] + HEADS] + [[name] + row_cells(row) for name, row in fastest_first(rows)]


def row_cells(row):
    """The cells of a row, in the order of HEADS."""
    marks = [f"{row['startup_secs'][mark]:.1f}" for mark in MARKS]
    rates = [f"{row['steps_per_sec']:.1f}", f"{1e6 / row['steps_per_sec']:.0f}"]
    ends = [f"{row['peak_mib']:.0f}", f"{row['others']:.2f}"]
    return spread(row.get("to_base")) + spread(row.get("to_best_peer")) + rates + marks + ends


def spread(ratio):
    if ratio is None:
        return ["-", ""]
    return [f"{ratio['ratio']:.2f}", "({least:.2f}-{most:.2f})".format(**ratio)]


def fastest_first(rows):
    return sorted(rows.items(), key=lambda item: -item[1]["steps_per_sec"])


def notes(rows):
    """Lines below a table: the best peer, the contenders' choices, the cost of a checkpoint."""
    lines = [
        f"best peer: {row['to_best_peer']['peer']}"
        for row in list(rows.values())[:1]
        if "to_best_peer" in row
    ]
    lines += [f"{name} chose {row['way']}" for name, row in rows.items() if row["way"]]
    cost = rows.get("ours", {}).get("checkpoints")
    if cost:
        form = "a checkpoint with its evaluation: {later_secs:.2f} s (the first {first_secs:.2f} s)"
        lines.append((form + "; once a minute, {share:.1%} of the time").format(**cost))
    return lines


def align(table):
    """Lines of a table of cells: the first column left-aligned, the others right-aligned."""
    widths = [max(map(len, column)) for column in zip(*table)]
    lines = []
    for first, *others in table:
        right = [text.rjust(width) for text, width in zip(others, widths[1:])]
        lines.append("  ".join([first.ljust(widths[0])] + right))
    return lines


def markdown(result):
    """Lines of Markdown: a heading, then the table of each setting with its notes."""
    lines = [
        "### TensorFlow {tensorflow}, Python {python}, {cpus} cores".format(**result["machine"]),
        "",
        f"ratio: to `{result['base']}`. import, build, step: seconds from the start of the "
        "process.",
    ]
    for setting, rows in result["settings"].items():
        lines += [""] + markdown_table(cells(setting, rows))
        lines += [line for note in notes(rows) for line in ("", note + ".")]
    return lines + [""]


def markdown_table(table):
    heads, *rows = table
    rule = ["---"] + ["--:"] * (len(heads) - 1)
    return ["| " + " | ".join(row) + " |" for row in [heads, rule] + rows]


# ------------------------------------------------------------------------------------------ plot


def plot(results, path: str) -> None:
    """A panel per run and setting: bars for the ratios to the base, lines for their spread."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    panels = [(result, setting) for result in results for setting in result["settings"]]
    columns = max(len(result["settings"]) for result in results)
    tallest = max(len(result["settings"][setting]) for result, setting in panels)
    figure, axes = pyplot.subplots(
        len(results),
        columns,
        squeeze=False,
        figsize=(4.6 * columns, len(results) * (1 + 0.26 * tallest)),
    )
    for axis in axes.flat:
        axis.set_axis_off()
    for number, result in enumerate(results):
        for axis, setting in zip(axes[number], result["settings"]):
            panel(axis, result, setting)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def panel(axis, result, setting: str) -> None:
    """The bars of one setting, the fastest on top."""
    rows = [
        (name, row) for name, row in fastest_first(result["settings"][setting]) if "to_base" in row
    ][::-1]
    axis.set_axis_on()
    ratios = [row["to_base"] for _, row in rows]
    middle = [ratio["ratio"] for ratio in ratios]
    below = [max(0.0, ratio["ratio"] - ratio["least"]) for ratio in ratios]
    above = [max(0.0, ratio["most"] - ratio["ratio"]) for ratio in ratios]
    names = [name for name, _ in rows]
    axis.barh(names, middle, color=[color(name, result["base"]) for name in names])
    axis.errorbar(
        middle,
        range(len(rows)),
        xerr=[below, above],
        fmt="none",
        ecolor="black",
        elinewidth=1,
        capsize=2,
    )
    for height, ratio in enumerate(ratios):
        axis.text(ratio["most"], height, f"  {ratio['ratio']:.2f}", va="center", fontsize=8)
    axis.set_xlim(0, 1.15 * max([ratio["most"] for ratio in ratios] + [1.0]))
    axis.axvline(1.0, color=BASE, linewidth=0.8, linestyle=":")
    axis.tick_params(labelsize=8)
    axis.set_title(f"{setting}, TensorFlow {result['machine']['tensorflow']}", fontsize=9)
    axis.set_xlabel(f"steps per second, {result['base']} = 1", fontsize=8)
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)


def color(name: str, base: str) -> str:
    if name.split("+")[0] == "ours":
        return OURS
    return BASE if name == base else OTHERS


def read_results(path: str, only):
    """The file that a benchmark wrote with --json.

    Args:
        path: The JSON file.
        only: Names of contenders, separated by commas, or None for all.
    """
    with open(path) as file:
        result = json.load(file)
    for setting, rows in result["settings"].items():
        selection = {name: row for name, row in rows.items() if not only or name in only.split(",")}
        result["settings"][setting] = selection
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("results", nargs="+", metavar="JSON", help="files written with --json")
    parser.add_argument("--markdown", metavar="FILE", help="write the tables as Markdown")
    parser.add_argument("--plot", metavar="FILE", help="plot the ratios with their spread")
    parser.add_argument("--only", metavar="NAME,...", help="contenders [default all]")
    arguments = parser.parse_args()
    results = [read_results(path, arguments.only) for path in arguments.results]
    write_all(results, argparse.Namespace(json=None, **vars(arguments)))


if __name__ == "__main__":
    main()
