"""`toolkit gan-league`: presets, plugins and programs at equal CPU time and seeds, by their
scores on the test split.

The presets were scored by their own runs; samples of the others are scored here, by the same code.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import math
import operator
import os
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np
from toolkit_image_scores.report import short

from toolkit import InterruptedRun, RetryError, ToolkitError, open_trained, statistics

from . import programs
from .programs import Program, ProgramRun, Task
from .rivals import Judge, Rival
from .training import PRESET_FOLDER, Plan, preset_folder, rival_folder

LEVEL = 0.95  # of the intervals in scores.json, and of all verdicts that are made together


class Entrant(NamedTuple):
    """A preset, a plugin or a program with its runs.

    Attributes:
        name: of the preset or of the program; of the plugin, with its own flags.
        plugin: its reference; "" for a preset or a program.
        status: of its row in the table of the search.
        reason: why it did not finish; "" if it did.
        paths: of the runs.
        step: at which they ended; 0 for a program.
        cpu_secs: of each run, the mean.
        scores: of the test split, by run; those that have none are left out.
        program: its command; "" for a preset or a plugin.
    """

    name: str
    plugin: str
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
    """Run the programs of a tournament whose presets are trained."""
    if plan.programs:
        path, _ = _first_scored_run(read_entrants(plan.folder, plan.presets))
        with open_trained(path) as trained:
            split = trained.split("train")
            programs.train(plan.programs, plan.folder, split, _task(plan, trained, split))


def _task(plan: Plan, trained: Any, split: Any) -> Task:
    """Return what each run of a program gets.

    Args:
        plan: of the tournament.
        trained: the run of a preset.
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
    seeds: List[int] = read_json(plan.folders[0], "study.json")["seeds"]
    return seeds


def _score_program(plan: Plan, program: Program, judge: Judge) -> Entrant:
    """Return a program with the scores of its runs, or with the reason why it has none."""
    runs = programs.read_runs(program, plan.folder, _seeds(plan))
    failures = [run for run in runs if run.status != "finished"]
    entrant = Entrant(
        name=program.name,
        plugin="",
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
    with _catching(entrant) as result:
        result.append(entrant._replace(scores=[_score_run(run, judge) for run in runs]))
    return result[0]


def _score_run(run: ProgramRun, judge: Judge) -> Dict[str, Any]:
    images = programs.open_images(run.images_path, judge.num_samples, judge.shape)
    identity = hashlib.sha256(images.tobytes()).hexdigest()
    place = os.path.join(run.folder, "scores")
    return judge.score_images(lambda count: images[:count], identity, place)


# ----------------------------------------------------------------------------------------- results


def rank(plan: Plan) -> List[Entrant]:
    """Return presets, plugins and programs, the best first.

    Samples of plugins and programs are scored if they were not yet.
    """
    entrants = read_entrants(plan.folder, plan.presets)
    if plan.rivals or plan.programs:
        with _opening_judge(entrants) as judge:
            entrants += [_score_rival(plan.folder, rival, judge) for rival in plan.rivals]
            entrants += [_score_program(plan, program, judge) for program in plan.programs]
    return _ranked(entrants)


def _ranked(entrants: Sequence[Entrant]) -> List[Entrant]:
    measure = choose_measure(entrants)
    return sorted(entrants, key=lambda each: (not each.scores, _mean(each, measure)))


def read_entrants(folder: str, presets: Sequence[str] = ()) -> List[Entrant]:
    """Return the presets of a tournament, the best first.

    Args:
        folder: of the tournament.
        presets: their names; () for all that it has.
    """
    names = presets or sorted(os.listdir(os.path.join(folder, PRESET_FOLDER)))
    return _ranked([_read_entrant(preset_folder(folder, name), name) for name in names])


def _read_entrant(folder: str, name: str) -> Entrant:
    (row,) = read_json(folder, "table.json")["rows"]
    entrant = _entrant_of(row, folder, name, "")
    # The scores of some seeds without those that failed would be better than the preset is.
    paths = entrant.paths if entrant.status == "finished" else []
    scores = [score for score in map(_read_scores, paths) if score is not None]
    own_name = _read_preset(entrant.paths[0]) if entrant.paths else name
    name = name if own_name in (name, "") else f"{name} ({own_name})"
    return entrant._replace(name=name, scores=scores)


def _read_preset(path: str) -> str:
    """Return the preset of a run, also of one that chose it by its data; "" if it is unknown."""
    try:
        return str(read_json(path, "config.json").get("preset") or "")
    except (OSError, ValueError):
        return ""


def _entrant_of(row: Dict[str, Any], folder: str, name: str, plugin: str) -> Entrant:
    """Return an entrant without scores, from the row of its search."""
    paths = [os.path.join(folder, path) for path in row["paths"]]
    cpu_secs = row["cpu_secs"] / max(len(paths), 1)
    return Entrant(name, plugin, row["status"], row["reason"], paths, row["step"], cpu_secs, [])


def _first_scored_run(entrants: Sequence[Entrant]) -> Tuple[str, Dict[str, Any]]:
    """Return the first run of a preset that has scores, and these. Raises ToolkitError."""
    for entrant in entrants:
        for path in entrant.paths:
            scores = _read_scores(path)
            if scores is not None:
                return path, scores
    raise ToolkitError(
        "No run of a preset has scores with which others could be compared.",
        hint="The test split needs 10 images or more.",
    )


@contextlib.contextmanager
def _opening_judge(entrants: Sequence[Entrant]) -> Iterator[Judge]:
    """Open the run of the first preset that has scores. Raises ToolkitError if none has."""
    judge = Judge(*_first_scored_run(entrants))
    try:
        yield judge
    finally:
        judge.close()


def _score_rival(folder: str, rival: Rival, judge: Judge) -> Entrant:
    """Return a plugin with the scores of its runs, or with the reason why it has none."""
    place = rival_folder(folder, rival)
    (row,) = read_json(place, "table.json")["rows"]
    entrant = _entrant_of(row, place, rival.name, rival.reference)
    if entrant.status != "finished":
        return entrant
    score_folder = os.path.join(place, "scores")
    with _catching(entrant) as result:
        scores = [judge.score(path, score_folder) for path in entrant.paths]
        result.append(entrant._replace(scores=scores))
    return result[0]


@contextlib.contextmanager
def _catching(entrant: Entrant) -> Iterator[List[Entrant]]:
    """A list for the scored entrant; if scoring fails, it gets one with the reason."""
    result: List[Entrant] = []
    try:
        yield result
    except ToolkitError as error:
        if isinstance(error, (InterruptedRun, RetryError)):
            raise
        result.append(entrant._replace(status="not scored", reason=error.message))


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


def has_others(entrants: Sequence[Entrant]) -> bool:
    """Whether any is no preset."""
    return any(each.plugin or each.program for each in entrants)


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
