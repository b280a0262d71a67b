"""Searches that train: killed at random, shared by two machines, paused at rungs."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys

import pytest
from file_fixtures import REPOSITORY

SEARCH = ["search", "--plugin", "classifier", "--network", "mlp", "--hidden", "16"]
SEARCH += ["--batch-size", "16", "--vary", "learning_rate=1e-3..1e-1:log", "--steps", "20"]
SEARCH += ["--sampler", "random", "--trials", "4"]

pytestmark = pytest.mark.slow


def start_toolkit(folder, *words):
    command = [sys.executable, "-m", "toolkit", *map(str, words)]
    return subprocess.Popen(command, cwd=str(folder), stderr=subprocess.PIPE, text=True)


def run_toolkit(folder, *words):
    process = start_toolkit(folder, *words)
    text = process.communicate(timeout=600)[1]
    assert process.returncode == 0, text
    return text


def read_table(folder):
    return json.loads((folder / "table.json").read_text())


def last_tensors(run):
    """The step of the last commit of a run, and the hash over its tensors."""
    entries = [json.loads(line) for line in (run / "commits.jsonl").read_text().splitlines()]
    commit = [entry for entry in entries if entry.get("tensors")][-1]
    return commit["step"], commit["tensors"]


def test_a_killed_search_has_the_table_of_an_undisturbed_one(tmp_path):
    script = os.path.join(REPOSITORY, "benchmarks", "search_kills.py")
    words = ["--kills", "5", "--trials", "3", "--dir", str(tmp_path)]
    process = subprocess.run(
        [sys.executable, script, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=1500,
    )
    assert process.returncode == 0, process.stdout
    assert "the same table, the same tensors" in process.stdout


@pytest.mark.parametrize("storage", ["shared.journal", "shared.sqlite"])
def test_two_machines_with_folders_of_their_own_train_each_trial_once(tmp_path, storage):
    processes, folders = [], []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        folders.append(tmp_path / name / "study")
        words = [*SEARCH, "--search-dir", "study", "--storage", tmp_path / storage]
        processes.append(start_toolkit(tmp_path / name, *words))
    for process in processes:
        text = process.communicate(timeout=600)[1]
        assert process.returncode == 0, text
    runs = [run for folder in folders for run in _runs(folder)]
    assert sorted(run.name for run in runs) == [f"000{number}-s1" for number in range(4)]
    one, other = (read_table(folder)["rows"] for folder in folders)
    assert one == other
    assert {row["status"] for row in one} == {"finished"}


def _runs(folder):
    trials = folder / "trials"
    return [path for path in trials.iterdir() if path.is_dir()] if trials.exists() else []


def test_a_trial_that_was_paused_has_the_bits_of_one_that_was_not(tmp_path):
    words = ["--halving", "4", "--rungs", "10", "--workers", "2", "--search-dir", "study"]
    run_toolkit(tmp_path, *SEARCH, *words)
    table = read_table(tmp_path / "study")
    statuses = [(row["status"], row["step"]) for row in table["rows"]]
    assert statuses == [("finished", 20)] + [("stopped", 10)] * 3
    assert "rung 1 of 2 (step 10)" in table["rows"][1]["reason"]
    again = shlex.split(table["again"])[1:]
    run_toolkit(tmp_path, *again, "--run-dir", "run")
    paused = last_tensors(tmp_path / "study" / table["rows"][0]["paths"][0])
    assert paused == last_tensors(tmp_path / "run")
    assert paused[0] == 20


def test_the_best_command_trains_the_bits_of_its_trial_with_several_workers(tmp_path):
    words = ["search", "--plugin", "classifier", "--vary", "learning_rate=0.002,0.01"]
    words += ["--steps", "3", "--workers", "2", "--search-dir", "study"]
    run_toolkit(tmp_path, *words)  # of the usual network, whose sums depend on threads
    table = read_table(tmp_path / "study")
    run_toolkit(tmp_path, *shlex.split(table["again"])[1:], "--run-dir", "run")
    trial = tmp_path / "study" / table["rows"][0]["paths"][0]
    assert last_tensors(trial) == last_tensors(tmp_path / "run")
    assert (trial / "metrics.jsonl").read_bytes() == (tmp_path / "run/metrics.jsonl").read_bytes()
