"""`toolkit search`: refusals, and a whole search that is killed and continued."""

import json
import os
import shlex
import signal

import process_fixtures
import pytest
from linear_fixtures import LINEAR, write_bars
from search_fixtures import write_study

from toolkit import testing
from toolkit.search.definition import Dimension
from toolkit.search.study import read_study

SEARCH = ["search", "--plugin", "classifier", "--vary", "network=mlp,cnn"]
SMALL = ["search", "--search-dir", "s", "--plugin", "held_fixtures:Held", "--data", "npz:bars.npz"]
SMALL += ["--vary", "learning_rate=1e-3..1e-1:log", "--trials", "2", "--steps", "6"]


@pytest.mark.parametrize(
    "words, message",
    [
        (["search"], "The folder of the search is missing"),
        (["search", "--search-dir", "s"], "s does not exist"),
        (["search", "--search-dir", "s", "--vary", "clip=a,b"], "No plugin is named"),
        (["search", "--search-dir", "s", "--plugin", "classifier"], "No option varies"),
        ([*SEARCH, "--search-dir", "file"], "cannot be listed: Not a directory."),
        ([*SEARCH, "--search-dir", "full"], "not empty, and no search"),
        ([*SEARCH, "--search-dir", "s", "--run-dir", "r"], "(Possible options: --search-dir"),
        ([*SEARCH, "--search-dir", "s", "--network", "mlp"], "--network is set to mlp, and varies"),
        ([*SEARCH, "--search-dir", "s", "--max-secs", "3"], "equal budgets.\nLeave it out"),
        ([*SEARCH, "--search-dir", "begun", "--no-evaluate"], "chooses by evaluations"),
        ([*SEARCH, "--search-dir", "s", "--steps", "7", "--examples", "7"], "Both --steps and --"),
        (["search", "--search-dir", "study", "--seeds", "3"], "--seeds cannot be set alone"),
        (["search", "--search-dir", "study", "--with", "ema"], "--with cannot be set alone"),
        (["search", "--search-dir", "damaged"], "study.json has no entry 'format'"),
    ],
)
def test_a_mistake_gets_one_sentence(cli, here, words, message):
    (here / "file").write_text("")
    files = ("full", "x"), ("damaged", "study.json"), ("begun", ".writing-0")
    for name, file in files:
        (here / name).mkdir()
        (here / name / file).write_text("{}")
    write_study("study")
    cli.refuse(5 if "damaged" in words else 2, message, *words)
    assert not (here / "s").exists()


def test_a_search_keeps_its_plugin_whatever_the_variable(cli, here, monkeypatch):
    monkeypatch.setenv("TOOLKIT_PLUGIN", "regressor")
    monkeypatch.setenv("HOME", str(here))  # whose ~ in --search-dir=~/s a shell leaves
    write_study("s")
    cli.refuse(2, "has 4 trials, and cannot have 3", "search", "--search-dir=~/s", "--trials", "3")


EVIL = "./evil.py"
NO_OPTION = "sets 'with', which is no option of classifier"


@pytest.mark.parametrize(
    "values, code, message",
    [
        ({"plugin": EVIL}, 2, "code that you have not run before; it was not executed"),
        ({"options": {"with": EVIL}}, 5, NO_OPTION),
        ({"space": (Dimension("with", "choice", choices=(EVIL, "b")),)}, 5, NO_OPTION),
    ],
    ids=["plugin", "options", "space"],
)
def test_a_study_of_somebody_else_executes_no_code_without_trust(cli, here, values, code, message):
    (here / "evil.py").write_text("open('executed', 'w')")
    write_study("s", **values)
    cli.refuse(code, message, "search", "--search-dir", "s")
    assert not (here / "executed").exists()
    assert not (here / "s" / "trials").exists()


def results_of(folder):
    """The rows of the table without times: what does not depend on kills."""
    rows = json.loads((folder / "table.json").read_text())["rows"]
    return [{n: v for n, v in row.items() if n != "cpu_secs"} for row in rows]


def test_a_search_that_is_killed_and_interrupted_ends_with_the_same_table(here):
    write_bars("bars.npz")
    ended = process_fixtures.run(*SMALL)
    assert ended.code == 0, ended.err
    (here / "hold-commit").touch()
    words = ["t" if word == "s" else word for word in SMALL]
    killed = process_fixtures.start(*words, "--workers", "2")
    pids = process_fixtures.wait_until(lambda: held(here, "commit", 2), among=[killed])
    process_fixtures.kill(killed)
    process_fixtures.wait_until(lambda: all(map(process_fixtures.is_gone, pids)))
    with open("err", "wb") as err:
        interrupted = process_fixtures.start("search", "--search-dir", "t", stderr=err)
    process_fixtures.wait_until(lambda: held(here, "commit", 3), among=[interrupted])
    interrupted.send_signal(signal.SIGTERM)
    assert interrupted.wait(process_fixtures.PATIENCE) == 143
    assert "Continue with: toolkit search --search-dir" in (here / "err").read_text()
    (here / "hold-commit").unlink()
    ended = process_fixtures.run("search", "--search-dir", "t")
    assert ended.code == 0, ended.err
    assert results_of(here / "t") == results_of(here / "s")
    one, other = (read_study(str(here / name))[0] for name in "st")
    assert one == other._replace(threads=one.threads)


def held(folder, moment, count):
    """The processes that wait at a moment, if there are so many or more."""
    pids = [int(path.name.split("-")[1]) for path in folder.glob(f"{moment}-*")]
    return pids if len(pids) >= count else []


def test_a_trial_that_was_paused_has_the_bits_of_one_that_was_not(here):
    write_bars("bars.npz")
    words = ["search", "--plugin", LINEAR, "--data", "npz:bars.npz", "--search-dir", "s"]
    words += ["--vary", "learning_rate=1e-3..1e-1:log", "--sampler", "random", "--trials", "4"]
    words += ["--steps", "20", "--halving", "4", "--workers", "2"]
    assert process_fixtures.run(*words).code == 0
    table = json.loads((here / "s" / "table.json").read_text())
    statuses = [(row["status"], row["step"]) for row in table["rows"]]
    assert statuses == [("finished", 20)] + [("stopped", 5)] * 3
    assert "rung 1 of 2 (step 5)" in table["rows"][1]["reason"]
    again = shlex.split(table["again"])[1:]
    assert process_fixtures.run(*again, "--run-dir", "run").code == 0
    paused = str(here / "s" / table["rows"][0]["paths"][0])
    assert testing.fingerprint(paused) == testing.fingerprint("run")


def test_ctrl_c_during_the_checks_leaves_nothing_behind(here):
    write_bars("bars.npz")
    (here / "temporary").mkdir()
    (here / "hold-build").touch()
    environment = dict(os.environ, TMPDIR=str(here / "temporary"))
    with open("err", "wb") as err:
        process = process_fixtures.start(*SMALL, stderr=err, env=environment)
    (pid,) = process_fixtures.wait_until(lambda: held(here, "build", 1), among=[process])
    process.send_signal(signal.SIGINT)
    assert process.wait(process_fixtures.PATIENCE) == 130, (here / "err").read_text()
    process_fixtures.wait_until(lambda: process_fixtures.is_gone(pid))
    assert os.listdir("temporary") == []
    assert not (here / "s").exists()


def test_a_configuration_that_cannot_be_trained_is_refused_before_the_first_trial(cli, here):
    process_fixtures.take_turn()
    words = ["search", "--search-dir", "s", "--plugin", LINEAR, "--data", write_bars("bars.npz")]
    words += ["--vary", "accumulate=1,50", "--steps", "40"]
    cli.refuse(2, "Trials with accumulate=50 cannot be trained", *words)
    assert not (here / "s").exists()
