"""The definition of a study, on which all of its table depends; its trials and their results.

A command states a definition, in which what it leaves open is false; `planning` fills it in.
"""

from __future__ import annotations

import json
import math
import os
from typing import Any, Dict, Mapping, NamedTuple, Optional, Sequence, Tuple

from ..errors import CheckpointError, RetryError, UsageError
from ..files import write_json
from ..options import format_value
from ..storage.folder import shell_argument
from ..storage.jsonl import read_json

FORMAT = 3
DEFINITION_FILE = "study.json"
FLOAT, INT, CHOICE = "float", "int", "choice"  # kinds of dimensions
STEPS, EXAMPLES = "steps", "examples"  # kinds of budgets
RANDOM, TPE, GRID = "random", "tpe", "grid"  # samplers
LAST, BEST = "last", "best"  # which evaluation of a trial counts
# Statuses of results.
FINISHED = "finished"  # trained to the end of its budget, and evaluated
PAUSED = "paused"  # evaluated at a rung before the last
DIVERGED = "diverged"  # a loss or a gradient was not finite
FAILED = "failed"  # ended by an error, or without a finite value of the metric
STOPPED = "stopped"  # halving: its configuration was not among the best of its rung


class Dimension(NamedTuple):
    """One option that varies, and its values.

    Attributes:
        name: of the option.
        kind: FLOAT or INT for a range, CHOICE for a list.
        low, high: the limits of a range, which belong to it; 0 for a list.
        step: the distance of the values of a range from `low` on; 0 for every value of a FLOAT. An
            INT range has a step of at least 1, or 0 if it is logarithmic: all integers.
        is_log: whether the logarithms of the values are spread evenly.
        choices: the values of a list: JSON values, no two equal.
    """

    name: str
    kind: str
    low: float = 0
    high: float = 0
    step: float = 0
    is_log: bool = False
    choices: Tuple[Any, ...] = ()

    @property
    def values(self) -> Optional[Sequence[Any]]:
        """All values in order; None for a range of floats without a step."""
        if self.kind == CHOICE:
            return list(self.choices)
        if self.kind == INT:
            return range(int(self.low), int(self.high) + 1, int(self.step) or 1)
        if not self.step:
            return None
        count = math.floor((self.high - self.low) / self.step + 1e-9) + 1
        return [float(f"{self.low + i * self.step:.12g}") for i in range(count)]

    @property
    def size(self) -> float:
        """How many values there are; infinite for a range of floats without a step."""
        if self.kind == INT:  # there may be more than a list can have
            return (int(self.high) - int(self.low)) // (int(self.step) or 1) + 1
        return math.inf if self.values is None else len(self.values)

    @property
    def ends(self) -> Sequence[Any]:
        """The choices of a list, or both limits of a range."""
        if self.kind == CHOICE:
            return self.choices
        return [int(each) if self.kind == INT else float(each) for each in (self.low, self.high)]

    def __str__(self) -> str:
        """Return the values as `--vary` has them."""
        if self.kind == CHOICE:
            return _list_text(self.choices)
        suffix = ":log" if self.is_log else ""
        if self.step and not (self.kind == INT and self.step == 1):
            suffix = f":step={self.step:g}"
        return f"{self.low:g}..{self.high:g}{suffix}"


def _list_text(choices: Sequence[Any]) -> str:
    """Return the values of a list as `--vary` reads them: values that are lists between bars."""
    texts = [value_text(choice) for choice in choices]
    if any("|" in text or not text or text.startswith("[") for text in texts):
        return json.dumps(list(choices))
    has_lists = any(isinstance(choice, (list, tuple, dict)) for choice in choices)
    return ("|" if has_lists or any("," in text for text in texts) else ",").join(texts)


def value_text(value: Any) -> str:
    """Return the text of an option's value from which a flag reads it back."""
    return str(value).lower() if isinstance(value, bool) else format_value(value)


class Budget(NamedTuple):
    """What each trial may spend, equal for all.

    Attributes:
        kind: STEPS or EXAMPLES (each step reads a batch of them).
        amount: of them; 0 for one that a command leaves open.
    """

    kind: str
    amount: float

    def __str__(self) -> str:
        return f"{self.amount:,.10g} {self.kind} per trial"


class Definition(NamedTuple):
    """What a study is: two studies with equal definitions, on equal machines, have equal tables.

    Attributes:
        plugin: the reference of the model plugin; of a file with its absolute path.
        extensions: the references of the extensions, likewise.
        options: those that a person set for all trials: JSON values by name, paths absolute.
        flags: the names of those that a flag set; files and variables set the others, which a
            preset that varies may replace.
        space: the options that vary.
        sampler: RANDOM, TPE or GRID.
        trials: the number of configurations; for GRID at most all of them.
        seeds: the values of --seed with which each configuration is trained.
        budget: of each trial.
        rungs: the shares of the budget at which configurations are compared, rising; the last is 1.
            (1.0,) without halving.
        reduction: the best 1/reduction of the configurations of a rung continue; 0 without halving.
        metric: the name of the metric of the validation split that chooses.
        direction: "min" or "max": which values are better.
        moment: LAST or BEST: which evaluation of a trial counts.
        interval: of the evaluations of a trial in steps; 0 if it follows from its length.
        study_seed: of the sampler.
        threads: what --intra-op-threads and --inter-op-threads are in each trial; 0 for the run's
            own choice.
    """

    plugin: str
    extensions: Tuple[str, ...]
    options: Dict[str, Any]
    flags: Tuple[str, ...]
    space: Tuple[Dimension, ...]
    sampler: str
    trials: int
    seeds: Tuple[int, ...]
    budget: Budget
    rungs: Tuple[float, ...]
    reduction: int
    metric: str
    direction: str
    moment: str
    interval: int
    study_seed: int
    threads: int

    def as_json(self) -> Dict[str, Any]:
        """Return the definition as a JSON value."""
        return dict(
            self._asdict(),
            format=FORMAT,
            space=[dimension._asdict() for dimension in self.space],
            budget=self.budget._asdict(),
        )

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Definition:
        """Return the definition that `as_json` returned. Raises KeyError, TypeError, ValueError."""
        if values["format"] != FORMAT:
            raise ValueError(f"expected format {FORMAT}, found {values['format']!r}")
        fields = {name: values[name] for name in cls._fields}
        fields.update(
            options=dict(values["options"]),
            space=tuple(
                Dimension(**dict(each, choices=tuple(each["choices"]))) for each in values["space"]
            ),
            budget=Budget(**values["budget"]),
            **{name: tuple(values[name]) for name in ("extensions", "flags", "seeds", "rungs")},
        )
        return cls(**fields)


class Configuration(NamedTuple):
    """The values of the options that vary.

    Attributes:
        number: counts the configurations of the study, from 0.
        values: JSON values by the names of options.
        length: the whole budget of a trial in steps.
    """

    number: int
    values: Dict[str, Any]
    length: int = 1


class Trial(NamedTuple):
    """One configuration with one seed, to be trained up to a rung.

    Attributes:
        configuration: what to train.
        seed: a value of `Definition.seeds`, not its position.
        rung: the position in `Definition.rungs` up to which to train.
    """

    configuration: Configuration
    seed: int
    rung: int

    @property
    def name(self) -> str:
        """The name of the run's folder, equal for all rungs."""
        return f"{self.configuration.number:04d}-s{self.seed}"


class TrialResult(NamedTuple):
    """How a trial ended at a rung.

    Attributes:
        configuration: its number.
        seed: as in `Trial`.
        rung: as in `Trial`.
        status: FINISHED, PAUSED, DIVERGED, FAILED or STOPPED.
        reason: of a status other than FINISHED and PAUSED: one sentence; else "".
        value: of the metric; None if there is no finite one.
        step: the step that the run reached.
        cpu_secs: of the processor, summed over all processes that have trained the run.
        seconds: of the clock, likewise.
        path: of the run's folder, relative to that of the study.
        low: the lower end of the value's interval over the examples; None if there is none.
        high: the upper end; likewise.
    """

    configuration: int
    seed: int
    rung: int
    status: str
    reason: str
    value: Optional[float]
    step: int
    cpu_secs: float
    seconds: float
    path: str
    low: Optional[float] = None
    high: Optional[float] = None


# ------------------------------------------------------------------------------------ on the disk


class Stored(NamedTuple):
    """What study.json has.

    Attributes:
        definition: of the study.
        configurations: that were sampled so far, by number.
    """

    definition: Definition
    configurations: Dict[int, Configuration]


def read_study(folder: str) -> Optional[Stored]:
    """Return what the study.json of a folder has; None if there is none.

    Raises:
        CheckpointError: the file is damaged, or has a configuration that the space does not have.
    """
    path = os.path.join(folder, DEFINITION_FILE)
    if not os.path.lexists(path):
        return None
    try:
        values = read_json(path)
        definition = Definition.from_json(values)
        configurations = [Configuration(**each) for each in values["configurations"]]
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        text = f"has no entry {error}" if isinstance(error, KeyError) else f"is not valid: {error}"
        raise CheckpointError(f"{path} {text}.", path=path) from None
    for each in configurations:
        if not _has_values(definition, each):
            raise CheckpointError(
                f"{path} has a configuration that is none of the study: {each.values}.", path=path
            )
    return Stored(definition, {each.number: each for each in configurations})


def _has_values(definition: Definition, configuration: Configuration) -> bool:
    """Whether a configuration has a choice of each list and a number within each range, alone."""
    values = configuration.values
    if not isinstance(values, dict) or set(values) != {each.name for each in definition.space}:
        return False
    for dimension in definition.space:
        value = values[dimension.name]
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        is_within = is_number and dimension.low <= value <= dimension.high
        if not (value in dimension.choices if dimension.kind == CHOICE else is_within):
            return False
    return isinstance(configuration.number, int) and isinstance(configuration.length, int)


def write_study(folder: str, study: Stored) -> None:
    """Write study.json in one moment, under the lock of the study. Raises RetryError."""
    configurations = [study.configurations[number] for number in sorted(study.configurations)]
    entries = [each._asdict() for each in configurations]
    values = dict(study.definition.as_json(), configurations=entries)
    path = os.path.join(folder, DEFINITION_FILE)
    try:
        write_json(path, values)
    except OSError as error:
        raise RetryError(f"{path} cannot be written: {error.strerror}.") from None


def refuse_differences(before: Definition, now: Definition, folder: str) -> None:
    """Raise UsageError with the differences of two definitions, if there are any.

    The threads do not count: a study keeps those of its first command.

    Args:
        before: of the study.
        now: of the command.
        folder: of the study.
    """
    old, new = map(_flat_values, (before, now))
    differences = [
        f"{name} was {old.get(name, 'not set')}, now {new.get(name, 'not set')}"
        for name in {**old, **new}
        if old.get(name) != new.get(name)
    ]
    if differences:
        raise UsageError(
            f"The study in {folder} is another one: {'; '.join(differences)}.",
            hint=f"Continue it with: toolkit search --search-dir {shell_argument(folder)}; for "
            "another study, name another --search-dir.",
        )


def _flat_values(definition: Definition) -> Dict[str, Any]:
    """Return the parts of a definition by the names that a user has for them."""
    flat = dict(definition._asdict(), budget=str(definition.budget))
    for name in ("threads", "options", "flags", "space"):
        del flat[name]
    for name, value in definition.options.items():
        flat[f"--{name}" if name in definition.flags else name] = value_text(value)
    return {**flat, **{f"--vary {each.name}": str(each) for each in definition.space}}
