"""Faults of the machine: each has one sentence and an exit code, and loses nothing that was
committed.
"""

import errno
import os
import resource
import shutil
import signal

import numpy as np
import process_fixtures
import pytest
from linear_fixtures import Linear, write_bars
from test_exact_resume import final_state

import toolkit
from toolkit import SessionHook, hookimpl, testing, tf
from toolkit.data.arrays.idx import write_idx
from toolkit.errors import CheckpointError, DataError, RetryError
from toolkit.storage.run_folder import RunFolder

OPTIONS = {"steps": 12, "log_steps": 2, "checkpoint_steps": 4, "evaluate": "no"}


@pytest.fixture
def data(tmp_path):
    return write_bars(tmp_path / "bars.npz")


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The final state of an undisturbed run."""
    folder = tmp_path_factory.mktemp("whole")
    path = str(folder / "run")
    testing.train(Linear, path, data=write_bars(folder / "bars.npz"), **OPTIONS)
    return final_state_of(path)


def final_state_of(run):
    RunFolder(run).update_manifest(best=None)
    return final_state(run)


class CallAt(SessionHook):
    """Calls a function after a step, once."""

    name = "call_at"

    def __init__(self, step, act):
        self._step, self._act = step, act

    def next_due_step(self, step):
        return self._step if step < self._step else float("inf")

    def is_due(self, step):
        return step == self._step

    def on_step(self, step, values, context):
        self._act()


def linear_with(step, act):
    class Acting(Linear):
        @hookimpl
        def session_hooks(self):
            return [CallAt(step, act)]

    Acting.__name__ = Linear.__name__  # a resume with Linear continues the same plugin's run
    return Acting


@pytest.fixture
def full_disk():
    """A function that limits the size of every file, in bytes, as a full disk does."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    yield lambda size: resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("size", [10, 200, 400, 700, 1200])
def test_a_full_disk_loses_nothing_that_was_committed(data, tmp_path, whole, full_disk, size):
    run = str(tmp_path / "run")
    with pytest.raises(RetryError) as raised:
        testing.train(linear_with(6, lambda: full_disk(size)), run, data=data, **OPTIONS)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
    assert raised.value.exit_code == 138
    assert "cannot be written: " in str(raised.value) and "toolkit resume" in str(raised.value)
    assert "\n" not in raised.value.message and "tempstate" not in raised.value.message
    assert RunFolder(run).checkpoints.newest().step == 4
    testing.train(Linear, run)
    assert final_state_of(run) == whole


STREAMED = dict(OPTIONS, reader="stream", validation_share=0, test_share=0)


@pytest.fixture
def idx_data(tmp_path):
    """The `--data` value of plain IDX files, which stream from where they are."""
    folder = tmp_path / "idx"
    folder.mkdir()
    labels = np.arange(64) % 3
    images = np.zeros((64, 4, 4), np.uint8)
    images[np.arange(64), labels] = 200
    write_idx(str(folder / "train-images-idx3-ubyte"), images)
    write_idx(str(folder / "train-labels-idx1-ubyte"), labels.astype(np.uint8))
    return f"idx:{folder}"


def test_a_data_file_of_another_size_ends_the_training_before_the_next_commit(idx_data, tmp_path):
    run, path = str(tmp_path / "run"), tmp_path / "idx" / "train-labels-idx1-ubyte"
    content = path.read_bytes()
    plugin = linear_with(6, lambda: path.write_bytes(content + bytes(8)))
    with pytest.raises(DataError, match="train-labels-idx1-ubyte changed while") as raised:
        testing.train(plugin, run, data=idx_data, **STREAMED)
    assert raised.value.exit_code == 4 and "toolkit resume" in raised.value.hint
    assert RunFolder(run).checkpoints.newest().step == 4
    path.write_bytes(content)
    testing.train(Linear, run)
    assert RunFolder(run).checkpoints.newest().step == 12


def test_a_data_file_that_is_touched_is_no_fault(idx_data, tmp_path):
    path = tmp_path / "idx" / "train-labels-idx1-ubyte"
    plugin = linear_with(6, lambda: os.utime(str(path), (0, 0)))
    testing.train(plugin, str(tmp_path / "run"), data=idx_data, **STREAMED)
    assert RunFolder(str(tmp_path / "run")).checkpoints.newest().step == 12


def test_the_error_for_a_removed_folder_says_so(data, tmp_path):
    run = str(tmp_path / "run")
    with pytest.raises(CheckpointError, match="is gone: it was removed or moved") as raised:
        testing.train(linear_with(6, lambda: shutil.rmtree(run)), run, data=data, **OPTIONS)
    assert raised.value.exit_code == 5
    assert not os.path.exists(run)  # it must not be created again


def test_a_moved_run_continues_in_its_new_folder(data, tmp_path, whole):
    run, target = str(tmp_path / "run"), str(tmp_path / "moved")
    with pytest.raises(CheckpointError):
        testing.train(linear_with(6, lambda: os.rename(run, target)), run, data=data, **OPTIONS)
    testing.train(Linear, target)
    assert final_state_of(target) == whole


def test_a_read_only_folder_is_refused_before_the_graph_is_built(data, tmp_path, monkeypatch):
    run = str(tmp_path / "run")
    testing.train(Linear, run, data=data, **OPTIONS)

    def refuse(path, flags):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr("toolkit.storage.folder_lock.open_without_links", refuse)
    with pytest.raises(RetryError, match="cannot be written: Read-only file system"):
        testing.open_trainer(Linear, run, steps=20)


def test_a_folder_that_cannot_be_locked_is_trained_in_with_one_warning(data, tmp_path, monkeypatch):
    def refuse(descriptor, mode):
        raise OSError(errno.ENOTSUP, "Operation not supported")

    monkeypatch.setattr("fcntl.flock", refuse)
    lines = []
    run = str(tmp_path / "run")
    toolkit.train(Linear, run, dict(OPTIONS, data=data), say=lines.append)
    assert len([line for line in lines if "cannot be locked" in line]) == 1


def test_the_error_for_exhausted_memory_has_the_step(data, tmp_path):
    run = str(tmp_path / "run")

    def exhaust():
        raise tf.errors.ResourceExhaustedError(None, None, "OOM when allocating tensor [9, 9]")

    with pytest.raises(RetryError, match="Step 7 needs more memory than there is: OOM") as raised:
        testing.train(linear_with(6, exhaust), run, data=data, **OPTIONS)
    assert raised.value.exit_code == 138
    assert RunFolder(run).checkpoints.newest().step == 4


def test_a_clock_that_is_set_back_changes_no_result(data, tmp_path, monkeypatch, whole):
    run = str(tmp_path / "run")
    hours = iter(range(100, 0, -1))
    monkeypatch.setattr("time.time", lambda: 3600.0 * next(hours))
    testing.train(Linear, run, data=data, keep_every_hours=1, **OPTIONS)
    monkeypatch.undo()
    assert final_state_of(run) == whole


SCRIPT = """
import os
from test_faults import linear_with
from toolkit import testing

def act():
    {act}

testing.train(linear_with(6, act), "run", data="npz:bars.npz", steps=12, log_steps=2,
              checkpoint_steps=4, evaluate="no")
"""


@pytest.mark.parametrize(
    "act, code",
    [
        ("os.kill(os.getpid(), 9)", -signal.SIGKILL),
        ("import ctypes; ctypes.string_at(0)", -signal.SIGSEGV),
        ("os.abort()", -signal.SIGABRT),
        ("os._exit(0)", 0),
    ],
)
def test_a_run_continues_after_its_process_was_killed(data, tmp_path, whole, act, code):
    ended = process_fixtures.run(statements=SCRIPT.format(act=act), cwd=str(tmp_path))
    assert ended.code == code, ended.err
    run = str(tmp_path / "run")
    folder = RunFolder(run)
    assert not folder.is_locked()
    assert (folder.checkpoints.newest().step, folder.read_manifest()["status"]) == (4, "running")
    testing.train(Linear, run)
    assert final_state_of(run) == whole
