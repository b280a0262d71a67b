"""The definition of a study, on which all of its table depends; its trials and their results.

Each of these records is a JSON value and back: `as_json`, `from_json`.
"""

from __future__ import annotations

import json
import math
import os
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ..errors import CheckpointError, UsageError
from ..files import write_json
from ..options import format_value
from ..storage.folder import shell_argument
from ..storage.jsonl import read_json

FORMAT = 1
DEFINITION_FILE = "study.json"
FLOAT, INT, CHOICE = "float", "int", "choice"  # kinds of dimensions
STEPS, EXAMPLES, CPU_SECS = "steps", "examples", "cpu_secs"  # kinds of budgets
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

    def __str__(self) -> str:
        """Return the values as `--vary` has them."""
        if self.kind == CHOICE:
            return _list_text(self.choices)
        suffix = ":log" if self.is_log else ""
        if self.step and not (self.kind == INT and self.step == 1):
            suffix = f":step={self.step:g}"
        return f"{self.low:g}..{self.high:g}{suffix}"

    def as_json(self) -> Dict[str, Any]:
        return dict(self._asdict(), choices=list(self.choices))

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Dimension:
        return cls(**dict(values, choices=tuple(values["choices"])))


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
        kind: STEPS, EXAMPLES (each step reads a batch of them) or CPU_SECS (of training, by a timed
            probe that fixes the number of steps before the first trial of a configuration).
        amount: of steps, examples or seconds.
    """

    kind: str
    amount: float

    def __str__(self) -> str:
        unit = {STEPS: "steps", EXAMPLES: "examples", CPU_SECS: "CPU seconds"}[self.kind]
        return f"{self.amount:,.10g} {unit} per trial"


class Layer(NamedTuple):
    """The values of a configuration file, or of the environment variables, of the command.

    Attributes:
        place: the path of the file, or the word "variables".
        values: option values by name; paths are absolute.
    """

    place: str
    values: Dict[str, Any]


class Definition(NamedTuple):
    """What a study is: two studies with equal definitions, on equal machines, have equal tables.

    Attributes:
        plugin: the reference of the model plugin; of a file with its absolute path.
        extensions: the references of the extensions, likewise.
        layers: values that hold in all trials, the weakest first.
        flags: the texts of the options that flags set for all trials, by name.
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
        study_seed: of the sampler.
        threads: what --intra-op-threads and --inter-op-threads are in each trial; 0 for the run's
            own choice.
    """

    plugin: str
    extensions: Tuple[str, ...]
    layers: Tuple[Layer, ...]
    flags: Dict[str, str]
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
    study_seed: int
    threads: int

    def is_better(self, value: float, other: float) -> bool:
        """Whether a value of the metric is better than another one."""
        return value < other if self.direction == "min" else value > other

    def as_json(self) -> Dict[str, Any]:
        """Return the definition as a JSON value."""
        return dict(
            self._asdict(),
            format=FORMAT,
            extensions=list(self.extensions),
            layers=[dict(layer._asdict()) for layer in self.layers],
            space=[dimension.as_json() for dimension in self.space],
            seeds=list(self.seeds),
            budget=dict(self.budget._asdict()),
            rungs=list(self.rungs),
        )

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Definition:
        """Return the definition that `as_json` returned. Raises KeyError, TypeError, ValueError."""
        if values["format"] != FORMAT:
            raise ValueError(f"expected format {FORMAT}, found {values['format']!r}")
        fields = {name: values[name] for name in cls._fields}
        fields.update(
            extensions=tuple(values["extensions"]),
            layers=tuple(Layer(**layer) for layer in values["layers"]),
            space=tuple(map(Dimension.from_json, values["space"])),
            seeds=tuple(values["seeds"]),
            budget=Budget(**values["budget"]),
            rungs=tuple(values["rungs"]),
        )
        return cls(**fields)


class Configuration(NamedTuple):
    """The values of the options that vary.

    Attributes:
        number: counts the configurations of the study, from 0.
        values: JSON values by the names of options.
    """

    number: int
    values: Dict[str, Any]

    def as_json(self) -> Dict[str, Any]:
        return dict(self._asdict())

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Configuration:
        return cls(**values)


class Trial(NamedTuple):
    """One configuration with one seed, to be trained up to a rung.

    Attributes:
        configuration: what to train.
        seed: a value of `Definition.seeds`, not its position.
        rung: the position in `Definition.rungs` up to which to train.
        length: the whole budget in steps, if the study has it on record; else None: the process
            that trains finds it by `find_length`, records it (the first record of a configuration
            holds, for each of its seeds and rungs), and trains by the record.
    """

    configuration: Configuration
    seed: int
    rung: int
    length: Optional[int] = None

    @property
    def name(self) -> str:
        """The name of the run's folder, equal for all rungs."""
        return f"{self.configuration.number:04d}-s{self.seed}"

    def as_json(self) -> Dict[str, Any]:
        return dict(self._asdict(), configuration=self.configuration.as_json())

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Trial:
        configuration = Configuration.from_json(values["configuration"])
        return cls(**dict(values, configuration=configuration))


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
        cpu_secs: of the processor, summed over all processes that trained the run up to this rung.
        seconds: of the clock, likewise.
        path: of the run's folder, relative to that of the study on the machine that trained it.
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

    def as_json(self) -> Dict[str, Any]:
        return dict(self._asdict())

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> TrialResult:
        return cls(**values)


# ------------------------------------------------------------------------------------ on the disk


def read_definition(folder: str) -> Optional[Definition]:
    """Return the definition of the study in a folder; None if there is none.

    Raises:
        CheckpointError: the file is damaged.
    """
    path = os.path.join(folder, DEFINITION_FILE)
    if not os.path.lexists(path):
        return None
    try:
        return Definition.from_json(read_json(path))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        text = f"has no entry {error}" if isinstance(error, KeyError) else f"is not valid: {error}"
        raise CheckpointError(f"{path} {text}.", path=path) from None


def write_definition(
    folder: str, definition: Definition, former_trials: Sequence[int] = ()
) -> None:
    """Write the definition of a study into its folder, once, and again when it got more trials.

    Args:
        folder: of the study.
        definition: to write.
        former_trials: how many trials it had before it got more.

    Raises:
        UsageError: the folder has another one; names the differences.
    """
    existing = read_definition(folder)
    is_former = existing is not None and existing.trials in former_trials
    if existing is not None:
        trials = definition.trials if is_former else existing.trials
        refuse_differences(existing._replace(trials=trials), definition, folder, folder)
    if existing is None or is_former:
        write_json(os.path.join(folder, DEFINITION_FILE), definition.as_json())


def refuse_differences(before: Definition, now: Definition, place: str, folder: str) -> None:
    """Raise UsageError with the differences of two definitions, if there are any.

    Args:
        before: of the study.
        now: of the command.
        place: the folder or the storage that has the study.
        folder: of the study, for the hint.
    """
    differences = find_differences(before, now)
    if differences:
        raise UsageError(
            f"The study in {place} is another one: {'; '.join(differences)}.",
            hint=f"Continue it with: toolkit search --search-dir {shell_argument(folder)}; for "
            "another study, name another --search-dir.",
        )


def find_differences(before: Definition, now: Definition) -> List[str]:
    """Return a clause for each difference of two definitions.

    The threads do not count: a study keeps those of its first command.
    """
    old, new = (_flat_values(definition) for definition in (before, now))
    names = [*old, *(name for name in new if name not in old)]
    return [
        f"{name} was {old.get(name, 'not set')}, now {new.get(name, 'not set')}"
        for name in names
        if old.get(name) != new.get(name)
    ]


def _flat_values(definition: Definition) -> Dict[str, Any]:
    """Return the parts of a definition by the names that a user has for them."""
    flat = dict(definition._asdict())
    for name in ("threads", "layers", "flags", "space"):
        del flat[name]
    flat["budget"] = str(definition.budget)
    for layer in definition.layers:
        flat.update({f"{name} ({layer.place})": value for name, value in layer.values.items()})
    flat.update({f"--{name}": text for name, text in definition.flags.items()})
    flat.update({f"--vary {dimension.name}": str(dimension) for dimension in definition.space})
    return flat
