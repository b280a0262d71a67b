"""What the toolkit can do, each once for real: commands in processes of their own, as a user types.

The details of each capability are the facts of the other files.
"""

import os
import re
import signal
from pathlib import Path

import numpy as np
import pytest
from file_fixtures import REPOSITORY, flip_byte, read_json, read_text
from job_fixtures import wait_at, write_waiting
from linear_fixtures import LINEAR, write_bars
from PIL import Image
from process_fixtures import run, start, take_turn, wait_for_file
from test_plugins import distribution

from toolkit import testing

# A small GAN with the cheapest scores.
GAN = ("--width=4", "--batch-size=8", "--latent-size=8", "--steps=4", "--sample-steps=2")
GAN += ("--features=pixels", "--no-two-sample", "--quick-samples=100", "--score-samples=100")


@pytest.fixture(scope="module")
def trained_digits(tmp_path_factory):
    """A folder with the run `digits`, a classifier after 60 steps on the default data."""
    folder = tmp_path_factory.mktemp("digits")
    argv = ["run", "--plugin", "classifier", "--network", "mlp", "--steps", 60, "--run-dir"]
    run(*argv, "digits", cwd=folder).ok()
    return folder


@pytest.fixture
def digits(trained_digits, monkeypatch):
    monkeypatch.chdir(trained_digits)


@pytest.fixture
def train(here):
    """`train("r", "--steps", 2)` trains the linear plugin, in the folder `r`."""
    data = write_bars("bars.npz")

    def call(folder, *flags, plugin=LINEAR):
        return run("run", "--plugin", plugin, "--data", data, "--run-dir", folder, *flags).ok()

    return call


def test_the_classifier_learns_the_default_data_and_writes_a_page(digits):
    test = read_json("digits", "manifest.json")["summary"]["test"]
    assert test["metrics"]["accuracy"] > 0.5 and test["examples"] == 500
    assert os.path.isfile("digits/report.html")


def test_an_evaluation_repeats_the_numbers_of_the_run(digits):
    expected = read_json("digits", "manifest.json")["summary"]["test"]["metrics"]
    metrics = run("evaluate", "digits", "--json").ok().json()["metrics"]
    assert metrics == pytest.approx(expected, rel=1e-5)


def test_a_picture_gets_a_class(digits):
    Image.fromarray(np.zeros((28, 28), np.uint8)).save("black.png")
    run("predict", "digits", "black.png", "--output", "classes.json").ok()
    assert len(read_json("classes.json")) == 1


def test_a_model_is_exported(digits):
    run("export", "digits", "exported").ok()
    assert os.path.isfile("exported/saved_model.pb")


def test_the_gan_draws_while_it_trains_and_afterwards(here):
    data = testing.write_digits("digits.npz", count=160)
    run("run", "--plugin", "gan", "--data", data, "--run-dir", "gan", *GAN).ok()
    assert [name for name in os.listdir("gan/samples") if name.endswith("000004.png")]
    run("sample", "gan", "-n", 3, "--out", "drawn").ok()
    assert len([name for name in os.listdir("drawn") if name.endswith(".png")]) == 3


def test_a_killed_run_ends_with_the_bits_of_one_that_was_not(train):
    flags = ["--with", write_waiting(), "--steps", 6]
    train("whole", *flags)
    wait_at(5)  # after the checkpoint of step 4
    argv = ["--plugin", LINEAR, "--data", "npz:bars.npz", *flags]
    process = start("run", "--run-dir", "killed", *argv)
    wait_for_file("waits", among=[process])
    process.kill()
    assert process.wait() == -signal.SIGKILL
    os.remove("wait at")
    run("resume", "killed", "--trust").ok()
    assert testing.fingerprint("killed") == testing.fingerprint("whole")


def test_damage_is_found(train):
    train("r", "--steps", 2)
    run("verify", "r", "--trust").ok()
    flip_byte("r/checkpoints/model.ckpt-2.data-00000-of-00001")
    damaged = run("verify", "r", "--trust")
    assert damaged.code == 6 and "model.ckpt-2" in damaged.err


def test_runs_are_listed_compared_and_shown_on_one_page(train):
    train("slow", "--steps", 2)
    train("fast", "--steps", 2, "--learning-rate", 0.5)
    assert len(run("runs", ".", "--json").ok().json()["runs"]) == 2
    assert "learning_rate" in run("compare", "slow", "fast").ok().out
    run("report", "slow", "fast", "--output", "both.html").ok()
    page = read_text("both.html")
    assert "slow" in page and "fast" in page


def test_a_search_finds_the_better_of_two_rates(here):
    take_turn()
    argv = ["--plugin", LINEAR, "--data", write_bars("bars.npz"), "--steps", 20]
    argv += ["--search-dir", "s", "--vary", "learning_rate=0.00001,0.1", "--json"]
    result = run("search", *argv).ok().json()
    values = {row["number"]: row["values"] for row in result["rows"]}
    assert values[result["best"]] == {"learning_rate": 0.1}
    best = result["rows"][0]
    assert best["number"] == result["best"] and best["value"] >= result["rows"][1]["value"]
    tested = read_json("s", *best["paths"], "manifest.json")["summary"]["test"]["metrics"]
    assert result["test"]["accuracy"]["value"] == tested["accuracy"]
    assert len(run("runs", "s", "--json").ok().json()["runs"]) == 2
    page = read_text("s/report.html")
    assert "The configurations, the best first" in page and "On the test split, which" in page


@pytest.fixture
def readme_plugin():
    """The source of the plugin of README.md."""
    return re.search(r"```python\n(.*?)```", read_text(REPOSITORY, "README.md"), re.S).group(1)


def test_a_model_in_a_file_is_trained_and_predicts(train, readme_plugin):
    Path("linear.py").write_text(readme_plugin)
    ended = train("r", "--steps", 3, "--batch-size", 8, plugin="./linear.py")
    assert "reached step 3" in ended.out
    assert len(run("predict", "r", "bars.npz").ok().out.splitlines()) == 13


def test_a_model_of_an_installed_package_is_trained_by_its_name(train, site, readme_plugin):
    distribution(site, "barmodel", "[toolkit.plugins]\nbarmodel = barmodel\n")
    (site / "barmodel.py").write_text(readme_plugin)
    ended = train("r", "--steps", 3, "--batch-size", 8, plugin="barmodel")
    assert "reached step 3" in ended.out


def test_two_processes_train_one_model(here):
    take_turn()
    argv = ["--plugin", LINEAR, "--data", write_bars("bars.npz"), "--steps", 4, "--run-dir", "r"]
    ended = run("launch", "--workers", 2, "--", "run", *argv).ok()
    assert "reached step 4" in ended.out
