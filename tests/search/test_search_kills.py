"""Searches that train: killed at random, shared by two machines, paused at rungs."""

import json
import os
import shlex
import subprocess
import sys

import process_fixtures
from file_fixtures import REPOSITORY
from linear_fixtures import LINEAR, write_bars

SEARCH = ["search", "--plugin", LINEAR, "--data", "npz:../bars.npz", "--search-dir", "study"]
SEARCH += ["--vary", "learning_rate=1e-3..1e-1:log", "--steps", "20"]
SEARCH += ["--sampler", "random", "--trials", "4"]


def run_toolkit(folder, *words):
    ended = process_fixtures.run(*words, cwd=folder)
    assert ended.code == 0, ended.err


def read_table(folder):
    return json.loads((folder / "table.json").read_text())


def last_tensors(run):
    """The step of the last commit of a run, and the hash over its tensors."""
    entries = [json.loads(line) for line in (run / "commits.jsonl").read_text().splitlines()]
    commit = [entry for entry in entries if entry.get("tensors")][-1]
    return commit["step"], commit["tensors"]


def test_a_search_that_is_killed_at_random_has_the_table_of_an_undisturbed_one(tmp_path):
    process_fixtures.take_turn()
    script = os.path.join(REPOSITORY, "benchmarks", "search_kills.py")
    words = ["--kills", "5", "--trials", "3", "--dir", str(tmp_path)]
    process = subprocess.run(
        [sys.executable, script, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.returncode == 0, process.stdout
    assert "the same table, the same tensors" in process.stdout


def test_a_trial_that_was_paused_has_the_bits_of_one_that_was_not(tmp_path):
    write_bars(tmp_path / "bars.npz")
    folder = tmp_path / "machine"
    folder.mkdir()
    run_toolkit(folder, *SEARCH, "--halving", "4", "--workers", "2")
    table = read_table(folder / "study")
    statuses = [(row["status"], row["step"]) for row in table["rows"]]
    assert statuses == [("finished", 20)] + [("stopped", 5)] * 3
    assert "rung 1 of 2 (step 5)" in table["rows"][1]["reason"]
    again = shlex.split(table["again"])[1:]
    run_toolkit(folder, *again, "--run-dir", "run")
    paused = last_tensors(folder / "study" / table["rows"][0]["paths"][0])
    assert paused == last_tensors(folder / "run")
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
