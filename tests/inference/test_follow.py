"""`evaluate --follow`: the checkpoints of a run that another process trains."""

from __future__ import annotations

import functools
import json
import os
import shutil
import signal

import numpy as np
import process_fixtures
import pytest
from file_fixtures import read_json, sha256s
from linear_fixtures import LINEAR, Linear, bars, expected_logits, write_bars
from run_fixtures import EXTRA, UNCHANGED, set_manifest, write_plugin

from toolkit import Scorer, ScoreResult, ToolkitError, hookimpl, testing
from toolkit.cli import follow as follow_module
from toolkit.inference.evaluator import Evaluator
from toolkit.storage.checkpoint_feed import CheckpointFeed
from toolkit.storage.run_folder import RunFolder

LABELS = np.arange(7) * 7 % 3  # of the validation split that write_bars writes
DEAD = {"status": "running", "summary": None, "metrics": None, "exit_code": None}


def commits_path(run):
    return str(run / "commits.jsonl")


class Growth:
    """A run that has ended, shown entry by entry, one more each time that the feed waits."""

    def __init__(self, run, count=0):
        self.run, self.end = run, read_json(run, "manifest.json")
        with open(commits_path(run)) as file:
            self.lines = file.readlines()
        self.now = 0.0
        self.at_step = {}  # step -> what else happens when it is committed
        set_manifest(run, **DEAD)
        self.show(count)

    def sleep(self, secs):
        self.now += secs
        if self.count < len(self.lines):
            self.show(self.count + 1)
            entry = json.loads(self.lines[self.count - 1])
            self.at_step.get(entry.get("step"), lambda: None)()
        else:
            set_manifest(self.run, **self.end)

    def show(self, count):
        """Let the commit log have its first entries alone."""
        self.count = count
        with open(commits_path(self.run), "w") as file:
            file.writelines(self.lines[:count])


@pytest.fixture
def grow(monkeypatch):
    """`grow(run, count)`: a `Growth` that is driven by the feed of `evaluate --follow`."""

    def start(run, count=0):
        growth = Growth(run, count)
        feed = functools.partial(CheckpointFeed, clock=lambda: growth.now, sleep=growth.sleep)
        monkeypatch.setattr(follow_module, "CheckpointFeed", feed)
        return growth

    return start


@pytest.fixture
def run(trained):
    return trained / "run"


def records(run):
    with open(str(run / "evaluations.jsonl")) as file:
        return [json.loads(line) for line in file]


def steps(run):
    return [record["step"] for record in records(run)]


def expected_accuracy(run, step):
    predicted = expected_logits(run, bars(LABELS, seed=1), step).argmax(axis=1)
    return np.mean(predicted == LABELS)


# ------------------------------------------------------------------------------------- the results


def test_each_checkpoint_is_evaluated_when_it_is_committed(cli, run, grow):
    grow(run)
    result = cli("evaluate", run, "--follow")
    assert result.code == 0
    lines = result.out.splitlines()
    assert [line.partition("step ")[2] for line in lines] == ["2)", "4)", "6)"]
    for step, line in zip((2, 4, 6), lines):
        assert line.startswith(f"validation accuracy {expected_accuracy(run, step):.4f}  loss ")
    assert result.err.endswith("is finished: reached step 6; 3 checkpoints were evaluated.\n")


def test_only_its_own_file_is_written_and_verify_knows_it(cli, run, grow):
    before = sha256s(run)
    grow(run)
    assert cli("evaluate", run, "--follow").code == 0
    after = sha256s(run)
    assert set(after) - set(before) == {str(run / "evaluations.jsonl")}
    changed = {path for path in before if before[path] != after[path]}
    assert changed <= {str(run / "manifest.json")}  # which the fixture has written in another form
    result = cli("verify", run)
    assert result.code == 0 and "evaluations 3 records, not sealed" in result.out


def test_json_lines_are_the_records_with_the_run(cli, run, grow):
    grow(run)
    result = cli("evaluate", run, "--follow", "--json")
    objects = [json.loads(line) for line in result.out.splitlines()]
    assert [dict(record, run=objects[0]["run"]) for record in records(run)] == objects
    assert os.path.samefile(objects[0]["run"], str(run))
    first = objects[0]
    assert (first["step"], first["split"], first["examples"]) == (2, "validation", 7)
    assert first["tensors"] == RunFolder(str(run)).commits.find_commit(2).tensors


def test_the_metrics_are_those_of_an_evaluation_of_the_step(cli, run):
    result = cli("evaluate", run, "--follow", "--every", "--split", "test", "--json")
    assert result.code == 0
    for line in result.out.splitlines():
        value = json.loads(line)
        single = cli("evaluate", run, "--checkpoint", value["step"], "--split", "test", "--json")
        assert json.loads(single.out)["metrics"] == value["metrics"]


def test_other_data_is_evaluated_as_without_follow(cli, run, here):
    data = write_bars(here / "other.npz", test=5)
    value = json.loads(cli("evaluate", run, "--follow", "--json", "--data", data).out)
    assert (value["split"], value["examples"], value["data"]) == ("test", 5, data)


def test_who_falls_behind_takes_the_newest_and_names_the_others(cli, run):
    result = cli("evaluate", run, "--follow")
    assert result.out.endswith("step 6; left out: 2, 4)\n") and result.code == 0
    assert result.err.endswith("1 checkpoint was evaluated, 2 left out.\n")
    assert records(run)[0]["left_out"] == [2, 4]


def test_a_second_time_no_checkpoint_is_evaluated_again(cli, run, grow):
    assert cli("evaluate", run, "--follow").code == 0
    result = cli("evaluate", run, "--follow")
    assert (result.code, result.out, steps(run)) == (0, "", [6])
    assert result.err.startswith("Evaluated before: step 6 (")
    assert cli("evaluate", run, "--follow", "--split", "test").code == 0
    assert cli("evaluate", run, "--follow", "--every").code == 0
    assert steps(run) == [6, 6, 2, 4]


def test_an_evaluator_that_is_restarted_continues(cli, run, grow):
    growth = grow(run, 2)
    growth.at_step = {4: lambda: os.kill(os.getpid(), signal.SIGINT)}
    result = cli("evaluate", run, "--follow")
    assert (result.code, result.err) == (130, "Interrupted; 1 checkpoint was evaluated.\n")
    growth.at_step = {}
    assert cli("evaluate", run, "--follow").code == 0
    assert steps(run) == [2, 4, 6]


def test_one_graph_is_built_for_all_checkpoints_of_a_session(cli, run, grow, monkeypatch):
    built, build = [], Evaluator.__init__

    def count(evaluator, *arguments, **named):
        built.append(1)
        build(evaluator, *arguments, **named)

    monkeypatch.setattr(Evaluator, "__init__", count)
    grow(run)
    assert cli("evaluate", run, "--follow").code == 0
    assert len(built) == 1 and steps(run) == [2, 4, 6]


REPORTING = """
import os
from toolkit import hookimpl

@hookimpl
def evaluated(folder, metrics):
    with open(os.path.join(folder, "metrics.txt"), "w") as file:
        file.write(str(metrics))
    return {"folder": folder}
"""


def test_reports_are_written_for_the_plugin_and_not_kept(cli, here):
    with open("reporting.py", "w") as file:
        file.write(REPORTING)
    argv = ["--plugin", LINEAR, "--with", "./reporting.py", "--data", write_bars("bars.npz")]
    assert cli("run", *argv, "--steps", 4, "--run-dir", "run").code == 0
    before = sha256s(here / "run")
    result = cli("evaluate", "run", "--follow", "--json", "--split", "test")
    assert result.code == 0
    assert not os.path.exists(json.loads(result.out)["folder"])
    after = sha256s(here / "run")
    assert {path: after[path] for path in before} == before and len(after) == len(before) + 1
    assert cli("verify", "run").code == 0


# --------------------------------------------------------------------------------- what may happen


def delete_checkpoint(run, step):
    for name in os.listdir(str(run / "checkpoints")):
        if name.startswith(f"model.ckpt-{step}."):
            os.remove(str(run / "checkpoints" / name))


def test_a_checkpoint_that_is_deleted_while_it_is_loaded_is_left_out(cli, run, grow, monkeypatch):
    grow(run, 2)
    restore, paths = Evaluator._restore, []

    def restore_late(evaluator, path):
        paths.append(path)
        if len(paths) == 1:
            delete_checkpoint(run, 2)
        restore(evaluator, path)

    monkeypatch.setattr(Evaluator, "_restore", restore_late)
    result = cli("evaluate", run, "--follow")
    assert result.code == 0 and "warning" not in result.err
    assert [os.path.basename(path) for path in paths] == [f"model.ckpt-{n}" for n in (2, 4, 6)]
    assert [record.get("left_out") for record in records(run)] == [[2], None]


def resume_with(cli, plugin, *flags):
    write_plugin(plugin)
    assert cli("resume", "run", "--trust", "--steps", 8, *flags).code == 0


@pytest.fixture
def file_run(cli, here, monkeypatch):
    """A run of four steps of a plugin in a file, `run`."""
    monkeypatch.setattr("sys.dont_write_bytecode", True)
    argv = ["--plugin", write_plugin(UNCHANGED), "--data", write_bars("bars.npz")]
    assert cli("run", *argv, "--steps", 4, "--run-dir", "run").code == 0
    return here / "run"


def test_a_checkpoint_of_an_earlier_session_with_another_model_is_left_out(cli, file_run, grow):
    resume_with(cli, EXTRA, "--init-new")
    growth = grow(file_run)
    kinds = [json.loads(line)["kind"] for line in growth.lines]
    assert kinds[:4] == ["session", "commit", "commit", "seal"]
    growth.show(5)  # the resume has begun, and committed nothing
    result = cli("evaluate", "run", "--follow", "--trust")
    assert result.code == 0 and steps(file_run) == [6, 8]
    assert "warning: step 4 is left out: " in result.err


def test_the_options_of_a_resume_hold_from_its_first_checkpoint(cli, here, grow):
    argv = ["--plugin", LINEAR, "--data", write_bars("bars.npz"), "--run-dir", "run"]
    assert cli("run", *argv, "--steps", 4).code == 0
    shutil.copy("run/config.json", "former.json")
    assert cli("resume", "run", "--steps", 8, "--gain", 3, "--allow", "gain").code == 0
    shutil.copy("run/config.json", "latter.json")
    growth = grow(here / "run", 3)
    shutil.copy("former.json", "run/config.json")
    growth.at_step = {4: lambda: shutil.copy("latter.json", "run/config.json")}
    result = cli("evaluate", "run", "--follow", "--json")
    for line in result.out.splitlines():
        value = json.loads(line)
        shutil.copy(f"{'former' if value['step'] == 4 else 'latter'}.json", "run/config.json")
        argv = ["--checkpoint", value["step"], "--split", "validation", "--json"]
        assert json.loads(cli("evaluate", "run", *argv).out)["metrics"] == value["metrics"]
    assert steps(here / "run") == [4, 6, 8]


def test_the_plugin_of_a_run_is_trusted_as_in_any_command(cli, file_run, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "other"))
    result = cli("evaluate", "run", "--follow")
    assert result.code == 2 and "--trust" in result.err
    assert cli("evaluate", "run", "--follow", "--trust").code == 0


def test_a_file_that_cannot_be_written_is_a_warning(cli, run):
    os.mkdir(str(run / "evaluations.jsonl"))
    result = cli("evaluate", run, "--follow")
    assert result.code == 0 and "step 6" in result.out
    assert "warning: step 6 is not in evaluations.jsonl: " in result.err


def test_a_link_in_place_of_the_file_is_not_followed(cli, run, here):
    (here / "mine.txt").write_text("mine")
    os.symlink(str(here / "mine.txt"), str(run / "evaluations.jsonl"))
    result = cli("evaluate", run, "--follow")
    assert result.code == 0 and "is a symbolic link" in result.err
    assert (here / "mine.txt").read_text() == "mine"


def test_a_partial_last_line_is_replaced(cli, run):
    (run / "evaluations.jsonl").write_text('{"step": 2, "spl')
    assert cli("evaluate", run, "--follow").code == 0
    assert steps(run) == [6]


@pytest.mark.parametrize(
    "line, fault",
    [
        ("text", "line 2 of evaluations.jsonl is not a record of an evaluation"),
        ('{"step": true, "tensors": ""}', "line 2 of evaluations.jsonl is not a record"),
        (
            '{"step": 6, "tensors": "00"}',
            "evaluates other tensors than the run committed at step 6",
        ),
        ('{"step": -1, "tensors": "00"}', "line 2 of evaluations.jsonl is not a record"),
    ],
)
def test_verify_names_records_of_no_checkpoint_of_the_run(cli, run, line, fault):
    assert cli("evaluate", run, "--follow").code == 0
    with open(str(run / "evaluations.jsonl"), "a") as file:
        file.write(line + "\n")
    result = cli("verify", run)
    assert result.code == 6 and fault in result.err
    assert cli("evaluate", run, "--follow", "--split", "train").code == 0


# --------------------------------------------------------------------------------------- the end


@pytest.mark.parametrize(
    "status, code, word", [("diverged", 3, "diverged"), ("interrupted", 143, "interrupted")]
)
def test_the_exit_code_is_that_of_the_run(cli, run, status, code, word):
    set_manifest(run, status=status, exit_code=code, reason="Step 7 is not finite.\nMore.")
    result = cli("evaluate", run, "--follow")
    assert result.code == code and "step 6" in result.out
    assert f"is {word}: Step 7 is not finite; 1 checkpoint was" in result.err


class FailingScorer(Scorer):
    names = ("score",)

    def score(self, split, predict, folder):
        if folder is not None:
            raise ToolkitError("The score failed.")
        return ScoreResult({"score": 1.0})


class Scored(Linear):
    @hookimpl
    def scorers(self):
        return [FailingScorer()]


def test_a_run_whose_test_fails_has_ended(here):
    with pytest.raises(ToolkitError, match="The score failed."):
        testing.train(Scored, str(here / "run"), data=write_bars("bars.npz"), steps=4)
    manifest = read_json("run", "manifest.json")
    assert (manifest["status"], manifest["exit_code"]) == ("trained", 1)


def test_the_manifest_of_a_run_has_its_exit_code(cli, run, golden):
    assert read_json(run, "manifest.json")["exit_code"] == 0
    paused = golden("--steps", 6, "--pause-at", 4, name="paused") / "run"
    assert read_json(paused, "manifest.json")["exit_code"] == 0
    result = cli("evaluate", paused, "--follow")
    assert result.code == 0 and "run is stopped: paused at step 4; 1" in result.err


def test_a_run_that_does_not_begin_or_was_killed_can_be_tried_again(cli, run, here):
    result = cli("evaluate", "none", "--follow", "--idle-secs", 0)
    assert result.code == 138
    assert result.err.splitlines()[0] == "Waiting for a run in none."
    set_manifest(run, **DEAD)
    result = cli("evaluate", run, "--follow", "--idle-secs", 0)
    assert result.code == 138 and "step 6" in result.out
    assert "Continue it: toolkit resume " in result.err


@pytest.mark.parametrize(
    "flags, text",
    [
        (["--follow", "--checkpoint", "2"], "--follow has no single checkpoint"),
        (["--every"], "--every has no effect without --follow"),
        (["--idle-secs", "3"], "--idle-secs has no effect without --follow"),
        (["--follow", "--idle-secs", "nan"], "nan is not between"),
        (["--follow", "--idle-secs", "-1"], "-1 is not between"),
        (["--follow", "--split", "best"], "has no split 'best'"),
        (["--follow", "--tta"], "has no test-time augmentation"),
    ],
)
def test_mistakes_are_one_sentence(cli, run, flags, text):
    result = cli("evaluate", run, *flags)
    assert result.code == 2 and text in result.err and result.out == ""


def test_a_reader_that_leaves_ends_the_command(run):
    reader, writer = os.pipe()
    os.close(reader)
    process = process_fixtures.start("evaluate", run, "--follow", "--every", stdout=writer)
    os.close(writer)
    assert process.wait(process_fixtures.PATIENCE) == 141


# ---------------------------------------------------------------------------- beside real training

# An extension that holds a run after the commit of step 6, until its process is killed.
HOLDING = """
import signal
from toolkit import hookimpl

@hookimpl
def checkpoint_saved(step):
    while step == 6:
        signal.pause()
"""


def test_a_run_is_followed_through_a_kill_and_a_resume(cli, here):
    (here / "holding.py").write_text(HOLDING)
    argv = ["--plugin", LINEAR, "--with", "./holding.py", "--data", write_bars("bars.npz")]
    argv += ["--steps", 12, "--evaluate-steps", 2, "--keep-checkpoints", 9, "--run-dir", "run"]
    follow = ["evaluate", "run", "--follow", "--every", "--trust", "--json"]
    with open("out", "wb") as out:
        evaluator = process_fixtures.start(*follow, "--idle-secs", 10**6, stdout=out)
    trainer = process_fixtures.start("run", *argv)

    def evaluated():
        with open("out") as file:
            return [json.loads(line) for line in file.read().split("\n")[:-1]]

    process_fixtures.wait_until(lambda: len(evaluated()) == 3, among=[evaluator, trainer])
    process_fixtures.kill(trainer)
    resumed = process_fixtures.run("resume", "run", "--trust")
    assert resumed.code == 0, resumed.err
    assert evaluator.wait(process_fixtures.PATIENCE) == 0
    assert cli("verify", "run").code == 0
    records = RunFolder("run").metrics.read()
    expected = {r["step"]: r["accuracy"] for r in records if r["kind"] == "eval"}
    assert sorted(expected) == [2, 4, 6, 8, 10, 12]
    found = [(value["step"], value["metrics"]["accuracy"]) for value in evaluated()]
    assert found == [(step, pytest.approx(expected[step], abs=1e-6)) for step in sorted(expected)]


def test_the_scores_of_samples_are_followed_too(cli, here):
    argv = ["--plugin", "gan", "--network", "mlp", "--features", "pixels", "--steps", 40]
    argv += ["--score-samples", 100, "--quick-samples", 100, "--no-two-sample"]
    argv += ["--checkpoint-steps", 20]
    assert cli("run", *argv, "--no-evaluate", "--run-dir", "run").code == 0
    result = cli("evaluate", "run", "--follow", "--every", "--split", "test", "--json")
    assert result.code == 0
    values = [json.loads(line) for line in result.out.splitlines()]
    assert [value["step"] for value in values] == [20, 40]
    single = json.loads(cli("evaluate", "run", "--json").out)
    assert values[1]["metrics"] == single["metrics"] and "recall" in single["metrics"]
    first, second = (value["details"]["scores"]["nearest"]["ratio"] for value in values)
    assert first != second == single["details"]["scores"]["nearest"]["ratio"]
    assert not os.path.exists("run/reports/test-20")


@pytest.mark.parametrize(
    "steps, text",
    [
        ([], ""),
        ([2], "; left out: 2"),
        ([2, 4, 6, 8, 10, 12], "; left out: 2, 4, 6, 8, 10, 12"),
        ([2, 4, 6, 8, 10, 12, 14], "; 7 left out: 2 to 14"),
    ],
)
def test_many_steps_are_summarized(steps, text):
    assert follow_module._describe_left_out(steps) == text
