"""A run writes its page at its end, however it ends; nothing depends on the page."""

import os

import numpy as np
import pytest
from linear_fixtures import Linear, write_bars

from toolkit import DivergedError, ToolkitError, hookimpl, save_grid, testing, tf
from toolkit.audit.checks import run_checks
from toolkit.cli import report
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


class Drawing(Linear):
    """Adds a picture to the folder at the very end, and raises its error, if it has one."""

    error = None

    @hookimpl
    def run_ended(self, run):
        save_grid(os.path.join(run.folder, "samples", "last-6.png"), np.zeros([4, 8, 8, 3]))
        if self.error:
            raise self.error


class FailingAtTheEnd(Drawing):
    error = ValueError("too late")


@pytest.fixture()
def data(here):
    return write_bars(here / "data.npz")


def read_page():
    with open("run/report.html", "rb") as file:
        return file.read()


def write_again():
    writer.write_run_page("run", "again.html")
    with open("again.html", "rb") as file:
        return file.read()


def test_the_page_of_the_end_is_the_one_that_is_written_later(data):
    testing.train(Linear, "run", data=data, steps=6)
    assert b'class="pill finished"' in read_page() and read_page() == write_again()
    folder = RunFolder(os.path.abspath("run"))
    assert [fault for check in run_checks(folder) for fault in check.faults] == []


def test_the_page_has_the_pictures_of_the_last_hook(data):
    testing.train(Drawing, "run", data=data, steps=6)
    assert b"Samples by step: last" in read_page() and read_page() == write_again()


def test_a_last_hook_that_fails_leaves_the_page(data):
    with pytest.raises(ToolkitError, match="run_ended.*too late"):
        testing.train(FailingAtTheEnd, "run", data=data, steps=6)
    assert b"Samples by step: last" in read_page() and read_page() == write_again()


def test_a_run_that_failed_or_was_interrupted_has_its_page(data):
    with pytest.raises(DivergedError):
        testing.train(Diverging, "run", data=data, steps=6)
    assert b'class="pill diverged"' in read_page() and read_page() == write_again()


def test_an_interrupted_test_leaves_a_page(data):
    with pytest.raises(KeyboardInterrupt):
        testing.train(Interrupted, "run", data=data, steps=6)
    assert b'class="pill trained"' in read_page()


def test_a_run_that_ends_before_its_loop_has_the_page_that_is_written_later(data, monkeypatch):
    def fail(*arguments):
        raise RetryError("The disk is full.")

    monkeypatch.setattr(run_log, "write_copies", fail)
    with pytest.raises(RetryError):
        testing.train(Linear, "run", data=data, steps=6)
    assert b'class="pill running"' not in read_page()
    assert report.render_runs(["run"])[1] == read_page()


def test_a_resume_writes_the_page_again(data):
    testing.train(Linear, "run", data=data, steps=6, pause_at=3)
    assert b'class="pill stopped"' in read_page()
    testing.train(Linear, "run", data=data, steps=6)
    assert b'class="pill finished"' in read_page() and read_page() == write_again()


def test_no_page_leaves_it_out(data):
    testing.train(Linear, "run", data=data, steps=2, page="no")
    assert not os.path.exists("run/report.html")


def test_a_page_that_cannot_be_written_is_one_warning(data, monkeypatch):
    lines = []

    def fail(folder, path):
        raise ToolkitError("A reason.")

    monkeypatch.setattr(writer, "write_run_page", fail)
    import toolkit

    toolkit.train(Linear(), "run", {"data": data, "steps": 2}, say=lines.append)
    assert [line for line in lines if "report.html" in line] == [
        "warning: report.html is not written: A reason."
    ]
    assert RunFolder(os.path.abspath("run")).state()["status"] == "finished"
