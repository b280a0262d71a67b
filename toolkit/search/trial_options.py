"""The options of a trial: resolved, as the words of a command, and up to which step it trains."""

from __future__ import annotations

import contextlib
import math
import os
import shlex
from typing import Any, Dict, Iterator, List, Mapping, Optional, Tuple

from ..config import json_values
from ..errors import ToolkitError
from ..files import write_json
from ..options import FLAG, Config, Origin, Resolved, Value, flag_name, map_paths, resolve
from ..plugins import Plugins, choose
from ..preset_choice import choose_by_data
from ..storage.jsonl import read_json
from .definition import DEFINITION_FILE, EXAMPLES, STEPS, Budget, Definition, Trial, value_text

OPTIONS_FILE = "options.json"  # the configuration file of all trials
TRIALS = "trials"  # the subfolder with the runs
THREADS = ("intra_op_threads", "inter_op_threads")  # the options that a study sets for its trials
_OF_TRIALS = ("seed", "steps", "epochs", "evaluate_steps")  # what a trial has of its own


def load_plugins(definition: Definition) -> Plugins:
    """Return the plugins of a study, whose trust the command has checked."""
    for reference in (definition.plugin, *definition.extensions):
        choose(reference)
    return Plugins.load(definition.plugin, definition.extensions)


def resolve_trial(
    plugins: Plugins,
    definition: Definition,
    values: Mapping[str, Any],
    length: Optional[int] = None,
) -> Resolved:
    """Return the options of a configuration.

    Args:
        plugins: of the study.
        definition: of the study.
        values: of the options that vary, by name: texts, or values as JSON has them.
        length: of the run in steps; None for the length that the flags or the plugin set.

    Raises:
        UsageError: a value is wrong, alone or beside the others.
    """
    flags: Dict[str, Any] = {name: definition.options[name] for name in definition.flags}
    for name, value in values.items():
        flags[name] = Value(value, Origin(FLAG, f"--vary {name}"))
    if length is not None:
        flags["steps"] = length
    config = Config(DEFINITION_FILE, _without_flags(definition))
    return resolve(plugins.options(), [config], flags=flags)


@contextlib.contextmanager
def naming_values(values: Mapping[str, Any]) -> Iterator[None]:
    """Name the values of a configuration in an error of the block, which says what is wrong."""
    try:
        yield
    except ToolkitError as error:
        text = describe_values(values)
        error.message = f"Trials with {text} cannot be trained: {error.message}"
        raise


def describe_values(values: Mapping[str, Any]) -> str:
    """Return the values of a configuration as a person reads them."""
    if not values:
        return "the options of the command"
    return ", ".join(
        f"{n}={v:.6g}" if isinstance(v, float) else f"{n}={value_text(v)}"
        for n, v in values.items()
    )


def shared_options(resolved: Resolved) -> Tuple[Dict[str, Any], Tuple[str, ...]]:
    """Return what a command says of the options of all trials; see `Definition`."""
    values, cls = json_values(resolved.options), type(resolved.options)
    chosen = {name: origin for name, origin in resolved.origins.items() if origin.is_choice}
    options = {
        name: map_paths(cls, name, values[name], absolute_path)
        for name in chosen
        if name not in _OF_TRIALS
    }
    return options, tuple(name for name in options if chosen[name].kind == FLAG)


def absolute_path(path: str) -> str:
    """Return an absolute path, `~` expanded."""
    return os.path.abspath(os.path.expanduser(path))


def _without_flags(definition: Definition) -> Dict[str, Any]:
    return {n: value for n, value in definition.options.items() if n not in definition.flags}


# ----------------------------------------------------------------------------------------- lengths


def budget_steps(budget: Budget, examples_per_step: int) -> Optional[int]:
    """Return the length of a trial in steps; None if the budget does not say it."""
    if not budget.amount or budget.kind not in (STEPS, EXAMPLES):
        return None
    per_step = examples_per_step if budget.kind == EXAMPLES else 1
    return max(1, -int(-budget.amount // per_step))


def find_length(plugins: Plugins, definition: Definition, values: Mapping[str, Any]) -> int:
    """Return the length of a configuration's trials in steps.

    A configuration that cannot be trained has the length 1: its run says why.
    """
    if definition.budget.kind == STEPS:
        return math.ceil(definition.budget.amount)
    try:
        options = choose_by_data(plugins, resolve_trial(plugins, definition, values)).options
    except ToolkitError:
        return 1
    return budget_steps(definition.budget, options.batch_size * options.batches_per_step) or 1


def evaluation_interval(definition: Definition, length: int) -> int:
    """Return at multiples of which step a trial evaluates the validation split.

    With halving it is the length of the first rung, so that each rung ends with an evaluation.
    """
    if definition.interval:
        return definition.interval
    if definition.reduction:
        return max(1, math.floor(length * definition.rungs[0]))
    return max(1, math.ceil(length / 10))


def pause_step(definition: Definition, length: int, rung: int) -> int:
    """Return the step at which a trial ends at a rung: its length, or a step with an evaluation."""
    if rung == len(definition.rungs) - 1:
        return length
    interval = evaluation_interval(definition, length)
    return min(length, max(1, round(length * definition.rungs[rung] / interval)) * interval)


# ------------------------------------------------------------------------------------------- words


def run_path(folder: str, trial: Trial) -> str:
    """Return the folder of a trial's run."""
    return os.path.join(folder, TRIALS, trial.name)


def trial_words(definition: Definition, trial: Trial, folder: str) -> List[str]:
    """Return the arguments of `toolkit` that train a trial up to its rung, or continue it.

    Args:
        definition: of the study.
        trial: what to train.
        folder: of the study, in which the configuration file of all trials is written.
    """
    length = trial.configuration.length
    words = ["run", "--resume", "--run-dir", run_path(folder, trial)]
    words += _run_words(definition, trial.configuration.values, trial.seed, length, folder)
    step = pause_step(definition, length, trial.rung)
    if step < length:
        words += ["--pause-at", str(step)]
    return words


def again_command(
    definition: Definition, values: Mapping[str, Any], seed: int, length: int, folder: str
) -> str:
    """Return the shell command that trains a configuration again as a run of its own."""
    words = ["toolkit", "run", *_run_words(definition, values, seed, length, folder)]
    return " ".join(map(shlex.quote, words))


def _run_words(
    definition: Definition, values: Mapping[str, Any], seed: int, length: int, folder: str
) -> List[str]:
    words = ["--plugin", definition.plugin]
    for extension in definition.extensions:
        words += ["--with", extension]
    if _without_flags(definition):
        words += ["--config", _write_options(definition, folder)]
    flags = {**{name: definition.options[name] for name in definition.flags}, **values}
    flags.update(seed=seed, steps=length, evaluate_steps=evaluation_interval(definition, length))
    if definition.threads:  # sums in another number of threads have other last bits
        flags.update(dict.fromkeys(THREADS, definition.threads))
    for name, text in ((name, value_text(value)) for name, value in flags.items()):
        # --set where a value may be a switch or look like a flag.
        is_plain = text.lower() not in ("true", "false") and not text.startswith("-")
        words += [flag_name(name), text] if is_plain else ["--set", f"{name}={text}"]
    return words


def _write_options(definition: Definition, folder: str) -> str:
    """Write the configuration file of all trials, unless it exists; return its path."""
    path, values = os.path.join(folder, OPTIONS_FILE), _without_flags(definition)
    if not os.path.exists(path) or read_json(path) != values:
        write_json(path, values)
    return path


# Those that every command reads, whatever it trains.
_OWN_VARIABLES = ("TOOLKIT_VERBOSE", "TOOLKIT_CACHE", "TOOLKIT_MIRRORS")


def trial_environment(environment: Mapping[str, str]) -> Dict[str, str]:
    """Return the environment of a trial: without the variables that set options of a run."""
    return {
        name: text
        for name, text in environment.items()
        if name in _OWN_VARIABLES or not (name == "TF_CONFIG" or name.startswith("TOOLKIT_"))
    }
