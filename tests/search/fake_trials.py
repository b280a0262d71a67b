"""Trials that train nothing: the value of a configuration is a formula, and its run is written."""

from __future__ import annotations

import hashlib
import json
import math
import os
from typing import List

from synthetic_runs import Session, write_run

from toolkit.search.definition import DIVERGED, FAILED, Definition, Trial, TrialResult
from toolkit.search.results import Notes, write_notes
from toolkit.search.study import Study
from toolkit.search.trial_options import pause_step, run_path

LENGTH = 100


def value_of(trial: Trial) -> float:
    """The best is at a rate of 1e-3; more training and other seeds change a little."""
    rate = trial.configuration.values["learning_rate"]
    key = (trial.configuration.number, trial.seed, trial.rung)
    noise = int(hashlib.md5(repr(key).encode()).hexdigest()[:4], 16) / 65536
    return -((math.log10(rate) + 3) ** 2) + 0.1 * trial.rung + 0.2 * noise


def train(definition: Definition, trial: Trial, folder: str) -> None:
    """Write the run of a trial up to its rung. One of ten trials diverges, another one fails."""
    path = run_path(folder, trial)
    digit = int(hashlib.md5(f"{trial.configuration.number}/{trial.seed}".encode()).hexdigest(), 16)
    status = {0: DIVERGED, 1: FAILED}.get(digit % 10, "")
    write_notes(path, Notes(1.0, 1.0, status, "It did not work." if status else ""))
    if status:
        return
    records = []
    for rung in range(trial.rung + 1):
        step = pause_step(definition, trial.configuration.length, rung)
        value = value_of(trial._replace(rung=rung))
        records.append({"step": step, "kind": "eval", "split": "validation", "accuracy": value})
    is_last = trial.rung == len(definition.rungs) - 1
    manifest = {"status": "finished" if is_last else "stopped"}
    for name in ("metrics.jsonl", "commits.jsonl"):
        if os.path.exists(os.path.join(path, name)):
            os.remove(os.path.join(path, name))
    write_run(path, [Session(0, {step: "a" * 64})], records=records, manifest=manifest)


def open_study(definition: Definition, folder) -> Study:
    return Study(definition, str(folder), lambda values: LENGTH)


def undisturbed_results(definition: Definition, folder) -> List[TrialResult]:
    """The results of a study by one process that nobody kills."""
    study = open_study(definition, folder)
    while study.train_next(lambda trial, log: train(definition, trial, str(folder))):
        pass
    return study.results()


def read_configurations(folder) -> list:
    """The values of the configurations in study.json, by number."""
    with open(os.path.join(str(folder), "study.json"), encoding="utf-8") as file:
        return [each["values"] for each in json.load(file)["configurations"]]
