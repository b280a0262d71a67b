"""The evaluator of a cluster: `toolkit run` and `resume` then evaluate what the chief commits."""

import json
import os

import process_fixtures
import pytest
from file_fixtures import read_json
from linear_fixtures import LINEAR
from process_fixtures import PATIENCE, wait_for_file
from run_fixtures import set_state

from toolkit.cli import evaluate as evaluate_command
from toolkit.storage.run_folder import RunFolder


@pytest.fixture
def words(run):
    """The command of each task of a job that trains the run."""
    return ["run", "--plugin", LINEAR, "--data", f"npz:{run.parent / 'bars.npz'}", "--steps", "6"]


@pytest.mark.parametrize("evaluator", [{"evaluator": ["127.0.0.1:22229"]}, {}])
def test_the_evaluator_of_tf_config_follows_the_run(cli, run, words, monkeypatch, evaluator):
    cluster = {"worker": ["127.0.0.1:22221", "127.0.0.1:22222"], **evaluator}
    config = {"cluster": cluster, "task": {"type": "evaluator", "index": 0}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(config))
    assert cli.succeed(*words, "--run-dir", run).out.startswith("validation accuracy ")
    assert read_json(run, "evaluations.jsonl")["step"] == 6
    cli.succeed("verify", run)


def test_without_a_run_dir_it_says_what_is_missing(cli, words):
    text = "Error: The evaluator reads the folder of the run, and --run-dir is not set.\n"
    cli.refuse(2, text, *words, "--task", "evaluator")


def test_it_waits_for_the_run_as_long_as_for_the_other_tasks(cli, words):
    task = ["--run-dir", "run", "--task", "evaluator", "--join-secs", 1]
    cli.refuse(138, "No run has begun in run within 1 s.", *words, *task)
    assert not os.path.exists("run")


def test_the_end_of_a_run_that_is_continued_or_replaced_does_not_count(
    cli, run, words, monkeypatch
):
    calls = []
    monkeypatch.setattr(evaluate_command, "follow", lambda *arguments: calls.append(arguments))

    def settings_of(*argv):
        cli(*argv)
        return calls.pop()[2]

    task = ["--run-dir", run, "--task", "evaluator", "--join-secs", 9]
    settings = settings_of(*words, *task, "--resume")  # the run is finished
    assert (settings.awaits_change, settings.start_secs) == (False, 9)
    assert settings_of(*words, *task, "--force").awaits_change
    words[-1] = "8"
    assert settings_of(*words, *task, "--resume").awaits_change
    set_state(run, status="interrupted")
    assert settings_of("resume", run, "--task", "evaluator").awaits_change


def test_an_evaluator_stays_when_a_killed_run_is_continued(cli, run, words):
    words += ["--run-dir", run]
    set_state(run, status="running", summary=None, exit_code=None)
    evaluator = process_fixtures.start(*words, "--resume", "--task", "evaluator")
    wait_for_file(run / "evaluations.jsonl", among=[evaluator])
    cli.succeed(*words, "--resume")
    assert evaluator.wait(PATIENCE) == 0
    assert read_json(run, "manifest.json")["exit_code"] == 0
    assert len(RunFolder(str(run)).commits.sessions()) == 2
