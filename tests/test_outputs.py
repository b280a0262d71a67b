"""Outputs of commands: checked before the work, whole or not at all, and safe in spreadsheets."""

import csv
import errno
import os
import resource
import tempfile

import numpy as np
import pytest
from file_fixtures import sha256s
from synthetic_runs import write_run

from toolkit import UsageError
from toolkit.cli.predict import _write_csv
from toolkit.cli_options import resolve_output


@pytest.fixture
def no_work(monkeypatch):
    """Fails if a command opens a run or data before it has refused its output."""

    from toolkit import api, run_data
    from toolkit.data import check

    def refuse(*arguments, **more):
        raise AssertionError("the work began")

    monkeypatch.setattr(api, "open_trained", refuse)
    monkeypatch.setattr(check, "check_source", refuse)
    monkeypatch.setattr(run_data, "open_from_options", refuse)


COMMANDS = {  # name: (arguments, ending of the output)
    "predict": (["predict", "run", "bars.npz", "-o"], ".csv"),
    "export": (["export", "run"], ""),
    "data show": (["data", "show", "npz:bars.npz", "--flip", "1", "--out"], ".png"),
    "sample": (["sample", "run", "--out"], ".png"),
    "sample to a folder": (["sample", "run", "--out"], ""),
}
BAD_PLACES = {  # name: (path, message, exit code)
    "no folder": ("none/out", "No such file or directory.", 2),
    "a file as the folder": ("file/out", "Not a directory.", 2),
    "a folder": ("folder", "folder", 2),
    "a special file": ("pipe", "pipe", 2),
    "read-only": ("disk/out", "Read-only file system", 2),
    "full": ("disk/out", "cannot be written: No space left on device.", 138),
    "a long name": ("n" * 300, "File name too long", 2),
}


def _refuse_files_in(monkeypatch, folder, number):
    """Let the system refuse each new file in a folder with this error; root as well."""
    create = tempfile.TemporaryFile

    def refuse(dir, **more):
        if os.path.realpath(dir) == os.path.realpath(str(folder)):
            raise OSError(number, os.strerror(number))
        return create(dir=dir, **more)

    monkeypatch.setattr(tempfile, "TemporaryFile", refuse)


@pytest.mark.parametrize("place", list(BAD_PLACES))
@pytest.mark.parametrize("name", list(COMMANDS))
def test_an_output_is_refused_before_the_work(cli, here, no_work, monkeypatch, name, place):
    argv, ending = COMMANDS[name]
    path, message, code = BAD_PLACES[place]
    path += ending
    (here / "file").write_text("precious")
    if place == "a folder":
        (here / path).mkdir()
        (here / path / "mine.txt").write_text("precious")
    if place == "a special file":
        os.mkfifo(path)
    if path.startswith("disk"):
        (here / "disk").mkdir()
        number = errno.ENOSPC if place == "full" else errno.EROFS
        _refuse_files_in(monkeypatch, here / "disk", number)
    before = sha256s(here)
    result = cli.refuse(code, message, *argv, path)
    assert result.out == "" and result.err.startswith("Error: ")
    assert sha256s(here) == before


@pytest.mark.parametrize(
    "argv, path, size",
    [
        *((["predict", "run", "bars.npz", "-o"], "out." + e, 100) for e in ("csv", "json", "npz")),
        (["export", "run"], "model", 1000),
        (["export", "run"], "model[1]", 1000),  # which TensorFlow reads as a pattern
    ],
)
def test_a_disk_that_fills_up_leaves_what_was_there(
    cli, trained, monkeypatch, full_disk, argv, path, size
):
    monkeypatch.chdir(trained)
    if "." in path:
        (trained / path).write_bytes(b"earlier")
    before = sha256s(trained), os.listdir(".")
    full_disk(size)
    result = cli(*argv, path)
    full_disk(resource.RLIM_INFINITY)
    assert result.code == 138 and f"{path} cannot be written: File too large." in result.err
    assert (sha256s(trained), os.listdir(".")) == before


def test_an_error_leaves_the_folder_that_was_there(here):
    from toolkit.cli.sample_files import write_folder

    def parts():
        yield {"images": np.zeros([2, 4, 4, 1], np.uint8)}
        raise ValueError("no more")

    (here / "mine").mkdir()
    for name in ("mine", "new"):
        with pytest.raises(ValueError, match="no more"):
            write_folder(name, parts())
    assert os.listdir(".") == ["mine"] and os.listdir("mine") == []


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_a_file_without_examples_gives_a_table_without_rows(cli, trained, here):
    np.savez("none.npz", x=np.zeros([0, 6, 6, 1], np.uint8))
    assert cli("predict", trained / "run", "none.npz", "-o", "out.csv").code == 0
    assert (here / "out.csv").read_text().splitlines() == ["file,label,logits0,logits1,logits2"]


def test_an_existing_file_is_overwritten_also_behind_a_link(cli, trained, here):
    (here / "out.csv").write_text("earlier")
    (here / "link.csv").symlink_to("out.csv")
    assert cli("predict", trained / "run", trained / "bars.npz", "-o", "link.csv").code == 0
    assert (here / "link.csv").is_symlink()
    assert (here / "out.csv").read_text().startswith("file,label,")


def test_predictions_do_not_replace_their_input(cli, trained, monkeypatch):
    monkeypatch.chdir(trained)
    os.symlink("bars.npz", "link.npz")
    before = sha256s(trained)
    for source in ("bars.npz", "link.npz"):
        cli.refuse(2, "bars.npz", "predict", "run", source, "-o", "bars.npz")
    assert sha256s(trained) == before


def test_an_existing_empty_folder_takes_an_export(cli, trained, here):
    (here / "model").mkdir()
    (here / "link").symlink_to("model")
    assert cli("export", trained / "run", "link").code == 0
    assert (here / "model" / "saved_model.pb").exists()


def test_an_empty_name_is_refused_and_a_read_only_file_not_replaced(here, monkeypatch):
    with pytest.raises(UsageError, match="The output '' is no file"):
        resolve_output("")
    (here / "out.csv").write_text("precious")
    access, path = os.access, os.path.realpath("out.csv")  # root may write everything
    monkeypatch.setattr(os, "access", lambda each, mode: each != path and access(each, mode))
    with pytest.raises(UsageError, match="Permission denied"):
        resolve_output("out.csv")


def test_texts_that_a_spreadsheet_would_run_are_quoted_and_numbers_stay(here):
    names = ["=cmd|' /C calc'!A0", "a,b\nc", "esc\x1b", "not UTF-8 \udcff"]
    columns = {
        "=label": np.arange(4, dtype=np.int32) - 1,
        "score": np.linspace(-1, 1, 4).astype(np.float32),
        "wide": np.linspace(-1, 1, 4),
        "pair": np.full([4, 2], -0.5, np.float32),
        "class": np.array(["@SUM(1)", "cat", "  =y", "-x"]),
    }
    _write_csv("out.csv", names, columns)
    with open("out.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))
    assert rows[0] == ["file", "'=label", "score", "wide", "pair0", "pair1", "class"]
    shown = ["'=cmd|' /C calc'!A0", "a,b\nc", r"esc\x1b", r"not UTF-8 \udcff"]
    assert [row[0] for row in rows[1:]] == shown
    assert [row[-1] for row in rows[1:]] == ["'@SUM(1)", "cat", "'  =y", "'-x"]
    for row, score, wide in zip(rows[1:], columns["score"], columns["wide"]):
        assert (np.float32(row[2]), float(row[3])) == (score, wide)
        assert row[4] == row[5] == "-0.5"
    assert [int(row[1]) for row in rows[1:]] == [-1, 0, 1, 2]


REFUSED_IN_RUNS = {
    **COMMANDS,
    "report": (["report", "run", "-o"], ".html"),
    "plugins new": (["plugins", "new", "thing", "--out"], ""),
}


@pytest.mark.parametrize(
    "place", ["run/out", "run/sub/out", "link/out", "study/out", "study/trials/out"]
)
@pytest.mark.parametrize("name", list(REFUSED_IN_RUNS))
def test_no_output_is_in_the_folder_of_a_run_or_a_study(cli, here, no_work, name, place):
    write_run("run"), write_run("other", seed=2)
    os.makedirs("run/sub"), os.makedirs("study/trials")
    (here / "study" / "study.json").write_text("{}")
    argv, ending = REFUSED_IN_RUNS[name]
    path = place + ending
    os.symlink("run", "link")
    before = sha256s(here)
    kind = "study" if place.startswith("study") else "run"
    assert cli.refuse(2, f"{path} is in the folder of a {kind}, ", *argv, path).out == ""
    assert sha256s(here) == before
