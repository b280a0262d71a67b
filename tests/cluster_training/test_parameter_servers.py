"""Jobs with parameter servers: real processes on this machine."""

import functools
import os
import re
import signal
from unittest import mock

import numpy as np
import pytest
from job_fixtures import commits, start_job
from reads_fixtures import COUNTS, STATE

from toolkit.errors import UsageError
from toolkit.options import CoreOptions
from toolkit.storage.checkpoint_reader import read_tensors
from toolkit.storage.run_folder import RunFolder
from toolkit.training.peers import place_of

BATCH = 8
EPOCH = COUNTS["train"] // BATCH  # steps
READS = os.path.join(os.path.dirname(__file__), "reads_fixtures.py")
RUN = ["run", "--plugin", READS, "--run-dir", "r"]


start = functools.partial(start_job, ps=1)


def reads(step, run="r"):
    """How often each example was read, in the checkpoint of a step."""
    return read_tensors(RunFolder(run).checkpoints.prefix(step))[STATE]


def all_are(code):
    return dict.fromkeys(("chief", "worker 0", "ps 0"), code)


def test_each_example_is_read_once_per_epoch_and_all_processes_end_alike(cli):
    total = 4 * EPOCH
    flags = ["--steps", total, "--checkpoint-steps", EPOCH, "--log-steps", 10]
    start(*RUN, *flags, ps=2).succeed()
    assert [c["step"] for c in commits("r")] == list(range(EPOCH, total + 1, EPOCH))
    for epoch in range(1, 5):
        assert set(reads(epoch * EPOCH)) == {epoch}
    losses = [r["loss"] for r in RunFolder("r").metrics.read() if r["kind"] == "train"]
    assert losses[-1] < losses[0]
    assert RunFolder("r").commits.sessions()[0]["cluster"] == {"mode": "ps", "workers": 2, "ps": 2}
    cli.refuse(2, "trained with parameter servers", "verify", "r", "--replay", ":")


def test_a_run_continues_with_other_numbers_of_processes_and_alone(cli):
    fixed = ("--steps", 4 * EPOCH, "--checkpoint-steps", 5)
    assert cli(*RUN, *fixed, "--pause-at", 3).code == 0
    ends = start("resume", "r", "--pause-at", EPOCH + 2).succeed()
    assert "('run' with --resume --run-dir r)" in ends["chief"].out
    np.testing.assert_array_equal(sum(reads(EPOCH + 2)), BATCH * (EPOCH + 2))
    assert cli("resume", "r").code == 0
    assert set(reads(4 * EPOCH)) == {4}
    sessions = RunFolder("r").commits.sessions()
    assert [session.get("cluster", {}).get("mode") for session in sessions] == [None, "ps", None]


def test_the_death_of_a_parameter_server_ends_all(here):
    job = start(*RUN, "--steps", 100000 * EPOCH, "--checkpoint-steps", 10)
    job.wait_for_commit()
    job.send(signal.SIGKILL, "ps 0")
    endings = job.check_codes({**all_are(138), "ps 0": -signal.SIGKILL})
    for name in ("chief", "worker 0"):
        assert "ps 0 (127.0.0.1:" in endings[name].err and "is gone" in endings[name].err
        assert "Traceback" not in endings[name].err


def test_a_signal_to_a_parameter_server_ends_the_job_with_its_state_committed(here):
    flags = ["--checkpoint-steps", 100000 * EPOCH, "--log-steps", 10]
    job = start(*RUN, "--steps", 100000 * EPOCH, *flags)
    job.wait_for_line("step 10/", "chief")
    job.send(signal.SIGTERM, "ps 0")
    job.check_codes(all_are(143))
    (commit,) = commits("r")
    assert sum(reads(commit["step"])) == BATCH * commit["step"]
    assert max(reads(commit["step"])) - min(reads(commit["step"])) <= 1


def test_a_refused_step_ends_the_job_with_code_3_and_the_others_are_committed(here):
    endings = start(*RUN, "--steps", 4 * EPOCH, "--poison", 17).check_codes(all_are(3))
    (commit,) = commits("r")
    step, error = commit["step"], endings["chief"].err
    assert f"Step {step} is kept" in error and reads(step)[17] == 0
    (refused,) = map(int, re.findall(r"Training diverged in step (\d+): loss nan", error))
    if refused <= step:  # a step of a round counts, so that the next ticket is a new batch
        assert sum(reads(step)) == BATCH * (step - 1)
    else:  # a due step does not
        assert (refused, sum(reads(step))) == (step + 1, BATCH * step)


def test_a_gan_trains_its_two_networks(cli):
    flags = ["--network", "mlp", "--steps", 40, "--batch-size", 16, "--best-metric", "none"]
    images = np.random.RandomState(0).randint(0, 255, [96, 8, 8, 1]).astype(np.uint8)
    np.savez("x.npz", x_train=images, x_test=images[:12], y_train=[0] * 96, y_test=[0] * 12)
    flags += ["--features", "pixels", "--quick-samples", 100, "--score-samples", 100]
    flags += ["--no-two-sample"]
    run = ["run", "--plugin", "gan", "--data", "npz:x.npz", "--run-dir", "r", "--no-evaluate"]
    start(*run, *flags).succeed()
    assert [commit["step"] for commit in commits("r")] == [40]
    # The checkpoint has the names that a single process expects.
    assert cli("evaluate", "r", "--data", "npz:x.npz").code == 0


@pytest.mark.parametrize(
    "options, message",
    [({"accumulate": 2}, "--accumulate is 2"), ({"xla": "on"}, "--xla is on")],
)
def test_what_is_not_possible_is_refused_with_a_remedy(options, message):
    cluster = mock.Mock(rank=1, has_ps=True, jobs={"ps": ["a:1"]})
    with pytest.raises(UsageError, match=message) as error:
        place_of(cluster, CoreOptions(**options))
    assert "without parameter servers" in error.value.hint
    place = place_of(cluster, CoreOptions())
    assert place.options.steps_per_call == 1 and place.replica.is_asynchronous
