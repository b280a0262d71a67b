"""`toolkit run --resume`: the same command begins a run, continues it, and notices its end."""

import json
import os
import shutil

import pytest
from file_fixtures import read_json, sha256s
from linear_fixtures import LINEAR
from run_fixtures import set_state, steps_of

from toolkit.storage.folder_lock import FolderLock
from toolkit.storage.run_folder import RunFolder

RUN = ["run", "--resume", "--plugin", LINEAR, "--steps", "6"]
KEPT = "r is a run of other plugins: with was none, now ema.\nA run keeps its plugins; for an"


@pytest.fixture
def command(cli, data):
    """A function that runs the command with further flags."""
    return lambda *more, folder="r": cli(*RUN, "--data", data, "--run-dir", folder, *more)


@pytest.fixture
def paused(golden, data):
    """The run `r` of the command, paused at step 2."""
    shutil.move(str(golden("--steps", 6, "--pause-at", 2) / "run"), "r")


def test_the_same_command_begins_continues_and_notices_the_end(command, here):
    assert command("--pause-at", "3").code == 0 and steps_of("r")[-1] == 3
    command().ok()
    assert steps_of("r")[-1] == 6
    assert len(RunFolder("r").commits.sessions()) == 2
    before = (here / "r" / "commits.jsonl").read_bytes()
    result = command()
    assert (result.code, (here / "r" / "commits.jsonl").read_bytes()) == (0, before)
    assert result.err.startswith("Nothing left to do: r reached step 6.\n")
    assert command("--json").json()["steps"] == 6


def test_a_run_that_stopped_early_is_finished(command, paused, here):
    """Its length is the same as in the command, so nobody asks for more steps, nor for its data."""
    set_state(here / "r", status="finished", reason="stopped early")
    (here / "bars.npz").unlink()
    result = command()
    assert result.code == 0 and steps_of("r")[-1] == 2
    assert result.err.startswith("Nothing left to do: r stopped early.\n")


@pytest.mark.parametrize("variable", [None, ""])
def test_without_a_folder_there_is_nothing_to_continue(cli, data, monkeypatch, variable):
    if variable is not None:
        monkeypatch.setenv("TOOLKIT_RUN_DIR", variable)
    result = cli(*RUN, "--data", data)
    assert (result.code, result.err) == (
        2,
        "Error: --resume is set, but --run-dir is not: without it, each run has a new folder.\n"
        "Add --run-dir DIR, and repeat the same command to continue the run.\n",
    )


def test_a_run_that_ended_before_its_first_step_begins_again(command):
    folder = RunFolder("r", is_new=True)
    folder.create({"plugin": "another"})
    folder.unlock()
    assert command().code == 0 and steps_of("r")[-1] == 6
    assert read_json("r", "config.json")["plugin"] == LINEAR


@pytest.mark.parametrize("start", [b"", b'{"kind": "run", "cre'])
def test_a_run_that_was_killed_in_its_first_entry_begins_again_by_each_command(
    cli, data, paused, here, start
):
    words = ["--plugin", LINEAR, "--data", data, "--steps", 2, "--run-dir", "r"]
    for argv in (["resume", "r", "--steps", 2], ["run", "--resume", *words], ["run", *words]):
        config = (here / "r" / "config.json").read_bytes()
        shutil.rmtree("r")
        os.mkdir("r")
        files = {".lock": b"", "config.json": config, "commits.jsonl": start}
        for name, content in files.items():
            (here / "r" / name).write_bytes(content)
        cli(*argv).ok()
        assert steps_of("r") == [2]


def test_a_run_without_a_commit_is_continued(command, paused, here):
    lines = (here / "r" / "commits.jsonl").read_text().splitlines(True)
    shutil.rmtree("r/checkpoints")
    os.mkdir("r/checkpoints")
    (here / "r" / "commits.jsonl").write_text("".join(lines[:2]))
    assert json.loads(lines[1])["kind"] == "session"
    command().ok()
    assert steps_of("r")[-1] == 6


@pytest.mark.parametrize(
    "folder, flags, message",
    [
        ("r", ["--seed", "7"], "The run was trained with other options: seed was 1, now 7.\n"),
        ("r", ["--with", "ema"], KEPT),
        ("r", ["--force"], "Both --resume and --force are set: "),
        ("r/checkpoints", [], "r/checkpoints is not empty.\n"),
        ("bars.npz", [], "bars.npz is a file, and a run needs a folder.\n"),
    ],
)
def test_what_cannot_continue_is_refused_and_left(command, paused, here, folder, flags, message):
    before = sha256s(here)
    result = command(*flags, folder=folder)
    assert result.code == 2 and result.err.startswith(f"Error: {message}")
    assert sha256s(here) == before


def test_the_hint_says_which_command_allows_a_change(command, paused, monkeypatch):
    monkeypatch.setenv("TOOLKIT_SEED", "7")
    assert command().err.endswith(": --allow seed (toolkit resume)\n")


@pytest.mark.parametrize("has_begun", [True, False])
def test_while_another_process_trains_the_command_may_succeed_later(request, command, has_begun):
    if has_begun:
        request.getfixturevalue("paused")
    else:
        os.mkdir("r")
    lock = FolderLock(os.path.abspath("r"))
    lock.acquire()
    try:
        result = command()
    finally:
        lock.release()
    assert result.code == 138
    assert result.err == "Error: Another process is training in r.\nWait for it, or stop it.\n"


def test_a_damaged_configuration_is_not_replaced(command, paused, here):
    (here / "r" / "config.json").write_text("{")
    result = command()
    assert result.code == 5 and "config.json" in result.err
    assert (here / "r" / "config.json").read_text() == "{"


def test_the_configuration_is_printed_without_a_folder(cli):
    assert cli("run", "--resume", "--plugin", LINEAR, "--print-config").code == 0
