"""`toolkit doctor`: the state of a run in a sentence, what is wrong with it, and the way out."""

from __future__ import annotations

import collections
import json
import os
import shutil

import pytest
from file_fixtures import drop_line, edit, sha256s
from linear_fixtures import LINEAR, write_bars
from run_fixtures import (
    EXTRA,
    RENAMED,
    UNCHANGED,
    checkpoint_file,
    damage,
    forget,
    set_manifest,
    write_plugin,
)

from toolkit.storage.run_folder import RunFolder

FAILING = """
    @hookimpl
    def build(self, run):
        raise RuntimeError("there is no such network")
"""


@pytest.fixture(autouse=True)
def no_bytecode(monkeypatch):
    """So that a plugin's file that is edited within a second is read anew."""
    monkeypatch.setattr("sys.dont_write_bytecode", True)


@pytest.fixture
def run(trained):
    return trained / "run"


def told(result):
    """Title -> texts, of what the doctor printed."""
    found = collections.defaultdict(list)
    for line in result.out.splitlines():
        found[line[:8].strip()].append(line[8:])
    return found


def begun(cli, *more):
    argv = ["--plugin", LINEAR, "--data", write_bars("bars.npz"), "--run-dir", "run"]
    return cli("run", *argv, "--steps", 6, *more)


# ----------------------------------------------------------------------------------------- states


def test_a_finished_run_has_nothing_left_to_do(cli, run):
    result = cli("doctor", run)
    assert result.code == 0
    assert told(result) == {
        "state": ["The run is finished and evaluated: reached step 6."],
        "note": [
            "The last committed step is 6 of 6; there are checkpoints of 2, 4, 6.",
            "The model fits its checkpoint of 9 variables.",
        ],
        "do": ["Nothing is left to do; to train longer: toolkit resume trained/run --steps N"],
    }


def test_it_changes_no_file(cli, run, trained):
    damage(run, 6)
    before = sha256s(trained)
    assert cli("doctor", run, "--learning-rate", 0.5, "--init-new").code == 6
    assert sha256s(trained) == before


def test_json_is_one_object(cli, run):
    damage(run, 6)
    result = cli("doctor", run, "--json")
    found = json.loads(result.out)
    assert result.code == 6
    assert sorted(found) == ["advice", "faults", "notes", "run", "state"]
    assert len(found["faults"]) == 1


def test_a_run_that_was_ended_before_its_first_step(cli, run, here):
    (here / "unbegun").mkdir()
    shutil.copy(str(run / "config.json"), "unbegun")
    result = cli("doctor", "unbegun")
    assert result.code == 0
    assert told(result) == {
        "state": ["The run ended before its first step."],
        "do": ["Continue with: toolkit resume unbegun"],
    }


def test_a_run_in_training(cli, run):
    folder = RunFolder(str(run))
    folder.lock()
    result = cli("doctor", run)
    folder.unlock()
    assert result.code == 0
    assert told(result)["state"] == ["A process is training it now."]
    assert "do" not in told(result)


def test_a_run_that_was_killed(cli, run):
    set_manifest(run, status="running")
    drop_line(run / "commits.jsonl", -1)  # and before it committed step 6
    result = cli("doctor", run)
    found = told(result)
    assert result.code == 0
    assert found["state"] == [
        "The run was killed: it recorded no end, and no process is training it."
    ]
    assert found["note"][:3] == [
        "The last committed step is 4 of 6; there are checkpoints of 2, 4.",
        "Steps 5 to 6 were trained but not committed; a resume repeats them.",
        "checkpoints/ has 3 files of no committed checkpoint (model.ckpt-6.data-00000-of-00001, "
        "model.ckpt-6.hooks.npz, ...); a resume clears it.",
    ]
    assert found["do"] == ["Continue with: toolkit resume trained/run"]


@pytest.mark.parametrize(
    "status, reason, state",
    [
        (
            "trained",
            "reached step 6",
            "The run is trained, and ended before its evaluation: reached step 6.",
        ),
        ("interrupted", "Interrupted.", "The run was interrupted, and step 6 was saved."),
        ("failed", "Step 7 failed: no.", "The run failed: Step 7 failed: no."),
    ],
)
def test_how_it_ended(cli, run, status, reason, state):
    set_manifest(run, status=status, reason=reason)
    result = cli("doctor", run)
    assert result.code == 0
    assert told(result)["state"] == [state]
    assert told(result)["do"] == ["Continue with: toolkit resume trained/run"]


def test_a_run_that_paused_or_was_out_of_time(cli, here):
    assert begun(cli, "--pause-at", 3).code == 0
    assert told(cli("doctor", "run"))["state"] == ["The run stopped at step 3: paused at step 3."]
    assert cli("resume", "run", "--max-secs", "0.001", "--steps", 600).code == 0
    result = cli("doctor", "run")
    assert result.code == 0
    assert told(result)["state"][0].startswith("The run stopped at step ")
    assert told(result)["state"][0].endswith(": 0.001 seconds have passed.")
    assert told(result)["do"] == ["Continue with: toolkit resume run"]


def test_a_run_that_diverged(cli, here):
    assert begun(cli, "--learning-rate", "1e30", "--gain", "1e20").code == 3
    found = told(cli("doctor", "run"))
    assert found["state"][0].startswith("Training diverged in step 1: loss ")
    assert "The same step would diverge again." in found["do"][0]
    assert ("reports/autopsy-0 shows" in found["do"][0]) == os.path.isdir("run/reports/autopsy-0")
    assert found["do"][0].endswith("toolkit resume run --allow on_nonfinite --on-nonfinite skip")
    assert cli(
        "resume", "run", "--allow", "on_nonfinite", "--on-nonfinite", "skip", "--steps", 2
    ).code in (0, 3)


# ----------------------------------------------------------------------------------------- damage


def test_a_damaged_newest_checkpoint_tells_where_a_resume_goes_on_from(cli, run):
    damage(run, 6)
    result = cli("doctor", run)
    found = told(result)
    assert result.code == 6
    fault = "checkpoints: model.ckpt-6.data-00000-of-00001 has changed since it was written."
    assert found["FAULT"] == [fault]
    assert "repeats the steps after 4, with bit-identical results." in found["do"][0]
    assert found["do"][1] == "Continue with: toolkit resume trained/run"


def test_a_damaged_older_checkpoint_hinders_no_resume(cli, run):
    damage(run, 2)
    result = cli("doctor", run)
    assert result.code == 6
    assert len(told(result)["do"]) == 1
    assert told(result)["do"][0].startswith("The newest checkpoint is intact")


def test_no_whole_checkpoint_is_left(cli, run):
    damage(run, 2, 4, 6)
    result = cli("doctor", run)
    assert result.code == 6 and len(told(result)["FAULT"]) == 4
    assert told(result)["do"] == ["Copy the files back, or start a new run in another folder."]


@pytest.mark.parametrize(
    "make, way_out",
    [
        (lambda run: drop_line(run / "commits.jsonl", 1), "Copy an intact commits.jsonl back"),
        (lambda run: drop_line(run / "metrics.jsonl", 0), "Copy an intact metrics.jsonl back"),
        (lambda run: (run / "config.json").write_text("{"), "Copy config.json back"),
        (lambda run: (run / "config.json").write_text("[]"), "Copy config.json back"),
        (lambda run: os.remove(str(run / "config.json")), "Copy config.json back"),
        (lambda run: (run / "manifest.json").write_text("{"), "Copy an intact manifest.json back"),
        (lambda run: os.remove(str(run / "manifest.json")), "Copy an intact manifest.json back"),
        (lambda run: set_manifest(run, status="hurried"), "Copy an intact manifest.json back"),
        (lambda run: set_manifest(run, status=["finished"]), "Copy an intact manifest.json back"),
        (lambda run: set_manifest(run, step="6"), "Copy an intact manifest.json back"),
        (lambda run: set_manifest(run, step=8), "Copy an intact manifest.json back"),
    ],
)
def test_a_damaged_file_is_told_once_with_its_way_out(cli, run, make, way_out):
    make(run)
    result = cli("doctor", run)
    assert result.code == 6
    faults, advice = told(result)["FAULT"], told(result)["do"]
    assert len(faults) == len(set(faults))
    assert [text for text in advice if text.startswith(way_out)]
    assert not [text for text in advice if text.startswith("Nothing is left")]


def test_a_chain_without_its_last_commit_is_mended_by_a_resume(cli, run):
    drop_line(run / "commits.jsonl", -1)
    result = cli("doctor", run)
    assert result.code == 6
    assert told(result)["do"] == ["Continue with: toolkit resume trained/run"]
    assert cli("resume", run).code == 0
    assert cli("doctor", run).code == 0


def test_a_chain_that_is_gone_is_to_be_copied_back(cli, run):
    os.remove(str(run / "commits.jsonl"))
    set_manifest(run, status="running", step=0)
    result = cli("doctor", run)
    assert result.code == 6
    assert not [text for text in told(result)["do"] if "Continue with" in text]


# ------------------------------------------------------------------------------- what is around it


Usage = collections.namedtuple("Usage", "total used free")


def test_no_room_for_another_checkpoint_is_a_fault(cli, run, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage(10, 9, 1))
    result = cli("doctor", run)
    assert result.code == 6
    assert "disk: there is no space for another checkpoint: " in told(result)["FAULT"][0]
    assert told(result)["FAULT"][0].endswith("and 1 bytes are free.")
    assert told(result)["do"][0] == "Free some disk space."


def test_little_room_is_a_note(cli, run, monkeypatch):
    needed = sum(
        os.path.getsize(checkpoint_file(run, 6, ending))
        for ending in ("index", "hooks.npz", "data-00000-of-00001")
    )
    monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage(10, 9, 2 * needed))
    result = cli("doctor", run)
    assert result.code == 0
    assert f"Disk space is low: a checkpoint needs {needed / 1000:.1f} kB" in result.out


def test_missing_data_is_told_with_the_way_out(cli, run, trained):
    os.remove(str(trained / "bars.npz"))
    result = cli("doctor", run)
    assert result.code == 6
    assert told(result)["FAULT"][0].startswith("data: trained/bars.npz: ")
    assert told(result)["do"][0].startswith(
        "Restore the data at its former place, or name its new place"
    )


def test_other_data_is_a_fault_unless_it_is_allowed(cli, run):
    other = write_bars("other.npz", train=50)
    result = cli("doctor", run, "--data", other)
    assert result.code == 6
    assert told(result)["FAULT"] == ["data: it differs from the data of the run."]
    assert told(result)["do"][0].endswith("--allow data")
    assert cli("doctor", run, "--data", other, "--allow", "data").code == 0


def trained_with_file(cli, body=UNCHANGED):
    argv = ["--plugin", write_plugin(body), "--data", write_bars("bars.npz"), "--run-dir", "run"]
    assert cli("run", *argv, "--steps", 4, "--no-evaluate").code == 0


@pytest.mark.parametrize("text", ["def (", "import no_such_module", "x = 1"])
def test_a_plugin_that_cannot_be_loaded_is_told(cli, here, text):
    trained_with_file(cli)
    (here / "mine.py").write_text(text)
    forget()
    result = cli("doctor", "run")
    assert result.code == 6
    assert told(result)["state"] == ["The run is finished and evaluated: reached step 4."]
    assert len(told(result)["FAULT"]) == 1 and "mine" in told(result)["FAULT"][0]


def test_a_plugin_whose_network_cannot_be_built_is_told(cli, here):
    trained_with_file(cli)
    write_plugin(FAILING)
    result = cli("doctor", "run")
    assert result.code == 6
    assert "there is no such network" in told(result)["FAULT"][0]


def test_a_plugin_that_has_changed_is_a_note(cli, here):
    trained_with_file(cli)
    write_plugin(UNCHANGED + "  # and a remark")
    result = cli("doctor", "run")
    assert result.code == 0
    note = "A resume here is not exact: plugin 'mine' has changed (mine.py)."
    assert note in told(result)["note"]


@pytest.mark.parametrize(
    "before, after, difference, flags, change",
    [
        (UNCHANGED, EXTRA, "added: extra", ["--init-new"], "new and initialised: extra."),
        (EXTRA, UNCHANGED, "removed: extra", ["--drop"], "dropped: extra."),
        (
            UNCHANGED,
            RENAMED,
            "likely renamed: dense/b (was",
            ["--map", "linear/=dense/"],
            "renamed: dense/b (was",
        ),
    ],
    ids=["added", "removed", "renamed"],
)
def test_another_model_is_told_with_the_flags_that_make_it_fit(
    cli, here, before, after, difference, flags, change
):
    trained_with_file(cli, before)
    write_plugin(after)
    result = cli("doctor", "run")
    assert result.code == 6
    assert told(result)["FAULT"] == ["model: it differs from its checkpoint."]
    assert "Model: " + difference in result.out
    assert told(result)["do"][0].startswith("Allow it with --")
    result = cli("doctor", "run", *flags)
    assert result.code == 0
    assert "With these flags the model fits. " in result.out and change in result.out


# ---------------------------------------------------------------------------------------- options


def test_options_that_a_resume_would_refuse_are_told_unless_they_are_allowed(cli, run):
    result = cli("doctor", run, "--learning-rate", 0.5)
    assert result.code == 6
    assert told(result)["FAULT"] == ["option: learning_rate was 0.02, now 0.5."]
    assert told(result)["do"][0].endswith("unless allowed: --allow learning_rate")
    assert cli("doctor", run, "--learning-rate", 0.5, "--allow", "learning-rate").code == 0
    assert cli("doctor", run, "--log-steps", 7).code == 0


def test_an_edited_option_is_told_once(cli, run):
    edit(run / "config.json", '"learning_rate": 0.02', '"learning_rate": 0.5')
    found = told(cli("doctor", run))
    assert found["FAULT"] == ["config: learning_rate is 0.5, but the last session had 0.02."]
    assert found["do"][0].endswith("unless allowed: --allow learning_rate")


@pytest.mark.parametrize(
    "argv, message",
    [
        (["--allow", "learning_rat"], "--allow learning_rat: no such option."),
        (["--learning-rate", "much"], "'learning_rate' is 'much'"),
        (["--map", "a"], "--map a is not OLD=NEW."),
        (["--set", "gain"], "--set gain: expected name=value."),
    ],
)
def test_a_wrong_flag_is_a_usage_error(cli, run, argv, message):
    result = cli("doctor", run, *argv)
    assert result.code == 2 and message in result.err


@pytest.mark.parametrize("name, what", [("none", "does not exist"), ("trained", "contains no run")])
def test_what_is_no_run_is_refused(cli, run, name, what):
    result = cli("doctor", name)
    assert result.code == 2 and f"{name} {what}." in result.err
