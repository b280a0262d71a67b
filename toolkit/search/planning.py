"""From what a command says to the definition of a study.

What the command leaves open follows from the model: the metric and its direction, and the budget.
A process builds the graphs of one configuration for that.
"""

from __future__ import annotations

import math
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

from ..errors import ToolkitError, UsageError, suggest
from ..options import CoreOptions
from . import definition as study
from .commands import pause_step
from .definition import BEST, GRID, LAST, TPE, Budget, Definition, Dimension, Layer, value_text
from .graph_check import Answer, Request, budget_steps, check_configurations
from .space import count_configurations

DEFAULT_TRIALS = 20
MAX_TRIALS = 9999  # numbers have four digits in the names of folders
MAX_GRID = 64  # configurations of a space that is a grid by default
MAX_RUNGS = 3  # by default
_LENGTHS = ("steps", "epochs")  # options whose flags set the budget


class Draft(NamedTuple):
    """What the command says of a study.

    Attributes:
        plugin, extensions, layers, flags, space: as in `Definition`; the flags may have "steps",
            "epochs" and "seed".
        options: the resolved options, as they are without what varies.
        sampler, trials, reduction: as in `Definition`; None where the command does not say it.
        num_seeds: per configuration.
        examples, cpu_secs: the budget; None where the command does not say it.
        rungs: the text of --rungs; "" without.
        metric: the text of --metric; "" without.
        study_seed: as in `Definition`.
        threads: as in `Definition`.
    """

    plugin: str
    extensions: Tuple[str, ...]
    layers: Tuple[Layer, ...]
    flags: Dict[str, str]
    space: Tuple[Dimension, ...]
    options: CoreOptions
    sampler: Optional[str]
    trials: Optional[int]
    num_seeds: int
    examples: Optional[float]
    cpu_secs: Optional[float]
    reduction: int
    rungs: str
    metric: str
    study_seed: int
    threads: int


def plan_study(draft: Draft, folder: str) -> Definition:
    """Return the definition of a new study.

    Args:
        draft: what the command says.
        folder: of the study, in which the process that builds graphs writes.

    Raises:
        ToolkitError: the first configuration cannot be trained.
        UsageError: what the command says is contradictory, or is not enough.
    """
    check_draft(draft)
    budget = _stated_budget(draft)
    flags = {n: text for n, text in draft.flags.items() if n not in (*_LENGTHS, "seed")}
    corner = first_values(draft.space)
    length_flags = {n: draft.flags[n] for n in _LENGTHS if n in draft.flags}
    request = Request(
        draft.plugin, draft.extensions, draft.layers, {**flags, **length_flags}, [corner]
    )
    if budget is not None:
        request = request._replace(flags=flags, budget=budget, threads=draft.threads)
    answer = check_configurations(request, folder, "first")[0]
    refuse_faults([corner], [answer])
    budget = budget or _usual_budget(draft, answer)
    metric, direction = choose_metric(draft.metric, answer)
    if answer.interval and not (draft.reduction and "evaluate_steps" not in flags):
        flags["evaluate_steps"] = str(answer.interval)
    definition = Definition(
        **_shared_parts(draft, flags, budget),
        metric=metric,
        direction=direction,
        moment=BEST if answer.best_metric else LAST,
        threads=draft.threads,
    )
    _check_rungs(definition, _length(definition, answer))
    return definition


def continue_study(draft: Draft, existing: Definition) -> Definition:
    """Return the definition that a command repeats; what it leaves open is that of the study.

    Args:
        draft: what the command says.
        existing: the study that is to continue.
    """
    flags = {n: text for n, text in draft.flags.items() if n not in (*_LENGTHS, "seed")}
    if "evaluate_steps" in existing.flags:
        flags.setdefault("evaluate_steps", existing.flags["evaluate_steps"])
    budget = existing.budget if "epochs" in draft.flags else _stated_budget(draft)
    draft = draft._replace(
        sampler=draft.sampler or existing.sampler, trials=draft.trials or existing.trials
    )
    prefix, _, name = draft.metric.rpartition(":")
    return existing._replace(
        **_shared_parts(draft, flags, budget or existing.budget),
        metric=name or existing.metric,
        direction=prefix or existing.direction,
    )


def _shared_parts(draft: Draft, flags: Dict[str, str], budget: Budget) -> Dict[str, Any]:
    """The parts of a definition that a command states, by name; for a new study and one that
    continues.
    """
    trials, sampler = _number_and_sampler(draft)
    return {
        "plugin": draft.plugin,
        "extensions": draft.extensions,
        "layers": draft.layers,
        "flags": flags,
        "space": draft.space,
        "sampler": sampler,
        "trials": trials,
        "seeds": _seeds(draft),
        "budget": budget,
        "rungs": read_rungs(draft.rungs, draft.reduction, budget, trials),
        "reduction": draft.reduction,
        "study_seed": draft.study_seed,
    }


def with_more_trials(existing: Definition, trials: int) -> Definition:
    """Return the definition of a study that gets more trials.

    Args:
        existing: the study.
        trials: how many it is to have in all; no more than its space has are added.

    Raises:
        UsageError: it has as many or more, or it pauses trials at rungs.
    """
    if trials == existing.trials:
        return existing
    if trials < existing.trials:
        raise UsageError(
            f"The search has {existing.trials} trials, and --trials is {trials}.",
            hint="It can get more, not fewer.",
        )
    if existing.reduction:
        raise UsageError(
            f"A search with --halving cannot get more trials than its {existing.trials}: which of "
            "them continued after a rung depends on how many there are.",
            hint=f"Name another --search-dir, with --trials {trials}.",
        )
    count = count_configurations(existing.space)
    if count <= existing.trials:
        raise UsageError(
            f"The search has all {existing.trials} configurations of what varies; there are no "
            f"{trials}.",
            hint="Name another --search-dir, with more values.",
        )
    return existing._replace(trials=int(min(trials, count)))


def _seeds(draft: Draft) -> Tuple[int, ...]:
    return tuple(range(draft.options.seed, draft.options.seed + draft.num_seeds))


def check_draft(draft: Draft) -> None:
    """Refuse what no study can have, before any process starts."""
    options = draft.options
    if not options.evaluate:
        raise UsageError(
            "--no-evaluate is set, but a search chooses by evaluations of the validation split.",
            hint="Leave it out.",
        )
    if options.max_secs is not None:
        raise UsageError(
            f"--max-secs is {options.max_secs:g}, and would end trials at a time, not at equal "
            "budgets.",
            hint="Set --cpu-secs for a budget in time.",
        )
    if draft.options.seed + draft.num_seeds > 2**31:
        raise UsageError(f"--seed {draft.options.seed} leaves no room for {draft.num_seeds} seeds.")
    if draft.rungs and not draft.reduction:
        raise UsageError("--rungs is set, but --halving is not.", hint="Add --halving 3.")


def first_values(space: Sequence[Dimension]) -> Dict[str, object]:
    """Return a configuration: the first value, or the low end, of each dimension."""
    return {d.name: d.choices[0] if d.choices else _typed(d, d.low) for d in space}


def _typed(dimension: Dimension, value: float) -> float:
    return int(value) if dimension.kind == study.INT else float(value)


def refuse_faults(values: Sequence[Dict[str, object]], answers: Sequence[Answer]) -> None:
    """Raise the error of the first configuration that cannot be trained, with its values."""
    for each, answer in zip(values, answers):
        if answer.error:
            text = describe_values(each)
            error = ToolkitError(f"Trials with {text} cannot be trained: {answer.error}")
            error.hint, error.exit_code = answer.hint, answer.exit_code or 1
            raise error


def describe_values(values: Dict[str, object]) -> str:
    """Return the values of a configuration as a person reads them."""
    if not values:
        return "the options of the command"
    return ", ".join(
        f"{n}={v:.6g}" if isinstance(v, float) else f"{n}={value_text(v)}"
        for n, v in values.items()
    )


# ------------------------------------------------------------------------------------------ budget


def _stated_budget(draft: Draft) -> Optional[Budget]:
    """Return the budget that the command states; None for the usual length of a run."""
    stated = {
        "--steps": draft.flags.get("steps"),
        "--epochs": draft.flags.get("epochs"),
        "--examples": draft.examples,
        "--cpu-secs": draft.cpu_secs,
    }
    names = [name for name, value in stated.items() if value is not None]
    if len(names) > 1:
        raise UsageError(
            f"Both {names[0]} and {names[1]} set the budget of a trial.", hint="Set one of them."
        )
    if draft.cpu_secs is not None:
        return Budget(study.CPU_SECS, draft.cpu_secs)
    if draft.examples is not None:
        return Budget(study.EXAMPLES, draft.examples)
    if "steps" in draft.flags and draft.options.steps is not None:
        return Budget(study.STEPS, draft.options.steps)
    return None


def _usual_budget(draft: Draft, answer: Answer) -> Budget:
    """Return the length of a usual run: its steps, or the examples of its epochs."""
    if draft.options.steps is not None and "epochs" not in draft.flags:
        return Budget(study.STEPS, draft.options.steps)
    return Budget(study.EXAMPLES, math.ceil(draft.options.epochs * answer.num_examples))


def _length(definition: Definition, answer: Answer) -> Optional[int]:
    """Return the length of the configuration that was checked; None if a probe will find it."""
    return budget_steps(definition.budget, answer.examples_per_step)


# ------------------------------------------------------------------------------ trials and sampler


def _number_and_sampler(draft: Draft) -> Tuple[int, str]:
    """Return the number of configurations and the sampler."""
    count = count_configurations(draft.space)
    sampler = draft.sampler
    if sampler == GRID and count == math.inf:
        names = [d.name for d in draft.space if d.values is None]
        raise UsageError(
            f"A grid needs a list of values, and {names[0]} is a range without a step.",
            hint=f"Write --vary {names[0]}=LOW..HIGH:step=X, or a list.",
        )
    if sampler is None:
        sampler = GRID if count <= (draft.trials or MAX_GRID) else TPE
    trials = draft.trials or (count if sampler == GRID else DEFAULT_TRIALS)
    if trials > MAX_TRIALS:
        raise UsageError(f"{trials:,} configurations are too many, at most {MAX_TRIALS:,}.")
    return int(min(trials, count)), sampler


# ------------------------------------------------------------------------------------------ rungs


def read_rungs(text: str, reduction: int, budget: Budget, trials: int) -> Tuple[float, ...]:
    """Return the shares of the budget at which configurations are compared.

    Args:
        text: amounts of the budget, or shares such as 10%, separated by commas; "" for the usual
            ones: each rung is `reduction` times the one before.
        reduction: of halving; 0 without.
        budget: of each trial.
        trials: the number of configurations.

    Raises:
        UsageError: a text is no amount below the budget, or there are too few configurations.
    """
    if not reduction:
        return (1.0,)
    if trials < reduction:
        raise UsageError(
            f"--halving {reduction} continues one of {reduction} configurations, and there "
            f"{'is' if trials == 1 else 'are'} {trials}.",
            hint="Set more --trials, or leave --halving out.",
        )
    if not text:
        count = min(MAX_RUNGS - 1, int(math.log(trials, reduction) + 1e-9))
        return tuple(reduction**-power for power in range(count, 0, -1)) + (1.0,)
    shares = sorted(_read_share(part.strip(), budget) for part in text.split(","))
    if len(set(shares)) < len(shares):
        raise UsageError(f"--rungs {text} has an amount twice.")
    return (*shares, 1.0)


def _read_share(text: str, budget: Budget) -> float:
    try:
        is_share = text.endswith("%")
        share = float(text.rstrip("%")) / (100 if is_share else budget.amount)
    except ValueError:
        share = math.nan
    if not 0 < share < 1:
        raise UsageError(
            f"--rungs: '{text}' is no amount below the budget of {budget}.",
            hint="Write amounts, as in --rungs 100,300, or shares, as in --rungs 10%,30%.",
        )
    return share


def _check_rungs(definition: Definition, length: Optional[int]) -> None:
    """Refuse rungs that are at the same step."""
    if length is None or not definition.reduction:
        return
    steps = rung_steps(definition, length)
    if len(set(steps)) < len(steps):
        texts = ", ".join(map(str, steps))
        raise UsageError(
            f"With {length} steps, the rungs are at the steps {texts}: two of them are the same.",
            hint="Set a larger budget, other --rungs, or a smaller --evaluate-steps.",
        )


def rung_steps(definition: Definition, length: int) -> List[int]:
    """Return the steps at which the rungs of a trial end."""
    return [pause_step(definition, length, rung) for rung in range(len(definition.rungs))]


# ------------------------------------------------------------------------------------------ metric


def choose_metric(text: str, answer: Answer) -> Tuple[str, str]:
    """Return the name and the direction of the metric that chooses.

    Args:
        text: `NAME`, `min:NAME` or `max:NAME`; "" for --best-metric, else the first metric with a
            declared direction, losses last.
        answer: what the model has.

    Raises:
        UsageError: there is no such metric, or nothing says which values are better.
    """
    text = text or answer.best_metric or _first_metric(answer)
    prefix, _, name = text.partition(":") if ":" in text else ("", "", text)
    if not name or prefix not in ("", "min", "max"):
        raise UsageError(f"--metric is '{text}'.", hint="Write NAME, min:NAME or max:NAME.")
    if name not in answer.metrics:
        raise UsageError(
            f"There is no metric '{name}' of the validation split to choose by.",
            hint=suggest(name, answer.metrics),
        )
    direction = prefix or answer.directions.get(name, "")
    if not direction:
        raise UsageError(
            f"Nothing declares whether higher or lower values of {name} are better.",
            hint=f"Write --metric min:{name} or --metric max:{name}.",
        )
    return name, direction


def _first_metric(answer: Answer) -> str:
    names = [name for name in answer.metrics if name in answer.directions]
    others = [name for name in names if "loss" not in name]
    if not names:
        raise UsageError(
            "Nothing declares which metric is to be high or low.",
            hint=f"Write --metric min:NAME or --metric max:NAME; there is: "
            f"{', '.join(answer.metrics) or 'none'}.",
        )
    return (others or names)[0]
