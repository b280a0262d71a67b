"""The evaluator of a cluster: `toolkit run` and `resume` then evaluate what the chief commits."""

import json
import os

import process_fixtures
import pytest
from file_fixtures import read_json
from linear_fixtures import LINEAR
from process_fixtures import PATIENCE, wait_until
from run_fixtures import set_state

from toolkit.cli import follow as follow_module
from toolkit.storage.run_folder import RunFolder


@pytest.fixture
def words(run):
    """The command of each task of a job that trains the run."""
    return ["run", "--plugin", LINEAR, "--data", f"npz:{run.parent / 'bars.npz'}", "--steps", "6"]


def evaluated_steps(run):
    path = str(run / "evaluations.jsonl")
    if not os.path.exists(path):
        return []
    with open(path) as file:
        return [json.loads(line)["step"] for line in file]


@pytest.mark.parametrize("evaluator", [{"evaluator": ["127.0.0.1:22229"]}, {}])
def test_the_evaluator_of_tf_config_follows_the_run(cli, run, words, monkeypatch, evaluator):
    cluster = {"worker": ["127.0.0.1:22221", "127.0.0.1:22222"], **evaluator}
    config = {"cluster": cluster, "task": {"type": "evaluator", "index": 0}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(config))
    result = cli(*words, "--run-dir", run)
    assert result.code == 0 and result.out.startswith("validation accuracy ")
    assert evaluated_steps(run) == [6]
    assert cli("verify", run).code == 0


def test_without_a_run_dir_it_says_what_is_missing(cli, words):
    result = cli(*words, "--task", "evaluator")
    assert result.code == 2 and result.out == ""
    assert result.err.startswith(
        "Error: The evaluator reads the folder of the run, and --run-dir is not set.\n"
    )


def test_it_waits_for_the_run_as_long_as_for_the_other_tasks(cli, words, here):
    result = cli(*words, "--run-dir", "run", "--task", "evaluator", "--join-secs", 1)
    assert result.code == 138
    assert "No run has begun in run within 1 s." in result.err
    assert not os.path.exists("run")


def test_the_end_of_a_run_that_is_continued_or_replaced_does_not_count(
    cli, run, words, monkeypatch
):
    calls = []
    monkeypatch.setattr(follow_module, "follow", lambda *arguments: calls.append(arguments))

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
    wait_until(lambda: evaluated_steps(run), among=[evaluator])
    assert cli(*words, "--resume").code == 0
    assert evaluator.wait(PATIENCE) == 0
    assert read_json(run, "manifest.json")["exit_code"] == 0
    assert len(RunFolder(str(run)).commits.sessions()) == 2
