"""`toolkit search`: refusals, and a whole search that is killed and continued."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from search_fixtures import small_definition

from toolkit.child_process import python_code
from toolkit.search.definition import Dimension, Layer, read_definition
from toolkit.search.study import Study

SEARCH = ["search", "--plugin", "classifier", "--vary", "network=mlp,cnn"]
SMALL = ["search", "--search-dir", "s", "--plugin", "classifier", "--network", "mlp"]
SMALL += ["--vary", "learning_rate=1e-3..1e-1:log", "--trials", "2", "--steps", "40"]


@pytest.mark.parametrize(
    "words, message",
    [
        (["search"], "The folder of the search is missing"),
        (["search", "--search-dir", "s"], "s does not exist"),
        (["search", "--search-dir", "s", "--vary", "clip=a,b"], "No plugin is named"),
        (["search", "--search-dir", "s", "--plugin", "classifier"], "No option varies"),
        ([*SEARCH, "--search-dir", "file"], "is a file"),
        ([*SEARCH, "--search-dir", "full"], "not empty, and no search"),
        ([*SEARCH, "--search-dir", "s", "--run-dir", "r"], "has no --run-dir"),
        ([*SEARCH, "--search-dir", "s", "--network", "mlp"], "--network is set to mlp, and varies"),
        ([*SEARCH, "--search-dir", "s", "--max-secs", "3"], "not at equal budgets"),
        ([*SEARCH, "--search-dir", "s", "--no-evaluate"], "chooses by evaluations"),
        ([*SEARCH, "--search-dir", "s", "--rungs", "10%"], "--halving is not"),
        (["search", "--search-dir", "study", "--seeds", "3"], "--seeds cannot be set alone"),
        (["search", "--search-dir", "study", "--vary", "clip=1,2"], "--vary cannot be set alone"),
        (["search", "--search-dir", "study", "--trials", "3"], "has 4 trials, and --trials is 3"),
        (["search", "--search-dir", "damaged"], "study.json has no entry 'format'"),
    ],
)
def test_a_mistake_gets_one_sentence(cli, here, words, message):
    (here / "file").write_text("")
    for name, text in (("full", "x"), ("study", ""), ("damaged", "{}")):
        (here / name).mkdir()
        (here / name / ("x" if name == "full" else "study.json")).write_text(text)
    (here / "study" / "study.json").write_text(json.dumps(small_definition().as_json()))
    result = cli(*words)
    assert result.code in (2, 5)
    assert message in result.err
    assert "Traceback" not in result.err
    assert not (here / "s").exists()


def test_a_study_of_somebody_else_executes_no_code_without_trust(cli, here):
    (here / "evil.py").write_text("open('executed', 'w')")
    (here / "s").mkdir()
    definition = small_definition(plugin=str(here / "evil.py"))
    (here / "s" / "study.json").write_text(json.dumps(definition.as_json()))
    result = cli("search", "--search-dir", "s")
    assert result.code == 2
    assert "code that you have not run before; it was not executed" in result.err
    assert not (here / "executed").exists()


@pytest.mark.parametrize(
    "place", ["flags", "space", "configuration file", "variables"]
)  # of a study that somebody else wrote
def test_a_study_sets_options_alone_and_no_other_flag_of_the_trials(cli, here, place):
    (here / "evil.py").write_text("open('executed', 'w')")
    evil = str(here / "evil.py")
    layer = Layer("variables" if place == "variables" else "c.toml", {"with": evil})
    values = {
        "flags": {"flags": {"with": evil}},
        "space": {"space": (Dimension("with", "choice", choices=(evil, "b")),)},
    }.get(place, {"layers": (layer,)})
    (here / "s").mkdir()
    definition = small_definition(**values)
    (here / "s" / "study.json").write_text(json.dumps(definition.as_json()))
    result = cli("search", "--search-dir", "s")
    assert result.code == 5
    assert "sets 'with', which is no option of classifier" in result.err
    assert not (here / "executed").exists()
    assert not (here / "s" / "trials").exists()


def test_a_study_that_was_killed_before_its_first_file_is_in_the_storage(cli, here):
    (here / "s").mkdir()
    study = Study(small_definition(plugin=str(here / "gone.py")), str(here / "s"))
    study.close()
    result = cli("search", "--search-dir", "s")
    assert result.code == 2
    assert "gone.py" in result.err  # it knows the plugin


def start(words, folder):
    code = [sys.executable, "-c", python_code(), *words]
    return subprocess.Popen(code, cwd=str(folder), stderr=subprocess.PIPE, stdout=subprocess.PIPE)


def wait_for(path):
    for _ in range(1200):
        if os.path.exists(path):
            return
        time.sleep(0.1)
    raise AssertionError(f"{path} does not exist after two minutes")


def size_of_commits(folder):
    """The bytes of the logs of commits of all trials."""
    return sum(path.stat().st_size for path in folder.glob("trials/*/commits.jsonl"))


def wait_for_commits(process, folder, size):
    """Wait until the trials have committed more than these bytes, or the process has ended."""
    for _ in range(1200):
        if process.poll() is not None or size_of_commits(folder) > size:
            return
        time.sleep(0.1)
    raise AssertionError(f"{folder} has no other commits after two minutes")


def results_of(folder):
    """The table without times: what does not depend on kills."""
    with open(os.path.join(str(folder), "table.json")) as file:
        rows = json.load(file)["rows"]
    return [{n: v for n, v in row.items() if n not in ("cpu_secs", "seconds")} for row in rows]


@pytest.mark.slow
def test_a_search_that_is_killed_and_interrupted_ends_with_the_same_table(cli, here):
    killed = start([*SMALL, "--workers", "2"], here)
    wait_for(str(here / "s" / "trials" / "0000-s1" / "config.json"))
    killed.kill()
    killed.communicate()
    size = size_of_commits(here / "s")
    interrupted = start(["search", "--search-dir", "s"], here)
    wait_for_commits(interrupted, here / "s", size)
    time.sleep(1)
    interrupted.send_signal(signal.SIGTERM)
    _, text = interrupted.communicate(timeout=120)
    assert interrupted.returncode in (0, 143), text
    if interrupted.returncode:
        assert b"Continue with: toolkit search --search-dir" in text
    assert cli("search", "--search-dir", "s").code == 0
    other = [word if word != "s" else "t" for word in SMALL]
    result = cli(*other, "--json")
    assert result.code == 0
    assert results_of(here / "s") == results_of(here / "t")
    assert read_definition(str(here / "s")) == read_definition(str(here / "t"))._replace(
        threads=read_definition(str(here / "s")).threads
    )
    table = json.loads(result.out)
    assert table["best"] == table["rows"][0]["number"]
    assert table["test"]["accuracy"]["low"] < table["test"]["accuracy"]["high"]
    assert "Parallel" in (here / "t" / "report.html").read_text()
    listing = json.loads(cli("runs", "t", "--json").out)
    assert len(listing["runs"] if isinstance(listing, dict) else listing) == 2


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_during_the_checks_leaves_nothing_behind(here, signum, monkeypatch):
    (here / "temporary").mkdir()
    monkeypatch.setenv("TMPDIR", str(here / "temporary"))
    process = start(SMALL, here)
    for _ in range(1200):
        if list((here / "temporary").glob("toolkit-search-*/checks/*.log")):
            break
        time.sleep(0.1)
    process.send_signal(signum)
    _, text = process.communicate(timeout=120)
    assert process.returncode == 128 + signum, text
    assert b"nothing was trained" in text
    assert not list((here / "temporary").glob("toolkit-search-*"))
    assert not (here / "s").exists()


@pytest.mark.slow
def test_a_configuration_that_cannot_be_trained_is_refused_before_the_first_trial(cli, here):
    words = ["search", "--search-dir", "s", "--plugin", "classifier", "--network", "mlp"]
    result = cli(*words, "--vary", "accumulate=1,50", "--steps", "40")
    assert result.code == 2
    assert "Trials with accumulate=50 cannot be trained" in result.err
    assert not (here / "s").exists()


@pytest.mark.slow
def test_a_dry_run_writes_nothing(cli, here):
    result = cli(*SMALL, "--dry-run")
    assert result.code == 0
    assert "2 trials, about" in result.out
    assert not (here / "s").exists()
