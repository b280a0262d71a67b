"""The options of a trial: resolved, and as the words of a command."""

from __future__ import annotations

import contextlib
import os
import shlex
from typing import Any, Dict, Iterator, List, Mapping, Optional, Tuple

from ..errors import DataError, RetryError, ToolkitError
from ..options import FLAG, Config, Origin, Resolved, Value, flag_name, map_paths, resolve
from ..plugins import Plugins, choose
from ..preset_choice import choose_by_data
from .definition import STEPS, Definition, Trial, value_text
from .study import OPTIONS_FILE, STUDY_FILE, Study

THREADS = ("intra_op_threads", "inter_op_threads")  # the options that a study sets for its trials
_OF_TRIALS = ("seed", "steps", "epochs", "evaluate_steps")  # what a trial has of its own
# The variables that every command reads, whatever it trains.
_OWN_VARIABLES = ("TOOLKIT_VERBOSE", "TOOLKIT_CACHE", "TOOLKIT_MIRRORS")


def shared_options(resolved: Resolved) -> Tuple[Dict[str, Any], Tuple[str, ...]]:
    """Return what a command says of the options of all trials; see `Definition`."""
    values, cls = resolved.options.model_dump(mode="json"), type(resolved.options)
    chosen = {
        name: origin
        for name, origin in resolved.origins.items()
        if origin.is_choice and name not in _OF_TRIALS
    }
    options = {name: map_paths(cls, name, values[name], absolute_path) for name in chosen}
    return options, tuple(name for name in options if chosen[name].kind == FLAG)


def absolute_path(path: str) -> str:
    """Return an absolute path, `~` expanded."""
    return os.path.abspath(os.path.expanduser(path))


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
    """The options of a configuration: `values` are texts, or as JSON has them; the length is in
    steps, None for that of the flags or the plugin. Raises UsageError for a wrong value.
    """
    flags: Dict[str, Any] = {name: definition.options[name] for name in definition.flags}
    for name, value in values.items():
        flags[name] = Value(value, Origin(FLAG, f"--vary {name}"))
    if length is not None:
        flags["steps"] = length
    config = Config(STUDY_FILE, definition.options_of_files)
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
    texts = [f"{name}={value_text(value)}" for name, value in values.items()]
    return ", ".join(texts) or "the options of the command"


def find_length(plugins: Plugins, definition: Definition, values: Mapping[str, Any]) -> int:
    """Return the length of a configuration's trials in steps.

    A configuration that cannot be trained has the length 1: its run says why.
    """
    if definition.budget.kind == STEPS:
        return definition.count_steps(1)
    try:
        options = choose_by_data(plugins, resolve_trial(plugins, definition, values)).options
    except (DataError, RetryError):  # of the moment: another process would take another length
        raise
    except ToolkitError:
        return 1
    return definition.count_steps(options.batch_size * options.batches_per_step)


# ------------------------------------------------------------------------------------------- words


def trial_words(study: Study, trial: Trial) -> List[str]:
    """Return the arguments of `toolkit` that train a trial up to its rung, or continue it."""
    length = trial.configuration.length
    words = ["run", "--resume", "--run-dir", study.path(trial), *_run_words(study, trial)]
    step = study.definition.pause_step(length, trial.rung)
    return words + (["--pause-at", str(step)] if step < length else [])


def again_command(study: Study, trial: Trial) -> str:
    """Return the shell command that trains a trial again to its end, as a run of its own."""
    return " ".join(map(shlex.quote, ["toolkit", "run", *_run_words(study, trial)]))


def _run_words(study: Study, trial: Trial) -> List[str]:
    definition, (_, values, length) = study.definition, trial.configuration
    words = ["--plugin", definition.plugin]
    for extension in definition.extensions:
        words += ["--with", extension]
    if definition.options_of_files:
        words += ["--config", os.path.join(os.path.abspath(study.folder), OPTIONS_FILE)]
    flags = {**{name: definition.options[name] for name in definition.flags}, **values}
    interval = definition.evaluation_interval(length)
    flags.update(seed=trial.seed, steps=length, evaluate_steps=interval)
    if definition.threads:  # sums in another number of threads have other last bits
        flags.update(dict.fromkeys(THREADS, definition.threads))
    for name, value in flags.items():
        flag, text = flag_name(name), value_text(value)
        if isinstance(value, bool):
            words.append(flag if value else f"--no-{flag[2:]}")
        else:  # a value may look like a flag
            words += [f"{flag}={text}"] if text.startswith("-") else [flag, text]
    return words


def trial_environment(environment: Mapping[str, str]) -> Dict[str, str]:
    """Return the environment of a trial: alone, whatever Slurm's variables say, and without the
    variables that set options of a run.
    """
    kept = {
        name: text
        for name, text in environment.items()
        if name in _OWN_VARIABLES or not (name == "TF_CONFIG" or name.startswith("TOOLKIT_"))
    }
    return {**kept, "TOOLKIT_CLUSTER": "{}"}
