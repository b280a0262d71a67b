"""The folders that users name: for a new run, and of a run."""

from __future__ import annotations

import os
import shlex
import shutil

import pytest
from linear_fixtures import LINEAR, write_bars

from toolkit import train

QUICK = ["--steps-per-call", "1", "--no-evaluate"]
FLAGS = ["run", "--plugin", LINEAR, "--steps", "2"]
HINT = "Choose another folder, or rename this one (flag --force)."


@pytest.fixture
def data(here):
    os.makedirs("data")
    return write_bars(here / "data" / "bars.npz")


@pytest.fixture
def run(golden, data):
    """A finished run `r`."""
    shutil.move(str(golden("--steps", 2, "--no-evaluate") / "run"), "r")


A_FILE = "Error: data/bars.npz is a file, and a run needs a folder.\nChoose another --run-dir.\n"
DATA = ": data/bars.npz, which the run reads, is in it.\nChoose another --run-dir.\n"
HERE = ": the working directory is in it.\nChoose another --run-dir.\n"


@pytest.mark.parametrize(
    "words, end",
    [
        # It holds no run that a resume may continue.
        (["data"], f"Error: data is not empty.\n{HINT}\n"),
        (["data/bars.npz"], A_FILE),
        (["data/bars.npz", "--force"], A_FILE),
        (["data", "--force"], DATA),
        (["./data/../data/", "--force"], DATA),
        ([".", "--force"], HERE),
        (["..", "--force"], HERE),
    ],
)
def test_a_folder_that_no_run_may_have_is_refused(cli, data, words, end):
    result = cli(*FLAGS, "--data", "npz:data/bars.npz", "--run-dir", *words)
    assert result.code == 2 and result.err.endswith(end)
    assert result.err.startswith("Error: " + "--force cannot rename " * (end in (DATA, HERE)))
    assert os.listdir(".") == ["data"] and os.listdir("data") == ["bars.npz"]


def test_the_name_of_a_new_folder_may_begin_with_that_of_the_user(cli, data, here, monkeypatch):
    monkeypatch.setenv("HOME", str(here / "home"))
    cli.succeed(*FLAGS, *QUICK, "--data", "npz:data/bars.npz", "--run-dir=~/r")
    options = {"data": "npz:data/bars.npz", "steps": 2, "steps_per_call": 1, "evaluate": "no"}
    assert train(LINEAR, "~/r", options).step == 2
    assert os.path.isdir("home/r") and not os.path.exists("~")


def test_force_does_not_rename_a_folder_that_an_option_names(cli, data):
    flags = ["run", "--plugin", "linear_fixtures:Tabled", "--steps", 2, "--data", data, *QUICK]
    flags += ["--table", "inputs/w.npz"]
    os.makedirs("inputs")
    write_bars("inputs/w.npz")
    words = "--force cannot rename inputs: inputs/w.npz, which the run reads, is in it."
    cli.refuse(2, words, *flags, "--run-dir", "inputs", "--force")
    assert len(os.listdir("inputs")) == 1 and cli(*flags, "--run-dir", "run", "--force").code == 0


def test_the_command_that_continues_a_run_can_be_copied(cli, data):
    name = "-x of a'b"
    paused = cli(*FLAGS, "--data", data, f"--run-dir={name}", *QUICK, "--pause-at", 1).ok()
    (command,) = [line for line in paused.out.splitlines() if line.startswith("resume ")]
    words = shlex.split(command)[1:]
    assert words[:2] == ["toolkit", "resume"]
    assert cli(*words[1:]).code == 0
    refused = cli(*FLAGS, "--data", data, f"--run-dir={name}")
    assert f"(toolkit resume {command.split('resume ', 2)[2]})" in refused.err


@pytest.mark.parametrize("command", ["resume", "evaluate", "doctor", "verify"])
@pytest.mark.parametrize(
    "path, fault, hint",
    [
        ("r/config.json", "is a file", "Give the run's folder, r."),
        ("r/checkpoints", "contains no run", "Give the run's folder, r."),
        ("data/bars.npz", "is a file", "'toolkit runs DIR' lists the runs below a folder."),
        ("nowhere", "does not exist", "'toolkit runs DIR' lists the runs below a folder."),
    ],
)
def test_a_path_that_is_no_run_is_a_usage_error(cli, run, command, path, fault, hint):
    result = cli(command, path)
    assert (result.code, result.err) == (2, f"Error: {path} {fault}.\n{hint}\n")


@pytest.mark.parametrize("command", [["evaluate", "RUN"], ["doctor", "RUN"], ["run"]], ids=str)
def test_a_command_in_a_removed_folder_says_so(cli, trained, tmp_path, command):
    run = str(trained / "run")
    os.mkdir("gone")
    os.chdir("gone")
    os.rmdir("../gone")
    try:
        words = [run if word == "RUN" else word for word in command]
        result = cli(*words, *(["--plugin", "classifier"] if command == ["run"] else []))
    finally:
        os.chdir(str(tmp_path))
    assert result.code == 2
    assert (
        result.err == "Error: The working directory no longer exists.\nChange to another folder.\n"
    )
