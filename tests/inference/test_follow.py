"""`evaluate --follow`: the checkpoints of a run that another process trains."""

import functools
import json
import os
import shutil
import signal
from pathlib import Path

import numpy as np
import pytest
from file_fixtures import read_json, sha256s
from generator_fixtures import SCORED_GENERATOR
from linear_fixtures import Linear, bars, expected_logits
from run_fixtures import set_state

from toolkit import ToolkitError, hookimpl, testing
from toolkit.cli import evaluate as evaluate_command
from toolkit.inference import evaluator
from toolkit.inference.evaluator import Evaluator
from toolkit.storage.checkpoint_feed import CheckpointFeed
from toolkit.storage.run_folder import RunFolder

LABELS = np.arange(7) * 7 % 3  # of the validation split that write_bars writes


class Growth:
    """A run that has ended, shown entry by entry, one more each time that the feed waits."""

    def __init__(self, run, count=0):
        self.run = run
        self.lines = (run / "commits.jsonl").read_text().splitlines(True)
        self.now = 0.0
        self.at_step = {}  # step -> what else happens when it is committed
        self.show(count)

    def sleep(self, secs):
        self.now += secs
        if self.count < len(self.lines):
            self.show(self.count + 1)
            entry = json.loads(self.lines[self.count - 1])
            if entry["kind"] == "commit":
                self.at_step.get(entry["step"], lambda: None)()

    def show(self, count):
        """Let the commit log have its first entries alone."""
        self.count = count
        (self.run / "commits.jsonl").write_text("".join(self.lines[:count]))


@pytest.fixture
def grow(monkeypatch):
    """`grow(run, count)`: a `Growth` that is driven by the feed of `evaluate --follow`."""

    def start(run, count=0):
        growth = Growth(run, count)
        feed = functools.partial(CheckpointFeed, clock=lambda: growth.now, sleep=growth.sleep)
        monkeypatch.setattr(evaluate_command, "CheckpointFeed", feed)
        return growth

    return start


def records(run):
    lines = (run / "evaluations.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def steps(run):
    return [record["step"] for record in records(run)]


def test_each_checkpoint_is_evaluated_at_its_commit_by_one_graph(cli, run, grow, monkeypatch):
    built, build = [], Evaluator.__init__

    def count(evaluator, *arguments, **named):
        built.append(1)
        build(evaluator, *arguments, **named)

    monkeypatch.setattr(Evaluator, "__init__", count)
    before = sha256s(run)
    grow(run)
    result = cli("evaluate", run, "--follow")
    assert (result.code, len(built)) == (0, 1)
    lines = result.out.splitlines()
    assert [line.partition("step ")[2] for line in lines] == ["2)", "4)", "6)"]
    for step, line in zip((2, 4, 6), lines):
        hits = expected_logits(run, bars(LABELS, seed=1), step).argmax(axis=1) == LABELS
        assert line.startswith(f"validation accuracy {hits.mean():.4f}  loss ")
    assert result.err.endswith("is finished: reached step 6; 3 checkpoints were evaluated.\n")
    after = sha256s(run)
    assert set(after) - set(before) == {str(run / "evaluations.jsonl")}
    assert [path for path in before if before[path] != after[path]] == []
    assert cli("verify", run).code == 0


def test_json_lines_are_the_records_with_the_run_and_metrics_those_of_an_evaluation(cli, run):
    result = cli("evaluate", run, "--follow", "--every", "--split", "test", "--json")
    objects = [json.loads(line) for line in result.out.splitlines()]
    assert [dict(record, run=objects[0]["run"]) for record in records(run)] == objects
    assert os.path.samefile(objects[0]["run"], str(run))
    assert [(each["step"], each["split"], each["examples"]) for each in objects] == [
        (step, "test", 13) for step in (2, 4, 6)
    ]
    for each in objects:
        assert each["tensors"] == RunFolder(str(run)).commits.find_commit(each["step"]).tensors
        single = cli("evaluate", run, "--checkpoint", each["step"], "--split", "test", "--json")
        assert json.loads(single.out)["metrics"] == each["metrics"]


def test_who_falls_behind_takes_the_newest_and_evaluates_none_a_second_time(cli, run):
    result = cli("evaluate", run, "--follow")
    assert result.out.endswith("step 6)\n") and result.code == 0
    assert result.err.endswith("1 checkpoint was evaluated.\n")
    result = cli("evaluate", run, "--follow")
    assert (result.code, result.out, steps(run)) == (0, "", [6])
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


def test_reports_are_written_for_the_plugin_and_not_kept(cli, run, monkeypatch):
    def evaluated(self, folder, metrics):
        Path(folder, "metrics.txt").write_text(str(metrics))
        return {"folder": folder}

    monkeypatch.setattr(Linear, "evaluated", hookimpl(evaluated), raising=False)
    before = sha256s(run)
    result = cli("evaluate", run, "--follow", "--json", "--split", "test")
    assert result.code == 0
    assert not os.path.exists(json.loads(result.out)["folder"])
    after = sha256s(run)
    assert {path: after[path] for path in before} == before and len(after) == len(before) + 1


def test_the_scores_of_each_checkpoint_are_those_of_its_evaluation(cli, golden):
    run = golden("--steps", 6, "--checkpoint-steps", 2, plugin=SCORED_GENERATOR) / "run"
    result = cli("evaluate", run, "--follow", "--every", "--split", "test", "--json")
    first, _, last = (json.loads(line)["metrics"] for line in result.out.splitlines())
    assert first["brightness"] != last["brightness"]
    assert last == json.loads(cli("evaluate", run, "--json").out)["metrics"]


def test_a_checkpoint_that_is_deleted_while_it_is_loaded_is_left_out(cli, run, grow, monkeypatch):
    grow(run, 2)
    read, paths = evaluator.read_variable_specs, []

    def read_late(path):
        paths.append(path)
        if len(paths) == 1:
            for file in (run / "checkpoints").glob("model.ckpt-2.*"):
                file.unlink()
        return read(path)

    monkeypatch.setattr(evaluator, "read_variable_specs", read_late)
    result = cli("evaluate", run, "--follow")
    assert result.code == 0 and "warning" not in result.err
    assert [os.path.basename(path) for path in paths] == [f"model.ckpt-{n}" for n in (2, 4, 6)]
    assert steps(run) == [4, 6]


def test_the_options_of_a_resume_hold_from_its_first_checkpoint(cli, golden, grow, monkeypatch):
    folder = golden("--steps", 4)
    monkeypatch.chdir(folder)
    shutil.copy("run/config.json", "former.json")
    assert cli("resume", "run", "--steps", 6, "--gain", 3, "--allow", "gain").code == 0
    shutil.copy("run/config.json", "latter.json")
    entries = [json.loads(line) for line in (folder / "run" / "commits.jsonl").open()]
    places = [(entry["kind"], entry.get("step")) for entry in entries]
    resumed = [i for i, (kind, _) in enumerate(places) if kind == "session"][1]
    growth = grow(folder / "run", places.index(("commit", 4)) + 1)
    growth.count = resumed  # the end of the first session and the resume are seen at once
    shutil.copy("former.json", "run/config.json")
    growth.at_step = {6: lambda: shutil.copy("latter.json", "run/config.json")}
    result = cli("evaluate", "run", "--follow", "--json")
    for line, name in zip(result.out.splitlines(), ("former.json", "latter.json")):
        value = json.loads(line)
        shutil.copy(name, "run/config.json")
        argv = ["--checkpoint", value["step"], "--split", "validation", "--json"]
        assert json.loads(cli("evaluate", "run", *argv).out)["metrics"] == value["metrics"]
    assert steps(folder / "run") == [4, 6]


def test_a_file_that_cannot_be_written_is_a_warning(cli, run):
    os.mkdir(str(run / "evaluations.jsonl"))
    result = cli("evaluate", run, "--follow")
    assert result.code == 0 and "step 6" in result.out
    assert "warning: step 6 is not in evaluations.jsonl: " in result.err


def test_the_exit_code_is_that_of_the_run(cli, run):
    set_state(run, status="diverged", exit_code=3, reason="Step 7 is not finite.\nMore.")
    result = cli("evaluate", run, "--follow")
    assert result.code == 3 and "step 6" in result.out
    assert "is diverged: Step 7 is not finite; 1 checkpoint was" in result.err


class FailingInTheTest(Linear):
    @hookimpl
    def evaluated(self):
        raise ToolkitError("The test failed.")


def test_a_run_whose_test_fails_has_ended(data):
    with pytest.raises(ToolkitError, match="The test failed."):
        testing.train(FailingInTheTest, "run", data=data, steps=2, steps_per_call=1)
    manifest = read_json("run", "manifest.json")
    assert (manifest["status"], manifest["exit_code"]) == ("trained", 1)


def test_the_manifest_of_a_run_has_its_exit_code(cli, run, golden):
    assert read_json(run, "manifest.json")["exit_code"] == 0
    paused = golden("--steps", 6, "--pause-at", 2, name="paused") / "run"
    assert read_json(paused, "manifest.json")["exit_code"] == 0
    result = cli("evaluate", paused, "--follow")
    assert result.code == 0 and "run is stopped: paused at step 2; 1" in result.err


def test_a_run_that_does_not_begin_or_was_killed_can_be_tried_again(cli, run, here):
    result = cli("evaluate", "none", "--follow", "--idle-secs", 0)
    assert result.code == 138
    assert result.err.splitlines()[0] == "Waiting for a run in none."
    set_state(run, status="running", summary=None, exit_code=None)
    result = cli("evaluate", run, "--follow", "--idle-secs", 0)
    assert result.code == 138 and "step 6" in result.out
    assert "Continue it: toolkit resume " in result.err


@pytest.mark.parametrize(
    "flags, text",
    [
        (["--follow", "--checkpoint", "2"], "--follow has no single checkpoint"),
        (["--every"], "--every has no effect without --follow"),
        (["--idle-secs", "3"], "--idle-secs has no effect without --follow"),
        (["--follow", "--split", "best"], "has no split 'best'"),
        (["--follow", "--tta"], "has no test-time augmentation"),
    ],
)
def test_mistakes_are_one_sentence(cli, run, flags, text):
    assert cli.refuse(2, text, "evaluate", run, *flags).out == ""
