"""The seal of a finished run: `toolkit verify` names each value that has changed since."""

import json
import os

import pytest
from file_fixtures import drop_line, read_json
from linear_fixtures import LINEAR, Linear, write_bars
from run_fixtures import set_state, unseal

from toolkit import hookimpl, testing
from toolkit.storage.run_folder import RunFolder


class Reporting(Linear):
    @hookimpl
    def evaluated(self, folder, metrics):
        os.makedirs(os.path.join(folder, "inner"))
        for name in ("metrics.json", os.path.join("inner", "text.txt")):
            with open(os.path.join(folder, name), "w") as file:
                json.dump(metrics, file)


@pytest.fixture
def run(trained):
    return trained / "run"


class Crash(BaseException):
    """Simulates the end of the process."""


def crash(*arguments, **named):
    raise Crash


def seals(run):
    entries = RunFolder(str(run)).commits.entries()
    return [entry.values for entry in entries if entry.is_seal]


def faults(cli, run):
    """What verify finds wrong, without the names of the checks."""
    result = cli("verify", run, "--json")
    texts = [fault for check in json.loads(result.out)["checks"] for fault in check["faults"]]
    assert result.code == (6 if texts else 0)
    return texts


def test_the_last_entry_of_a_finished_run_contains_its_manifest(run):
    (seal,) = seals(run)
    assert RunFolder(str(run)).commits.entries()[-1].is_seal
    manifest = read_json(run, "manifest.json")
    assert seal["step"] == 6 and seal["reports"] == {}
    assert seal["manifest"]["summary"] == manifest["summary"]
    assert seal["manifest"]["best"] == manifest["best"]
    assert len(seal["manifest"]["data"]["sha256"]) == 64  # of the table of the files' hashes


@pytest.mark.parametrize(
    "place, value",
    [
        ("summary.test.metrics.accuracy", 0.99),
        ("best.step", 2),
        ("best", None),
        ("versions.tensorflow", "9.0"),
        ("data.spec.num_classes", 9),
        ("note", "an addition"),
    ],
)
def test_each_value_of_the_manifest_that_has_changed_is_named(cli, run, place, value):
    manifest = values = read_json(run, "manifest.json")
    *names, last = place.split(".")
    for name in names:
        values = values[name]
    values[last] = value
    set_state(run, **manifest)
    (fault,) = faults(cli, run)
    assert fault.startswith(f"{place} is {json.dumps(value)}, ")
    assert "seal: " + fault.rstrip(".") in cli("verify", run).err


def test_several_changes_are_all_named(cli, run):
    set_state(run, reason="x", created="y")
    assert [fault.split()[0] for fault in faults(cli, run)] == ["created", "reason"]


@pytest.mark.parametrize("status", ["finished", "stopped"])
def test_another_hash_of_data_or_plugin_is_named_beside_the_sessions(cli, run, status):
    if status == "stopped":
        unseal(run)
    manifest = read_json(run, "manifest.json")
    (name,) = manifest["data"]["sha256"]
    manifest["data"]["sha256"][name] = "0" * 64
    (plugin,) = manifest["plugins"]
    manifest["plugins"][plugin]["sha256"] = {"other.py": "0" * 64}
    set_state(run, **dict(manifest, status=status))
    expected = [
        f"the hash of plugin '{plugin}' is not that of the first session",
        f"the hash of data '{name}' is not that of the last session",
    ]
    assert faults(cli, run)[:2] == expected


def test_the_forged_manifest_of_a_run_that_was_killed_after_its_seal_is_named(cli, run):
    set_state(run, status="trained", summary=None, metrics=None)
    assert faults(cli, run) == []  # as a kill leaves it
    set_state(run, best={"step": 2, "metric": "accuracy", "value": 0.99})
    assert [fault.split()[0] for fault in faults(cli, run)][-1:] == ["best.value"]


FORGED = "the summary is that of a finished run, and no seal contains it"


def forge_summary(run, status):
    summary = read_json(run, "manifest.json")["summary"]
    summary["test"]["metrics"]["accuracy"] = 0.99
    set_state(run, status=status, summary=summary)


@pytest.mark.parametrize("status", ["trained", "stopped", "running", "interrupted", "failed"])
def test_the_forged_summary_of_a_run_without_seal_is_named(cli, run, status):
    unseal(run)
    forge_summary(run, status)
    assert faults(cli, run) == [FORGED]


@pytest.mark.parametrize(
    "status, fault",
    [
        ("running", FORGED),
        ("interrupted", FORGED),
        ("failed", FORGED),
        ("trained", "summary.test.metrics.accuracy is 0.99, sealed as "),  # before its end
        ("stopped", 'status is "stopped", sealed as "finished"'),
    ],
)
def test_the_forged_summary_of_a_sealed_run_is_named(cli, run, status, fault):
    set_state(run, status=status)
    assert bool(faults(cli, run)) == (status == "stopped")
    forge_summary(run, status)
    assert faults(cli, run)[0].startswith(fault)


def test_a_run_that_is_continued_has_no_summary_until_it_ends(cli, run, trained, monkeypatch):
    monkeypatch.chdir(trained)
    assert cli("resume", run, "--steps", 9, "--pause-at", 8).code == 0
    assert not read_json(run, "manifest.json")["summary"]["finished"]
    monkeypatch.setattr(RunFolder, "finish", crash)
    with pytest.raises(Crash):
        cli("resume", run)
    assert read_json(run, "manifest.json")["summary"] is None
    assert faults(cli, run) == []


def test_a_run_that_is_not_finished_has_no_seal(cli, golden):
    run = golden("--steps", 6, "--pause-at", 2) / "run"
    assert seals(run) == []
    assert "not sealed: the run is not finished" in cli("verify", run).out
    assert cli("resume", run).code == 0
    assert len(seals(run)) == 1 and faults(cli, run) == []


def test_a_run_that_is_continued_is_sealed_again(cli, run, trained, monkeypatch):
    monkeypatch.chdir(trained)
    assert cli("resume", run, "--steps", 8).code == 0
    assert [seal["step"] for seal in seals(run)] == [6, 8]
    assert faults(cli, run) == []
    drop_line(run / "commits.jsonl", -1)
    assert faults(cli, run) == ["the run is finished, but commits.jsonl has no seal"]


@pytest.mark.parametrize("is_sealed", [False, True])
def test_a_kill_around_the_seal_is_repaired_by_a_resume(cli, here, monkeypatch, is_sealed):
    finish = RunFolder.finish

    def crash_after_the_seal(folder, *arguments, **named):
        monkeypatch.setattr(RunFolder, "_write", crash)
        finish(folder, *arguments, **named)

    monkeypatch.setattr(RunFolder, "finish", crash_after_the_seal if is_sealed else crash)
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
    (here / "run" / names[1]).write_text("forged")
    changes = [f"{names[0]} is missing", f"{names[1]} has changed since it was sealed"]
    assert faults(cli, "run") == changes


@pytest.mark.parametrize(
    "values",
    [
        {"step": -1},
        {"manifest": []},
        {"reports": []},
        {"reports": {"../../outside": {"bytes": 1, "sha256": ""}}},
        {"reports": {"reports/../../x": {"bytes": 1, "sha256": ""}}},
        {"reports": {"/etc/passwd": {"bytes": 1, "sha256": ""}}},
    ],
)
def test_a_seal_in_another_format_is_a_fault(cli, run, values):
    seal = {n: v for n, v in seals(run)[0].items() if n not in ("kind", "previous", "hash")}
    unseal(run)
    RunFolder(str(run)).commits.add("seal", **dict(seal, **values))
    assert faults(cli, run)[0] == "entry 5 is not in the format of this version"
