"""The options of a trial: resolved, as the words of a command, and up to which step it trains."""

from __future__ import annotations

import math
import os
import shlex
from typing import Any, Callable, Dict, List, Mapping, Optional, Type

from ..errors import ToolkitError
from ..files import write_json
from ..options import (
    FLAG,
    ORIGINS,
    CoreOptions,
    Layer,
    Origin,
    Resolved,
    Value,
    find_path,
    flag_name,
    map_paths,
    map_reference,
    resolve,
    variable_name,
)
from ..plugins import Plugins, choose
from ..preset_choice import choose_by_data
from ..storage.jsonl import read_json
from .definition import EXAMPLES, STEPS, Budget, Definition, Trial, value_text

LAYERS = "layers"  # the subfolder with the configuration files of all trials
TRIALS = "trials"  # the subfolder with the runs
THREADS = ("intra_op_threads", "inter_op_threads")  # the options that a study sets for its trials


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
    flags: Dict[str, Any] = dict(definition.flags)
    for name, value in values.items():
        flags[name] = Value(value, Origin(FLAG, f"--vary {name}"))
    if length is not None:
        flags["steps"] = str(length)
    variables = {variable_name(name): text for name, text in definition.variables.items()}
    return resolve(plugins.options(), definition.layers, variables, flags)


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
    text = definition.flags.get("evaluate_steps")
    if text:
        return int(text)
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
        folder: of the study, in which the configuration files of all trials are written.
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
    variables = "".join(
        f"{variable_name(name)}={shlex.quote(text)} " for name, text in definition.variables.items()
    )
    words = ["toolkit", "run", *_run_words(definition, values, seed, length, folder)]
    return variables + " ".join(map(shlex.quote, words))


def _run_words(
    definition: Definition, values: Mapping[str, Any], seed: int, length: int, folder: str
) -> List[str]:
    words = ["--plugin", definition.plugin]
    for extension in definition.extensions:
        words += ["--with", extension]
    for path in _write_layers(definition, folder):
        words += ["--config", path]
    texts: Dict[str, Any] = dict(definition.flags)
    texts.update({name: value_text(value) for name, value in values.items()})
    texts.update(seed=str(seed), steps=str(length))
    texts["evaluate_steps"] = str(evaluation_interval(definition, length))
    if definition.threads:  # sums in another number of threads have other last bits
        texts.update(dict.fromkeys(THREADS, str(definition.threads)))
    for name, text in texts.items():
        # --set where a value may be a switch or look like a flag.
        is_plain = text.lower() not in ("true", "false") and not text.startswith("-")
        words += [flag_name(name), text] if is_plain else ["--set", f"{name}={text}"]
    return words


def _write_layers(definition: Definition, folder: str) -> List[str]:
    """Write the configuration files of all trials, unless they exist; return their paths."""
    paths = []
    for number, layer in enumerate(definition.layers):
        values = dict(layer.values)
        if layer.origins is not None:
            values[ORIGINS] = {name: origin.saved for name, origin in layer.origins.items()}
        path = os.path.join(folder, LAYERS, f"{number}.json")
        if not os.path.exists(path) or read_json(path) != values:
            write_json(path, values)
        paths.append(path)
    return paths


# Those that every command reads, whatever it trains.
_OWN_VARIABLES = ("TOOLKIT_VERBOSE", "TOOLKIT_CACHE", "TOOLKIT_MIRRORS")


def trial_environment(definition: Definition, environment: Mapping[str, str]) -> Dict[str, str]:
    """Return the environment of a trial: no variable of a command counts but the study's.

    Args:
        definition: of the study.
        environment: of this process.
    """
    others = {
        name: text
        for name, text in environment.items()
        if name in _OWN_VARIABLES or not (name == "TF_CONFIG" or name.startswith("TOOLKIT_"))
    }
    return {**others, **{variable_name(n): text for n, text in definition.variables.items()}}


# --------------------------------------------------------------------------------- of the command


def absolute_reference(reference: str) -> str:
    """Return the reference of a plugin, a file by its absolute path."""
    return map_reference(reference, _absolute)


def absolute_layer(layer: Layer, options: Type[CoreOptions]) -> Layer:
    """Return the values of a configuration file with absolute paths."""
    values = _map_values(options, layer.values, lambda path: find_path(path, layer.folders))
    return Layer(os.path.abspath(layer.file), values, (), layer.origins)


def environment_texts(environment: Mapping[str, str], options: Type[CoreOptions]) -> Dict[str, str]:
    """Return the texts of the options that environment variables set, by option."""
    names = {name: variable_name(name) for name in options.model_fields}
    texts = {n: environment[variable] for n, variable in names.items() if variable in environment}
    return absolute_texts(texts, options)


def absolute_texts(texts: Mapping[str, Any], options: Type[CoreOptions]) -> Dict[str, str]:
    """Return the texts of options by name, paths in them absolute."""
    values = _map_values(options, texts, lambda path: path)
    return {name: str(value) for name, value in values.items()}


def _map_values(
    options: Type[CoreOptions], values: Mapping[str, Any], find: Callable[[str], str]
) -> Dict[str, Any]:
    """Return values by name with the absolute paths of what `find` finds; others as they are."""
    return {
        name: map_paths(options, name, value, lambda path: _absolute(find(path)))
        if name in options.model_fields
        else value
        for name, value in values.items()
    }


def _absolute(path: str) -> str:
    return os.path.abspath(os.path.expanduser(path))
