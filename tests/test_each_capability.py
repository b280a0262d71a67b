"""What the toolkit can do, each once for real: commands in processes of their own, as a user types.

The details of each capability are the facts of the other files.
"""

import json
import os
import re
import signal

import numpy as np
import pytest
from file_fixtures import REPOSITORY, flip_byte, read_json
from linear_fixtures import LINEAR, write_bars
from PIL import Image
from process_fixtures import run, start, take_turn, wait_for_file
from test_plugins import distribution

from toolkit import testing

# A small GAN with the cheapest scores.
GAN = ("--width=4", "--batch-size=8", "--latent-size=8", "--steps=4", "--sample-steps=2")
GAN += ("--features=pixels", "--no-two-sample", "--quick-samples=100", "--score-samples=100")
# An extension that holds the process after the commit of step 4, while there is a file `hold`.
HOLDING = """
import os, time
from toolkit import hookimpl

@hookimpl
def checkpoint_saved(step):
    while step == 4 and os.path.exists("hold"):
        open("held", "w").close()
        time.sleep(0.01)
"""


def succeed(*argv, **settings):
    """Run a command, which has to end well."""
    ended = run(*argv, **settings)
    assert ended.code == 0, ended.err
    return ended


@pytest.fixture(scope="module")
def trained_digits(tmp_path_factory):
    """A folder with the run `digits`, a classifier after 60 steps on the default data."""
    folder = tmp_path_factory.mktemp("digits")
    argv = ["run", "--plugin", "classifier", "--network", "mlp", "--steps", 60, "--run-dir"]
    succeed(*argv, "digits", cwd=folder)
    return folder


@pytest.fixture
def digits(trained_digits, monkeypatch):
    monkeypatch.chdir(trained_digits)


@pytest.fixture
def train(here):
    """`train("r", "--steps", 2)` trains the linear plugin, in the folder `r`."""
    data = write_bars("bars.npz")

    def call(folder, *flags, plugin=LINEAR):
        return succeed("run", "--plugin", plugin, "--data", data, "--run-dir", folder, *flags)

    return call


def test_the_classifier_learns_the_default_data_and_writes_a_page(digits):
    test = read_json("digits", "manifest.json")["summary"]["test"]
    assert test["metrics"]["accuracy"] > 0.5 and test["examples"] == 500
    assert os.path.isfile("digits/report.html")


def test_an_evaluation_repeats_the_numbers_of_the_run(digits):
    expected = read_json("digits", "manifest.json")["summary"]["test"]["metrics"]
    metrics = json.loads(succeed("evaluate", "digits", "--json").out)["metrics"]
    assert metrics == pytest.approx(expected, rel=1e-5)


def test_a_picture_gets_a_class(digits):
    Image.fromarray(np.zeros((28, 28), np.uint8)).save("black.png")
    succeed("predict", "digits", "black.png", "--output", "classes.json")
    assert len(read_json("classes.json")) == 1


def test_a_model_is_exported(digits):
    succeed("export", "digits", "exported")
    assert os.path.isfile("exported/saved_model.pb")


def test_the_gan_draws_while_it_trains_and_afterwards(here):
    data = testing.write_digits("digits.npz", count=160)
    succeed("run", "--plugin", "gan", "--data", data, "--run-dir", "gan", *GAN)
    assert [name for name in os.listdir("gan/samples") if name.endswith("000004.png")]
    succeed("sample", "gan", "-n", 3, "--out", "drawn")
    assert len([name for name in os.listdir("drawn") if name.endswith(".png")]) == 3


def test_a_killed_run_ends_with_the_bits_of_one_that_was_not(train):
    with open("holding.py", "w") as file:
        file.write(HOLDING)
    train("whole", "--with", "./holding.py", "--steps", 6)
    open("hold", "w").close()
    argv = ["--plugin", LINEAR, "--data", "npz:bars.npz", "--with", "./holding.py", "--steps", 6]
    process = start("run", "--run-dir", "killed", *argv)
    wait_for_file("held", among=[process])
    process.kill()
    assert process.wait() == -signal.SIGKILL
    os.remove("hold")
    succeed("resume", "killed", "--trust")
    assert testing.fingerprint("killed") == testing.fingerprint("whole")


def test_damage_is_found(train):
    train("r", "--steps", 2)
    succeed("verify", "r", "--trust")
    flip_byte("r/checkpoints/model.ckpt-2.data-00000-of-00001")
    damaged = run("verify", "r", "--trust")
    assert damaged.code == 6 and "model.ckpt-2" in damaged.err


def test_runs_are_listed_compared_and_shown_on_one_page(train):
    train("slow", "--steps", 2)
    train("fast", "--steps", 2, "--learning-rate", 0.5)
    assert len(json.loads(succeed("runs", ".", "--json").out)["runs"]) == 2
    assert "learning_rate" in succeed("compare", "slow", "fast").out
    succeed("report", "slow", "fast", "--output", "both.html")
    with open("both.html", encoding="utf-8") as file:
        page = file.read()
    assert "slow" in page and "fast" in page


def test_a_search_finds_the_better_of_two_rates(here):
    take_turn()
    argv = ["--plugin", LINEAR, "--data", write_bars("bars.npz"), "--steps", 20]
    argv += ["--search-dir", "s", "--vary", "learning_rate=0.00001,0.1", "--json"]
    result = json.loads(succeed("search", *argv).out)
    values = {row["number"]: row["values"] for row in result["rows"]}
    assert values[result["best"]] == {"learning_rate": 0.1}
    best = result["rows"][0]
    assert best["number"] == result["best"] and best["value"] >= result["rows"][1]["value"]
    tested = read_json("s", *best["paths"], "manifest.json")["summary"]["test"]["metrics"]
    assert result["test"]["accuracy"]["value"] == tested["accuracy"]
    assert len(json.loads(succeed("runs", "s", "--json").out)["runs"]) == 2
    with open("s/report.html", encoding="utf-8") as file:
        page = file.read()
    assert "The configurations, the best first" in page and "On the test split, which" in page


@pytest.fixture
def readme_plugin():
    """The source of the plugin of README.md."""
    with open(os.path.join(REPOSITORY, "README.md"), encoding="utf-8") as file:
        return re.search(r"```python\n(.*?)```", file.read(), re.S).group(1)


def test_a_model_in_a_file_is_trained_and_predicts(train, readme_plugin):
    with open("linear.py", "w") as file:
        file.write(readme_plugin)
    ended = train("r", "--steps", 3, "--batch-size", 8, plugin="./linear.py")
    assert "reached step 3" in ended.out
    assert len(succeed("predict", "r", "bars.npz").out.splitlines()) == 13


def test_a_model_of_an_installed_package_is_trained_by_its_name(train, site, readme_plugin):
    distribution(site, "barmodel", "[toolkit.plugins]\nbarmodel = barmodel\n")
    (site / "barmodel.py").write_text(readme_plugin)
    ended = train("r", "--steps", 3, "--batch-size", 8, plugin="barmodel")
    assert "reached step 3" in ended.out


def test_two_processes_train_one_model(here):
    take_turn()
    argv = ["--plugin", LINEAR, "--data", write_bars("bars.npz"), "--steps", 4, "--run-dir", "r"]
    ended = succeed("launch", "--workers", 2, "--", "run", *argv)
    assert "reached step 4" in ended.out
