"""Plugins of others and the toolkit, all installed from wheels into one environment.

The packages in `samples` are such plugins. Their own tests check them beside the toolkit's; here
they are found by their entry points, and one that draws and has an extension is used from the
command line.
"""

from __future__ import annotations

import glob
import os
import re

import numpy as np
import pytest
from environment_fixtures import HAS_MLFLOW, PACKAGES, REPOSITORY
from file_fixtures import read_json
from PIL import Image

STEPS, LATER = 20, 30


FLAGS = ["--with", "journal", "--dump-steps", 15, "--dump-images", 4, "--hidden", 64]
FLAGS += ["--steps", STEPS, "--checkpoint-steps", 15, "--batch-size", 8]
LONGER = ["--from", STEPS, "--run-dir", "later", "--steps", LATER, "--allow", "steps"]
COMMANDS = {
    "run": ["run", "--plugin", "vae", "--run-dir", "vae", *FLAGS, "--json"],
    "evaluate": ["evaluate", "vae", "--json"],
    "resume": ["resume", "vae", *LONGER, "--json"],
    "predict": ["predict", "vae", "images.npz", "--json"],
    "export": ["export", "vae", "vae-export", "--json"],
    "sample": ["sample", "vae", "-n", 6, "--seed", 3, "--out", "vae.png"],
}


@pytest.fixture(scope="module")
def results(installed):
    """Command -> its result; one interpreter runs all of them."""
    images = np.zeros([2, 28, 28, 1], np.uint8)
    np.savez(os.path.join(installed.work, "images.npz"), x=images)
    results = dict(zip(COMMANDS, installed.toolkit(*COMMANDS.values())))
    for command, result in results.items():
        assert result.code == 0, f"{command}: {result.err}"
    return results


def package_of(name):
    return "toolkit_" + name.replace("-", "_")


# ------------------------------------------------------------------------------------ installation


def test_all_packages_come_from_their_wheels(installed):
    packages = ["toolkit", *map(package_of, PACKAGES)]
    code = "; ".join(f"import {package}; print({package}.__file__)" for package in packages)
    paths = installed.run("-c", code).out.split()
    assert len(paths) == len(packages)
    for path in paths:
        assert os.path.realpath(path).startswith(installed.folder + os.sep)
        assert not os.path.realpath(path).startswith(REPOSITORY + os.sep)


def test_the_wheels_require_what_they_need(installed):
    """`pip check` lists unmet requirements; those of other packages do not matter here."""
    output = installed.run("-m", "pip", "check", code=None).out
    assert re.findall(r"(?m)^toolkit\S* .*", output) == []


def test_the_list_names_plugins_and_extensions_with_their_distribution(installed):
    lines, rows = installed.toolkit(["plugins", "list"], ["plugins", "list", "--json"])
    rows = {row["name"]: row for row in rows.json()}
    models = ("diffusion", "segmentation", "text-classifier", "vae")
    expected = {plugin: ("model", "toolkit-" + plugin) for plugin in models}
    expected["journal"] = ("extension", "toolkit-vae")
    for plugin, (kind, distribution) in expected.items():
        assert (rows[plugin]["kind"], rows[plugin]["distribution"]) == (kind, distribution)
        assert rows[plugin]["state"] == "ok"
    assert re.search(r"(?m)^vae +model ", lines.out)


# -------------------------------------------------------------------------------------- one of them


def test_a_run_trains_and_tests(installed, results):
    summary = results["run"].json()
    assert (summary["plugin"], summary["steps"]) == ("vae", STEPS)
    assert all(np.isfinite(value) for value in summary["test"]["metrics"].values())
    pictures = ["samples/step-00000015.png", "samples/step-00000020.png"]
    for path in ("config.json", "journal.txt", *pictures):
        assert os.path.isfile(os.path.join(installed.work, "vae", path))


def test_the_manifest_names_the_distribution(installed, results):
    plugins = read_json(installed.work, "vae", "manifest.json")["plugins"]
    assert plugins["vae"]["distribution"].startswith("toolkit-vae")
    modules = os.listdir(os.path.join(REPOSITORY, "samples", "vae", "toolkit_vae"))
    assert len(plugins["vae"]["sha256"]) == len([m for m in modules if m.endswith(".py")])
    assert plugins["journal"]["kind"] == "extension"


def test_evaluate_repeats_the_metrics_of_the_run_and_resume_continues_it(results):
    result, test = results["evaluate"].json(), results["run"].json()["test"]
    assert result["step"] == test["step"]
    assert result["metrics"] == pytest.approx(test["metrics"])
    assert results["resume"].json()["steps"] == LATER


def test_predictions_are_those_of_the_export(results):
    rows = results["predict"].json()
    assert len(rows) == 2 and {"code", "reconstruction"} <= set(rows[0])
    assert results["export"].json()["largest_difference"] < 1e-4


def test_samples_are_drawn(installed, results):
    with Image.open(os.path.join(installed.work, "vae.png")) as picture:
        # 3 columns and 2 rows of 28 pixels, 2 between and around them.
        assert picture.size == (3 * 30 + 2, 2 * 30 + 2)


@pytest.mark.skipif(not HAS_MLFLOW, reason="needs mlflow-skinny")
def test_the_tracker_logs_a_model_of_somebody_else(installed):
    """Its options are flags, and MLflow has the test of the run."""
    flags = ["--hidden", 8, "--steps", STEPS, "--mlflow-uri", "mlruns", "--mlflow-wait", 600]
    argv = ["run", "--plugin", "vae", "--with", "mlflow", "--run-dir", "tracked", *flags]
    (result,) = installed.toolkit([*argv, "--json"])
    assert result.code == 0, result.err
    run_id = read_json(installed.work, "tracked", "mlflow.json")["run_id"]
    (path,) = glob.glob(
        os.path.join(installed.work, "mlruns", "*", run_id, "metrics", "test", "loss")
    )
    with open(path) as file:
        value = float(file.read().split()[1])
    assert value == pytest.approx(result.json()["test"]["metrics"]["loss"])
