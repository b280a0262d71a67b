"""`toolkit gan-league`: presets, plugins and programs at equal CPU time and seeds, by their
scores on the test split.

Presets and plugins were scored by their own runs; the images of programs are scored here, by the
same code.
"""

from __future__ import annotations

import contextlib
import functools
import json
import math
import operator
import os
import types
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np
from toolkit_image_scores.report import short

from toolkit import InterruptedRun, RetryError, ToolkitError, data_options, open_trained, statistics

from . import programs
from .judge import Judge
from .programs import Program, Task
from .rivals import Rival
from .training import Plan

LEVEL = 0.95  # of the intervals in scores.json, and of all verdicts that are made together


class Entrant(NamedTuple):
    """A preset, a plugin or a program with its runs.

    Attributes:
        name: of the preset or of the program; of the plugin, with its own flags.
        status: of its row in the table of the search.
        reason: why it did not finish; "" if it did.
        paths: of the runs.
        step: at which they ended; 0 for a program.
        cpu_secs: of each run, the mean.
        scores: of the test split, by run; those that have none are left out.
        program: its command; "" for a preset or a plugin.
    """

    name: str
    status: str
    reason: str
    paths: List[str]
    step: int
    cpu_secs: float
    scores: List[Dict[str, Any]]
    program: str = ""


class Measure(NamedTuple):
    """A score by which entrants are ranked; lower is better.

    Attributes:
        name: in a sentence.
        read: returns its value with the ends of its interval from the scores of a run; None if the
            run has no such score.
        is_distance: whether methods differ by a factor rather than by a difference: the values of
            one method vary the more, the larger they are.
    """

    name: str
    read: Callable[[Dict[str, Any]], Optional[statistics.Estimate]]
    is_distance: bool


# ---------------------------------------------------------------------------------------- programs


def train_programs(plan: Plan) -> None:
    """Run the programs of a tournament whose presets and plugins are trained."""
    if plan.programs:
        path, _ = _first_scored_run(_compare(plan))
        with open_trained(path) as trained:
            split = trained.split("train")
            programs.train(plan.programs, plan.folder, split, _task(plan, trained, split))


def _task(plan: Plan, trained: Any, split: Any) -> Task:
    """Return what each run of a program gets.

    Args:
        plan: of the tournament.
        trained: the run of a preset or a plugin.
        split: its training split.
    """
    options = trained.options
    return Task(
        cpu_secs=60 * (plan.minutes or 0.0),
        seeds=_seeds(plan),
        samples=options.score_samples,
        shape=tuple(trained.data.shape),
        data_sha256=split.sha256(),
        cores=options.intra_op_threads,
    )


def _seeds(plan: Plan) -> List[int]:
    """Return the seeds with which each is trained."""
    seeds: List[int] = read_json(plan.folder_of(plan.rivals[0]), "study.json")["seeds"]
    return seeds


def _score_program(plan: Plan, program: Program, judge: Judge) -> Entrant:
    """Return a program with the scores of its runs, or with the reason why it has none."""
    runs = programs.read_runs(program, plan.folder, _seeds(plan))
    failures = [run for run in runs if run.status != "finished"]
    entrant = Entrant(
        name=program.name,
        status=failures[0].status if failures else "finished",
        reason=failures[0].reason if failures else "",
        paths=[run.folder for run in runs],
        step=0,
        cpu_secs=float(np.mean([run.cpu_secs for run in runs])),
        scores=[],
        program=" ".join(program.words),
    )
    if failures:
        return entrant
    try:
        images = (programs.load_images(run.images_path) for run in runs)
        scores = [judge.score(each, run.folder) for each, run in zip(images, runs)]
    except ToolkitError as error:
        if isinstance(error, (InterruptedRun, RetryError)):
            raise
        return entrant._replace(status="not scored", reason=error.message)
    return entrant._replace(scores=scores)


# ----------------------------------------------------------------------------------------- results


def rank(plan: Plan) -> List[Entrant]:
    """Return presets, plugins and programs, the best first.

    Images of programs are scored if they were not yet.
    """
    entrants = _compare(plan)
    if plan.programs:
        with contextlib.closing(Judge(*_first_scored_run(entrants))) as judge:
            entrants += [_score_program(plan, program, judge) for program in plan.programs]
    return _ranked(entrants)


def _ranked(entrants: Sequence[Entrant]) -> List[Entrant]:
    measure = choose_measure(entrants)
    return sorted(entrants, key=lambda each: (not each.scores, _mean(each, measure)))


def read_entrants(plan: Plan) -> List[Entrant]:
    """Return the presets and plugins of a tournament, the best first."""
    return _ranked(_compare(plan))


def _compare(plan: Plan) -> List[Entrant]:
    """The presets and plugins in the order of the plan. Those whose scores cannot be compared with
    those of the first of them have none.
    """
    entrants = [_read_entrant(plan.folder_of(rival), rival) for rival in plan.rivals]
    scored = [each for each in entrants if each.scores]
    expected = _terms_of(scored[0]) if scored else []
    for number, each in enumerate(entrants):
        if each.scores and _terms_of(each) != expected:
            reason = f"other data, features or numbers of images than those of {scored[0].name}"
            entrants[number] = each._replace(status="not comparable", reason=reason, scores=[])
    return entrants


def _terms_of(entrant: Entrant) -> List[Any]:
    """What has to be equal in scores that are compared."""
    scores, options = entrant.scores[0], _read_options(entrant.paths[0])
    data = data_options(types.SimpleNamespace(**options))
    return [scores["features"]["sha256"], scores["n"], scores["m"], data]


def _read_entrant(folder: str, rival: Rival) -> Entrant:
    (row,) = read_json(folder, "table.json")["rows"]
    paths = [os.path.join(folder, path) for path in row["paths"]]
    # The scores of some seeds without those that failed would be better than the preset is.
    finished = paths if row["status"] == "finished" else []
    scores = [score for score in map(_read_scores, finished) if score is not None]
    own_name = _read_options(paths[0]).get("preset") if paths and rival.is_preset else ""
    name = rival.name if own_name in (rival.name, "", None) else f"{rival.name} ({own_name})"
    cpu_secs = row["cpu_secs"] / max(len(paths), 1)
    return Entrant(name, row["status"], row["reason"], paths, row["step"], cpu_secs, scores)


def _read_options(path: str) -> Dict[str, Any]:
    """The options of a run, with the preset that its data chose; {} if they cannot be read."""
    try:
        return read_json(path, "config.json")
    except (OSError, ValueError):
        return {}


def _first_scored_run(entrants: Sequence[Entrant]) -> Tuple[str, Dict[str, Any]]:
    """Return the first run that has scores, and these. Raises ToolkitError."""
    for path in (path for entrant in entrants if entrant.scores for path in entrant.paths):
        scores = _read_scores(path)
        if scores is not None:  # a seed may have none
            return path, scores
    raise ToolkitError(
        "No run of a preset or a plugin has scores with which programs could be compared.",
        hint="The test split needs 10 images or more.",
    )


def _read_scores(path: str) -> Optional[Dict[str, Any]]:
    """Return the scores of a run's test; None if it has none."""
    try:
        test = (read_json(path, "manifest.json").get("summary") or {}).get("test") or {}
        return read_json(path, test["reports"], "scores.json")
    except (OSError, KeyError, ValueError):
        return None


def read_json(*parts: str) -> Any:
    """Return the value in a JSON file, whose path is in parts."""
    with open(os.path.join(*parts), encoding="utf-8") as file:
        return json.load(file)


def as_json(folder: str, entrants: Sequence[Entrant]) -> Dict[str, Any]:
    """Return the result as JSON values."""
    rows = [dict(each._asdict(), **means_of(each)) for each in entrants]
    scored = [each for each in entrants if each.scores and not each.program]
    best = os.path.dirname(os.path.dirname(scored[0].paths[0])) if scored else ""
    again = read_json(best, "table.json")["again"] if best else ""
    verdict = find_verdict(entrants)
    return {"folder": folder, "verdict": verdict, "again": again, "rows": rows}


# ---------------------------------------------------------------------------------------- verdicts


def _read_distance(score: Dict[str, Any]) -> Optional[statistics.Estimate]:
    distance = score.get("frechet_distance") or {}
    interval = distance.get("interval") or {}
    return _as_estimate(distance.get("mean"), interval)


def _read_two_sample(score: Dict[str, Any]) -> Optional[statistics.Estimate]:
    test = score.get("two_sample") or {}
    return _as_estimate(test.get("accuracy"), test)


def _as_estimate(value: Any, ends: Dict[str, Any]) -> Optional[statistics.Estimate]:
    """Return a value with its interval; one without an interval has the ends nan."""
    if value is None:
        return None
    low, high = (np.nan if ends.get(name) is None else ends[name] for name in ("low", "high"))
    return statistics.Estimate(value, low, high)


DISTANCE = Measure("FD", _read_distance, is_distance=True)
TWO_SAMPLE = Measure("two-sample accuracy", _read_two_sample, is_distance=False)


def choose_measure(entrants: Sequence[Entrant]) -> Measure:
    """Return the distance if all scores have it, else the two-sample accuracy if all have that."""
    scores = [score for each in entrants for score in each.scores]
    for measure in (DISTANCE, TWO_SAMPLE):
        if all(measure.read(score) is not None for score in scores):
            return measure
    return DISTANCE


def estimates_of(entrant: Entrant, measure: Measure) -> List[statistics.Estimate]:
    """Return the values of those runs that have one."""
    values = map(measure.read, entrant.scores)
    return [value for value in values if value is not None]


def _mean(entrant: Entrant, measure: Measure) -> float:
    """The mean over the runs that have a value; inf if none has."""
    values = [estimate.value for estimate in estimates_of(entrant, measure)]
    return float(np.mean(values)) if values else float("inf")


def separate(
    a: Entrant, b: Entrant, measure: Measure, level: float = LEVEL
) -> statistics.Separation:
    """Return whether two entrants that have values differ by more than chance.

    Where `compares_factors`, the separation is that of the natural logarithms of the values.
    """
    if compares_factors(a, b, measure):
        seeds = [[math.log(each.value) for each in estimates_of(side, measure)] for side in (a, b)]
    else:
        seeds = [_seeds_of(each, measure, level) for each in (a, b)]
    return statistics.separate(seeds[0], seeds[1], level)


def compares_factors(a: Entrant, b: Entrant, measure: Measure) -> bool:
    """Return whether `separate` asks by which factor two entrants differ, not by which difference.

    It does so for distances of several runs: their standard deviation grows with their mean, and
    that of their logarithms, which the t test takes as it is, does not. One run each is compared by
    its own interval.
    """
    values = [estimate.value for each in (a, b) for estimate in estimates_of(each, measure)]
    return measure.is_distance and len(values) > 2 and min(values) > 0


def separate_pairs(
    pairs: Sequence[Tuple[Entrant, Entrant]], measure: Measure
) -> List[statistics.Separation]:
    """Return the separations of pairs of entrants; they hold together."""
    separators = [functools.partial(separate, *pair, measure) for pair in pairs]
    return statistics.adjust(separators, LEVEL)


def _seeds_of(entrant: Entrant, measure: Measure, level: float) -> List[Any]:
    estimates = estimates_of(entrant, measure)
    have_intervals = all(np.isfinite(each.low + each.high) for each in estimates)
    if not have_intervals:
        return [each.value for each in estimates]
    return [_change_level(each, level) for each in estimates]


def _change_level(estimate: statistics.Estimate, level: float) -> statistics.Estimate:
    """Return an estimate with its interval at another level, as that of a normal distribution."""
    from scipy.special import ndtri

    value, low, high = estimate
    scale = 1.0 if level == LEVEL else float(ndtri(0.5 + level / 2) / ndtri(0.5 + LEVEL / 2))
    return statistics.Estimate(value, value - scale * (value - low), value + scale * (high - value))


def find_verdict(entrants: Sequence[Entrant]) -> str:
    """Return whether the first two that have a score are separated, as a sentence; "" without two.

    The verdict of the search is not this one: it is of those that are best on the validation split.
    """
    measure = choose_measure(entrants)
    scored = [each for each in entrants if estimates_of(each, measure)]
    return describe_separation(scored[0], scored[1], measure) if len(scored) > 1 else ""


def describe_separation(
    a: Entrant,
    b: Entrant,
    measure: Measure,
    result: Optional[statistics.Separation] = None,
    count: int = 1,
) -> str:
    """Return whether the first of two entrants is better, as a sentence.

    Args:
        a, b: the entrants.
        measure: by which they are compared.
        result: their separation, if it is one of several.
        count: the number of comparisons for which it is adjusted.
    """
    result = result or separate(a, b, measure)
    if not np.isfinite(result.p):
        return f"{a.name} and {b.name} are not comparable: {result.note}."
    is_less = result.difference < 0
    ends = sorted((-result.low, -result.high)) if is_less else (result.low, result.high)
    values, unit = [abs(result.difference), *ends], ""
    if compares_factors(a, b, measure):
        result = result._replace(method=f"{result.method}, of logarithms")
        with np.errstate(over="ignore"):  # an interval of two seeds may be as wide
            values, unit = list(np.exp(values)), "a factor of "
    number, low, high = (short(value) if value < 1e6 else f"{value:.2g}" for value in values)
    facts = "; ".join(_facts_of(result, count))
    first, second = (a, b) if is_less else (b, a)
    if result.is_separated:
        text = f"{first.name} is better than {second.name} by"
    else:
        text = f"{a.name} and {b.name} are not separated: they differ by"
    return f"By the {measure.name}, {text} {unit}{number} [{low}, {high}] ({facts})."


def _facts_of(result: statistics.Separation, count: int) -> List[str]:
    facts = [f"p = {result.p:.2g}", result.method]
    facts += [f"p and interval adjusted for {count} comparisons"] * (count > 1)
    return facts + [result.note] * bool(result.note)


# ------------------------------------------------------------------------------------------- means


def _num_lost(score: Dict[str, Any]) -> Optional[int]:
    return len(score["classes"]["lost"]) if score.get("classes") else None


def means_of(entrant: Entrant) -> Dict[str, Optional[float]]:
    """Return the means over seeds by name; None where no run has the score."""
    means: Dict[str, Optional[float]] = {}
    for name, measure in (("distance", DISTANCE), ("two_sample", TWO_SAMPLE)):
        mean = _mean(entrant, measure)
        means[name] = None if mean == float("inf") else mean
    reads: Dict[str, Callable[..., Any]] = {"lost": _num_lost}
    reads.update({name: operator.methodcaller("get", key) for name, key in _PLAIN_SCORES.items()})
    for name, read in reads.items():
        values = [value for value in map(read, entrant.scores) if value is not None]
        means[name] = float(np.mean(values)) if values else None
    return means


_PLAIN_SCORES = {
    "floor": "frechet_floor",
    "ratio": "frechet_ratio",
    "coverage": "coverage",
    "precision": "precision",
    "recall": "recall",
}
