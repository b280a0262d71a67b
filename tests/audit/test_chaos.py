"""Training processes that are killed at random moments end with the bits of one that was not.

Each command is a process of its own: in one process, the first session chooses the threads of all,
and with them the order of sums.
"""

import json
import os

import process_fixtures
import pytest
from file_fixtures import read_json
from linear_fixtures import write_bars
from run_fixtures import write_plugin

from toolkit import testing
from toolkit.storage.run_folder import RunFolder

# Before a test changes the environment.
KILLS = int(os.environ.get("TOOLKIT_CHAOS_KILLS", "2"))
SEED = int(os.environ.get("TOOLKIT_CHAOS_SEED", "3"))
CLASSIFIER = ["--plugin", "classifier", "--network", "mlp", "--steps", "150"]
CLASSIFIER += ["--best-metric", "accuracy"]
GAN = ["--plugin", "gan", "--network", "mlp", "--steps", "80", "--sample-steps", "20"]
GAN += ["--evaluate-steps", "40", "--features", "pixels", "--quick-samples", "100"]
GAN += ["--score-samples", "100", "--no-two-sample", "--width", "4", "--norm-samples", "20"]
GAN += ["--sample-count", "9"]

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


@pytest.mark.parametrize("reader", ["resident", "stream"])
def test_a_small_network_survives_kills(here, reader):
    check(CLASSIFIER + ["--reader", reader], KILLS)


def test_two_networks_survive_kills(here):
    check(GAN, KILLS)


def test_a_cluster_is_replayed_and_survives_kills(cli):
    command("launch", "--workers", 2, "--", *run_words(CLASSIFIER))
    check_run(KILLS)
    assert "trained by 2 replicas; a resume is exact with as many" in cli("doctor", "run").out


def test_a_kill_by_launch_changes_no_bit(here):
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


def check(argv, kills):
    command(*run_words(argv))
    check_run(kills)


def run_words(argv):
    return ["run", "--run-dir", "run", "--checkpoint-steps", 20, "--log-steps", 5, *argv]


def check_run(kills):
    lines = RunFolder("run").metrics.lines()
    assert len(lines) > 10 and not any("examples_per_sec" in line for line in lines)
    facts = json.loads(
        command("verify", "run", "-v", "--replay", ":", "--chaos", kills, "--seed", SEED, "--json")
    )
    last = RunFolder("run").checkpoints.list()[-1]
    assert sum(facts["chaos"]["kills"].values()) == kills
    assert last.tensors[:16] in facts["chaos"]["result"]
    assert last.tensors[:16] in facts["replay"]["result"]
    assert read_json("run", "manifest.json")["status"] == "finished"


def command(*argv):
    """What a command writes, which has to end well."""
    env = dict(os.environ, TOOLKIT_CACHE=os.path.abspath("cache"))
    done = process_fixtures.run(*argv, env=env)
    assert done.code == 0, done.err
    return done.out
