"""A training that is called from Python shows itself where somebody looks."""

import io
import os
import sys
import types
from contextlib import redirect_stderr, redirect_stdout

import numpy as np
import pytest
from linear_fixtures import LINEAR, Linear

import toolkit
from toolkit import hookimpl


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def watch(data):
    """A function that trains, and returns what stdout and stderr got."""

    def call(stream=io.StringIO, run_dir="run", **more):
        with redirect_stdout(io.StringIO()) as out, redirect_stderr(stream()) as err:
            toolkit.train(LINEAR, run_dir, {"data": data, "steps": 2, "steps_per_call": 1}, **more)
        return [out.getvalue(), err.getvalue()]

    return call


def test_a_plugin_may_change_the_working_directory(data):
    class Mover(Linear):
        @hookimpl
        def build(self, run):
            os.chdir("/")
            return Linear.build(self, run)

    assert toolkit.train(Mover, "run", data=data, steps=1, evaluate="no", say=False).step == 1


def test_it_is_silent_where_there_is_no_stderr_to_say_something(data, monkeypatch):
    monkeypatch.setattr(sys, "stderr", None)
    assert toolkit.train(LINEAR, "run", data=data, steps=1, evaluate="no", say=True).step == 1


@pytest.mark.parametrize("highest, count", [(16, 1), (64, 0)])
def test_dark_images_get_a_note(here, highest, count):
    arrays, lines = (np.full((12, 4, 4, 1), highest, np.uint8), np.arange(12) % 3), []
    toolkit.train(LINEAR, "run", data=arrays, steps=1, evaluate="no", say=lines.append)
    note = "data   the images are dark, with values up to 16 of 255, as of 12 bits in 16; "
    assert lines.count(note + "see --normalize") == count


def test_in_a_notebook_it_shows_its_lines_and_progress_in_one_place(watch, monkeypatch):
    shell = types.SimpleNamespace(kernel=None)
    notebook = types.SimpleNamespace(get_ipython=lambda: shell)
    monkeypatch.setitem(sys.modules, "IPython", notebook)
    out, err = watch()
    assert err == "" and out.startswith("run    run\n") and "\ntest    accuracy " in out
    assert "\rstep 2/2  loss " in out and "\nstep 2/2" not in out
    assert watch(say=False, run_dir="other") == ["", ""]


def test_on_a_terminal_it_shows_itself(watch, monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    out, err = watch(Terminal)
    assert out == "" and "run    run" in err and "step 0/2" in err
