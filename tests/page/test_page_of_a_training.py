"""A run writes its page at its end, however it ends; nothing depends on the page."""

import os
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from linear_fixtures import Linear

from toolkit import DivergedError, ToolkitError, hookimpl, save_grid, testing, tf, train
from toolkit.audit.checks import run_checks
from toolkit.cli import report
from toolkit.comparison.record import read_runs
from toolkit.errors import RetryError
from toolkit.page import writer
from toolkit.storage.run_folder import RunFolder
from toolkit.training import run_log


class Diverging(Linear):
    @hookimpl
    def loss(self, labels, outputs):
        return Linear.loss(self, labels, outputs) / tf.constant(0.0)


class Interrupted(Linear):
    @hookimpl
    def evaluated(self, split):
        raise KeyboardInterrupt


class FailingAtTheEnd(Linear):
    """Adds a picture to the folder at the very end, and fails."""

    @hookimpl
    def run_ended(self, run):
        save_grid(os.path.join(run.folder, "samples", "last-6.png"), np.zeros([4, 8, 8, 3]))
        raise ValueError("too late")


def read_page():
    return Path("run/report.html").read_bytes()


def write_again():
    writer.write_run_page("run", "again.html")
    return Path("again.html").read_bytes()


def has_status(status):
    return f'class="pill {status}"'.encode() in read_page()


@pytest.mark.parametrize(
    "plugin, error, text, status",
    [
        (FailingAtTheEnd, ToolkitError, "run_ended.*too late", "finished"),
        (Diverging, DivergedError, "loss", "diverged"),
        (Interrupted, KeyboardInterrupt, "^$", "trained"),
    ],
)
def test_the_page_of_each_end_is_the_one_that_is_written_later(data, plugin, error, text, status):
    with pytest.raises(error, match=text):
        testing.train(plugin, "run", data=data, steps=6)
    assert has_status(status) and read_page() == write_again()
    assert (b"Samples by step: last" in read_page()) == (plugin is FailingAtTheEnd)


def test_a_run_that_ends_before_its_loop_has_the_page_that_is_written_later(data, monkeypatch):
    full = mock.Mock(side_effect=RetryError("The disk is full."))
    monkeypatch.setattr(run_log, "write_copies", full)
    with pytest.raises(RetryError):
        testing.train(Linear, "run", data=data, steps=6)
    assert not has_status("running")
    assert report.render_runs(read_runs(["run"]))[1] == read_page()


def test_a_resume_writes_the_page_again(data):
    testing.train(Linear, "run", data=data, steps=6, pause_at=3)
    assert has_status("stopped")
    testing.train(Linear, "run", data=data, steps=6)
    assert has_status("finished") and read_page() == write_again()
    checks = run_checks(RunFolder(os.path.abspath("run")))
    assert [fault for check in checks for fault in check.faults] == []


def test_no_page_leaves_it_out(data):
    testing.train(Linear, "run", data=data, steps=2, page="no")
    assert not os.path.exists("run/report.html")


def test_a_page_that_cannot_be_written_is_one_warning(data, monkeypatch):
    lines = []
    monkeypatch.setattr(writer, "write_run_page", mock.Mock(side_effect=ToolkitError("A reason.")))
    train(Linear(), "run", {"data": data, "steps": 2}, say=lines.append)
    assert [line for line in lines if "report.html" in line] == [
        "warning: report.html is not written: A reason."
    ]
    assert RunFolder(os.path.abspath("run")).state()["status"] == "finished"
    log = Path("run/console.log").read_text("utf-8")
    assert all(line in log for line in lines)
