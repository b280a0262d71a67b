"""`toolkit report` writes pages without TensorFlow, and only where it may."""

import json
import os

import pytest
from synthetic_runs import write_run

from toolkit.cli import report as command
from toolkit.storage.folder_lock import FolderLock


def read(path):
    with open(path, "rb") as file:
        return file.read()


def test_the_page_of_a_run_is_in_its_folder(here, cli):
    write_run("run", metrics={"accuracy": 0.9})
    result = cli("report", "run")
    assert result.code == 0 and result.out.startswith("page    run/report.html (")
    first = read("run/report.html")
    assert cli("report", "run", "-o", "other.html").code == 0
    assert read("other.html") == first


def test_several_runs_need_a_name_and_a_folder_stands_for_its_runs(here, cli):
    write_run("runs/a"), write_run("runs/b")
    result = cli("report", "runs")
    assert result.code == 2 and "The page of 2 runs needs a name." in result.err
    facts = json.loads(cli("report", "runs/a", "runs", "-o", "page.html", "--json").out)
    assert [run["name"] for run in facts["runs"]] == ["a", "b"]
    assert facts["bytes"] == os.path.getsize("page.html")


@pytest.mark.parametrize(
    "arguments, text",
    [
        (["missing"], "missing does not exist."),
        (["."], "needs a name"),
        (["empty"], "There is no run in empty."),
        (["run", "-o", "no/x.html"], "no/x.html cannot be written"),
        (["run", "-o", "empty"], "empty is a folder."),
        (["run", "-o", ""], "The output has an empty name."),
        (["run", "-o", "-"], "The output '-' is no file."),
        (["damaged"], "is not valid JSON"),
    ],
)
def test_a_mistake_gives_one_sentence(here, cli, arguments, text):
    write_run("run"), write_run("damaged"), os.mkdir("empty")
    with open("damaged/config.json", "w") as file:
        file.write("{")
    result = cli("report", *arguments)
    assert result.code == (5 if "damaged" in arguments else 2) and text in result.err
    assert "Traceback" not in result.err
    assert not os.path.exists("run/report.html")


def test_a_link_in_the_place_of_the_page_is_replaced_and_not_followed(here, cli):
    write_run("run")
    with open("precious", "w") as file:
        file.write("mine")
    os.symlink(os.path.abspath("precious"), "run/report.html")
    assert cli("report", "run").code == 0
    assert read("precious") == b"mine" and not os.path.islink("run/report.html")


def test_a_watch_writes_the_page_again_until_the_run_ends(here, cli, monkeypatch):
    running = {"status": "running", "exit_code": None, "summary": None}
    write_run("run", manifest=running)
    lock = FolderLock("run")
    lock.acquire()
    pages = []

    def sleep(secs):
        pages.append(read("run/report.html").decode())
        if len(pages) == 1:
            write_run("run", manifest=running, records=[{"step": 1, "kind": "train", "loss": 1}])
        elif len(pages) == 2:
            write_run("run", metrics={"accuracy": 0.9})
            lock.release()

    monkeypatch.setattr(command.time, "sleep", sleep)
    result = cli("report", "run", "--watch")
    assert result.code == 0 and "run is finished." in result.err
    assert len(pages) == 2 and pages[0] != pages[1]
    refresh = '<meta http-equiv="refresh" content="5">'
    assert refresh in pages[0] and refresh not in read("run/report.html").decode()


def test_a_damaged_run_among_others_is_a_note(here, cli):
    write_run("runs/a"), write_run("runs/b"), write_run("runs/c")
    with open("runs/b/config.json", "w") as file:
        file.write("{")
    result = cli("report", "runs", "-o", "page.html")
    assert result.code == 0 and "warning: damaged runs are left out" in result.err
    page = read("page.html").decode()
    assert (
        "b is left out: " in page and "is not valid JSON" in page and "<strong>c</strong>" in page
    )


def test_ctrl_c_ends_a_watch_with_130(here, cli, monkeypatch):
    write_run("run", manifest={"status": "running", "exit_code": None, "summary": None})
    lock = FolderLock("run")
    lock.acquire()

    def interrupt(secs):
        raise KeyboardInterrupt

    monkeypatch.setattr(command.time, "sleep", interrupt)
    result = cli("report", "run", "--watch")
    lock.release()
    assert result.code == 130 and "run/report.html is as of step 100" in result.err
