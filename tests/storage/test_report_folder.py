"""The reports of an evaluation: kept as a whole or not at all, and never over sealed ones."""

import os
from types import SimpleNamespace

import pytest
from folder_fixtures import write as write_text

from toolkit.errors import RetryError, ToolkitError
from toolkit.files import write_json
from toolkit.inference.evaluation import report
from toolkit.storage.report_folder import open_report_folder
from toolkit.storage.run_folder import RunFolder


def write(run, text, name="test-2"):
    """Write a report with this text; return the `ReportFolder`."""
    with open_report_folder(run, name) as reports:
        write_text(text, reports.path, "a.txt")
    return reports


def read(run, name="test-2"):
    with open(run.file("reports", name, "a.txt")) as file:
        return file.read()


def test_reports_are_at_their_place_when_they_are_complete(run):
    with open_report_folder(run, "test-2") as reports:
        assert os.path.basename(reports.path) == "test-2" and not os.listdir(reports.path)
        assert not os.path.exists(run.file("reports", "test-2"))
        write_json(os.path.join(reports.path, "inner", "a.json"), {})
    assert reports.place == os.path.join("reports", "test-2") and not reports.omission
    assert os.listdir(run.file("reports")) == ["test-2"]
    assert os.listdir(run.file("reports", "test-2")) == ["inner"]


def seal(run):
    """Seal the report of step 2."""
    reports = {"reports/test-2/a.txt": {"bytes": 5, "sha256": ""}}
    metrics = run.metrics.position()._asdict()
    run.record("seal", step=2, metrics=metrics, reports=reports)


def test_without_a_report_no_folder_is_left(run):
    with open_report_folder(run, "test-2") as reports:
        pass
    assert (reports.place, reports.omission) == ("", "")
    assert not os.path.exists(run.file("reports"))


def test_later_reports_replace_earlier_ones_unless_they_fail(run):
    write(run, "first")
    write(run, "second")
    assert read(run) == "second" and os.listdir(run.file("reports")) == ["test-2"]
    with pytest.raises(OSError), open_report_folder(run, "test-2") as reports:
        write_text("half", reports.path, "a.txt")
        raise OSError(28, "No space left on device")
    assert read(run) == "second" and os.listdir(run.file("reports")) == ["test-2"]


def test_reports_that_are_sealed_during_the_evaluation_stay(run):
    write(run, "first")
    other = RunFolder(run.path)
    assert other.commits.entries()  # read before the seal
    with open_report_folder(other, "test-2") as reports:
        write_text("second", reports.path, "a.txt")
        seal(run)
    assert read(run) == "first" and read(run, os.path.basename(reports.place)) == "second"


def test_sealed_reports_stay_and_others_get_another_place(run):
    write(run, "first")
    seal(run)
    assert write(run, "first").place == os.path.join("reports", "test-2")
    place = write(run, "second").place
    assert place.startswith(os.path.join("reports", "test-2-")) and read(run) == "first"
    assert write(run, "second").place == place
    assert sorted(os.listdir(run.file("reports"))) == ["test-2", os.path.basename(place)]
    write(run, "third", "test-20")  # which only starts with the same letters
    assert write(run, "fourth", "test-20").place == os.path.join("reports", "test-20")


def test_a_link_in_the_place_of_reports_is_replaced(run, tmp_path):
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "a.txt").write_text("mine")
    write(run, "first", "other")
    os.symlink(str(tmp_path / "outside"), run.file("reports", "test-2"))
    write(run, "second")
    assert read(run) == "second" and (tmp_path / "outside" / "a.txt").read_text() == "mine"


def test_without_permission_reports_are_omitted(run, tmp_path):
    os.symlink(str(tmp_path), run.file("reports"))
    reports = write(run, "first")
    assert reports.place == "" and "is a symbolic link" in reports.omission
    os.remove(run.file("reports"))
    write_text("", run.file("reports"))
    reports = write(run, "first")
    assert reports.place == "" and reports.omission.endswith("cannot be written: File exists")
    assert not os.path.exists(reports.path)


def test_a_session_removes_what_killed_processes_were_writing(run):
    for name in ("samples/.writing-1", "reports/.writing-2/a.txt", "reports/.writing-3/a.txt"):
        os.makedirs(os.path.dirname(run.file(name)), exist_ok=True)
        write_text("", run.file(name))
    os.utime(run.file("reports", ".writing-2"), (0, 0))
    run.checkpoints.begin_session(None)
    assert os.listdir(run.file("samples")) == []
    assert os.listdir(run.file("reports")) == [".writing-3"]  # of an evaluation that is under way


def test_a_plugin_that_finds_the_disk_full_leaves_no_report_and_an_error_to_try_again(run):
    def call_hook(*_, folder, **__):
        write_text("half", folder, "half.txt")
        raise ToolkitError("It failed.") from OSError(28, "No space left on device")

    plugins = SimpleNamespace(has_hook=lambda name: True, call_hook=call_hook)
    evaluator = SimpleNamespace(
        run=SimpleNamespace(options=SimpleNamespace(eval_batch_size=2)),
        evaluate=lambda *_: SimpleNamespace(metrics={}, examples=None),
    )
    with pytest.raises(RetryError, match="cannot be written: No space left on device"):
        report(plugins, evaluator, run, "test", [], 2)
    assert not os.path.exists(run.file("reports"))
