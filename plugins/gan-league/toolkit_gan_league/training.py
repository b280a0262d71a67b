"""What `toolkit gan-league` trains: a search for each preset and each plugin, and programs.

Each search has one configuration, and as many steps as take the CPU time of the budget. So it has
what `toolkit search` guarantees: it continues after any kill. A run of a program that was killed
begins again.
"""

from __future__ import annotations

import contextlib
import io
import json
import math
import os
import shlex
import sys
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence

import click
from toolkit_gan.presets import PRESETS

from toolkit import InterruptedRun, ToolkitError, UsageError

from . import rivals, timing
from .programs import Program, check_names, parse_programs
from .rivals import BUDGETS, Rival

_AUTO = "auto"  # the value of --preset that lets the data choose
_OWN_FLAGS = ("--search-dir", "--vary", "--sampler", "--preset")
PRESET_FOLDER = "presets"  # the subfolder of a tournament with a search for each preset


class Plan(NamedTuple):
    """What a tournament trains.

    Attributes:
        folder: of the tournament.
        presets: their names.
        rivals: the plugins that compete with them.
        searches: the arguments of `toolkit search`, first for each preset, then for each plugin.
        programs: that compete with them.
        minutes: of CPU time for each run; None if a flag sets another budget.
    """

    folder: str
    presets: List[str]
    rivals: List[Rival]
    searches: List[List[str]]
    programs: List[Program]
    minutes: Optional[float]

    @property
    def folders(self) -> List[str]:
        """The folders of the searches."""
        presets = [preset_folder(self.folder, name) for name in self.presets]
        return presets + [rival_folder(self.folder, rival) for rival in self.rivals]


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
    others = rivals.parse_rivals(plugins)
    programs = parse_programs(program_texts)
    if programs and sets_budget(flags):
        raise UsageError(
            "A program trains for CPU time, and another budget is set.",
            hint="Set the budget with --cpu-minutes, or leave --program out.",
        )
    names = check_presets(presets, least=1 if others or programs else 2)
    check_names(programs, [*names, *(rival.name for rival in others)])
    searches = [search_words(folder, name, num_seeds, flags) for name in names]
    for rival in others:
        words = ["--search-dir", rival_folder(folder, rival), "--plugin", rival.reference]
        words += ["--seeds", str(num_seeds), *rivals.shared_flags(flags), *rival.flags]
        searches.append(words)
    return Plan(folder, names, others, searches, programs, None if sets_budget(flags) else minutes)


def check_presets(text: str, least: int = 2) -> List[str]:
    """Return the names in a list, all without one.

    Raises:
        UsageError: one is unknown, or there are fewer than `least`.
    """
    parts = [name.strip() for name in text.split(",") if name.strip()] or list(PRESETS)
    names = list(dict.fromkeys(parts))
    unknown = [name for name in names if name not in (_AUTO, *PRESETS)]
    if unknown or len(names) < least:
        number = {1: "one or more", 2: "two or more"}[least]
        raise UsageError(
            f"--presets is '{text}', expected {number} of {', '.join([_AUTO, *PRESETS])}.",
            hint="Leave it out for all.",
        )
    return names


def search_words(folder: str, preset: str, num_seeds: int, flags: Sequence[str]) -> List[str]:
    """Return the arguments of `toolkit search` for a preset.

    Args:
        folder: of the tournament.
        preset: its name.
        num_seeds, flags: as of `plan`.

    Raises:
        UsageError: one of the flags is what the tournament itself sets.
    """
    for flag in flags:
        if flag.partition("=")[0] in _OWN_FLAGS:
            raise UsageError(
                f"{flag.partition('=')[0]} is what the tournament sets itself.",
                hint="Choose presets with --presets A,B; use 'toolkit search' to vary other "
                "options.",
            )
    words = ["--search-dir", preset_folder(folder, preset), "--plugin", "gan", "--preset", preset]
    return [*words, "--seeds", str(num_seeds), *flags]


def sets_budget(flags: Sequence[str]) -> bool:
    """Return whether flags of `toolkit search` set another budget than CPU minutes."""
    return any(flag.partition("=")[0] in BUDGETS for flag in flags)


def preset_folder(folder: str, preset: str) -> str:
    """Return the folder of a preset's search."""
    return os.path.join(folder, PRESET_FOLDER, preset)


def rival_folder(folder: str, rival: Rival) -> str:
    """Return the folder of a plugin's search."""
    return os.path.join(folder, rivals.FOLDER, rival.folder)


def command_text(own: Mapping[str, Any], flags: Sequence[str]) -> str:
    """Return the command that the user wrote, for the page.

    Args:
        own: values of the flags of the tournament by name; "" for one that is left out, a tuple for
            one that may be repeated.
        flags: the others.
    """
    if sets_budget(flags):
        own = {name: value for name, value in own.items() if name != "cpu-minutes"}
    pairs = [
        (name, each)
        for name, value in own.items()
        for each in (value if isinstance(value, tuple) else [value])
    ]
    words = [f"--{name}={value}" for name, value in pairs if value != ""]
    return " ".join(map(shlex.quote, ["toolkit", "gan-league", *words, *flags]))


# ----------------------------------------------------------------------------------------- train


def train(context: click.Context, plan: Plan) -> None:
    """Train what is not trained yet. All is checked, or timed, before anything begins.

    A preset or a plugin of which no run finished keeps its row.

    Raises:
        UsageError: a plugin draws no images.
        ToolkitError: something cannot be trained.
    """
    for rival in plan.rivals:
        check_draws_images(context, rival)
    names = [f"--presets '{name}'" for name in plan.presets]
    names += [f"--plugin '{rival.name}'" for rival in plan.rivals]
    tasks = list(zip(names, plan.folders, plan.searches))
    is_dry = "--dry-run" in plan.searches[0]
    budgets = [[] if is_dry else _prepare(context, plan, *task) for task in tasks]
    for (name, folder, words), budget in zip(tasks, budgets):
        try:
            with _naming(name):
                search(context, [*words, *budget])
        except ToolkitError as error:
            has_table = os.path.exists(os.path.join(folder, "table.json"))
            if type(error) is not ToolkitError or not has_table:
                raise


def _prepare(
    context: click.Context, plan: Plan, name: str, folder: str, words: List[str]
) -> List[str]:
    """Return the flags of a search's budget, after checking that it can be trained."""
    study = os.path.join(folder, "study.json")
    is_new = not os.path.exists(study)
    with _naming(name):
        if plan.minutes is None:
            if is_new:
                search(context, [*words, "--dry-run"])
            return []
        if is_new:
            sys.stderr.write(f"Timing the steps of {name}.\n")
            steps = timing.count_steps(words, 60 * plan.minutes)
        else:
            with open(study, encoding="utf-8") as file:
                steps = json.load(file)["budget"]["amount"]
    return ["--steps", str(steps)]


@contextlib.contextmanager
def _naming(name: str) -> Iterator[None]:
    """Name the preset or the plugin in the message of an error in the block."""
    is_preset = name.startswith("--presets")
    try:
        yield
    except click.UsageError as error:
        hint = "" if is_preset else "Its own flags are in the quotes: --plugin 'NAME --flag value'."
        raise UsageError(f"{name}: {error.format_message()}", hint=hint) from None
    except ToolkitError as error:
        error.message = f"{name}: {error.message}"
        if is_preset and not isinstance(error, InterruptedRun):
            error.hint = f"{error.hint} Or name the presets that compete: --presets A,B.".strip()
        raise


def search(context: click.Context, words: List[str]) -> None:
    """Call the command `toolkit search` in this process; its table goes to stderr."""
    try:
        with contextlib.redirect_stdout(sys.stderr):
            _call(context, ["search"], words)
    except InterruptedRun as error:
        error.hint = "Continue with the same command."
        raise


def check_draws_images(context: click.Context, rival: Rival) -> None:
    """Check that a plugin has the hook `sample`. Raises UsageError."""
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        _call(context, ["plugins", "show"], [rival.reference, "--json"])
    facts: Dict[str, Any] = json.loads(output.getvalue())
    if "sample" not in facts["hooks"]:
        raise UsageError(
            f"Plugin '{rival.name}' draws no images: it has no hook 'sample'.",
            hint="Name plugins of models that generate images.",
        )


def _call(context: click.Context, names: Sequence[str], words: List[str]) -> None:
    """Call a command of `toolkit` in this process.

    Args:
        context: of the present command.
        names: of the command: those of its groups first.
        words: its arguments.
    """
    parent = context.find_root()
    command: Any = parent.command
    for name in names:
        command = command.get_command(parent, name)
    inner = command.make_context(" ".join(names), words, parent=parent)
    with inner:
        command.invoke(inner)
