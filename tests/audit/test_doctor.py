"""`toolkit doctor`: the state of a run in a sentence, what is wrong with it, and the way out."""

import collections
import json
import os
import shutil
from pathlib import Path

import pytest
from file_fixtures import read_json
from linear_fixtures import LINEAR, write_bars
from run_fixtures import EXTRA, PLUGIN, UNCHANGED, cut_log, damage, forget, set_state, write_plugin

from toolkit.cli import run_command
from toolkit.storage.commit_log import render_manifest
from toolkit.storage.run_folder import RunFolder

FAILING = """
    @hookimpl
    def build(self, run):
        raise RuntimeError("there is no such network")
"""
CONTINUE = "Continue with: toolkit resume trained/run"


@pytest.fixture
def doctor(cli):
    """`doctor(6, run, "--trust")`: title -> texts, of the output of a command that ends with 6."""

    def call(code, run, *flags):
        result = cli("doctor", run, *flags)
        assert result.code == code, result
        texts = collections.defaultdict(list)
        for line in result.out.splitlines():
            texts[line[:8].strip()].append(line[8:])
        return texts

    return call


def train_with_file(body):
    argv = ["--plugin", write_plugin(body), "--data", write_bars("bars.npz"), "--run-dir", "run"]
    assert run_command(["run", *argv, "--steps", "2", "--no-evaluate"]) == 0


@pytest.fixture
def trained_with_file(made_once, here, monkeypatch):
    """A function that gives a run `run` of a plugin in the file mine.py."""
    return lambda body=UNCHANGED: monkeypatch.chdir(made_once(train_with_file, body))


def test_a_finished_run_has_nothing_left_to_do(doctor, run):
    assert doctor(0, run, "--trust") == {
        "state": ["The run is finished and evaluated: reached step 6."],
        "note": [
            "The last committed step is 6 of 6; there are checkpoints of 2, 4, 6.",
            "The model fits its checkpoint of 9 variables.",
        ],
        "do": ["Nothing is left to do; to train longer: toolkit resume trained/run --steps N"],
    }


def test_json_is_one_object(cli, run):
    damage(run, 6)
    result = cli("doctor", run, "--json")
    report = json.loads(result.out)
    assert result.code == 6
    assert sorted(report) == ["advice", "faults", "notes", "run", "state"]
    assert len(report["faults"]) == 1


def test_a_run_that_ended_before_its_first_step(doctor, run, here):
    (here / "unstarted").mkdir()
    for name in ("config.json", ".lock"):
        shutil.copy(str(run / name), "unstarted")
    assert doctor(0, "unstarted") == {
        "state": ["The run ended before its first step."],
        "do": ["Continue with: toolkit resume unstarted"],
    }


def test_a_run_in_training(doctor, run):
    folder = RunFolder(str(run))
    folder.lock()
    report = doctor(0, run)
    folder.unlock()
    assert report["state"] == ["A process is training it now."] and "do" not in report


def test_a_run_that_was_killed(doctor, run):
    cut_log(run, 6)
    (run / "manifest.json").write_bytes(render_manifest(RunFolder(str(run)).state()))
    report = doctor(0, run)
    state = "The run was killed: it recorded no end, and no process is training it."
    assert (report["state"], report["do"]) == ([state], [CONTINUE])
    assert report["note"][:2] == [
        "The last committed step is 4 of 6; there are checkpoints of 2, 4.",
        "Steps 5 to 6 were trained but not committed; a resume repeats them.",
    ]


@pytest.mark.parametrize(
    "status, reason, state",
    [
        ("trained", "at step 6", "is trained, and ended before its evaluation: at step 6."),
        ("interrupted", "Interrupted.", "was interrupted, and step 6 was saved."),
        ("failed", "Step 7 failed: no.", "failed: Step 7 failed: no."),
        ("stopped", "paused at step 6", "stopped at step 6: paused at step 6."),
    ],
)
def test_how_it_ended(doctor, run, status, reason, state):
    set_state(run, status=status, reason=reason)
    report = doctor(0, run)
    assert (report["state"], report["do"]) == (["The run " + state], [CONTINUE])


@pytest.mark.parametrize(
    "cluster, resume",
    [
        ({"mode": "replicated", "replicas": 2, "devices": 2}, "toolkit resume trained/run"),
        (
            {"mode": "ps", "workers": 1, "ps": 1},
            "the same command in each process ('run' with --resume --run-dir trained/run)",
        ),
    ],
)
def test_a_run_continues_with_the_processes_of_its_last_session(doctor, run, cluster, resume):
    RunFolder(str(run)).record("session", **{"from": 6, "kept": [2, 4, 6]}, cluster=cluster)
    assert doctor(0, run)["do"] == ["Continue with: " + resume]


@pytest.mark.parametrize(
    "policy, change",
    [
        ("stop", "--allow on_nonfinite --on-nonfinite skip"),
        ("skip", "--allow learning_rate --learning-rate RATE"),  # all steps were skipped in vain
    ],
)
def test_a_run_that_diverged(cli, doctor, here, policy, change):
    argv = ["--plugin", LINEAR, "--data", write_bars("bars.npz"), "--run-dir", "run"]
    argv += ["--on-nonfinite", policy, "--steps", 10]
    result = cli("run", *argv, "--learning-rate", "1e30", "--gain", "1e20")
    assert result.code == 3 and ("--on-nonfinite" in result.err) == (policy == "stop")
    report = doctor(0, "run")
    began = "Training diverged in step 1: loss " if policy == "stop" else "All of the last 10 steps"
    assert report["state"][0].startswith(began)
    (advice,) = report["do"]
    assert "The same step would diverge again." in advice
    report = f"reports/autopsy-{0 if policy == 'stop' else 10}"
    assert (f"{report} shows" in advice) == os.path.isdir(os.path.join("run", report))
    assert advice.endswith(f"toolkit resume run {change}")
    (here / "run" / "config.json").write_text("[1]")
    assert "config.json" in str(doctor(6, "run"))


def test_other_and_missing_data_are_faults_with_advice(doctor, run, trained):
    write_bars(str(trained / "bars.npz"), train=50)
    config = read_json(run, "config.json")  # `trained` is a copy, whose original has its data
    (run / "config.json").write_text(json.dumps(dict(config, folder=str(run))))
    report = doctor(6, run)
    assert report["FAULT"] == ["data: it differs from the data of the run."]
    assert report["do"][0].endswith("--allow data")
    os.remove(str(trained / "bars.npz"))
    report = doctor(6, run)
    assert report["FAULT"][0].startswith("data: trained/bars.npz: ")
    assert report["do"][0].startswith("Restore the data at its former place, or name its new place")


@pytest.mark.parametrize(
    "text, words",
    [("import no_such_module", "mine"), (PLUGIN.format(FAILING), "there is no such network")],
)
def test_a_plugin_that_cannot_be_loaded_or_built_is_a_fault(doctor, trained_with_file, text, words):
    trained_with_file()
    Path("mine.py").write_text(text)
    forget()
    report = doctor(6, "run", "--trust")
    assert report["state"] == ["The run is finished: reached step 2."]
    (fault,) = report["FAULT"]
    assert words in fault


def test_a_plugin_that_has_changed_is_a_note(doctor, trained_with_file):
    trained_with_file()
    write_plugin(UNCHANGED + "  # and a remark")
    note = "A resume here is not exact: plugin 'mine' has changed (mine.py)."
    assert note in doctor(0, "run", "--trust")["note"]


def test_another_model_is_a_fault_with_the_way_out(doctor, trained_with_file):
    trained_with_file(UNCHANGED)
    write_plugin(EXTRA)
    report = doctor(6, "run", "--trust")
    assert report["FAULT"] == ["model: The model differs from its checkpoint: added extra."]
    assert "toolkit run --config run/config.json --init-from run" in report["do"][0]
