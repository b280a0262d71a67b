"""What `toolkit gan-league` trains: a search for each preset and each plugin, and programs.

Each search has one configuration, and as many steps as take the CPU time of the budget. So it has
what `toolkit search` guarantees: it continues after any kill. A run of a program that was killed
begins again.
"""

from __future__ import annotations

import contextlib
import glob
import json
import math
import os
import resource
import subprocess
import sys
import tempfile
from typing import Any, Iterator, List, NamedTuple, Optional, Sequence, Set, Tuple

import click

from toolkit import InterruptedRun, RetryError, ToolkitError, UsageError, atomic_write

from .rivals import BUDGETS, TOURNAMENT_FLAGS, Rival, parse_plugin, parse_presets, parse_program

FOLDER = "searches"  # the subfolder of a tournament with a search for each preset and plugin
# Of training, in the short runs that time it; the first one fills the caches, and does not count.
TIMING_SECS = (1.0, 3.0, 9.0)
_NO_LIMIT = 10**9
# Which a run does not have.
_SEARCH_FLAGS = ("--search-dir", "--seeds", "--workers", "--metric", "--study-seed", "--trials")


class Plan(NamedTuple):
    """What a tournament trains."""

    folder: str  # of the tournament
    rivals: List[Rival]  # the presets, then the other plugins
    programs: List[Rival]  # that compete with them
    flags: Sequence[str]  # of all searches
    minutes: Optional[float]  # of CPU time for each run; None if a flag sets another budget

    def folder_of(self, rival: Rival) -> str:
        """The folder of a search."""
        return os.path.join(self.folder, FOLDER, rival.folder)

    def study_of(self, rival: Rival) -> str:
        """The file that a search has when it has begun."""
        return os.path.join(self.folder_of(rival), "study.json")

    def words_of(self, rival: Rival) -> List[str]:
        """The arguments of a search, without a budget in CPU time."""
        return ["--search-dir", self.folder_of(rival), *self.flags, *rival.words]


def plan(
    folder: str,
    presets: str,
    plugins: Sequence[str],
    minutes: float,
    num_seeds: int,
    flags: Sequence[str],
    programs: Sequence[str] = (),
) -> Plan:
    """Return what a command trains: presets, separated by commas, "" for all, the values of
    `--plugin` and of `--program`, each with so many seeds and minutes of CPU time. The flags are
    more flags of `toolkit search` and of `toolkit run`, as the user wrote them.

    Raises UsageError if a value is wrong, two competitors have one name, or the tournament sets a
    flag itself.
    """
    if not 0 < minutes < math.inf:
        raise UsageError(f"--cpu-minutes is {minutes:g}, expected a positive number.")
    names = {word.partition("=")[0] for word in flags}
    for flag in sorted(names.intersection([*TOURNAMENT_FLAGS, "--preset"])):
        raise UsageError(
            f"{flag} is what the tournament sets itself.",
            hint="Choose presets with --presets A,B; use 'toolkit search' to vary other options.",
        )
    has_other_budget = not names.isdisjoint(BUDGETS)
    if programs and has_other_budget:
        raise UsageError(
            "A program trains for CPU time, and another budget is set.",
            hint="Set the budget with --cpu-minutes, or leave --program out.",
        )
    rivals = [*parse_presets(presets), *map(parse_plugin, plugins)]
    others = [parse_program(text) for text in programs]
    folders: Set[str] = set()
    for each in (*rivals, *others):
        if each.folder in folders:
            raise UsageError(
                f"Two competitors are called '{each.name}'.",
                hint="Name a program otherwise, --program 'NAME=COMMAND', and give a plugin other "
                "flags, --plugin 'NAME --flag value'.",
            )
        folders.add(each.folder)
    words = ["--seeds", str(num_seeds), *flags]
    return Plan(folder, rivals, others, words, None if has_other_budget else minutes)


# ----------------------------------------------------------------------------------------- train


def train(context: click.Context, plan: Plan) -> None:
    """Train what is not trained yet, after all that is new was checked and then timed. A preset or
    a plugin of which no run finished keeps its row; other failures raise a ToolkitError.
    """
    is_dry = "--dry-run" in plan.flags
    for rival in plan.rivals:
        if is_dry or not os.path.exists(plan.study_of(rival)):
            with _naming(rival):
                search(context, [*plan.words_of(rival), "--dry-run"])
    if is_dry:
        return
    _keep_budget(plan)
    budgets = [_find_budget(plan, rival) for rival in plan.rivals]
    for rival, budget in zip(plan.rivals, budgets):
        try:
            with _naming(rival):
                search(context, [*plan.words_of(rival), *budget])
        except ToolkitError as error:
            has_table = os.path.exists(os.path.join(plan.folder_of(rival), "table.json"))
            if type(error) is not ToolkitError or not has_table:
                raise


def _keep_budget(plan: Plan) -> None:
    """Write the CPU minutes of a tournament, null for another kind of budget; raise UsageError if
    it has begun with others.
    """
    path, budgets = os.path.join(plan.folder, "minutes.json"), [plan.minutes]
    studies = os.path.join(glob.escape(plan.folder), FOLDER, "*", "study.json")
    if os.path.exists(path) and glob.glob(studies):
        with open(path, encoding="utf-8") as file:
            budgets.append(json.load(file))
    now, *before = [f"{x:g} CPU minutes" if x else "another kind of budget" for x in budgets]
    if before not in ([], [now]):
        raise UsageError(
            f"This tournament began with {before[0]}, and the command has {now}.",
            hint="Choose another --dir for another budget.",
        )
    with atomic_write(path) as out:
        out.write(json.dumps(plan.minutes).encode())


def _find_budget(plan: Plan, rival: Rival) -> List[str]:
    """Return the flags of a search's budget: those of its begin, or what a timing says."""
    if plan.minutes is None:
        return []
    if os.path.exists(plan.study_of(rival)):
        with open(plan.study_of(rival), encoding="utf-8") as file:
            return ["--steps", str(json.load(file)["budget"]["amount"])]
    sys.stderr.write(f"Timing the steps of {rival.flag}.\n")
    with _naming(rival):
        return ["--steps", str(count_steps(plan.words_of(rival), 60 * plan.minutes))]


@contextlib.contextmanager
def _naming(rival: Rival) -> Iterator[None]:
    """Name the preset or the plugin in the message of an error in the block, and the way out."""
    try:
        yield
    except ToolkitError as error:
        error.message = f"{rival.flag}: {error.message}"
        hints = [error.hint]
        if error.exit_code == 2 and not error.hint:
            hints = ["Flags of one plugin are in its quotes: --plugin 'NAME --flag value'."]
        if error.exit_code in (2, 4) and rival.is_preset:
            hints.append("Or name the presets that compete: --presets A,B.")
        error.hint = " ".join(filter(None, hints))
        raise


def search(context: click.Context, words: List[str]) -> None:
    """Call the command `toolkit search` in this process; its table goes to stderr."""
    parent = context.find_root()
    command: Any = parent.command
    try:
        with contextlib.redirect_stdout(sys.stderr):
            command = command.get_command(parent, "search")
            with command.make_context("search", words, parent=parent) as inner:
                command.invoke(inner)
    except click.UsageError as error:
        raise UsageError(error.format_message()) from None
    except InterruptedRun as error:
        error.hint = "Continue with the same command."
        raise


# ---------------------------------------------------------------------------------------- timing


def count_steps(words: Sequence[str], cpu_secs: float) -> int:
    """Return how many steps of training take the CPU seconds of a run, at least 1; the words are of
    `toolkit search` for one configuration.

    It is the difference of two short runs, which has no start and no building of graphs in it.
    Raises ToolkitError if a run cannot be trained, or its steps are too slow to be timed.
    """
    _, (few, early), (many, late) = [_time(words, secs) for secs in TIMING_SECS]
    if many <= few or late <= early:
        raise ToolkitError(
            f"It makes {many} steps in {TIMING_SECS[-1]:g} s, too few to be timed.",
            hint="Set the budget with --steps.",
        )
    return max(1, int(cpu_secs * (many - few) / (late - early)))


def _time(words: Sequence[str], secs: float) -> Tuple[int, float]:
    """Train for some seconds; return the steps and the CPU seconds of the process."""
    with tempfile.TemporaryDirectory(prefix="toolkit-gan-league-") as folder:
        run, before = os.path.join(folder, "run"), resource.getrusage(resource.RUSAGE_CHILDREN)
        ending = subprocess.run(
            [sys.executable, "-m", "toolkit", *run_words(words, run, secs)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=dict(os.environ, TOOLKIT_CLUSTER="{}"),  # alone, whatever Slurm's variables say
            encoding="utf-8",
            errors="replace",
        )
        if ending.returncode:
            _, has_error, text = f"\n{ending.stdout}".rpartition("\nError: ")
            text = text.strip() or "nothing was written."
            if not has_error:  # it was killed, for example
                text = text.splitlines()[-1]
            message = f"Its timing ended with exit code {ending.returncode}: {text.splitlines()[0]}"
            kind = RetryError if ending.returncode == RetryError.exit_code else ToolkitError
            raise kind(message, hint=" ".join(text.splitlines()[1:]))
        with open(os.path.join(run, "manifest.json"), encoding="utf-8") as file:
            steps = json.load(file)["step"]
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return steps, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def run_words(words: Sequence[str], run: str, secs: float) -> List[str]:
    """Return the arguments of `toolkit` that train as a search does, for some seconds alone."""
    kept, values, rest = [], dict.fromkeys(_SEARCH_FLAGS, ""), iter(words)
    for word in rest:
        flag, equals, value = word.partition("=")
        if flag in values:
            values[flag] = value if equals else next(rest, "")
        else:
            kept.append(word)
    threads = str(max(1, len(os.sched_getaffinity(0)) // int(values["--workers"] or 1)))
    for flag in ("--intra-op-threads", "--inter-op-threads"):
        kept += [] if any(word.partition("=")[0] == flag for word in kept) else [flag, threads]
    kept += ["--run-dir", run, "--steps", str(_NO_LIMIT), "--max-secs", f"{secs:g}"]
    return ["run", *kept, "--no-evaluate", "--best-metric", "none", "--xla", "off"]
