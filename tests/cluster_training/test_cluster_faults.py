"""What every process of a cluster says and returns when one of them dies, hangs, fails or differs.

All processes are real, and all end.
"""

from __future__ import annotations

import json
import os
import signal

import pytest
from cluster_fixtures import commits, write_ranked_plugin
from file_fixtures import read_json
from linear_fixtures import LINEAR, write_bars
from run_fixtures import sessions

from toolkit.storage.run_folder import RunFolder

pytestmark = pytest.mark.slow
TWO = ("chief", "worker 0")
THREE = (*TWO, "worker 1")

# From step 60 on, the workers sleep in their step, so that the chief waits in a collective op.
SLEEPING = """
    @hookimpl
    def loss(self, labels, outputs):
        def sleep(step):
            if step >= 60:
                open("asleep-" + str(RANK), "w").close()
                time.sleep(1000)
            return 0.0

        loss = Linear.loss(self, labels, outputs)
        if RANK == 0:
            return loss
        step = tf.train.get_or_create_global_step()
        zero = tf.py_func(sleep, [step], tf.float64, stateful=True)
        return loss + tf.cast(tf.reshape(zero, []), tf.float32)
"""
RAISING_CALL = """
    @hookimpl
    def call(self, model, features, run):
        if RANK == {}:
            raise ValueError("no luck")
        return Linear.call(self, model, features, run)
"""
FAILING_OP = """
    @hookimpl
    def call(self, model, features, run):
        outputs = Linear.call(self, model, features, run)
        if RANK == {}:
            step = tf.train.get_or_create_global_step()
            with tf.control_dependencies([tf.Assert(step < 60, ["no luck in", step])]):
                outputs["logits"] = tf.identity(outputs["logits"])
        return outputs
"""
STATE_OF_ONE_REPLICA = """
    @hookimpl
    def build(self, run):
        zero = tf.zeros_initializer()
        self.total = tf.get_variable("total", [], initializer=zero, trainable=False)
        return Linear.build(self, run)

    @hookimpl
    def call(self, model, features, run):
        if run.mode == "train":
            run.update_state(lambda: self.total.assign(tf.reduce_sum(features)))
        return Linear.call(self, model, features, run)
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


def check_endings(cluster, codes, sentence):
    """Wait for the end of all; who was not killed has written a sentence, and no traceback."""
    endings = cluster.wait()
    assert {name: ending.code for name, ending in endings.items()} == codes, cluster.describe()
    for name, ending in endings.items():
        assert "Traceback" not in ending.err, name
        if ending.code >= 0:
            assert sentence in ending.err, cluster.describe()
    return endings


# ------------------------------------------------------------------------------- death and silence


@pytest.mark.parametrize("name", ["chief", "worker 1"])
def test_a_process_that_is_killed_is_named_by_all(start, name):
    cluster = start(*run_words(), count=3)
    cluster.wait_for_commit()
    cluster.send(signal.SIGKILL, name)
    codes = dict.fromkeys(THREE, 138)
    check_endings(cluster, {**codes, name: -signal.SIGKILL}, f"Error: {name} (127.0.0.1:")


def test_a_process_that_waits_for_a_dead_one_in_a_collective_op_is_ended(start):
    cluster = start(*run_words(write_ranked_plugin(SLEEPING)), count=3)
    cluster.wait_for(lambda: os.path.exists("asleep-1") and os.path.exists("asleep-2"))
    cluster.send(signal.SIGKILL, "worker 0")
    codes = {"chief": 138, "worker 0": -signal.SIGKILL, "worker 1": 138}
    check_endings(cluster, codes, "is gone.")
    assert [commit["step"] for commit in commits("r")] == [50]


def test_a_process_that_is_stopped_is_lost(start):
    cluster = start(*run_words())
    cluster.wait_for_commit()
    cluster.send(signal.SIGSTOP, "worker 0")
    cluster.wait_for_end("chief", 60)
    cluster.send(signal.SIGCONT, "worker 0")
    codes = {"chief": 138, "worker 0": 138}
    check_endings(cluster, codes, "worker 0 (127.0.0.1:")
    assert "has not answered for 6 s." in cluster.read("chief")


def test_a_worker_that_never_comes_is_named(start):
    cluster = start(*run_words(LINEAR, "--join-secs", "8"), count=3, absent=["worker 1"])
    endings = check_endings(cluster, {"chief": 138, "worker 0": 138}, "has not joined within 8 s")
    assert all("worker 1 (127.0.0.1:" in ending.err for ending in endings.values())
    assert not os.path.exists("r")


# ----------------------------------------------------------------------------------------- signals


@pytest.mark.parametrize(
    ("name", "signum"), [("worker 0", signal.SIGTERM), ("worker 1", signal.SIGINT)]
)
def test_a_signal_at_one_process_ends_all_with_the_state_committed(start, name, signum):
    cluster = start(*run_words(), count=3)
    cluster.wait_for_commit()
    cluster.send(signum, name)
    codes = dict.fromkeys(THREE, 128 + signum)
    check_endings(cluster, codes, "Interrupted; step ")
    step = commits("r")[-1]["step"]
    assert f"step {step} is saved in r." in cluster.read("chief")
    assert read_json("r", "manifest.json")["exit_code"] == 128 + signum


def test_a_signal_at_the_chief_and_a_resume_by_one_process(start):
    cluster = start(*run_words(LINEAR))
    cluster.wait_for_commit()
    cluster.send(signal.SIGINT)
    check_endings(cluster, {"chief": 130, "worker 0": 130}, "Interrupted; step ")
    step = commits("r")[-1]["step"]
    alone = start("resume", "r", "--steps", step + 20, count=1)
    assert "trained by 2 replicas before, now by one process" in alone.succeed()["chief"].err


# -------------------------------------------------------------------------------- failures of a run


def test_a_divergence_ends_all(start):
    cluster = start(*run_words(write_ranked_plugin(INFINITE_STEPS)))
    check_endings(cluster, dict.fromkeys(TWO, 3), "Training diverged in step 6: loss nan")
    assert [commit["step"] for commit in commits("r")] == [5]


def test_a_replica_whose_loss_is_not_finite_lets_all_skip_the_step(start):
    plugin = write_ranked_plugin(INFINITE_STEPS)
    start(*run_words(plugin, "--on-nonfinite", "skip", steps=60)).succeed()
    records = [json.loads(line) for line in RunFolder("r").metrics.lines()]
    counts = [record["count"] for record in records if record["kind"] == "event"]
    assert sum(counts) == 8 and commits("r")[-1]["step"] == 60


@pytest.mark.parametrize("rank", [0, 1])
def test_a_hook_that_raises_in_one_process_ends_all(start, rank):
    cluster = start(*run_words(write_ranked_plugin(RAISING_CALL.format(rank))))
    codes = dict.fromkeys(TWO, 1)
    check_endings(cluster, codes, "failed in its hook 'call': ValueError: no luck (")


@pytest.mark.parametrize("rank", [0, 1])
def test_an_op_that_fails_in_one_process_ends_all(start, rank):
    cluster = start(*run_words(write_ranked_plugin(FAILING_OP.format(rank))))
    codes = dict.fromkeys(TWO, 1)
    sentence = "Step 61 failed: assertion failed: [no luck in] [60] ("
    check_endings(cluster, codes, sentence)


def test_replicas_that_differ_are_named_with_the_variable(start):
    cluster = start(*run_words(write_ranked_plugin(STATE_OF_ONE_REPLICA)))
    sentence = "The replicas differ at step 50: worker 0 has other values of 'total'."
    check_endings(cluster, {"chief": 1, "worker 0": 1}, sentence)
    assert commits("r") == []


def test_a_folder_that_cannot_be_written_ends_all(start):
    words = run_words()
    words[words.index("r")] = "/proc/nothing/r"
    sentence = "/proc/nothing/r cannot be created: No such file or directory."
    check_endings(start(*words), {"chief": 2, "worker 0": 2}, sentence)


def test_a_folder_in_use_ends_all(start):
    os.mkdir("r")
    with open("r/file", "w"):
        pass
    check_endings(start(*run_words()), {"chief": 2, "worker 0": 2}, "r is not empty.")


# ------------------------------------------------------------------------------------- differences


def test_another_source_of_the_plugin_is_named(start):
    words = run_words(write_ranked_plugin("    pass"))
    os.mkdir("other")
    others = [word if word != "./mine.py" else "./other/mine.py" for word in words]
    write_ranked_plugin("    note = 1", "other/mine.py")
    cluster = start(*words, others={"worker 0": others})
    check_endings(cluster, {"chief": 2, "worker 0": 2}, "worker 0 has another")
    assert not os.path.exists("r")


@pytest.mark.parametrize("name", ["chief", "worker 0"])
def test_data_that_are_missing_at_one_process_end_all(start, name):
    words = run_words()
    others = [str(word).replace("bars.npz", "gone.npz") for word in words]
    cluster = start(*words, others={name: others})
    sentence = "gone.npz: expected an .npz file, found none."
    check_endings(cluster, {"chief": 4, "worker 0": 4}, sentence)


def test_an_option_that_replicas_do_not_support_is_refused_by_all(start):
    cluster = start(*run_words(LINEAR, "--xla", "on"))
    sentence = "--xla is on, and XLA cannot compile a step of 2 replicas."
    check_endings(cluster, {"chief": 2, "worker 0": 2}, sentence)


# --------------------------------------------------------------------------------------------- ends


def lines_of(ending):
    """What a process wrote, without the lines about processes that start slowly."""
    lines = ending.err.splitlines()
    return [line for line in lines if "waiting for " not in line and " waits for " not in line]


def test_a_log_has_few_lines_and_a_finished_run_ends_a_worker_that_sees_no_folder(start, here):
    words = [*run_words(steps=60), "--resume"]
    endings = start(*words).succeed()
    assert lines_of(endings["worker 0"]) == [
        "peers  worker 0 of 2 replicas, 4 of the 8 examples of a batch",
        "peers  the chief has ended the training",
    ]
    kinds = ("run", "data", "peers", "hooks", "step", "note")  # and nothing of the runtime
    assert [x for x in lines_of(endings["chief"]) if x.split()[0] not in kinds] == []
    (session,) = sessions(here / "r")
    assert session["cluster"] == {"mode": "replicated", "replicas": 2}
    elsewhere = ["elsewhere" if word == "r" else word for word in words]
    endings = start(*words, others={"worker 0": elsewhere}).succeed()
    assert "Nothing left to do: r reached step 60." in endings["chief"].err
    assert lines_of(endings["worker 0"]) == ["peers  Nothing is left to do."]
