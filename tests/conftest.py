"""Fixtures for all tests: a fresh graph, the command line in this process, a trained run."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from typing import NamedTuple

import pytest

from toolkit.cli import run_command

sys.path.insert(0, os.path.dirname(__file__))

pytest_plugins = ["toolkit.testing.fixtures"]

# A shell ignores Ctrl-C for its jobs in the background, nohup the end of its terminal, and so would
# the processes that tests start and interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """With `--dist loadfile`, begin with the longest files."""
    if config.getvalue("dist") != "loadfile":
        return None
    from schedule_fixtures import LongFilesFirst

    return LongFilesFirst(config, log)


def pytest_collection_modifyitems(config, items):
    """Leave the tests of another share of CI to it."""
    from share_fixtures import leave_out_others

    leave_out_others(config, items)


class Result(NamedTuple):
    """The exit code of a command, and what it wrote to stdout and stderr."""

    code: int
    out: str
    err: str


@pytest.fixture(scope="session", autouse=True)
def _one_thread_within_an_op():
    """Use one intra-op thread, like a command that trains a small model.

    The first session decides for the process, and the order of sums depends on the number.
    """
    from toolkit import tf

    with tf.Graph().as_default():
        tf.Session(config=tf.ConfigProto(intra_op_parallelism_threads=1)).close()


@pytest.fixture(scope="session", autouse=True)
def _state_folder(tmp_path_factory):
    """Record the plugins that tests run in a folder of the tests."""
    before = os.environ.get("XDG_STATE_HOME")
    os.environ["XDG_STATE_HOME"] = str(tmp_path_factory.mktemp("state"))
    yield
    if before is None:
        del os.environ["XDG_STATE_HOME"]
    else:
        os.environ["XDG_STATE_HOME"] = before


@pytest.fixture
def graph():
    """A fresh default graph."""
    from toolkit import tf

    with tf.Graph().as_default() as fresh:
        yield fresh


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty working directory, no options or cluster in the environment; imports are undone."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    for name in list(os.environ):
        if name.startswith(("TOOLKIT_", "TF_CONFIG", "SLURM_")):
            monkeypatch.delenv(name)
    yield tmp_path
    from file_fixtures import forget_modules

    forget_modules(tmp_path)


@pytest.fixture
def cli(here, capsys):
    """A function that runs a command in this process: `cli("run", "--steps", "3")` -> Result."""

    def call(*argv):
        capsys.readouterr()
        code = run_command([str(argument) for argument in argv])
        captured = capsys.readouterr()
        return Result(code, captured.out, captured.err)

    return call


@pytest.fixture(scope="session")
def _trained(tmp_path_factory):
    """The linear plugin after 6 steps, with checkpoints every 2 and the best one; read-only."""
    from linear_fixtures import LINEAR, write_bars

    folder = tmp_path_factory.mktemp("trained")
    before = os.getcwd()
    os.chdir(str(folder))
    try:
        argv = ["run", "--plugin", LINEAR, "--data", write_bars("bars.npz"), "--run-dir", "run"]
        argv += ["--steps", "6", "--best-metric", "accuracy", "--eval-batch-size", "5"]
        assert run_command(argv) == 0
    finally:
        os.chdir(before)
    return folder


@pytest.fixture
def trained(_trained, tmp_path):
    """A copy of the trained run and its data: `trained / "run"`, `trained / "bars.npz"`."""
    folder = tmp_path / "trained"
    shutil.copytree(str(_trained), str(folder))
    return folder
