"""A training that is called from Python shows itself where somebody looks."""

from __future__ import annotations

import builtins
import io
import sys

import pytest
from linear_fixtures import LINEAR, write_bars

import toolkit


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def watch(here, monkeypatch):
    """A function that trains, and returns what stdout and stderr got."""

    def call(stream=io.StringIO, **more):
        streams = io.StringIO(), stream()
        data = write_bars("bars.npz")
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", streams[0])
            patch.setattr(sys, "stderr", streams[1])
            toolkit.train(LINEAR, "run", {"data": data, "steps": 2}, **more)
        return [each.getvalue() for each in streams]

    return call


def test_it_is_silent_where_nobody_looks(watch):
    assert watch() == ["", ""]


def test_in_ipython_it_shows_its_lines(watch, monkeypatch):
    monkeypatch.setattr(builtins, "get_ipython", object, raising=False)
    out, err = watch()
    assert err == "" and out.startswith("run    run\n") and "step 2/2  loss " in out


def test_on_a_terminal_it_shows_itself(watch, monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    out, err = watch(Terminal)
    assert out == "" and "run    run" in err and "2/2" in err


def test_a_function_gets_the_lines_alone(watch):
    lines = []
    assert watch(say=lines.append) == ["", ""]
    assert lines[0] == "run    run" and any("validation" in line for line in lines)
