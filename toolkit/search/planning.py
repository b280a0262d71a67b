"""From what a command states to the definition of a study.

`complete` decides what needs no graph; `fill_in` the rest, as soon as the graphs of the first
configuration are built: the metric and its direction, and the budget.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Mapping, Tuple

from ..errors import UsageError, suggest
from ..options import CoreOptions
from .definition import BEST, EXAMPLES, GRID, LAST, STEPS, TPE, Budget, Definition

DEFAULT_TRIALS = 20
MAX_TRIALS = 9999  # numbers have four digits in the names of folders
MAX_GRID = 64  # configurations of a space that is a grid by default
MAX_RUNGS = 3


def fill_in(
    definition: Definition,
    options: CoreOptions,
    metrics: Mapping[str, str],
    num_examples: int,
) -> Definition:
    """A new study, completed by what the graphs of its first configuration say.

    `metrics` are those of the validation split, each with "min" or "max", or "" if it declares no
    direction. Raises UsageError if there is no such metric, or two rungs are at the same step.
    """
    best_metric = options.best_metric or ""
    metric, direction = choose_metric(definition.metric, definition.direction, metrics, best_metric)
    epochs = Fraction(str(definition.epochs or options.epochs))  # as written, as a run takes them
    usual = Budget(EXAMPLES, math.ceil(epochs * num_examples))
    if options.steps is not None and not definition.epochs:
        usual = Budget(STEPS, options.steps)
    interval = options.evaluate_steps or options.checkpoint_steps or 0
    definition = definition._replace(
        budget=definition.budget if definition.budget.amount else usual,
        metric=metric,
        direction=direction,
        moment=BEST if best_metric else LAST,
        interval=definition.interval or (0 if definition.reduction else interval),
    )
    length = definition.count_steps(options.batch_size * options.batches_per_step)
    steps = [definition.pause_step(length, rung) for rung in range(len(definition.rungs))]
    if len(set(steps)) < len(steps):
        texts = ", ".join(map(str, steps))
        raise UsageError(
            f"With {length} steps, the rungs are at the steps {texts}: two of them are the same.",
            hint="Set a larger budget or a smaller --evaluate-steps.",
        )
    return definition


def complete(stated: Definition, usual: Definition) -> Definition:
    """What a command says, and what it leaves open as it is in another definition, perhaps that of
    the study which it continues.

    Raises UsageError if the sampler does not fit the space, or there is too little to halve.
    """
    names = ("sampler", "trials", "metric", "direction", "moment", "interval", "epochs")
    stated = stated._replace(**{n: getattr(stated, n) or getattr(usual, n) for n in names})
    budget = stated.budget if stated.budget.amount else usual.budget
    count, sampler = stated.num_configurations, stated.sampler
    if sampler == GRID and count == math.inf:
        name = next(each.name for each in stated.space if each.values is None)
        raise UsageError(
            f"A grid needs a list of values, and {name} is a range without a step.",
            hint=f"Write --vary {name}=LOW..HIGH:step=X, or a list.",
        )
    sampler = sampler or (GRID if count <= (stated.trials or MAX_GRID) else TPE)
    number = stated.trials or (count if sampler == GRID else DEFAULT_TRIALS)
    if number > MAX_TRIALS:
        text = f"{number:,} configurations are too many, at most {MAX_TRIALS:,}."
        raise UsageError(text, hint="Set --trials.")
    trials = int(min(number, count))
    return stated._replace(
        sampler=sampler,
        trials=trials,
        budget=budget,
        rungs=choose_rungs(stated.reduction, trials),
        threads=usual.threads,
    )


def with_more_trials(existing: Definition, trials: int) -> Definition:
    """Return the definition of a study that is to have so many trials in all.

    No more than its space has are added. Raises UsageError if it cannot get more.
    """
    before, count = existing.trials, existing.num_configurations
    if trials == before:
        return existing
    if existing.reduction:
        raise UsageError(
            f"A search with --halving has {before} trials, and cannot get {trials}: which of them "
            "continued after a rung depends on how many there are.",
            hint=f"Name another --search-dir, with --trials {trials}.",
        )
    if min(trials, count) <= before:
        raise UsageError(
            f"The search has {before} trials, and cannot have {trials} in all.",
            hint="It can get more, up to one for each configuration of what varies.",
        )
    return existing._replace(trials=int(min(trials, count)))


def check_options(options: CoreOptions) -> None:
    """Refuse what no study can have, before any process starts."""
    if not options.evaluate:
        raise UsageError(
            "--no-evaluate is set, but a search chooses by evaluations of the validation split.",
            hint="Leave it out.",
        )
    if options.max_secs is not None:
        raise UsageError(
            f"--max-secs is {options.max_secs:g}, and would end trials at a time, not at equal "
            "budgets.",
            hint="Leave it out; --steps, --examples and --epochs are such budgets.",
        )


def choose_rungs(reduction: int, trials: int) -> Tuple[float, ...]:
    """The shares of the budget at which configurations are compared: each is `reduction` times the
    one before. Raises UsageError for too few configurations.
    """
    if not reduction:
        return (1.0,)
    if trials < reduction:
        raise UsageError(
            f"--halving {reduction} continues one of {reduction} configurations, and there "
            f"{'is' if trials == 1 else 'are'} {trials}.",
            hint="Set more --trials, or leave --halving out.",
        )
    count = min(MAX_RUNGS - 1, int(math.log(trials, reduction) + 1e-9))
    return tuple(reduction**-power for power in range(count, 0, -1)) + (1.0,)


def choose_metric(
    name: str, direction: str, metrics: Mapping[str, str], best_metric: str
) -> Tuple[str, str]:
    """The name and the direction of the metric that chooses, of those that the model has.

    Without a name it is that of --best-metric, else the first one with a declared direction, losses
    last. Raises UsageError if there is no such metric, or nothing says which values are better.
    """
    if not (name or direction):
        direction, _, name = best_metric.rpartition(":")
    if not (name or direction):
        names = [each for each, declared in metrics.items() if declared]
        name = min(names, key=lambda each: "loss" in each, default="")
        if not name:
            raise UsageError(
                "Nothing declares which metric is to be high or low.",
                hint=f"Write --metric min:NAME or --metric max:NAME; there is: "
                f"{', '.join(metrics) or 'none'}.",
            )
    if not name or direction not in ("", "min", "max"):
        text = f"{direction}:{name}"
        raise UsageError(f"--metric is '{text}'.", hint="Write NAME, min:NAME or max:NAME.")
    if name not in metrics:
        raise UsageError(
            f"There is no metric '{name}' of the validation split to choose by.",
            hint=suggest(name, metrics),
        )
    direction = direction or metrics[name]
    if not direction:
        raise UsageError(
            f"Nothing declares whether higher or lower values of {name} are better.",
            hint=f"Write --metric min:{name} or --metric max:{name}.",
        )
    return name, direction
