"""The definition of a study, on which all of its table depends, and its trials.

A command states a definition, in which what it leaves open is false; `planning` fills it in.
"""

from __future__ import annotations

import math
from typing import Any, Dict, Mapping, NamedTuple, Optional, Sequence, Tuple

from ..display.numbers import format_count
from ..errors import UsageError
from ..options import format_value
from ..storage.run_folder import shell_argument

FORMAT = 3
FLOAT, INT, CHOICE = "float", "int", "choice"  # kinds of dimensions
STEPS, EXAMPLES = "steps", "examples"  # kinds of budgets
RANDOM, TPE, GRID = "random", "tpe", "grid"  # samplers
LAST, BEST = "last", "best"  # which evaluation of a trial counts
# Statuses of results.
FINISHED = "finished"  # trained to the end of its budget, and evaluated
PAUSED = "paused"  # evaluated at a rung before the last
DIVERGED = "diverged"  # a loss or a gradient was not finite
FAILED = "failed"  # ended by an error, or without a finite value of the metric
Key = Tuple[int, int, int]  # configuration, seed, rung


class Dimension(NamedTuple):
    """One option that varies, and its values."""

    name: str  # of the option
    kind: str  # FLOAT or INT for a range, CHOICE for a list
    # the limits of a range, which belong to it; 0 for a list
    low: float = 0
    high: float = 0
    # the distance of the values of a range from `low` on; 0 for every value of a FLOAT. An INT
    # range has a step of at least 1, or 0 if it is logarithmic: all integers.
    step: float = 0
    is_log: bool = False  # whether the logarithms of the values are spread evenly
    choices: Tuple[Any, ...] = ()  # the values of a list: JSON values, no two equal

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
        values = (float(f"{self.low + i * self.step:.12g}") for i in range(count))
        return [min(max(value, self.low), self.high) for value in values]

    @property
    def size(self) -> float:
        """How many values there are; infinite for a range of floats without a step."""
        if self.kind == INT:  # there may be more than a list can have
            return (int(self.high) - int(self.low)) // (int(self.step) or 1) + 1
        return math.inf if self.values is None else len(self.values)

    @property
    def ends(self) -> Sequence[Any]:
        """The choices of a list, or the lowest and the highest value of a range."""
        if self.kind == CHOICE:
            return self.choices
        values = self.values or (self.low, self.high)
        return values[0], values[-1]

    def has(self, value: Any) -> bool:
        """Whether a value is a choice of the list, or a number within the range."""
        if self.kind == CHOICE:
            return value in self.choices
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        return is_number and self.low <= value <= self.high

    def __str__(self) -> str:
        """Return the values as `--vary` has them."""
        if self.kind != CHOICE:
            suffix = ":log" if self.is_log else ""
            if self.step and not (self.kind == INT and self.step == 1):
                suffix = f":step={value_text(self.step)}"
            return f"{value_text(self.low)}..{value_text(self.high)}{suffix}"
        texts = [value_text(choice) for choice in self.choices]
        has_lists = any(isinstance(choice, (list, tuple, dict)) for choice in self.choices)
        return ("|" if has_lists or any("," in text for text in texts) else ",").join(texts)


def value_text(value: Any) -> str:
    """Return the text of an option's value from which a flag reads it back."""
    if isinstance(value, float) and float(f"{value:.6g}") == value:
        return f"{value:.6g}"
    return str(value).lower() if isinstance(value, bool) else format_value(value)


class Budget(NamedTuple):
    """What each trial may spend, equal for all."""

    kind: str  # STEPS or EXAMPLES (each step reads a batch of them)
    amount: float  # of them; 0 for one that a command leaves open

    def __str__(self) -> str:
        return f"{self.amount:,.10g} {self.kind} per trial"


class Definition(NamedTuple):
    """What a study is: two studies with equal definitions, on equal machines, have equal tables."""

    plugin: str  # the reference of the model plugin; of a file with its absolute path
    extensions: Tuple[str, ...]  # the references of the extensions, likewise
    # those that a person set for all trials: JSON values by name, paths absolute
    options: Dict[str, Any]
    # the names of those that a flag set; files and variables set the others, which a preset that
    # varies may replace
    flags: Tuple[str, ...]
    space: Tuple[Dimension, ...]  # the options that vary
    sampler: str  # RANDOM, TPE or GRID
    trials: int  # the number of configurations; for GRID at most all of them
    seeds: Tuple[int, ...]  # the values of --seed with which each configuration is trained
    budget: Budget  # of each trial
    # the shares of the budget at which configurations are compared, rising; the last is 1. (1.0,)
    # without halving.
    rungs: Tuple[float, ...]
    # the best 1/reduction of the configurations of a rung continue; 0 without halving
    reduction: int
    metric: str  # the name of the metric of the validation split that chooses
    direction: str  # "min" or "max": which values are better
    moment: str  # LAST or BEST: which evaluation of a trial counts
    interval: int  # of the evaluations of a trial in steps; 0 if it follows from its length
    study_seed: int  # of the sampler
    # what --intra-op-threads and --inter-op-threads are in each trial; 0 for the run's own choice
    threads: int
    epochs: float = 0.0  # as a person set the budget in them; 0 where nobody did

    @property
    def num_configurations(self) -> float:
        """How many the space has; infinite if a range of floats has no step."""
        count: float = 1
        for dimension in self.space:
            count *= dimension.size
        return count

    @property
    def options_of_files(self) -> Dict[str, Any]:
        """The options that files and variables set for all trials."""
        return {name: value for name, value in self.options.items() if name not in self.flags}

    def has(self, configuration: Configuration) -> bool:
        """Return whether the space has the values of a configuration, and no others."""
        number, values, length = configuration
        if not (isinstance(values, dict) and isinstance(number, int) and isinstance(length, int)):
            return False
        has_names = set(values) == {each.name for each in self.space}
        return has_names and all(each.has(values[each.name]) for each in self.space)

    def count_steps(self, examples_per_step: int) -> int:
        """Return the length of a trial in steps; 0 for a budget that a command leaves open."""
        per_step = 1 if self.budget.kind == STEPS else examples_per_step
        return math.ceil(self.budget.amount / per_step)

    def evaluation_interval(self, length: int) -> int:
        """Return at multiples of which step a trial of a length evaluates the validation split.

        With halving it is the length of the first rung, so that each rung ends with an evaluation.
        """
        if self.interval:
            return self.interval
        first_rung = math.floor(length * self.rungs[0])
        return max(1, first_rung if self.reduction else math.ceil(length / 10))

    def pause_step(self, length: int, rung: int) -> int:
        """Return the step at which a trial ends at a rung: its length, or one that evaluates."""
        if rung == len(self.rungs) - 1:
            return length
        interval = self.evaluation_interval(length)
        return min(length, max(1, round(length * self.rungs[rung] / interval)) * interval)

    @property
    def summary(self) -> str:
        """What each trial may spend, and how many there are, as a sentence without a stop."""
        text = f"{format_count(self.trials, 'configuration')} ({self.sampler}), "
        text += f"{format_count(len(self.seeds), 'seed')} each, {self.budget}"
        if self.reduction:
            shares = ", ".join(f"{100 * share:.3g} %" for share in self.rungs)
            text += f"; halving: 1 of {self.reduction} continues, rungs at {shares}"
        return text

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
        # An older study lacks the epochs, which have a default.
        names = [name for name in cls._fields if name != "epochs" or name in values]
        fields = {name: values[name] for name in names}
        for name in ("extensions", "flags", "seeds", "rungs"):
            fields[name] = tuple(fields[name])
        space = [
            Dimension(**dict(each, choices=tuple(each["choices"]))) for each in fields["space"]
        ]
        fields.update(space=tuple(space), budget=Budget(**fields["budget"]))
        return cls(**dict(fields, options=dict(fields["options"])))

    def refuse_difference(self, now: Definition, folder: str) -> None:
        """Raise UsageError with what differs in the definition of a command, if something does.

        The threads do not count: a study keeps those of its first command. Neither does the number
        of trials, which may grow, and the rungs that follow from it.
        """
        tables = []  # of the parts by the names that a user has for them
        for study in (self, now):
            table: Dict[str, Any] = dict(study._asdict(), budget=str(study.budget))
            for name in ("threads", "trials", "options", "flags", "space"):
                del table[name]
            for name, value in study.options.items():
                table[f"--{name}" if name in study.flags else name] = value_text(value)
            tables.append({**table, **{f"--vary {each.name}": str(each) for each in study.space}})
        old, new = tables
        if self.trials != now.trials:
            del old["rungs"], new["rungs"]
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


class Configuration(NamedTuple):
    """The values of the options that vary."""

    number: int  # counts the configurations of the study, from 0
    values: Dict[str, Any]  # JSON values by the names of options
    length: int = 1  # the whole budget of a trial in steps


class Trial(NamedTuple):
    """One configuration with one seed, to be trained up to a rung."""

    configuration: Configuration  # what to train
    seed: int  # a value of `Definition.seeds`, not its position
    rung: int  # the position in `Definition.rungs` up to which to train

    @property
    def key(self) -> Key:
        """What tells the trial from all others of its study."""
        return self.configuration.number, self.seed, self.rung

    @property
    def name(self) -> str:
        """The name of the run's folder, equal for all rungs."""
        return f"{self.configuration.number:04d}-s{self.seed}"


class Result(NamedTuple):
    """How a trial ended at a rung."""

    status: str = ""  # FINISHED, PAUSED, DIVERGED or FAILED; "" for a trial that has not ended
    reason: str = ""  # why it diverged or failed, one sentence; else ""
    # of the processor, summed over the processes of the trial that have ended
    cpu_secs: float = 0.0
    step: int = 0  # the step that the run reached
    value: Optional[float] = None  # of the metric; None if there is no finite one
    # the lower end of the value's interval over the examples; None if there is none
    low: Optional[float] = None
    high: Optional[float] = None  # the upper end; likewise
