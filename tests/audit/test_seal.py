"""The end of a finished run: `toolkit verify` names what has changed since."""

import json
import os
from pathlib import Path

import pytest
from file_fixtures import read_json
from linear_fixtures import LINEAR, Linear, write_bars
from run_fixtures import set_state

from toolkit import hookimpl, testing
from toolkit.storage.commit_log import CommitLog
from toolkit.storage.run_folder import RunFolder


class Reporting(Linear):
    @hookimpl
    def evaluated(self, folder, metrics):
        os.makedirs(os.path.join(folder, "inner"))
        for name in ("metrics.json", "inner/text.txt"):
            Path(folder, name).write_text(json.dumps(metrics))


class Crash(BaseException):
    """Simulates the end of the process."""


def seals(run):
    entries = RunFolder(str(run)).commits.entries()
    return [entry.values for entry in entries if entry.kind == "seal"]


def faults(cli, run):
    """What verify finds wrong, without the names of the checks."""
    result = cli("verify", run, "--json")
    texts = [fault for check in json.loads(result.out)["checks"] for fault in check["faults"]]
    assert result.code == (6 if texts else 0)
    return texts


def test_the_last_entry_of_a_finished_run_has_what_people_quote(run):
    (seal,) = seals(run)
    assert RunFolder(str(run)).commits.entries()[-1].kind == "seal"
    manifest = read_json(run, "manifest.json")
    assert seal["step"] == 6 and seal["reports"] == {}
    assert seal["summary"] == manifest["summary"]
    assert seal["metrics"] == RunFolder(str(run)).metrics.position()._asdict()


@pytest.mark.parametrize("name", ["summary", "note"])
def test_a_value_of_the_manifest_that_has_changed_is_named(cli, run, name):
    manifest = read_json(run, "manifest.json")
    (run / "manifest.json").write_text(json.dumps(dict(manifest, **{name: {"accuracy": 0.99}})))
    fault = f"manifest.json does not show what the commit log says: {name}"
    assert faults(cli, run) == [fault]
    assert f"manifest: {fault}." in cli("verify", run).err
    assert cli("evaluate", run).code == 0  # nothing reads it


def test_a_kill_between_an_entry_and_the_manifest_is_no_fault(cli, run):
    before = (run / "manifest.json").read_bytes()
    set_state(run, reason="another")
    (run / "manifest.json").write_bytes(before)
    assert faults(cli, run) == []


def test_a_run_has_no_seal_until_it_ends_and_another_one_when_it_is_continued(cli, golden):
    run = golden("--steps", 6, "--pause-at", 2) / "run"
    assert seals(run) == [] and not read_json(run, "manifest.json")["summary"]["finished"]
    assert "not sealed: the run is not finished" in cli("verify", run).out
    assert cli("resume", run).code == 0
    assert cli("resume", run, "--steps", 8).code == 0
    assert [seal["step"] for seal in seals(run)] == [6, 8]
    assert faults(cli, run) == []


@pytest.mark.parametrize("is_sealed", [False, True])
def test_a_kill_around_the_seal_is_repaired_by_a_resume(cli, here, monkeypatch, is_sealed):
    add = CommitLog.add

    def crash_at_the_seal(log, kind, **values):
        if kind == "seal" and not is_sealed:
            raise Crash
        add(log, kind, **values)
        if kind == "seal":
            raise Crash

    monkeypatch.setattr(CommitLog, "add", crash_at_the_seal)
    with pytest.raises(Crash):
        flags = ["--plugin", LINEAR, "--data", write_bars("bars.npz"), "--steps", 2]
        cli("run", "--run-dir", "run", *flags, "--no-evaluate", "--steps-per-call", 1)
    monkeypatch.undo()
    monkeypatch.chdir(here)
    assert len(seals("run")) == is_sealed
    assert faults(cli, "run") == []
    assert cli("resume", "run").code == 0
    assert faults(cli, "run") == []
    assert read_json("run", "manifest.json")["status"] == "finished"


def test_each_report_that_has_changed_is_named(cli, here):
    data = write_bars("bars.npz")
    testing.train(Reporting, str(here / "run"), data=data, steps=4, steps_per_call=1)
    names = ["reports/test-4/inner/text.txt", "reports/test-4/metrics.json"]
    assert sorted(seals("run")[0]["reports"]) == names
    assert faults(cli, "run") == []
    os.remove(os.path.join("run", names[0]))
    path = here / "run" / names[1]
    path.write_bytes(path.read_bytes()[::-1])
    changes = [f"{names[0]} is missing", f"{names[1]} has changed since it was written"]
    assert faults(cli, "run") == changes
