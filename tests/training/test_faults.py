"""Faults of the machine: each has one sentence and an exit code, and loses nothing that was
committed.
"""

import errno
import os
import resource

import numpy as np
import pytest
from hook_fixtures import CallAt, with_hooks
from linear_fixtures import Linear, write_bars
from test_exact_resume import final_state

import toolkit
from toolkit import testing, tf
from toolkit.errors import CheckpointError, RetryError
from toolkit.storage.run_folder import RunFolder
from toolkit.training.driven import DrivenRun

OPTIONS = {"steps": 12, "log_steps": 2, "checkpoint_steps": 4, "evaluate": "no"}
OPTIONS["steps_per_call"] = 1


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The final state of an undisturbed run."""
    folder = tmp_path_factory.mktemp("whole")
    path = str(folder / "run")
    testing.train(Linear, path, data=write_bars(folder / "bars.npz"), **OPTIONS)
    return final_state_of(path)


def final_state_of(run):
    RunFolder(run).record("evaluated", best=None)
    return final_state(run)


@pytest.mark.parametrize("size", [10, 1200])
def test_a_full_disk_loses_nothing_that_was_committed(data, whole, full_disk, size):
    with pytest.raises(RetryError) as raised:
        plugin = with_hooks(CallAt([6], lambda step: full_disk(size)))
        testing.train(plugin, "run", data=data, **OPTIONS)
    full_disk(resource.RLIM_INFINITY)
    assert raised.value.message == "run cannot be written: File too large."
    assert "toolkit resume" in raised.value.hint
    assert RunFolder("run").checkpoints.newest().step == 4
    testing.train(Linear, "run")
    assert final_state_of("run") == whole


def test_a_full_disk_at_the_trace_of_a_step_is_a_fault_of_the_machine(data, full_disk):
    with pytest.raises(RetryError, match="run cannot be written: File too large"):
        plugin = with_hooks(CallAt([6], lambda step: full_disk(10)))
        testing.train(plugin, "run", data=data, **dict(OPTIONS, log_steps=100, profile_steps="7"))


def test_a_full_disk_at_a_commit_of_a_driver_is_a_fault_of_the_machine(here, full_disk):
    with DrivenRun.begin("adopt", {}, "run") as run:
        run.begin_session({}, [])
        full_disk(10)
        with pytest.raises(RetryError, match="run cannot be written: "):
            run.commit(1, {"w": np.zeros(1000)}, {})


def test_a_run_whose_folder_is_moved_or_removed_ends_and_continues_at_its_new_place(data, whole):
    with pytest.raises(CheckpointError, match="is gone: it was removed or moved"):
        plugin = with_hooks(CallAt([6], lambda step: os.rename("run", "moved")))
        testing.train(plugin, "run", data=data, **OPTIONS)
    assert not os.path.exists("run")  # it must not be created again
    testing.train(Linear, "moved")
    assert final_state_of("moved") == whole


def test_a_read_only_folder_is_refused_before_the_graph_is_built(data, monkeypatch):
    testing.train(Linear, "run", data=data, **OPTIONS)

    def refuse(path, flags):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr("toolkit.storage.folder_lock.open_without_links", refuse)
    with pytest.raises(RetryError, match="cannot be written: Read-only file system"):
        testing.open_trainer(Linear, "run", steps=20)


def test_a_folder_that_cannot_be_locked_is_trained_in_with_one_warning(data, monkeypatch):
    def refuse(descriptor, mode):
        raise OSError(errno.ENOTSUP, "Operation not supported")

    monkeypatch.setattr("fcntl.flock", refuse)
    lines = []
    toolkit.train(Linear, "run", dict(OPTIONS, data=data), say=lines.append)
    assert len([line for line in lines if "cannot be locked" in line]) == 1


def test_the_error_for_exhausted_memory_has_the_step(data):
    def exhaust(step):
        raise tf.errors.ResourceExhaustedError(None, None, "OOM when allocating tensor [9, 9]")

    with pytest.raises(RetryError, match="Step 7 needs more memory than there is: OOM"):
        testing.train(with_hooks(CallAt([6], exhaust)), "run", data=data, **OPTIONS)
    assert RunFolder("run").checkpoints.newest().step == 4
