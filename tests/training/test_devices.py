"""Several devices of one machine in one process: virtual ones of the processor."""

import json

import numpy as np
import pytest
from linear_fixtures import LINEAR, Linear
from run_fixtures import sessions

from toolkit import DivergedError, ToolkitError, UsageError, hookimpl, testing, tf
from toolkit.compat import summarize_tf_error
from toolkit.graph.replica_copy import GPU, ReplicaDevice
from toolkit.training import devices


class Noisy(Linear):
    """Linear with dropout and noise, a table, a local variable and a loop of its own."""

    @hookimpl
    def build(self, run):
        keys = tf.range(3)
        values = tf.lookup.KeyValueTensorInitializer(keys, keys * 2)
        self.table = tf.lookup.StaticHashTable(values, -1)
        local = {"trainable": False, "collections": [tf.GraphKeys.LOCAL_VARIABLES]}
        self.one = tf.get_variable("one", initializer=1.0, use_resource=True, **local)
        return Linear.build(self, run)

    @hookimpl
    def call(self, model, features, run):
        features += 0.1 * run.normal("noise", tf.shape(features))
        outputs = Linear.call(self, model, run.dropout(features, 0.3, "drop"), run)
        two = tf.cast(self.table.lookup(tf.constant(1)), tf.float32)
        scale = tf.while_loop(lambda x: x < 2.0 * two, lambda x: x * two, [self.one.read_value()])
        return dict(outputs, logits=outputs["logits"] * scale / 4)


class Diverging(Noisy):
    """Two updates a step; in step 4, the second is not finite, for the last replica's examples."""

    @hookimpl
    def optimize(self, losses, run):
        weights, bias = tf.trainable_variables()
        first = run.minimize(losses, [weights], "first", advance_step=False)
        is_wrong = tf.equal(run.global_step, 3) if run.replica.rank else tf.constant(False)
        with tf.control_dependencies([first]):
            factor = tf.where(is_wrong, np.float32(np.nan), np.float32(1))
            return run.minimize(losses * factor, [bias], "second")


class Failing(Linear):
    """In step `step`, an assertion fails for the second replica's examples."""

    step = 1

    @hookimpl
    def loss(self, labels, outputs, run):
        is_right = tf.constant(True)
        if run.replica.rank:
            is_right = tf.less(run.global_step, self.step - 1)
        with tf.control_dependencies([tf.Assert(is_right, ["too far"])]):
            return tf.identity(Linear.loss(self, labels, outputs))


class Own(Linear):
    """Writes a sum over the examples of one replica into a variable."""

    @hookimpl
    def build(self, run):
        self.total = tf.get_variable("total", initializer=0.0, trainable=False)
        return Linear.build(self, run)

    @hookimpl
    def optimize(self, losses, features, run):
        run.update_state(lambda: self.total.assign(tf.reduce_sum(features)))
        return run.minimize(losses)


def train(plugin, run_dir, data, **options):
    defaults = {"data": data, "steps": 6, "devices": 2, "evaluate": False, "xla": "off"}
    testing.train(plugin, run_dir, **dict(defaults, **options))
    return testing.tensors(run_dir)


def test_several_devices_compute_what_one_computes_up_to_rounding(data):
    # 10 examples of a batch are 4, 3 and 3.
    options = {"reader": "stream", "accumulate": 2, "clip": "global-norm", "batch_size": 10}
    one = train(Noisy(), "one", data, **dict(options, devices=1))
    several = train(Noisy(), "several", data, **dict(options, devices=3))
    assert one.keys() == several.keys()
    assert max(np.max(np.abs(one[name] - several[name])) for name in one) < 1e-6


def test_a_run_that_pauses_and_resumes_has_the_bits_of_one_that_does_not(data):
    train(Noisy(), "whole", data, reader="stream")
    train(Noisy(), "parts", data, reader="stream", pause_at=3)
    train(Noisy(), "parts", data)
    assert testing.fingerprint("whole") == testing.fingerprint("parts")


def test_metrics_do_not_depend_on_the_number_of_steps_per_call(data, here):
    # The replicas wait for each other, also where one thread runs the ops.
    train(Noisy(), "single", data, steps_per_call=1, log_steps=2, inter_op_threads=1)
    train(Noisy(), "loop", data, steps_per_call=4, log_steps=2)
    paths = [here / name / "metrics.jsonl" for name in ("single", "loop")]
    assert paths[0].read_text() == paths[1].read_text()


def test_the_session_records_its_devices_and_a_resume_with_another_number_says_so(data, here, cli):
    write = ["--steps", "4", "--data", data, "--no-evaluate", "--run-dir", "r"]
    result = cli.succeed("run", "--plugin", LINEAR, "--devices", "2", *write)
    assert "2 replicas, each of 4 of the 8 examples of a batch: CPU:0, CPU:1" in result.err
    (session,) = sessions(here / "r")
    assert session["cluster"] == {"mode": "replicated", "replicas": 2, "devices": 2}
    result = cli.succeed("resume", "r", "--steps", "6", "--devices", "1")
    change = "trained by 2 devices of one process before, now by one process"
    assert "no longer bit-exact from here: " + change in result.err


def test_a_step_that_diverges_on_one_device_changes_nothing_on_any(data):
    train(Diverging(), "r", data, on_nonfinite="skip", checkpoint_steps=1)
    before, after, last = (testing.tensors("r", step) for step in ("3", "4", "last"))
    changed = [name for name in before if before[name].tobytes() != after[name].tobytes()]
    assert sorted(changed) == ["global_step", "toolkit/skipped_steps"]
    assert (last["global_step"], last["toolkit/skipped_steps"]) == (6, 1)


def test_the_error_for_a_step_that_diverges_on_one_device_names_its_update(data):
    with pytest.raises(DivergedError, match="in step 4: second: loss nan"):
        train(Diverging(), "r", data, steps=4)
    train(Diverging(), "paused", data, steps=4, pause_at=3)
    state, expected = testing.tensors("r"), testing.tensors("paused")
    assert state["global_step"] == 3 and state.keys() == expected.keys()
    assert all(state[name].tobytes() == expected[name].tobytes() for name in state)


# TensorFlow 1.15 would wait for ever in its first collective op.
@pytest.mark.parametrize("step", [1, 4])
def test_the_failure_of_one_device_ends_the_call_of_all(data, step):
    plugin = Failing()
    plugin.step = step
    message = rf"^Step {step} failed: assertion failed: .too far.* \(.*test_devices.py:\d+\)"
    with pytest.raises(ToolkitError, match=message):
        train(plugin, "r", data, steps_per_call=3)


def test_a_hook_that_fails_for_the_examples_of_another_device_is_named(data):
    class Converting(Linear):
        count = 0

        @hookimpl
        def convert(self, features, labels):
            Converting.count += 1
            if Converting.count > 20:  # in the threads of tf.data
                raise ValueError("no such example")
            return features, labels

    with pytest.raises(ToolkitError, match="'convert': ValueError: no such example"):
        train(Converting(), "r", data, reader="stream", shuffle_buffer=4)


def test_a_state_that_differs_between_devices_ends_the_run_with_its_name(data):
    with pytest.raises(ToolkitError, match="differ at step 2: CPU:1 has other values of 'total'"):
        train(Own(), "r", data)


def test_more_devices_than_gpus_or_examples_are_refused(data, monkeypatch):
    with pytest.raises(UsageError, match="--batch-size is 8, fewer than the 9 replicas"):
        train(Linear(), "r", data, devices=9)
    with pytest.raises(UsageError, match="XLA cannot compile a step of 2 replicas"):
        train(Linear(), "r", data, xla="on")
    monkeypatch.setattr(devices, "count_gpus", lambda: 1)
    with pytest.raises(UsageError, match="--devices is 2, and this machine has 1 GPU."):
        train(Linear(), "r", data)


def test_a_process_of_a_cluster_refuses_devices(cli, data, monkeypatch):
    cluster = {"worker": ["127.0.0.1:1", "127.0.0.1:2"]}
    task = {"cluster": cluster, "task": {"type": "worker", "index": 1}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(task))
    words = "--devices is 2, which a process of a cluster does not support."
    cli.refuse(2, words, "run", "--plugin", LINEAR, "--data", data, "--devices", "2")


def test_an_op_of_a_gpus_replica_stays_on_the_processor_where_it_says_so():
    gpu, cpu = ReplicaDevice(GPU, 1), ReplicaDevice("CPU", 1)
    assert gpu.place("") == gpu.place("/device:GPU:0") == "/device:GPU:1"
    assert gpu.place("/device:CPU:0") == "/device:CPU:0"
    assert cpu.place("") == cpu.place("/cpu:0") == cpu.place("/gpu:0") == "/device:CPU:1"


def test_of_the_errors_of_several_devices_the_first_is_shown():
    message = (
        "2 root error(s) found.\n  (0) INVALID_ARGUMENT: assertion failed: [too far]\n"
        "\t [[{{node replica_1/Assert}}]]\n  (1) Invalid argument: assertion failed: [other]\n"
    )
    assert summarize_tf_error(message) == "assertion failed: [too far]"
