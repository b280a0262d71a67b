"""Training processes that are killed at random moments end with the bits of one that was not.

Each command is a process of its own: in one process, the first session chooses the threads of all,
and with them the order of sums.
"""

import json
import os

import process_fixtures
import pytest
from file_fixtures import read_json

from toolkit.storage.run_folder import RunFolder

KILLS = int(os.environ.get("TOOLKIT_CHAOS_KILLS", "2"))  # before a test changes the environment
CLASSIFIER = ["--plugin", "classifier", "--network", "mlp", "--steps", "150"]
CLASSIFIER += ["--best-metric", "accuracy"]


@pytest.mark.parametrize("reader", ["resident", "stream"])
def test_a_small_network_survives_kills(here, reader):
    command(*run_words([*CLASSIFIER, "--reader", reader]))
    check_run(KILLS)


def test_a_cluster_is_replayed_and_survives_kills(cli):
    command("launch", "--workers", 2, "--", *run_words(CLASSIFIER))
    check_run(kills=1)
    assert "trained by 2 replicas; a resume is exact with as many" in cli("doctor", "run").out


def run_words(argv):
    return ["run", "--run-dir", "run", "--checkpoint-steps", 20, "--log-steps", 5, *argv]


def check_run(kills):
    lines = RunFolder("run").metrics.lines()
    assert len(lines) > 10 and not any("examples_per_sec" in line for line in lines)
    facts = json.loads(
        command("verify", "run", "-v", "--replay", ":", "--chaos", kills, "--seed", 3, "--json")
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
