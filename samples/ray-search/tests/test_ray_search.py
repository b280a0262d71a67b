"""A search on a real Ray of two workers, one of which is killed in the middle of a trial."""

import json
import os

import pytest

from toolkit import testing, train

ray = pytest.importorskip("ray")
tune = pytest.importorskip("ray.tune")
toolkit_ray_search = pytest.importorskip("toolkit_ray_search")

STEPS, KILLED_AT = 40, 25
# An extension that kills its process, once for all trials together, in the middle of a trial.
KILLER = """
import os
import signal

from toolkit import Every, SessionHook, hookimpl

class Killer(SessionHook):
    every = Every(steps={step})

    def on_step(self, step, values, context):
        if step == {step}:
            try:
                os.close(os.open({mark!r}, os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                return
            os.kill(os.getpid(), signal.SIGKILL)

@hookimpl
def session_hooks():
    return [Killer()]
"""


@pytest.fixture
def workers(monkeypatch):
    """A Ray of two workers on this machine."""
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


def sessions(run_dir):
    """The steps from which the sessions of a run trained."""
    with open(os.path.join(run_dir, "commits.jsonl"), encoding="utf-8") as file:
        entries = [json.loads(line) for line in file]
    return [entry["from"] for entry in entries if entry["kind"] == "session"]


def test_a_trial_whose_worker_is_killed_ends_with_the_bits_of_one_that_nobody_killed(
    workers, tmp_path
):
    killer, mark = tmp_path / "killer.py", str(tmp_path / "killed")
    killer.write_text(KILLER.format(step=KILLED_AT, mark=mark))
    options = {"data": testing.write_digits(str(tmp_path / "digits.npz")), "network": "mlp"}
    options.update(batch_size=8, steps=STEPS, checkpoint_steps=10, steps_per_call=1)
    space = {"learning_rate": tune.grid_search([0.003, 0.01])}

    def search():
        folder = str(tmp_path / "search")
        return toolkit_ray_search.search(
            "classifier", folder, space, options, [str(killer)], trials=1
        )

    grid = search()
    assert os.path.exists(mark) and not grid.errors
    (killed,) = [result for result in grid if len(sessions(result.metrics["run_dir"])) == 2]
    run_dir, alone = killed.metrics["run_dir"], str(tmp_path / "alone")
    assert sessions(run_dir) == [0, 20]
    values = dict(options, **killed.config, intra_op_threads=1, inter_op_threads=1)
    train("classifier", alone, values, say=False, extensions=[str(killer)])
    assert testing.fingerprint(run_dir) == testing.fingerprint(alone)
    scores = [result.metrics["accuracy"] for result in grid]
    assert grid.get_best_result().metrics["accuracy"] == max(scores)
    again = search()  # from its folder: nothing is left to train
    assert [result.metrics["accuracy"] for result in again] == scores
    assert sessions(run_dir) == [0, 20]
