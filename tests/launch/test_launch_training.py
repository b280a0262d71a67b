"""A job of processes that really train: a kill changes no bit of the result."""

import os

import process_fixtures
import pytest
from linear_fixtures import write_bars
from run_fixtures import UNCHANGED, write_plugin

from toolkit.storage.run_folder import RunFolder

# When it starts for the first time, a run waits after its third save to be killed.
WAIT_FOR_KILL = """
    @hookimpl
    def checkpoint_saved(self, run, step):
        import os, time

        if not hasattr(self, "saves"):
            self.saves = 0
            self.is_first = not os.path.exists("started")
            open("started", "w").close()
        self.saves += 1
        while self.saves == 3 and self.is_first:
            time.sleep(0.01)
"""


def launch(body, run, *flags):
    """The log of a job that succeeds, the hash of its last tensors, and its metrics.jsonl."""
    plugin, data = write_plugin(body), write_bars("bars.npz")
    if body != UNCHANGED:
        with open(plugin, "a") as file:
            file.write("checkpoint_saved = plugin.checkpoint_saved\n")
    words = ["run", "--plugin", plugin, "--data", data, "--steps", "32", "--no-evaluate"]
    words += ["--checkpoint-steps", "4", "--log-steps", "4", "--run-dir", run]
    ended = process_fixtures.run("launch", *flags, "--", *words)
    assert ended.code == 0, ended.err
    with open(os.path.join(run, "metrics.jsonl"), "rb") as file:
        return ended.err, RunFolder(run).checkpoints.list()[-1].tensors, file.read()


@pytest.mark.parametrize("workers", [1, 2])
def test_a_kill_changes_no_bit(here, workers):
    expected = launch(UNCHANGED, "undisturbed", "--workers", workers)
    # With this seed the kill falls into one of the first two saves.
    flags = ["--chaos", "1", "--chaos-seed", "37", "--restarts", "0", "--workers", workers]
    err, *result = launch(WAIT_FOR_KILL, "killed", *flags)
    assert "chaos: 1 of 1 kills" in err
    assert result == list(expected[1:])
