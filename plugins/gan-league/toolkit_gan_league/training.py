"""What `toolkit gan-league` trains: a search for each preset and each plugin, and programs.

Each search has one configuration, and as many steps as take the CPU time of the budget. So it has
what `toolkit search` guarantees: it continues after any kill. A run of a program that was killed
begins again.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import sys
from typing import Any, Iterator, List, NamedTuple, Optional, Sequence

import click

from toolkit import DataError, InterruptedRun, ToolkitError, UsageError

from . import timing
from .programs import Program, check_names, parse_programs
from .rivals import Rival, check_flags, parse_rivals, sets_budget

FOLDER = "searches"  # the subfolder of a tournament with a search for each preset and plugin


class Plan(NamedTuple):
    """What a tournament trains.

    Attributes:
        folder: of the tournament.
        rivals: the presets, then the other plugins.
        programs: that compete with them.
        flags: of all searches.
        minutes: of CPU time for each run; None if a flag sets another budget.
    """

    folder: str
    rivals: List[Rival]
    programs: List[Program]
    flags: Sequence[str]
    minutes: Optional[float]

    def folder_of(self, rival: Rival) -> str:
        """The folder of a search."""
        return os.path.join(self.folder, FOLDER, rival.folder)

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
    program_texts: Sequence[str] = (),
) -> Plan:
    """Return what a command trains.

    Args:
        folder: of the tournament.
        presets: their names, separated by commas; "" for all.
        plugins: the values of `--plugin`.
        minutes: of CPU time for each run.
        num_seeds: with which each is trained.
        flags: more flags of `toolkit search` and of `toolkit run`, as the user wrote them.
        program_texts: the values of `--program`.

    Raises:
        UsageError: a value is wrong, or a flag is what the tournament itself sets.
    """
    if not 0 < minutes < math.inf:
        raise UsageError(f"--cpu-minutes is {minutes:g}, expected a positive number.")
    check_flags(flags)
    programs = parse_programs(program_texts)
    if programs and sets_budget(flags):
        raise UsageError(
            "A program trains for CPU time, and another budget is set.",
            hint="Set the budget with --cpu-minutes, or leave --program out.",
        )
    rivals = parse_rivals(presets, plugins, least=1 if plugins or programs else 2)
    check_names(programs, [rival.name for rival in rivals])
    words = ["--seeds", str(num_seeds), *flags]
    return Plan(folder, rivals, programs, words, None if sets_budget(flags) else minutes)


# ----------------------------------------------------------------------------------------- train


def train(context: click.Context, plan: Plan) -> None:
    """Train what is not trained yet. All is checked, or timed, before anything begins.

    A preset or a plugin of which no run finished keeps its row.

    Raises:
        ToolkitError: something cannot be trained.
    """
    is_dry = "--dry-run" in plan.flags
    budgets = [[] if is_dry else _prepare(context, plan, rival) for rival in plan.rivals]
    for rival, budget in zip(plan.rivals, budgets):
        try:
            with _naming(rival):
                search(context, [*plan.words_of(rival), *budget])
        except ToolkitError as error:
            has_table = os.path.exists(os.path.join(plan.folder_of(rival), "table.json"))
            if type(error) is not ToolkitError or not has_table:
                raise


def _prepare(context: click.Context, plan: Plan, rival: Rival) -> List[str]:
    """Return the flags of a search's budget, after checking that it can be trained."""
    study, words = os.path.join(plan.folder_of(rival), "study.json"), plan.words_of(rival)
    is_new = not os.path.exists(study)
    with _naming(rival):
        if plan.minutes is None:
            if is_new:
                search(context, [*words, "--dry-run"])
            return []
        if is_new:
            sys.stderr.write(f"Timing the steps of {rival.flag}.\n")
            return ["--steps", str(timing.count_steps(words, 60 * plan.minutes))]
        with open(study, encoding="utf-8") as file:
            return ["--steps", str(json.load(file)["budget"]["amount"])]


@contextlib.contextmanager
def _naming(rival: Rival) -> Iterator[None]:
    """Name the preset or the plugin in the message of an error in the block, and the way out."""
    try:
        yield
    except ToolkitError as error:
        error.message = f"{rival.flag}: {error.message}"
        hints = [error.hint]
        if isinstance(error, UsageError) and not error.hint:
            hints = ["Flags of one plugin are in its quotes: --plugin 'NAME --flag value'."]
        if isinstance(error, (DataError, UsageError)) and rival.is_preset:
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
