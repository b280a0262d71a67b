"""The commands that train: that of a trial, and one for the user."""

from __future__ import annotations

import math
import os
import shlex
from typing import Any, Dict, List, Mapping, Sequence

from ..files import write_json
from ..options import flag_name
from ..storage.jsonl import read_json
from .definition import Definition, Layer, Trial, value_text
from .resolution import VARIABLES, variables_of

LAYERS = "layers"  # the subfolder with the configuration files of all trials
TRIALS = "trials"  # the subfolder with the runs
THREADS = ("intra_op_threads", "inter_op_threads")  # the options that a study sets for its trials


def run_path(folder: str, trial: Trial) -> str:
    """Return the folder of a trial's run."""
    return os.path.join(folder, TRIALS, trial.name)


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


def trial_words(definition: Definition, trial: Trial, folder: str, length: int) -> List[str]:
    """Return the arguments of `toolkit` that train a trial up to its rung, or continue it.

    Args:
        definition: of the study.
        trial: what to train.
        folder: of the study, in which the configuration files of all trials are written.
        length: of the whole run in steps.
    """
    words = ["run", "--resume", "--run-dir", run_path(folder, trial)]
    words += _model_words(definition, write_layers(definition, folder))
    words += _value_words(definition, trial.configuration.values, trial.seed, length)
    step = pause_step(definition, length, trial.rung)
    if step < length:
        words += ["--pause-at", str(step)]
    return words


def again_command(
    definition: Definition, values: Mapping[str, Any], seed: int, length: int, folder: str
) -> str:
    """Return the shell command that trains a configuration again as a run of its own."""
    variables = [f"{n}={shlex.quote(v)} " for n, v in variables_of(definition.layers).items()]
    words = ["toolkit", "run", *_model_words(definition, write_layers(definition, folder))]
    words += _value_words(definition, values, seed, length)
    return "".join(variables) + " ".join(map(shlex.quote, words))


def _model_words(definition: Definition, configs: List[str]) -> List[str]:
    words = ["--plugin", definition.plugin]
    for extension in definition.extensions:
        words += ["--with", extension]
    for path in configs:
        words += ["--config", path]
    return words


def _value_words(
    definition: Definition, values: Mapping[str, Any], seed: int, length: int
) -> List[str]:
    texts: Dict[str, Any] = dict(definition.flags)
    texts.update({name: value_text(value) for name, value in values.items()})
    texts.update(seed=str(seed), steps=str(length))
    texts["evaluate_steps"] = str(evaluation_interval(definition, length))
    if definition.threads:  # sums in another number of threads have other last bits
        texts.update(dict.fromkeys(THREADS, str(definition.threads)))
    return [word for name, text in texts.items() for word in _flag_words(name, text)]


def _flag_words(name: str, text: str) -> List[str]:
    """Return the words that set an option; --set where it may be a switch or look like a flag."""
    if text.lower() in ("true", "false") or text.startswith("-"):
        return ["--set", f"{name}={text}"]
    return [flag_name(name), text]


def write_layers(definition: Definition, folder: str) -> List[str]:
    """Write the configuration files of all trials, unless they exist; return their paths."""
    layers = [layer for layer in definition.layers if layer.place != VARIABLES]
    paths = []
    for number, layer in enumerate(layers):
        path = os.path.join(folder, LAYERS, f"{number}.json")
        if not os.path.exists(path) or read_json(path) != layer.values:
            write_json(path, layer.values)
        paths.append(path)
    return paths


def trial_environment(layers: Sequence[Layer], environment: Mapping[str, str]) -> Dict[str, str]:
    """Return the environment of a trial: no variable of a command counts but the study's.

    Args:
        layers: as in `Definition`.
        environment: of this process.
    """
    others = {n: v for n, v in environment.items() if not _sets_option(n)}
    return {**others, **variables_of(layers)}


# Those that every command reads, whatever it trains.
_OWN_VARIABLES = ("TOOLKIT_VERBOSE", "TOOLKIT_CACHE", "TOOLKIT_MIRRORS")


def _sets_option(name: str) -> bool:
    """Whether an environment variable may set an option, a plugin or a folder of a run."""
    return name == "TF_CONFIG" or (name.startswith("TOOLKIT_") and name not in _OWN_VARIABLES)
