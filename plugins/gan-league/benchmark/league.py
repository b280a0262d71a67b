"""The league of GANs: the toolkit and its peers on several data sets at equal CPU time.

    python plugins/gan-league/benchmark/league.py --dir runs/league --mnist DIR --fashion DIR \\
        --peers37 PYTHON --peers311 PYTHON --cpu-minutes 2 5 20 --seeds 5 --markdown samples/gan.md

Each budget and data set is one `toolkit gan-league`, so the same command continues after any
kill. The page is written after each of them, also from the tournaments of earlier commands with the
same folder. Flags after "--" are those of the tournament.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import platform
import shlex
import subprocess
import sys
from typing import Dict, Iterator, List, NamedTuple, Sequence

import data as league_data
from toolkit_gan_league import result_page, standings
from toolkit_gan_league.standings import Entrant

from toolkit import atomic_write

PEERS = (  # name, script, and the flag that names its Python
    ("TF-GAN", "tfgan_dcgan.py", "peers37"),
    ("Keras DCGAN", "keras_dcgan.py", "peers311"),
    ("Keras WGAN-GP", "keras_wgan_gp.py", "peers311"),
    ("PyTorch DCGAN", "pytorch_dcgan.py", "peers311"),
)
PATHS = {  # flags with paths of a machine, and the words that the page has instead
    **{"--dir": "DIR", "--markdown": "FILE.md"},
    **{"--mnist": "MNIST", "--fashion": "FASHION_MNIST"},
    **{"--peers37": "PYTHON37", "--peers311": "PYTHON311"},
}


class DataSet(NamedTuple):
    """A data set of the league.

    Attributes:
        name: of its folder and its picture.
        title: of its section.
        source: the league's flag that names its files; "" if it needs none.
    """

    name: str
    title: str
    source: str = ""


DATA_SETS = (
    DataSet("mnist5k", "5,000 digits of MNIST, with labels"),
    DataSet("mnist", "MNIST, with labels", "mnist"),
    DataSet("mnist-unlabelled", "MNIST, without labels", "mnist"),
    DataSet("fashion", "Fashion-MNIST, with labels", "fashion"),
    DataSet("emoji", "1,906 emoji in colour, 32 pixels"),
)


# ------------------------------------------------------------------------------------------- rounds


def select_data(arguments: argparse.Namespace) -> List[DataSet]:
    """Return the data sets that are named; if none is, those whose files are given."""
    if arguments.data_sets:
        named = [each for each in DATA_SETS if each.name in arguments.data_sets]
        for each in named:
            if each.source and not getattr(arguments, each.source):
                raise SystemExit(f"--data-sets names '{each.name}', which needs --{each.source}.")
        return named
    return [each for each in DATA_SETS if not each.source or getattr(arguments, each.source)]


def prepare(data: DataSet, arguments: argparse.Namespace) -> List[str]:
    """Return the tournament's flags of a data set, whose files are prepared where need be."""
    place = os.path.join(os.path.abspath(arguments.dir), "data")
    os.makedirs(place, exist_ok=True)
    if data.name == "emoji":
        folder = os.path.join(place, "emoji")
        league_data.prepare_emoji(folder)
        return ["--data", f"images:{folder}", "--image-size", "32"]
    if data.name == "mnist-unlabelled":
        path = os.path.join(place, "mnist-unlabelled.npz")
        league_data.remove_labels(arguments.mnist, path)
        return ["--data", f"npz:{path}"]
    return ["--data", f"idx:{getattr(arguments, data.source)}" if data.source else data.name]


def program_flags(arguments: argparse.Namespace) -> List[str]:
    """Return the flags that let the peers compete whose Python is named."""
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "peers")
    words = []
    for name, script, python in PEERS:
        path = getattr(arguments, python)
        if path:
            command = f"{shlex.quote(path)} {shlex.quote(os.path.join(folder, script))}"
            words += ["--program", f"{name}={command}"]
        else:
            sys.stderr.write(f"{name} is left out: --{python} names no Python.\n")
    return words


def run_round(
    arguments: argparse.Namespace, data: DataSet, flags: Sequence[str], minutes: float
) -> None:
    """Run a tournament, or what is left of it, and write its result. `flags` are of the data."""
    folder = folder_of(arguments, data, minutes)
    command = [
        *(sys.executable, "-m", "toolkit", "gan-league", "--json"),
        *("--dir", folder, "--presets", arguments.presets),
        *("--cpu-minutes", f"{minutes:g}", "--seeds", str(arguments.seeds)),
        *(*program_flags(arguments), *flags, *arguments.flags),
    ]
    if not any(word.startswith("--score-samples") for word in arguments.flags):
        command += ["--score-samples", "5000"]
    sys.stderr.write(f"\n{data.title}, {minutes:g} CPU minutes\n")
    # If this round fails, the page must not show one with other flags or other code in its place.
    with contextlib.suppress(FileNotFoundError):
        os.remove(folder + ".json")
    ending = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    if ending.returncode:
        if ending.returncode < 0 or ending.returncode >= 128:  # killed or interrupted
            raise SystemExit(ending.returncode)
        sys.stderr.write(f"It ended with exit code {ending.returncode} and is left out.\n")
        return
    with atomic_write(folder + ".json") as file:
        file.write(ending.stdout)


def folder_of(arguments: argparse.Namespace, data: DataSet, minutes: float) -> str:
    """Return the folder of a tournament in that of the league; its result has .json besides."""
    return os.path.join(arguments.dir, data.name, f"{minutes:g}-minutes")


def read_entrants(path: str) -> List[Entrant]:
    """Return the entrants of a tournament as its result ranks them; none before its end."""
    try:
        rows = standings.read_json(path)["rows"]
    except FileNotFoundError:
        return []
    return [Entrant(**{name: row[name] for name in Entrant._fields}) for row in rows]


# --------------------------------------------------------------------------------------------- page


def write_page(arguments: argparse.Namespace, sets: Sequence[DataSet], command: str) -> None:
    """Write the page of all tournaments that have ended, and a picture for each data set."""
    path = arguments.markdown
    lines = ["# The league of GANs", "", *describe_league(arguments, command), ""]
    for data in sets:
        results = {}
        for minutes in arguments.cpu_minutes:
            rows = read_entrants(folder_of(arguments, data, minutes) + ".json")
            results.update({minutes: rows} if rows else {})
        if results:
            lines += section(data, results, f"{os.path.splitext(path)[0]}-{data.name}.png")
    with atomic_write(path) as file:
        file.write(("\n".join(lines) + "\n" + result_page.LEGEND).encode())


def describe_league(arguments: argparse.Namespace, command: str) -> List[str]:
    """Say what the tables compare, and how they are made."""
    peers = "[benchmark/peers](../plugins/gan-league/benchmark/peers/README.md)"
    return [
        "The toolkit and other tools at equal CPU time. The data chooses the preset `auto`; the",
        f"programs have the settings of their tutorials, which {peers} describes.",
        "The network of a preset's clusters (`cluster_features=self`) is trained once, before the",
        "runs, and its time is not counted. Where the features of the scores are `self`, such a",
        "preset has learned from the very network that scores it: there the FD favours it, and",
        "only the two-sample test is independent.",
        f"{os.cpu_count()} cores, no GPU ({platform.machine()}). A round that has not ended is",
        "left out.",
        "",
        f"    {command}",
    ]


def describe_command(words: Sequence[str]) -> str:
    """The command that makes the page again, with a word in place of each path."""
    names = ["", *(PATHS.get(word, "") for word in words)]  # by the flag before
    words = [name or word for name, word in zip(names, words)]
    return " ".join(map(shlex.quote, ["python", "plugins/gan-league/benchmark/league.py", *words]))


def section(data: DataSet, results: Dict[float, List[Entrant]], picture: str) -> List[str]:
    """The lines of a data set: a table with all budgets, verdicts, and samples of the largest."""
    every = [row for rows in results.values() for row in rows]
    columns = ["CPU minutes", *result_page.COLUMNS]
    lines = [f"## {data.title}", "", result_page.describe_scores(every, data.name), ""]
    lines += ["| " + " | ".join(columns) + " |", "|--:|---" + (len(columns) - 2) * "|--:" + "|"]
    for minutes, rows in results.items():
        for entrant in rows:
            cells = [f"{minutes:g}", *result_page.cells_of(entrant)]
            lines.append("| " + " | ".join(map(result_page.escape, cells)) + " |")
    lines.append("")
    for minutes, rows in results.items():
        texts = (f"{minutes:g} CPU minutes: {text}" for text in verdicts(rows))
        lines += [f"- {result_page.escape(text)}" for text in texts]
    minutes, rows = list(results.items())[-1]
    if result_page.write_samples(rows, picture):
        names = ", ".join(row.name for row in rows if row.scores)
        lines += ["", f"![Samples, a row for each]({os.path.basename(picture)})", ""]
        lines += [f"After {minutes:g} CPU minutes, from above: {result_page.escape(names)}."]
    return [*lines, ""]


def verdicts(rows: Sequence[Entrant]) -> Iterator[str]:
    """Sentences: whether the best preset is first by interval, by each measure that they have."""
    missing = [row.name for row in rows if not row.scores]
    rest = f" Without scores, so not compared: {', '.join(missing)}." if missing else ""
    for measure in (standings.DISTANCE, standings.TWO_SAMPLE):
        scored = [row for row in rows if standings.estimates_of(row, measure)]
        scored.sort(key=lambda row: standings.mean_of(row, measure))
        presets = [row for row in scored if not row.program]
        peers = [row for row in scored if row.program]
        if presets and peers:
            yield describe_place(presets, peers, measure) + rest


def describe_place(presets: Sequence[Entrant], peers: Sequence[Entrant], measure: str) -> str:
    """Say whether the toolkit's best entrant is first, and whether by more than chance.

    The best is first in either list. It is chosen by the values that are tested, so all pairs of a
    preset and a peer count.
    """
    ours, pairs = presets[0], [(preset, peer) for preset in presets for peer in peers]
    results = standings.separate_pairs(pairs, measure)
    count = sum(not math.isnan(result.p) for result in results)
    near = [peer.name for peer, result in zip(peers, results) if not result.is_separated]
    text = standings.describe_separation(ours, peers[0], measure, results[0], count)
    if standings.mean_of(ours, measure) > standings.mean_of(peers[0], measure):
        return f"**not first** by the {measure}. {text}"
    if near:
        names = ", ".join(near)
        return f"first by the {measure}, but not by interval from {names}. {text}"
    return f"**first by interval** by the {measure}. {text}"


def main() -> None:
    arguments = parse(sys.argv[1:])
    sets = select_data(arguments)
    flags = {data: prepare(data, arguments) for data in sets}
    for minutes in arguments.cpu_minutes:
        for data in sets:
            run_round(arguments, data, flags[data], minutes)
            write_page(arguments, sets, describe_command(sys.argv[1:]))


def parse(words: Sequence[str]) -> argparse.Namespace:
    """Return the flags of the league; the budgets from the smallest on."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = [data.name for data in DATA_SETS]
    parser.add_argument("--dir", required=True, help="folder of the tournaments")
    parser.add_argument("--markdown", required=True, help="the page; pictures are beside it")
    parser.add_argument("--mnist", default="", help="folder of MNIST's four files")
    parser.add_argument("--fashion", default="", help="folder of Fashion-MNIST's four files")
    parser.add_argument("--data-sets", nargs="+", choices=names, help="which; default: all")
    parser.add_argument("--presets", default="auto", help="of the toolkit, separated by commas")
    parser.add_argument("--peers37", default="", help="Python 3.7 with TensorFlow 1.15, TF-GAN")
    parser.add_argument("--peers311", default="", help="Python with TensorFlow 2 and PyTorch")
    parser.add_argument("--cpu-minutes", nargs="+", type=float, default=[2, 5, 20], help="budgets")
    parser.add_argument("--seeds", type=int, default=5, help="with which each trains")
    parser.add_argument("flags", nargs="*", help="after --: of the tournaments")
    arguments = parser.parse_args(words)
    arguments.cpu_minutes = sorted(set(arguments.cpu_minutes))
    return arguments


if __name__ == "__main__":
    main()
