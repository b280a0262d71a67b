"""`toolkit gan-league`: presets, plugins and programs at equal CPU time and seeds, by their
scores on the test split.

Presets and plugins were scored by their own runs; the images of programs are scored here, by the
same code.
"""

from __future__ import annotations

import functools
import json
import math
import os
import types
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np
from toolkit_image_scores.report import short

from toolkit import InterruptedRun, RetryError, ToolkitError, data_options, open_trained, statistics

from . import programs
from .programs import Task
from .rivals import Rival
from .training import Plan

LEVEL = 0.95  # of the intervals in scores.json, and of all verdicts that are made together
# The measures by which entrants are ranked, as a sentence calls them; lower is better.
DISTANCE, TWO_SAMPLE = "FD", "two-sample accuracy"


class Entrant(NamedTuple):
    """A preset, a plugin or a program with its runs."""

    name: str  # of the preset or of the program; of the plugin, with its own flags
    status: str  # of its row in the table of the search
    reason: str  # why it did not finish; "" if it did
    paths: List[str]  # of the runs
    step: int  # at which they ended; 0 for a program
    cpu_secs: float  # of each run, the mean
    scores: List[Dict[str, Any]]  # of the test split, by run; those that have none are left out
    program: str = ""  # its command; "" for a preset or a plugin


# ----------------------------------------------------------------------------------------- results


def rank(plan: Plan) -> List[Entrant]:
    """Return presets, plugins and programs, the best first.

    Presets and plugins are trained. Programs are, and their images are scored, if they were not.
    """
    entrants = _compare(plan)
    if plan.programs:
        scored = [each for each in entrants if each.scores]
        if not scored:
            raise ToolkitError(
                "No run of a preset or a plugin has scores with which programs could be compared.",
                hint="The test split needs 10 images or more.",
            )
        path, scores = scored[0].paths[0], scored[0].scores[0]
        runs = _train_programs(plan, path)
        with programs.open_judge(path) as judge:
            for program, paths in zip(plan.programs, runs):
                entrants.append(_score_program(program, paths, judge, scores))
    measure = choose_measure(entrants)
    return sorted(entrants, key=lambda each: (not each.scores, mean_of(each, measure)))


def _train_programs(plan: Plan, path: str) -> List[List[str]]:
    """Run the programs on the data of a run, if they were not; return the folders of their runs."""
    with open_trained(path) as trained:
        split: Any = trained.split("train")
        options: Any = trained.options
        task = Task(
            cpu_secs=60 * (plan.minutes or 0.0),
            seeds=read_json(plan.study_of(plan.rivals[0]))["seeds"],
            samples=options.score_samples,
            shape=tuple(trained.data.shape),
            data_sha256=split.sha256(),
            cores=options.intra_op_threads,
        )
        return programs.train(plan.programs, plan.folder, split, task)


def _score_program(
    program: Rival, paths: List[str], judge: Callable[..., Any], expected: Dict[str, Any]
) -> Entrant:
    """A program that has run, with the scores of its runs, or with the reason for none."""
    records = [programs.read_record(path) for path in paths]
    entrant = Entrant(
        name=program.name,
        status="finished",
        reason="",
        paths=paths,
        step=0,
        cpu_secs=float(np.mean([record["cpu_secs"] for record in records])),
        scores=[],
        program=" ".join(program.words),
    )
    for record in records:
        if record["status"] != "finished":
            return entrant._replace(status=record["status"], reason=record["reason"])
    try:
        scores = [judge(programs.load_images(path), path) for path in paths]
    except ToolkitError as error:
        if isinstance(error, (InterruptedRun, RetryError)):
            raise
        return entrant._replace(status="not scored", reason=error.message)
    if any(_terms_of(each) != _terms_of(expected) for each in scores):
        reason = "the features or numbers of images are no longer those of the other scores"
        return entrant._replace(status="not comparable", reason=reason)
    return entrant._replace(scores=scores)


def _compare(plan: Plan) -> List[Entrant]:
    """The presets and plugins in the order of the plan. Those whose scores cannot be compared with
    those of the first of them have none.
    """
    entrants = [_read_entrant(plan.folder_of(rival), rival) for rival in plan.rivals]
    first, expected = "", None
    for number, each in enumerate(entrants):
        if not each.scores:
            continue
        options = types.SimpleNamespace(**_read_options(each.paths[0]))
        terms = [*_terms_of(each.scores[0]), data_options(options)]
        if expected is None:
            first, expected = each.name, terms
        elif terms != expected:
            reason = f"other data, features or numbers of images than those of {first}"
            entrants[number] = each._replace(status="not comparable", reason=reason, scores=[])
    return entrants


def _terms_of(scores: Dict[str, Any]) -> List[Any]:
    """What has to be equal in scores that are compared."""
    return [scores["features"]["sha256"], scores["n"], scores["m"]]


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


def as_json(plan: Plan, entrants: Sequence[Entrant]) -> Dict[str, Any]:
    """Return the result as JSON values."""
    facts = {"folder": plan.folder, "cpu_minutes": plan.minutes, "verdict": find_verdict(entrants)}
    return dict(facts, rows=[dict(each._asdict(), **means_of(each)) for each in entrants])


def list_remarks(entrants: Sequence[Entrant]) -> List[str]:
    """Return the verdict, and what the brackets of the table are, as lines for its reader."""
    lines = [find_verdict(entrants)]
    if any(len(each.scores) > 1 for each in entrants):
        lines.append("In brackets: the lowest and the highest of the seeds, which is no interval.")
    return [line for line in lines if line]


# ---------------------------------------------------------------------------------------- verdicts


def read_estimate(score: Dict[str, Any], measure: str) -> Optional[statistics.Estimate]:
    """Return a measure of a run, where a missing interval has the ends nan; None without it."""
    if measure == DISTANCE:
        distance = score.get("frechet_distance") or {}
        value, ends = distance.get("mean"), distance.get("interval") or {}
    else:
        ends = score.get("two_sample") or {}
        value = ends.get("accuracy")
    if value is None:
        return None
    low, high = (np.nan if ends.get(name) is None else ends[name] for name in ("low", "high"))
    return statistics.Estimate(value, low, high)


def choose_measure(entrants: Sequence[Entrant]) -> str:
    """Return the distance if all scores have it, else the two-sample accuracy if all have that."""
    scores = [score for each in entrants for score in each.scores]
    for measure in (DISTANCE, TWO_SAMPLE):
        if all(read_estimate(score, measure) is not None for score in scores):
            return measure
    return DISTANCE


def estimates_of(entrant: Entrant, measure: str) -> List[statistics.Estimate]:
    """Return the values of those runs that have one."""
    values = [read_estimate(score, measure) for score in entrant.scores]
    return [value for value in values if value is not None]


def mean_of(entrant: Entrant, measure: str) -> float:
    """Return the mean over the runs that have a value; inf if none has."""
    values = [estimate.value for estimate in estimates_of(entrant, measure)]
    return float(np.mean(values)) if values else math.inf


def separate_pairs(
    pairs: Sequence[Tuple[Entrant, Entrant]], measure: str
) -> List[statistics.Separation]:
    """Return whether pairs of entrants that have values differ by more than chance; all verdicts
    hold together.

    Where `compares_factors`, a separation is that of the natural logarithms of the values.
    """

    def separate(a: Entrant, b: Entrant, level: float) -> statistics.Separation:
        seeds: List[List[Any]] = [estimates_of(a, measure), estimates_of(b, measure)]
        if compares_factors(a, b, measure):
            seeds = [[math.log(each.value) for each in side] for side in seeds]
        else:
            seeds = [[_change_level(each, level) for each in side] for side in seeds]
        return statistics.separate(seeds[0], seeds[1], level)

    return statistics.adjust([functools.partial(separate, *pair) for pair in pairs], LEVEL)


def compares_factors(a: Entrant, b: Entrant, measure: str) -> bool:
    """Return whether `separate_pairs` asks by which factor two differ, not by which difference.

    It does so for distances of several runs: their standard deviation grows with their mean, and
    that of their logarithms, which the t test takes as it is, does not. One run each is compared by
    its own interval.
    """
    values = [estimate.value for each in (a, b) for estimate in estimates_of(each, measure)]
    return measure == DISTANCE and len(values) > 2 and min(values) > 0


def _change_level(estimate: statistics.Estimate, level: float) -> statistics.Estimate:
    """Return an estimate with its interval at another level, as that of a normal distribution."""
    from scipy.special import ndtri

    value, low, high = estimate
    scale = 1.0 if level == LEVEL else float(ndtri(0.5 + level / 2) / ndtri(0.5 + LEVEL / 2))
    return statistics.Estimate(value, value - scale * (value - low), value + scale * (high - value))


def find_verdict(entrants: Sequence[Entrant]) -> str:
    """Return as a sentence whether the first two with a score are separated; "" without two."""
    measure = choose_measure(entrants)
    first_two = [each for each in entrants if estimates_of(each, measure)][:2]
    if len(first_two) < 2:
        return ""
    a, b = first_two
    return describe_separation(a, b, measure, separate_pairs([(a, b)], measure)[0])


def describe_separation(
    a: Entrant, b: Entrant, measure: str, result: statistics.Separation, count: int = 1
) -> str:
    """Return whether the first of two entrants is better by a measure, as a sentence on their
    separation, which is adjusted for so many comparisons.
    """
    if not np.isfinite(result.p):
        return f"{a.name} and {b.name} are not comparable: {result.note}."
    is_less = result.difference < 0
    ends = sorted((-result.low, -result.high)) if is_less else (result.low, result.high)
    values, unit, method = [abs(result.difference), *ends], "", result.method
    if compares_factors(a, b, measure):
        with np.errstate(over="ignore"):  # an interval of two seeds may be as wide
            values = list(np.exp(values))
        unit, method = "a factor of ", f"{method}, of logarithms"
    number, low, high = (short(value) if value < 1e6 else f"{value:.2g}" for value in values)
    facts = [f"p = {result.p:.2g}", method]
    facts += [f"p and interval adjusted for {count} comparisons"] * (count > 1)
    facts += [result.note] * bool(result.note)
    first, second = (a, b) if is_less else (b, a)
    if result.is_separated:
        text = f"{first.name} is better than {second.name} by"
    else:
        text = f"{a.name} and {b.name} are not separated: they differ by"
    return f"By the {measure}, {text} {unit}{number} [{low}, {high}] ({'; '.join(facts)})."


# ------------------------------------------------------------------------------------------- means


def means_of(entrant: Entrant) -> Dict[str, Optional[float]]:
    """Return the means over seeds by name; None where no run has the score."""
    means: Dict[str, Optional[float]] = {}
    for name, read in _READS.items():
        values = [value for value in map(read, entrant.scores) if value is not None]
        means[name] = float(np.mean(values)) if values else None
    return means


_READS: Dict[str, Callable[[Dict[str, Any]], Optional[float]]] = {
    "distance": lambda score: (score.get("frechet_distance") or {}).get("mean"),
    "two_sample": lambda score: (score.get("two_sample") or {}).get("accuracy"),
    "lost": lambda score: len(score["classes"]["lost"]) if score.get("classes") else None,
    "floor": lambda score: score.get("frechet_floor"),
    "ratio": lambda score: score.get("frechet_ratio"),
    "coverage": lambda score: score.get("coverage"),
    "precision": lambda score: score.get("precision"),
    "recall": lambda score: score.get("recall"),
}
