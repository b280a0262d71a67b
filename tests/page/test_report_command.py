"""`toolkit report` writes pages without TensorFlow, and only where it may."""

import json
import os

import pytest
from synthetic_runs import write_run


def test_the_page_of_a_run_is_in_its_folder(here, cli):
    write_run("run", metrics={"accuracy": 0.9})
    result = cli("report", "run")
    assert result.code == 0 and result.out.startswith("page    run/report.html (")
    first = (here / "run/report.html").read_bytes()
    assert cli("report", "run", "-o", "other.html").code == 0
    assert (here / "other.html").read_bytes() == first


def test_several_runs_need_a_name_and_a_folder_stands_for_its_runs(here, cli):
    write_run("runs/a"), write_run("runs/b")
    cli.refuse(2, "The page of 2 runs needs a name.", "report", "runs")
    facts = json.loads(cli("report", "runs/a", "runs", "-o", "page.html", "--json").out)
    assert [run["name"] for run in facts["runs"]] == ["a", "b"]
    assert facts["bytes"] == os.path.getsize("page.html")


@pytest.mark.parametrize(
    "arguments, text",
    [
        (["missing"], "missing does not exist."),
        (["empty"], "There is no run in empty."),
        (["run", "-o", "no/x.html"], "no/x.html cannot be written"),
        (["run", "-o", "empty"], "empty is a folder, or no"),
        (["run", "-o", "-"], "The output '-' is no file."),
        (["damaged"], "is not valid JSON"),
    ],
)
def test_a_mistake_gives_one_sentence(here, cli, arguments, text):
    write_run("run"), write_run("damaged"), os.mkdir("empty")
    (here / "damaged/config.json").write_text("{")
    cli.refuse(5 if "damaged" in arguments else 2, text, "report", *arguments)
    assert not os.path.exists("run/report.html")


def test_a_link_in_the_place_of_the_page_is_replaced_and_not_followed(here, cli):
    write_run("run")
    (here / "precious").write_text("mine")
    os.symlink(os.path.abspath("precious"), "run/report.html")
    assert cli("report", "run").code == 0
    assert (here / "precious").read_text() == "mine" and not os.path.islink("run/report.html")


def test_a_damaged_run_among_others_is_a_note(here, cli):
    write_run("runs/a"), write_run("runs/b"), write_run("runs/c")
    (here / "runs/b/config.json").write_text("{")
    result = cli.succeed("report", "runs", "-o", "page.html")
    assert "warning: damaged runs are left out" in result.err
    page = (here / "page.html").read_text("utf-8")
    for text in ("b is left out: ", "is not valid JSON", "<strong>c</strong>"):
        assert text in page
