"""The league of GANs: the toolkit and its peers on several data sets at equal CPU time.

    python plugins/gan-league/benchmark/league.py --dir runs/league --mnist DIR --fashion DIR \\
        --peers37 PYTHON --peers311 PYTHON --cpu-minutes 2,5,20 --seeds 5 --markdown samples/gan.md

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
import signal
import subprocess
import sys
from typing import Iterator, List, NamedTuple, Optional, Sequence, Tuple

import data as league_data
import numpy as np
from toolkit_gan_league import result_page, standings, supervisor
from toolkit_gan_league.standings import Entrant, Measure
from toolkit_image_scores.report import short

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
SCORE_FLAGS = {"--score-samples": "5000"}  # unless others are set
MEASURES = (standings.DISTANCE, standings.TWO_SAMPLE)


class DataSet(NamedTuple):
    """A data set of the league.

    Attributes:
        name: of its folder and its picture.
        title: of its section.
        flags: of the tournament.
        source: the league's flag that names its files; "" if it needs none.
    """

    name: str
    title: str
    flags: Sequence[str]
    source: str = ""


class Round(NamedTuple):
    """A tournament of the league.

    Attributes:
        data: that all train on.
        minutes: of CPU time for each run.
    """

    data: DataSet
    minutes: float


# ------------------------------------------------------------------------------------------- rounds


def list_data(arguments: argparse.Namespace) -> List[DataSet]:
    """Return the data sets that are named, with their files prepared."""
    place = os.path.join(arguments.dir, "data")
    unlabelled = os.path.abspath(os.path.join(place, "mnist-unlabelled.npz"))
    emoji = os.path.abspath(os.path.join(place, "emoji"))
    mnist, fashion = ["--data", f"idx:{arguments.mnist}"], ["--data", f"idx:{arguments.fashion}"]
    emoji_flags = ["--data", f"images:{emoji}", "--image-size", "32"]
    sets = [
        DataSet("mnist5k", "5,000 digits of MNIST, with labels", ["--data", "mnist5k"]),
        DataSet("mnist", "MNIST, with labels", mnist, "mnist"),
        DataSet(
            "mnist-unlabelled", "MNIST, without labels", ["--data", f"npz:{unlabelled}"], "mnist"
        ),
        DataSet("fashion", "Fashion-MNIST, with labels", fashion, "fashion"),
        DataSet("emoji", "1,906 emoji in colour, 32 pixels", emoji_flags),
    ]
    selection = select_data(sets, arguments)
    os.makedirs(place, exist_ok=True)
    for each in selection:
        if each.name == "mnist-unlabelled":
            league_data.remove_labels(arguments.mnist, unlabelled)
        if each.name == "emoji":
            league_data.prepare_emoji(emoji)
    return selection


def select_data(sets: Sequence[DataSet], arguments: argparse.Namespace) -> List[DataSet]:
    """Return the data sets that are named; if none is, those whose files are given.

    Raises:
        SystemExit: a name is unknown, or its files are not given.
    """
    present = [each for each in sets if not each.source or getattr(arguments, each.source)]
    if not arguments.data_sets:
        return present
    names, known = arguments.data_sets.split(","), {each.name: each for each in sets}
    for name in names:
        if name not in known:
            raise SystemExit(f"--data-sets names '{name}', expected some of: {', '.join(known)}.")
        if known[name] not in present:
            raise SystemExit(
                f"--data-sets names '{name}', whose files need --{known[name].source}."
            )
    return [each for each in present if each.name in names]


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


def run_round(arguments: argparse.Namespace, each: Round) -> None:
    """Run a tournament, or what is left of it, and write its result."""
    command = [
        *(sys.executable, "-m", "toolkit", "gan-league"),
        *("--dir", folder_of(arguments.dir, each), "--presets", arguments.presets),
        *("--cpu-minutes", f"{each.minutes:g}", "--seeds", str(arguments.seeds)),
        *(*program_flags(arguments), *each.data.flags, *arguments.flags, "--json"),
    ]
    for flag, value in SCORE_FLAGS.items():
        if not any(word.partition("=")[0] == flag for word in arguments.flags):
            command += [flag, value]
    sys.stderr.write(f"\n{each.data.title}, {each.minutes:g} CPU minutes\n")
    # If this round fails, the page must not show one with other flags or other code in its place.
    with contextlib.suppress(FileNotFoundError):
        os.remove(result_path(arguments.dir, each))
    ending = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        check=False,
        preexec_fn=lambda: supervisor.end_with_parent(signal.SIGTERM),
    )
    if ending.returncode:
        if ending.returncode < 0 or ending.returncode >= 128:  # killed or interrupted
            raise SystemExit(ending.returncode)
        sys.stderr.write(f"It ended with exit code {ending.returncode} and is left out.\n")
        return
    with atomic_write(result_path(arguments.dir, each)) as file:
        file.write(ending.stdout)


def folder_of(folder: str, each: Round) -> str:
    """Return the folder of a tournament in that of the league."""
    return os.path.join(folder, each.data.name, f"{each.minutes:g}-minutes")


def result_path(folder: str, each: Round) -> str:
    """Return the file with the result of a tournament."""
    return folder_of(folder, each) + ".json"


def read_entrants(folder: str, each: Round) -> Optional[List[Entrant]]:
    """Return the entrants of a tournament as they were ranked; None before its end."""
    try:
        rows = standings.read_json(result_path(folder, each))["rows"]
    except FileNotFoundError:
        return None
    return [Entrant(**{name: row[name] for name in Entrant._fields}) for row in rows]


# --------------------------------------------------------------------------------------------- page


def write_page(arguments: argparse.Namespace, sets: Sequence[DataSet], command: str) -> None:
    """Write the page of all tournaments that have ended, and a picture for each data set."""
    path = arguments.markdown
    lines = ["# The league of GANs", "", *describe_league(arguments, command), ""]
    for data in sets:
        rounds = [Round(data, budget) for budget in arguments.budgets]
        results = [(each, read_entrants(arguments.dir, each)) for each in rounds]
        pairs = [(each, rows) for each, rows in results if rows]
        if pairs:
            picture = f"{os.path.splitext(path)[0]}-{data.name}.png"
            lines += section(pairs, picture)
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
    result = list(words)
    for position, word in enumerate(words[:-1]):
        if word in PATHS:
            result[position + 1] = PATHS[word]
    return " ".join(map(shlex.quote, ["python", "plugins/gan-league/benchmark/league.py", *result]))


def section(results: Sequence[Tuple[Round, List[Entrant]]], picture: str) -> List[str]:
    """The lines of a data set: a table with all budgets, verdicts, and samples of the largest."""
    data = results[0][0].data
    every = [row for _, rows in results for row in rows]
    columns = ["CPU minutes", *result_page.COLUMNS]
    lines = [f"## {data.title}", "", result_page.describe_scores(every, data.name), ""]
    lines += ["| " + " | ".join(columns) + " |", "|--:|---" + (len(columns) - 2) * "|--:" + "|"]
    for each, rows in results:
        for entrant in rows:
            cells = [f"{each.minutes:g}", *result_page.cells_of(entrant)]
            if entrant.scores:
                cells[columns.index("x floor")] = format_floors(entrant)
            lines.append("| " + " | ".join(map(result_page.escape, cells)) + " |")
    lines.append("")
    texts = [text for each, rows in results for text in verdicts(each, rows)]
    lines += [f"- {result_page.escape(text)}" for text in texts]
    minutes, rows = results[-1][0].minutes, results[-1][1]
    if result_page.write_samples(rows, picture):
        names = ", ".join(row.name for row in rows if row.scores)
        lines += ["", f"![Samples, a row for each]({os.path.basename(picture)})", ""]
        lines += [f"After {minutes:g} CPU minutes, from above: {result_page.escape(names)}."]
    return [*lines, ""]


def format_floors(entrant: Entrant) -> str:
    """The FD as a multiple of its floor with its interval; "-" without one."""
    floor = standings.means_of(entrant)["floor"]
    if not floor:
        return "-"
    return result_page.format_estimate(
        entrant, standings.DISTANCE, lambda value: short(value / floor, 2)
    )


def verdicts(each: Round, rows: Sequence[Entrant]) -> Iterator[str]:
    """Sentences: whether the best preset is first by interval, by each measure that they have."""
    missing = [row.name for row in rows if not row.scores]
    rest = f" Without scores, so not compared: {', '.join(missing)}." if missing else ""
    for measure in MEASURES:
        presets = sort([row for row in rows if not row.program], measure)
        peers = sort([row for row in rows if row.program], measure)
        if presets and peers:
            text = describe_place(presets, peers, measure)
            yield f"{each.minutes:g} CPU minutes: {text}{rest}"


def sort(rows: Sequence[Entrant], measure: Measure) -> List[Entrant]:
    """The entrants that have a measure, from the lowest mean on."""
    scored = [row for row in rows if standings.estimates_of(row, measure)]
    return sorted(scored, key=lambda row: mean_of(row, measure))


def mean_of(row: Entrant, measure: Measure) -> float:
    return float(np.mean([each.value for each in standings.estimates_of(row, measure)]))


def describe_place(presets: Sequence[Entrant], peers: Sequence[Entrant], measure: Measure) -> str:
    """Say whether the toolkit's best entrant is first, and whether by more than chance.

    The best is chosen by the values that are tested, so all pairs of a preset and a peer count.

    Args:
        presets: the entrants of the toolkit, the best first.
        peers: all others that are compared, the best first.
        measure: by which they are.
    """
    ours, pairs = presets[0], [(preset, peer) for preset in presets for peer in peers]
    results = standings.separate_pairs(pairs, measure)
    count = sum(not math.isnan(result.p) for result in results)
    near = [peer.name for peer, result in zip(peers, results) if not result.is_separated]
    text = standings.describe_separation(ours, peers[0], measure, results[0], count)
    if mean_of(ours, measure) > mean_of(peers[0], measure):
        return f"**not first** by the {measure.name}. {text}"
    if near:
        names = ", ".join(near)
        return f"first by the {measure.name}, but not by interval from {names}. {text}"
    return f"**first by interval** by the {measure.name}. {text}"


def main() -> None:
    words = sys.argv[1:]
    own, rest = (words, []) if "--" not in words else split_at(words, "--")
    arguments = parse(own)
    arguments.flags = rest
    arguments.budgets = parse_budgets(arguments.cpu_minutes)
    sets = list_data(arguments)
    command = describe_command(words)
    for budget in arguments.budgets:
        for data in sets:
            run_round(arguments, Round(data, budget))
            write_page(arguments, sets, command)


def parse_budgets(text: str) -> List[float]:
    """Return the budgets in CPU minutes, which commas separate, the smallest first.

    Raises:
        SystemExit: one is no positive number.
    """
    try:
        numbers = [float(each) for each in text.split(",")]
    except ValueError:
        numbers = [0.0]
    if not all(0 < each < math.inf for each in numbers):
        raise SystemExit(f"--cpu-minutes is '{text}', expected positive numbers.")
    return sorted(set(numbers))


def split_at(words: Sequence[str], word: str) -> Tuple[Sequence[str], Sequence[str]]:
    """The words before and after the first of a kind."""
    position = list(words).index(word)
    return words[:position], words[position + 1 :]


def parse(words: Sequence[str]) -> argparse.Namespace:
    """Return the flags of the league."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--dir", required=True, help="folder of the tournaments")
    parser.add_argument("--markdown", required=True, help="the page; pictures are beside it")
    parser.add_argument("--mnist", default="", help="folder of MNIST's four files")
    parser.add_argument("--fashion", default="", help="folder of Fashion-MNIST's four files")
    parser.add_argument("--data-sets", default="", help="names, separated by commas; default: all")
    parser.add_argument("--presets", default="auto", help="of the toolkit, separated by commas")
    parser.add_argument("--peers37", default="", help="Python 3.7 with TensorFlow 1.15, TF-GAN")
    parser.add_argument("--peers311", default="", help="Python with TensorFlow 2 and PyTorch")
    parser.add_argument("--cpu-minutes", default="2,5,20", help="budgets, separated by commas")
    parser.add_argument("--seeds", type=int, default=5, help="with which each trains")
    return parser.parse_args(words)


if __name__ == "__main__":
    main()
