"""Fixtures of all tests: a graph of one's own, the command line in-process, one trained run."""

from __future__ import annotations

import os
import shutil
import sys
from typing import NamedTuple

import pytest

from toolkit.cli import run_command

sys.path.insert(0, os.path.dirname(__file__))


class Result(NamedTuple):
    """What a command left: its exit code and what it wrote."""

    code: int
    out: str
    err: str


@pytest.fixture(scope="session", autouse=True)
def _one_thread_within_an_op():
    """As a command has it that trains a small model: the first session chooses for the process, and
    the order of sums depends on it.
    """
    from toolkit import tf

    with tf.Graph().as_default():
        tf.Session(config=tf.ConfigProto(intra_op_parallelism_threads=1)).close()


@pytest.fixture
def graph():
    """A fresh graph as the default one."""
    from toolkit import tf

    with tf.Graph().as_default() as fresh:
        yield fresh


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty working directory; no option comes from the environment, no import stays."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name in list(os.environ):
        if name.startswith("TOOLKIT_"):
            monkeypatch.delenv(name)
    yield tmp_path
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None) or "").startswith(str(tmp_path)):
            del sys.modules[name]


@pytest.fixture
def cli(here, capsys):
    """`cli("run", "--steps", "3")` -> Result, in this process and in the folder `here`."""

    def call(*argv):
        capsys.readouterr()
        code = run_command([str(argument) for argument in argv])
        captured = capsys.readouterr()
        return Result(code, captured.out, captured.err)

    return call


@pytest.fixture(scope="session")
def _trained(tmp_path_factory):
    """The linear plugin after 6 steps, saved every 2, with the best by accuracy; read-only."""
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
    """A copy of the trained run, beside its data: `trained / "run"` and `trained / "bars.npz"`."""
    folder = tmp_path / "trained"
    shutil.copytree(str(_trained), str(folder))
    return folder
