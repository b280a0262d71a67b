"""What every process of a cluster says and returns when one of them dies, fails or differs.

All processes are real, and all end. What of this needs no TensorFlow is in tests/cluster.
"""

import os
import signal

import pytest
from file_fixtures import edit, read_json
from job_fixtures import PATIENT, commits, start_job
from linear_fixtures import LINEAR, write_bars
from process_fixtures import PATIENCE
from run_fixtures import records, sessions, write_plugin

TWO = ("chief", "worker 0")

# The first lines of a plugin that behaves differently in one process: RANK is 0 in the chief.
RANKS = """
import json, os, time
TASK = json.loads(os.environ["TF_CONFIG"])["task"]
RANK = 0 if TASK["type"] == "chief" else 1 + TASK["index"]
"""
# From step 60 on, the workers sleep in their step, so that the chief waits in a collective op.
SLEEPING = """
    @hookimpl
    def loss(self, labels, outputs):
        def sleep(step):
            if step >= 60:
                open("asleep-" + str(RANK), "w").close()
                time.sleep(100000)
            return 0.0

        loss = Linear.loss(self, labels, outputs)
        if RANK == 0:
            return loss
        step = tf.train.get_or_create_global_step()
        zero = tf.py_func(sleep, [step], tf.float64, stateful=True)
        return loss + tf.cast(tf.reshape(zero, []), tf.float32)
"""
STATE_OF_ONE_REPLICA = """
    @hookimpl
    def build(self, run):
        self.total = run.state("total", 0.0)
        return Linear.build(self, run)

    @hookimpl
    def optimize(self, features, losses, run):
        run.update_state(lambda: self.total.assign(tf.reduce_sum(features)))
        return run.minimize(losses)
"""
INFINITE_STEPS = """
    @hookimpl
    def loss(self, labels, outputs):
        step = tf.cast(tf.train.get_or_create_global_step(), tf.int64)
        factor = tf.where(tf.equal(step % 7, 5), float("nan"), 1.0)
        loss = Linear.loss(self, labels, outputs)
        return loss * factor if RANK == 1 else loss
"""


def run_words(plugin=LINEAR, *more, steps=1000000):
    data = write_bars("bars.npz")
    words = ["run", "--plugin", plugin, "--data", data, "--run-dir", "r", "--steps", steps]
    return [*words, "--checkpoint-steps", "50", *more]


def write_ranked_plugin(body="    pass", path="mine.py"):
    """A plugin in a file, `Linear` with the methods in `body`, which may use RANK."""
    write_plugin(body, path)
    edit(path, "\n", RANKS)
    return "./" + path


def check_endings(job, codes, sentence):
    """Wait for the end of all; who was not killed has written a sentence, and no traceback."""
    for name, ended in job.check_codes(codes).items():
        assert "Traceback" not in ended.err, name
        if ended.code >= 0:
            assert sentence in ended.err, job.describe()


def test_a_kill_ends_those_that_wait_for_the_dead_one_in_a_collective_op(here):
    job = start_job(*run_words(write_ranked_plugin(SLEEPING)), workers=3)
    job.wait_for(lambda: os.path.exists("asleep-1") and os.path.exists("asleep-2"))
    job.send(signal.SIGKILL, "worker 0")
    codes = {"chief": 138, "worker 0": -signal.SIGKILL, "worker 1": 138}
    check_endings(job, codes, "is gone.")
    assert [commit["step"] for commit in commits("r")] == [50]


def test_a_signal_at_a_worker_ends_all_with_the_state_committed(here):
    job = start_job(*run_words())
    job.wait_for_commit()
    job.send(signal.SIGTERM, "worker 0")
    check_endings(job, dict.fromkeys(TWO, 143), "Interrupted; step ")
    step = commits("r")[-1]["step"]
    assert f"step {step} is saved in r.\nContinue with: the same command in each" in job.read()
    assert read_json("r", "manifest.json")["exit_code"] == 143


@pytest.mark.parametrize("name", TWO)
def test_a_stopped_process_is_lost_and_ends_when_it_continues(here, name):
    statements = f"import silence_fixtures; silence_fixtures.install()\n{PATIENT}"
    job = start_job(*run_words(), statements=statements)
    job.wait_for_commit()
    job.send(signal.SIGSTOP, name)
    (here / "silent").write_text(name)
    (other,) = set(TWO) - {name}
    check_endings(job, {other: 138}, f") has not answered for {PATIENCE:g} s.\n")
    job.send(signal.SIGCONT, name)
    check_endings(job, {name: 138}, "The job has ended without this process")


def test_ctrl_c_at_the_start_ends_all(here):
    impatient = "channel._FIRST_NOTICE_SECS = channel._NOTICE_SECS = 0.1"
    statements = f"from toolkit.cluster import channel\n{impatient}\n{PATIENT}"
    absent = {"worker 1": ["--version"]}
    job = start_job(*run_words(), workers=3, others=absent, statements=statements)
    job.wait_for_line("which is not ready or waits for others", "worker 0")  # it is connected
    job.wait_for_line("worker 1 (127.0.0.1:", "chief")  # it is ready and waits
    job.send(signal.SIGINT)
    endings = job.check_codes(dict.fromkeys(TWO, 130))
    assert "chief ended: Interrupted before the start." in endings["worker 0"].err


def test_a_divergence_ends_all(here):
    job = start_job(*run_words(write_ranked_plugin(INFINITE_STEPS)))
    check_endings(job, dict.fromkeys(TWO, 3), "Training diverged in step 6: loss nan")
    assert [commit["step"] for commit in commits("r")] == [5]


def test_a_replica_whose_loss_is_not_finite_lets_all_skip_the_step(here):
    plugin = write_ranked_plugin(INFINITE_STEPS)
    start_job(*run_words(plugin, "--on-nonfinite", "skip", steps=60)).succeed()
    assert sum(event["count"] for event in records("r", "event")) == 8
    assert commits("r")[-1]["step"] == 60
    (session,) = sessions(here / "r")
    assert session["cluster"] == {"mode": "replicated", "replicas": 2}


def test_replicas_that_differ_are_named_with_the_variable(here):
    job = start_job(*run_words(write_ranked_plugin(STATE_OF_ONE_REPLICA)))
    sentence = "The replicas differ at step 50: worker 0 has other values of 'state/total'."
    check_endings(job, dict.fromkeys(TWO, 1), sentence)
    assert commits("r") == []
