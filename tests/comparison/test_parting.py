"""The step at which two runs parted: bounds from the chains, and what differs from there on."""

import os

import pytest
from synthetic_runs import Session, write_run

from toolkit.comparison.parting import find_parting
from toolkit.comparison.record import read_record

COMMON = {10: "a", 20: "b", 30: "c"}


def parting(a="a", b="b"):
    return find_parting(read_record(a), read_record(b))


def test_equal_runs_have_no_step_at_which_they_parted(here):
    write_run("a", [Session(0, COMMON)])
    write_run("b", [Session(0, COMMON)], log_steps=99)
    result = parting()
    assert (result.step, result.differs_by, result.causes) == (30, None, [])
    assert result.text == "equal, bit for bit, up to step 30, the last of both"


def test_a_resume_with_another_option_is_the_cause_from_its_step_on(here):
    write_run("a", [Session(0, COMMON)])
    changed = Session(20, {30: "x"}, {"learning_rate": 0.5})
    write_run("b", [Session(0, {10: "a", 20: "b"}), changed])
    result = parting()
    assert (result.step, result.differs_by) == (20, 30)
    assert result.text == (
        "equal, bit for bit, up to step 20; from there learning_rate differs (0.01, 0.5)"
    )


@pytest.mark.parametrize(
    "a, b, text",
    [
        (
            ({1200: "a", 1600: "b", 1700: "c"}, {"decay_steps": 1000}),
            ({400: "z", 1200: "a", 1300: "y", 1600: "x"}, {"decay_steps": 1500}),
            "equal, bit for bit, up to step 1,200; they differ by step 1,600: "
            "decay_steps differs (1000, 1500)",
        ),
        (
            ({10: "a"}, {}),
            ({15: "a"}, {"seed": 2}),
            "no step was committed by both, and of the steps that both recorded, if any, none "
            "differs: seed differs (1, 2)",
        ),
        (
            ({20: "a", 40: "b"}, {}),
            ({20: "x", 40: "y"}, {"seed": 2}),
            "they differ already at the first commit of both, step 20: seed differs (1, 2)",
        ),
        (
            ({20: "a"}, {}),
            ({20: "x"}, {"plugin": "gan", "size": 3}),
            "they have nothing in common: other plugins (classifier and gan)",
        ),
        (
            (COMMON, {}),
            ({**COMMON, 40: "d"}, {}),
            "equal, bit for bit, up to step 30, the last that both committed; "
            "b has commits up to step 40",
        ),
        ((COMMON, {}), ({}, {}), "b has no commit yet, so nothing can be compared"),
    ],
)
def test_the_bounds_come_from_the_commits_that_both_have(here, a, b, text):
    for name, (commits, options) in (("a", a), ("b", b)):
        write_run(name, [Session(0, commits)], **options)
    assert parting().text == text


def test_records_of_training_narrow_the_bounds(here):
    records = [{"step": step, "kind": "train", "loss": 1 / step} for step in (12, 14, 16)]
    write_run("a", [Session(0, {10: "a", 20: "b"})], records=records)
    records[1:] = [dict(records[1], loss=9.0), dict(records[2], loss=8.0)]
    write_run("b", [Session(0, {10: "a", 20: "x"})], records=records)
    assert (parting().step, parting().differs_by) == (10, 14)
    assert "the logs show no reason" in parting().text
    records.insert(1, dict(records[0], step=13))  # so the mean of step 14 is one of fewer steps
    write_run("c", [Session(0, {10: "a", 20: "x"})], records=records)
    assert parting("a", "c").differs_by == 16


def test_records_of_evaluations_do_not_count(here):
    record = {"step": 12, "kind": "eval", "split": "validation", "loss": 1.0}
    write_run("a", [Session(0, {10: "a"})], records=[record])
    write_run("b", [Session(0, {10: "a"})], records=[dict(record, loss=2.0)])
    assert parting().differs_by is None


def test_runs_without_a_common_commit_have_bounds_from_their_records(here):
    records = [{"step": 5, "kind": "train", "loss": 1.0}]
    write_run("a", [Session(0, {10: "a"})], records=records)
    write_run("b", [Session(0, {15: "a"})], records=[dict(records[0], loss=2.0)], seed=2)
    result = parting()
    assert (result.step, result.differs_by) == (0, 5)
    assert result.text == "they differ by step 5: seed differs (1, 2)"


@pytest.mark.parametrize(
    "facts, causes",
    [
        ({"machine": {"threads within an op": 4}}, ["threads within an op differs (1, 4)"]),
        ({"versions": {"tensorflow": "1.15.5"}}, ["tensorflow differs (2.21.0, 1.15.5)"]),
        ({"data": {"mnist.csv": "0" * 64}}, ["the data has changed"]),
        ({"partition": "0" * 64}, ["other examples are held out"]),
        ({"compiled": True}, ["compiled by XLA differs (no, yes)"]),
        ({"reader": "stream"}, ["reader differs (resident, stream)"]),
        ({"cluster": {"replicas": 2}}, ["trained by one process before, now by 2 replicas"]),
        (
            {"plugins": {"classifier": {"toolkit_classifier/__init__.py": "b" * 64}}},
            ["plugin 'classifier' has changed (toolkit_classifier/__init__.py)"],
        ),
        ({"machine": {}, "versions": {}, **dict.fromkeys(["partition", "compiled", "reader"])}, []),
    ],
)
def test_what_bits_depend_on_is_named_where_a_session_recorded_it(here, facts, causes):
    write_run("a", [Session(0, {10: "a"})])
    write_run("b", [Session(0, {10: "x"}, facts=facts)])
    assert parting().causes == causes


def test_commits_that_a_later_session_discarded_do_not_count(here):
    write_run("a", [Session(0, COMMON)])
    write_run("b", [Session(0, {10: "a", 20: "x", 30: "x"}), Session(10, {20: "b", 30: "c"})])
    assert parting().differs_by is None


def test_a_branch_is_named_with_the_step_from_which_it_continues(trained, cli):
    os.rename(str(trained / "run"), "a")
    arguments = ["--from", "4", "--run-dir", "b", "--allow", "learning_rate"]
    assert cli("resume", "a", *arguments, "--learning-rate", "0.5").code == 0
    before = os.listdir("a"), os.listdir("b")
    text = parting().text
    assert text.startswith("b is a branch of a from step 4; equal, bit for bit, up to step 4; from")
    assert "learning_rate differs" in text
    assert (os.listdir("a"), os.listdir("b")) == before
