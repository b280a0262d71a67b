"""Jobs of processes that really train: kills and Ctrl-C change no bit of the result."""

from __future__ import annotations

import os
import signal

import process_fixtures
import pytest
from file_fixtures import read_json
from linear_fixtures import write_bars
from run_fixtures import UNCHANGED, write_plugin

from toolkit.storage.run_folder import RunFolder

# The first three times that it starts, a run waits after its third save to be killed.
WAIT_FOR_KILLS = """
    @hookimpl
    def checkpoint_saved(self, run, step):
        import os, time

        if not hasattr(self, "saves"):
            self.saves = 0
            with open("starts", "a+") as file:
                file.write("start\\n")
                file.seek(0)
                self.is_last = len(file.readlines()) > 3
        self.saves += 1
        while self.saves == 3 and not self.is_last:
            time.sleep(0.01)
"""
# A run waits after its first save until a file is there.
WAIT_FOR_SIGNAL = """
    @hookimpl
    def checkpoint_saved(self, run, step):
        import os, time

        while not os.path.exists("go"):
            time.sleep(0.01)
"""


def run_words(body, run):
    plugin, data = write_plugin(body), write_bars("bars.npz")
    if body != UNCHANGED:
        with open(plugin, "a") as file:
            file.write("checkpoint_saved = plugin.checkpoint_saved\n")
    words = ["run", "--plugin", plugin, "--data", data, "--steps", "48", "--no-evaluate"]
    return [*words, "--checkpoint-steps", "4", "--log-steps", "4", "--run-dir", run]


def launch(*argv):
    """The log of a job that succeeds."""
    ended = process_fixtures.run("launch", *argv)
    assert ended.code == 0, ended.err
    return ended.err


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """The result of a job of two processes that nothing disturbs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("undisturbed"))
        launch("--", *run_words(UNCHANGED, "r"))
        return result("r")


def result(path):
    """The hash of the last tensors, and the bytes of metrics.jsonl."""
    with open(os.path.join(path, "metrics.jsonl"), "rb") as file:
        return RunFolder(path).checkpoints.list()[-1].tensors, file.read()


def read(path):
    with open(path) as file:
        return file.read()


def test_kills_change_no_bit(here, undisturbed):
    # With this seed each kill falls into one of the next two saves.
    flags = ["--chaos", "3", "--chaos-seed", "37", "--restarts", "0", "--"]
    err = launch(*flags, *run_words(WAIT_FOR_KILLS, "r"))
    assert "chaos: 3 of 3 kills" in err
    assert result("r") == undisturbed


def test_an_interrupted_job_is_committed_and_continues_to_the_same_bits(here, undisturbed):
    with open("log", "w") as log:
        words = run_words(WAIT_FOR_SIGNAL, "r")
        process = process_fixtures.start("launch", "--", *words, stderr=log)
    job = [lambda: read("log"), [process]]
    process_fixtures.wait_until(lambda: RunFolder("r").checkpoints.list(), *job)
    process.send_signal(signal.SIGINT)
    process_fixtures.wait_until(lambda: "Interrupted: waiting for 2" in read("log"), *job)
    open("go", "w").close()
    assert process.wait(process_fixtures.PATIENCE) == 130, read("log")
    assert read_json("r", "manifest.json")["status"] == "interrupted"
    assert 0 < RunFolder("r").checkpoints.list()[-1].step < 48
    launch("--", "resume", "r")
    assert result("r") == undisturbed
