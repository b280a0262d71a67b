"""The folders that users name: for a new run, and of a run."""

from __future__ import annotations

import json
import os
import shlex
import shutil

import pytest
from linear_fixtures import LINEAR, Linear, LinearOptions, write_bars
from run_fixtures import set_manifest

from toolkit import hookimpl, option

FLAGS = ["run", "--plugin", LINEAR, "--steps", "2"]
HINT = "Choose another --run-dir, or rename the folder with --force."


@pytest.fixture
def data(here):
    os.makedirs("data")
    return write_bars(here / "data" / "bars.npz")


@pytest.fixture
def run(golden, data):
    """A finished run `r`."""
    shutil.move(str(golden("--steps", 2, "--no-evaluate") / "run"), "r")


@pytest.mark.parametrize("force", [[], ["--force"]], ids=["plain", "force"])
def test_a_file_is_refused_as_the_folder_of_a_new_run(cli, data, force):
    result = cli(*FLAGS, "--data", data, "--run-dir", "data/bars.npz", *force)
    assert (result.code, result.err) == (
        2,
        "Error: data/bars.npz is a file, and a run needs a folder.\nChoose another --run-dir.\n",
    )
    assert os.listdir("data") == ["bars.npz"]


@pytest.mark.parametrize(
    "folder, place",
    [
        ("data", "data/bars.npz, which the run reads,"),
        ("./data/../data/", "data/bars.npz, which the run reads,"),
        (".", "the working directory"),
        ("..", "the working directory"),
        ("/", "the working directory"),
    ],
)
def test_force_does_not_rename_a_folder_that_the_run_needs(cli, data, folder, place):
    result = cli(*FLAGS, "--data", "npz:data/bars.npz", "--run-dir", folder, "--force")
    assert result.code == 2
    assert result.err.startswith("Error: --force cannot rename ")
    assert result.err.endswith(f": {place} is in it.\nChoose another --run-dir.\n")
    assert os.listdir(".") == ["data"] and os.listdir("data") == ["bars.npz"]


class Reading(Linear):
    @hookimpl
    def options(self):
        return ReadingOptions


class ReadingOptions(LinearOptions):
    weights: str = option("none", "a file", group="Network", path=True, words=["none"])


def test_force_does_not_rename_a_folder_that_an_option_names(cli, data):
    plugin = f"{__name__}:Reading"
    flags = ["run", "--plugin", plugin, "--steps", 2, "--weights", "inputs/w.npz", "--data", data]
    os.makedirs("inputs")
    write_bars("inputs/w.npz")
    result = cli(*flags, "--run-dir", "inputs", "--force")
    assert result.code == 2
    assert (
        "--force cannot rename inputs: inputs/w.npz, which the run reads, is in it." in result.err
    )
    assert len(os.listdir("inputs")) == 1 and cli(*flags, "--run-dir", "run", "--force").code == 0


def test_a_folder_without_a_run_is_not_offered_for_a_resume(cli, data):
    result = cli(*FLAGS, "--data", data, "--run-dir", "data")
    assert (result.code, result.err) == (2, f"Error: data is not empty.\n{HINT}\n")


@pytest.mark.parametrize("name", ["my run", "-x", "a'b"])
def test_the_command_that_continues_a_run_can_be_copied(cli, data, name):
    flags = ["--no-evaluate", "--steps-per-call", 1, "--pause-at", 1]
    paused = cli(*FLAGS, "--data", data, f"--run-dir={name}", *flags)
    assert paused.code == 0
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
        ("data/bars.npz", "is a file", "A run's folder has a manifest.json; see runs/."),
        ("nowhere", "does not exist", "A run's folder has a manifest.json; see runs/."),
    ],
)
def test_a_path_that_is_no_run_is_a_usage_error(cli, run, command, path, fault, hint):
    result = cli(command, path)
    assert (result.code, result.err) == (2, f"Error: {path} {fault}.\n{hint}\n")


def test_the_run_of_a_later_version_is_not_called_damaged(cli, run, here):
    set_manifest(here / "r", format=4)
    result = cli("doctor", "r", "--json")
    assert result.code == 6
    diagnosis = json.loads(result.out)
    assert diagnosis["state"] == "The run was written by another version of the toolkit."
    (fault,) = diagnosis["faults"]
    assert fault.endswith(
        "manifest.json: expected a manifest of format 3, found 4, written by version 0.2.0."
    )
    assert diagnosis["advice"] == ["Read it with the version of the toolkit that wrote it."]


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
    assert (result.code, result.err) == (
        2,
        "Error: The working directory no longer exists.\nChange to another folder.\n",
    )
