"""A job of processes that really train: a kill changes no bit of the result."""

import process_fixtures
from linear_fixtures import write_bars
from run_fixtures import write_plugin

from toolkit import testing

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


def test_a_kill_changes_no_bit(here):
    plugin, data = write_plugin(WAIT_FOR_KILL), write_bars("bars.npz")
    with open(plugin, "a") as file:
        file.write("checkpoint_saved = plugin.checkpoint_saved\n")
    words = ["run", "--plugin", plugin, "--data", data, "--steps", "32", "--no-evaluate"]
    words += ["--checkpoint-steps", "4", "--log-steps", "4"]
    # With this seed the kill falls into one of the first two saves.
    flags = ["--chaos", "1", "--chaos-seed", "37", "--restarts", "0", "--workers", 1]
    ended = process_fixtures.run("launch", *flags, "--", *words, "--run-dir", "killed")
    assert ended.code == 0 and "chaos: 1 of 1 kills" in ended.err, ended.err
    assert process_fixtures.run(*words, "--run-dir", "whole").code == 0  # it has "started" before
    assert testing.fingerprint("killed") == testing.fingerprint("whole")
    lines = [(here / run / "metrics.jsonl").read_bytes() for run in ("killed", "whole")]
    assert lines[0] == lines[1] != b""
