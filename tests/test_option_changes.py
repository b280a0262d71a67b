"""What a resume refuses without a permission: on the command line and in `toolkit.train`."""

from __future__ import annotations

import math
from pathlib import Path
from typing import List

import pytest
from file_fixtures import edit, read_json, sha256s
from linear_fixtures import LINEAR, Linear, LinearOptions, write_bars
from run_fixtures import sessions, write_plugin

import toolkit
from toolkit import UsageError, hookimpl, option
from toolkit.options import merge


class Quiet:
    """An extension that does nothing."""

    @hookimpl
    def run_finished(self, run, summary):
        pass


@pytest.fixture
def train_as(here):
    """A function that trains a plugin in the folder `r`."""
    data = write_bars("bars.npz")
    return lambda plugin, **options: toolkit.train(plugin, "r", dict(options, data=data))


def train_linear(plugin=LINEAR, extensions=(), **options):
    options = dict(options, data=write_bars("bars.npz"), evaluate=False)
    return toolkit.train(plugin, "r", options, extensions=extensions)


def first_call():
    train_linear(steps=4, log_steps=2)


@pytest.fixture
def train(made_once, here, monkeypatch):
    """A function that trains the linear plugin in the folder `r`, as its first call did."""
    monkeypatch.chdir(made_once(first_call))
    return train_linear


@pytest.mark.parametrize(
    "options, message",
    [
        ({"learning_rate": 0.5}, "learning_rate was 0.02, now 0.5."),
        ({"gain": 3}, "gain was 1.0, now 3.0."),
        (
            {"learning_rate": 0.5, "batch_size": 4},
            "batch_size was 8, now 4; learning_rate was 0.02, now 0.5.",
        ),
    ],
)
def test_train_refuses_other_options_than_those_of_the_run(train, options, message):
    before = sha256s("r")
    with pytest.raises(UsageError) as caught:
        train(steps=8, **options)
    assert caught.value.message == f"The run was trained with other options: {message}"
    assert caught.value.hint.endswith(f"allow={sorted(options)}.")
    assert sha256s("r") == before


def test_a_change_to_or_from_an_empty_list_says_none(train):
    with pytest.raises(UsageError, match="freeze was none, now x/."):
        train(steps=8, freeze=["x/*"])


def test_train_accepts_what_a_resume_may_change(train):
    summary = train(steps=6, log_steps=3)
    assert summary["steps"] == 6
    assert read_json("r", "config.json")["log_steps"] == 3


def test_train_continues_with_the_options_of_the_run_where_none_is_set(train):
    assert train(steps=6)["steps"] == 6
    config = read_json("r", "config.json")
    assert config["log_steps"] == 2
    assert config["origins"]["log_steps"] == "option log_steps"
    assert config["origins"]["learning_rate"] == "plugin Linear"


def test_train_refuses_another_plugin_and_other_extensions(train):
    with pytest.raises(UsageError, match="options: plugin was linear_fixtures:Linear, now ./mine"):
        train(plugin=write_plugin(), steps=8)
    with pytest.raises(UsageError, match="options: with was none, now quiet."):
        train(extensions=[Quiet], steps=8)
    assert len(sessions(Path("r"))) == 1


def test_train_accepts_the_runs_plugin_as_an_object(train):
    assert train(plugin=Linear, steps=6)["steps"] == 6
    assert train(plugin=Linear(), steps=6)["steps"] == 6
    assert train(plugin=LINEAR, steps=6)["steps"] == 6


def test_a_plugin_file_by_another_path_is_the_same_plugin(here, monkeypatch):
    data, plugin = write_bars("bars.npz"), write_plugin()
    toolkit.train(plugin, "r", {"data": data, "steps": 2})
    (here / "link.py").symlink_to(here / "mine.py")
    for other in ("mine.py", str(here / "mine.py"), "link.py"):
        steps = toolkit.train(other, "r", {"steps": 4})["steps"]
        assert steps == 4, other


class BoundedOptions(LinearOptions):
    bound: float = option(math.inf, "a number", allow_infinite=True)
    bounds: List[float] = option([math.nan], "numbers", allow_infinite=True)


class Bounded(Linear):
    @hookimpl
    def options(self):
        return BoundedOptions


def test_an_infinite_option_that_stays_is_no_change(train_as, cli):
    train_as(Bounded, steps=2)
    assert train_as(Bounded, steps=4)["steps"] == 4
    assert train_as("test_option_changes:Bounded", steps=6)["steps"] == 6
    assert cli("resume", "r", "--steps", 8, "--trust").code == 0
    with pytest.raises(UsageError, match="bound was inf, now -inf; bounds was nan, now 1.0\\."):
        train_as(Bounded, steps=8, bound="-inf", bounds=[1.0])


class TabledOptions(LinearOptions):
    table: str = option("", "a file", path=True)


class Tabled(Linear):
    @hookimpl
    def options(self):
        return TabledOptions


def test_a_file_by_another_path_is_no_change_for_a_resume_a_replay_and_the_checks(
    train_as, cli, here, monkeypatch
):
    options = merge([("tabled", TabledOptions)])
    for room in ("replay", "checks"):
        monkeypatch.setattr(f"toolkit.audit.{room}.declared_options", lambda config: options)
    (here / "table.txt").write_text("1")
    (here / "link.txt").symlink_to("table.txt")
    plugin = "test_option_changes:Tabled"
    argv = ["--plugin", plugin, "--table", "table.txt", "--data", "npz:bars.npz", "--steps", 4]
    assert cli("run", *argv, "--pause-at", 2, "--run-dir", "r").code == 0
    train_as(plugin, steps=4, table="link.txt")
    before, now = (session["options"]["table"] for session in sessions(here / "r"))
    assert before != now
    result = cli("verify", "r", "--replay", "0:4", "--trust")
    assert result.code == 0, result.err
    edit(here / "r" / "config.json", '"../link.txt"', '"../table.txt"')
    assert cli("verify", "r").code == 0
    edit(here / "r" / "config.json", '"../table.txt"', '"../bars.npz"')
    assert "table is ../bars.npz, but the last session had" in cli("verify", "r").err
