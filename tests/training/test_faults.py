"""What the machine does to a run: each fault has one sentence and an exit code, and loses nothing
that was committed.
"""

import os
import resource
import shutil
import signal
import subprocess
import sys

import pytest
from file_fixtures import REPOSITORY
from linear_fixtures import Linear, write_bars
from test_exact_resume import left

from toolkit import Hook, hookimpl, testing, tf
from toolkit.errors import CheckpointError, RetryError
from toolkit.storage.run_folder import RunFolder

OPTIONS = {"steps": 12, "log_steps": 2, "checkpoint_steps": 4, "evaluate": "no"}


@pytest.fixture
def data(tmp_path):
    return write_bars(tmp_path / "bars.npz")


@pytest.fixture
def whole(data, tmp_path):
    """What a run leaves to which nothing happened."""
    path = str(tmp_path / "whole")
    testing.train(Linear, path, data=data, **OPTIONS)
    return left_of(path)


def left_of(run):
    RunFolder(run).update_manifest(best=None)
    return left(run)


class At(Hook):
    """Does something behind a step, once."""

    name = "at"

    def __init__(self, step, act):
        self._step, self._act = step, act

    def next_step(self, step):
        return self._step if step < self._step else float("inf")

    def is_due(self, step):
        return step == self._step

    def on_step(self, step, values, context):
        self._act()


def acting(step, act):
    class Acting(Linear):
        @hookimpl
        def session_hooks(self):
            return [At(step, act)]

    return Acting


@pytest.fixture
def full_disk():
    """A function that makes every file end at so many bytes, as a full disk does."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    yield lambda size: resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("size", [10, 200, 400, 700, 1200])
def test_a_full_disk_loses_nothing_that_was_committed(data, tmp_path, whole, full_disk, size):
    run = str(tmp_path / "run")
    with pytest.raises(RetryError) as told:
        testing.train(acting(6, lambda: full_disk(size)), run, data=data, **OPTIONS)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
    assert told.value.exit_code == 138
    assert "cannot be written: " in str(told.value) and "toolkit resume" in str(told.value)
    assert "\n" not in told.value.message and "tempstate" not in told.value.message
    assert RunFolder(run).checkpoints.newest().step == 4
    testing.train(Linear, run)
    assert left_of(run) == whole


def test_a_folder_that_is_removed_is_told_as_that(data, tmp_path):
    run = str(tmp_path / "run")
    with pytest.raises(CheckpointError, match="is gone: it was removed or moved") as told:
        testing.train(acting(6, lambda: shutil.rmtree(run)), run, data=data, **OPTIONS)
    assert told.value.exit_code == 5
    assert not os.path.exists(run)  # nothing begins it anew behind the user's back


def test_a_folder_that_is_moved_goes_on_where_it_is_now(data, tmp_path, whole):
    run, moved = str(tmp_path / "run"), str(tmp_path / "moved")
    with pytest.raises(CheckpointError):
        testing.train(acting(6, lambda: os.rename(run, moved)), run, data=data, **OPTIONS)
    testing.train(Linear, moved)
    assert left_of(moved) == whole


def test_a_folder_that_must_not_be_written_is_refused_before_anything_is_built(
    data, tmp_path, monkeypatch
):
    run = str(tmp_path / "run")
    testing.train(Linear, run, data=data, **OPTIONS)

    def refuse(path, mode="r", **named):
        if mode != "r":
            raise OSError(30, "Read-only file system")
        return open(path, mode, **named)

    monkeypatch.setattr("toolkit.storage.run_folder.open", refuse, raising=False)
    with pytest.raises(RetryError, match="cannot be written: Read-only file system"):
        testing.trainer(Linear, run, steps=20)


def test_memory_that_runs_out_is_told_with_a_way_out(data, tmp_path):
    run = str(tmp_path / "run")

    def exhaust():
        raise tf.errors.ResourceExhaustedError(None, None, "OOM when allocating tensor [9, 9]")

    with pytest.raises(RetryError, match="Step 7 needs more memory than there is: OOM") as told:
        testing.train(acting(6, exhaust), run, data=data, **OPTIONS)
    assert told.value.exit_code == 138
    assert RunFolder(run).checkpoints.newest().step == 4


def test_a_clock_that_is_set_back_changes_nothing(data, tmp_path, monkeypatch, whole):
    run = str(tmp_path / "run")
    hours = iter(range(100, 0, -1))
    monkeypatch.setattr("time.time", lambda: 3600.0 * next(hours))
    testing.train(Linear, run, data=data, keep_every_hours=1, **OPTIONS)
    monkeypatch.undo()
    assert left_of(run) == whole


SCRIPT = """
import os, sys
sys.path[:0] = [{tests!r}]
from test_faults import acting
from toolkit import testing

def act():
    {act}

testing.train(acting(6, act), "run", data="npz:bars.npz", steps=12, log_steps=2,
              checkpoint_steps=4, evaluate="no")
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "act, code",
    [
        ("os.kill(os.getpid(), 9)", -signal.SIGKILL),
        ("import ctypes; ctypes.string_at(0)", -signal.SIGSEGV),
        ("os.abort()", -signal.SIGABRT),
        ("os._exit(0)", 0),
    ],
)
def test_a_process_that_is_ended_by_force_leaves_a_run_that_goes_on(data, tmp_path, act, code):
    script = SCRIPT.format(tests=os.path.dirname(os.path.abspath(__file__)), act=act)
    path = os.pathsep.join([os.path.join(REPOSITORY, "tests")] + sys.path)
    ended = subprocess.run(
        [sys.executable, "-c", script],
        cwd=str(tmp_path),
        env=dict(os.environ, PYTHONPATH=path),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        timeout=300,
    )
    assert ended.returncode == code
    run, other = str(tmp_path / "run"), str(tmp_path / "whole")
    folder = RunFolder(run)
    assert not folder.is_locked()
    assert (folder.checkpoints.newest().step, folder.read_manifest()["status"]) == (4, "running")
    testing.train(Linear, run)
    testing.train(Linear, other, data=data, **OPTIONS)
    assert left_of(run) == left_of(other)
