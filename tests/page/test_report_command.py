"""`toolkit report` writes pages without TensorFlow, and only where it may."""

import json
import os

import pytest
from synthetic_runs import write_run


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
        (["run", "-o", "empty"], "empty is a folder, or no"),
        (["run", "-o", ""], "The output '' is no file."),
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
