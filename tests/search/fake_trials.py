"""Trials that train nothing: the value of a configuration is a formula, and its run is written."""

from __future__ import annotations

import hashlib
import math
import os
from typing import Callable, List

from synthetic_runs import Session, write_run

from toolkit.search.definition import DIVERGED, FAILED, Definition, Result, Trial
from toolkit.search.results import read_result, write_notes
from toolkit.search.sampler import batches
from toolkit.search.study import Study
from toolkit.search.table import Row, make_rows
from toolkit.search.training import find_due

LENGTH = 100


def value_of(trial: Trial) -> float:
    """The best is at a rate of 1e-3; more training and other seeds change a little."""
    rate = trial.configuration.values["learning_rate"]
    noise = int(hashlib.md5(repr(trial.key).encode()).hexdigest()[:4], 16) / 65536
    return -((math.log10(rate) + 3) ** 2) + 0.1 * trial.rung + 0.2 * noise


def train(study: Study, trial: Trial) -> None:
    """Write the run of a trial up to its rung. One of ten trials diverges, another one fails."""
    path = study.path(trial)
    digit = int(hashlib.md5(f"{trial.configuration.number}/{trial.seed}".encode()).hexdigest(), 16)
    status = {0: DIVERGED, 1: FAILED}.get(digit % 10, "")
    write_notes(path, Result(status, "It did not work." if status else "", 1.0))
    if status:
        return
    values = {}
    for rung in range(trial.rung + 1):
        step = study.definition.pause_step(trial.configuration.length, rung)
        values[step] = value_of(trial._replace(rung=rung))
    is_last = trial.rung == len(study.definition.rungs) - 1
    manifest = {"status": "finished" if is_last else "stopped"}
    if os.path.exists(os.path.join(path, "commits.jsonl")):
        os.remove(os.path.join(path, "commits.jsonl"))
    evaluations = make_evaluations(values)
    write_run(path, [Session(0, {step: "a" * 64})], manifest=manifest, evaluations=evaluations)


def make_evaluations(values, has_best: bool = False, level: float = 0.95) -> List[dict]:
    """The entries of evaluations by step, each with an interval of +- 0.1."""
    entries, best = [], None
    for step, value in values.items():
        ends = (value or 0) - 0.1, (value or 0) + 0.1
        interval = dict(zip(("low", "high", "level", "method"), (*ends, level, "Wilson")))
        last = {"step": step, "metrics": {"accuracy": value}, "intervals": {"accuracy": interval}}
        if has_best and (best is None or value > best["metrics"]["accuracy"]):
            best = last
        record = {"step": best["step"]} if best else None
        validation = {"last": last, "best": best}
        entries.append({"step": step, "best": record, "validation": validation})
    return entries


def open_study(definition: Definition, folder) -> Study:
    os.makedirs(str(folder), exist_ok=True)
    return Study(definition, str(folder), lambda values: LENGTH)


def train_next(study: Study, train: Callable[[Study, Trial], None] = train) -> bool:
    """Claim a trial that is due and train it; False if none is left."""
    due = find_due(study)
    for trial in due:
        with study.claim(trial) as log:
            if log is not None and read_result(study, trial) is None:
                train(study, trial)
                break
    return bool(due)


def rows_of(study: Study) -> List[Row]:
    """The rows of all configurations, by number."""
    return [row for cohort in batches(study.definition) for row in make_rows(study, cohort)]


def undisturbed_rows(definition: Definition, folder) -> List[Row]:
    """The table of a study by one process that nobody kills."""
    study = open_study(definition, folder)
    while train_next(study):
        pass
    return rows_of(study)
