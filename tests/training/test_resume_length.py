"""A run that continues with another length, or with XLA switched: what the log says of it."""

from __future__ import annotations

import pytest
from file_fixtures import read_json
from linear_fixtures import LINEAR, Linear, write_bars
from run_fixtures import sessions, write_plugin

import toolkit
from toolkit import UsageError
from toolkit.compat import VERSION_FAMILY
from toolkit.storage.session_changes import find_session_changes

ONLY_2 = pytest.mark.skipif(VERSION_FAMILY == "1.15", reason="XLA compiles steps on 2.x alone")


@pytest.fixture
def run(golden):
    """A run of 8 steps with a cosine, which ends at sin(pi / 16)^2 = 3.81 % of the full rate."""
    return golden("--steps", 8, "--schedule", "cosine", "--no-evaluate") / "run"


RATES = "learning rate is 50 % of the full rate after step 8, and was 3.81 % before"


def test_a_longer_run_whose_rate_would_jump_is_refused(cli, run):
    before = (run / "commits.jsonl").read_text(), (run / "manifest.json").read_text()
    result = cli("resume", run, "--steps", 16)
    assert result.code == 2
    assert f"With this length the {RATES}: the cosine schedule follows" in result.err
    assert result.err.endswith("Allow it with --allow steps, or start a new run.\n")
    assert ((run / "commits.jsonl").read_text(), (run / "manifest.json").read_text()) == before


@pytest.mark.parametrize("flags", [["--steps", 16], ["--epochs", "3.2"]])
def test_a_jump_of_the_rate_that_is_allowed_is_noted(cli, run, flags):
    name = flags[0][2:]
    more = [] if name == "steps" else ["--steps", "none"]
    result = cli("resume", run, *flags, *more, "--allow", name)
    assert result.code == 0, result.err
    assert f"note   the {RATES}: " in result.err
    assert read_json(run, "manifest.json")["total_steps"] == 16
    # The length is now that of the run.
    assert RATES not in cli("resume", run, "--steps", 16).err


SCHEDULE = """
    @hookimpl
    def optimize(self, losses, run):
        return run.minimize(losses, schedule="{}")
"""


@pytest.mark.parametrize(
    "own, of_run, code", [("cosine", "constant", 2), ("constant", "cosine", 0)]
)
def test_the_schedule_that_counts_is_that_of_the_updates(cli, here, own, of_run, code):
    plugin = write_plugin(SCHEDULE.format(own))
    argv = ["--plugin", plugin, "--data", write_bars("bars.npz"), "--run-dir", "run"]
    assert cli("run", *argv, "--steps", 8, "--schedule", of_run, "--no-evaluate").code == 0
    result = cli("resume", "run", "--steps", 16)
    assert (result.code, f"With this length the {RATES}" in result.err) == (code, code == 2)


def test_training_in_code_refuses_the_jump_too(run):
    with pytest.raises(UsageError, match=f"With this length the {RATES}"):
        toolkit.train(LINEAR, str(run), {"steps": 16})


def test_a_run_that_time_ends_says_how_high_its_rate_still_is(here):
    lines = []
    options = {"data": write_bars("bars.npz"), "steps": 10**7, "max_secs": 0.01, "evaluate": "no"}
    summary = toolkit.train(Linear, "run", dict(options, schedule="cosine"), lines.append)
    (note,) = [line for line in lines if "learning rate" in line]
    assert note == (
        f"note   the learning rate is still 100 % of the full rate at step {summary['steps']}; the "
        "cosine schedule ends at 2.46e-12 % after step 10000000"
    )


def test_a_pause_and_a_complete_run_say_nothing_of_the_rate(cli, here):
    argv = ["--plugin", LINEAR, "--data", write_bars("bars.npz"), "--run-dir", "run"]
    argv += ["--schedule", "cosine", "--no-evaluate", "--steps", 8]
    assert "learning rate" not in cli("run", *argv, "--pause-at", 4).err
    assert "learning rate" not in cli("resume", "run").err


def test_unexpected_lengths_are_noted_before_the_first_step(here):
    lines = []
    options = {"data": write_bars("bars.npz"), "steps": 5, "evaluate": "no", "accumulate": 2}
    toolkit.train(Linear, "run", dict(options, warmup_steps=9), lines.append)
    assert [line for line in lines if line.startswith("note")] == [
        "note   the last step changes no weight: --accumulate makes one update of 2 gradients, "
        "and 5 steps have 5",
        "note   the warm-up of 9 steps is longer than the run: the learning rate ends at 55.6 % of "
        "the full rate",
    ]


@pytest.mark.parametrize(
    "before, now, changes",
    [
        (False, True, ["compiled by XLA was no, now yes"]),
        (True, False, ["compiled by XLA was yes, now no"]),
        (True, True, []),
        (None, True, []),  # it is not recorded
    ],
)
def test_a_session_that_is_compiled_unlike_the_one_before_is_not_exact(before, now, changes):
    facts = {"versions": {}, "machine": {}, "plugins": {}, "data": {}, "partition": ""}
    session = facts if before is None else dict(facts, compiled=before)
    assert find_session_changes(session, dict(facts, compiled=now)) == changes


@ONLY_2
def test_a_resume_with_xla_says_that_exactness_ends(cli, run):
    result = cli("resume", run, "--steps", 16, "--allow", "steps", "--xla", "on")
    assert result.code == 0, result.err
    assert "note   no longer bit-exact from here: compiled by XLA was no, now yes" in result.err
    assert [session["compiled"] for session in sessions(run)] == [False, True]
