"""Plugins of others and the toolkit, all installed from wheels into one environment.

The packages in `samples` are such plugins. Their own tests check them beside the toolkit's; here
they are found by their entry points and used from the command line.
"""

from __future__ import annotations

import glob
import os
import re
from typing import Any, Dict, NamedTuple

import numpy as np
import pytest
from environment_fixtures import HAS_MLFLOW, PACKAGES, REPOSITORY
from file_fixtures import read_json
from PIL import Image

STEPS, LATER = 20, 30


class Sample(NamedTuple):
    """How one of the samples is used.

    Attributes:
        flags: of its run.
        inputs: name -> array in the file of which it predicts.
        outputs: the names of its predictions.
        draws: whether it has the hook `sample`.
        files: the files that the run writes besides the core's; {step} is that of its test.
    """

    flags: Dict[str, Any]
    inputs: Dict[str, np.ndarray]
    outputs: set
    draws: bool = False
    files: tuple = ()


# One that draws and has an extension, and one that reads texts; own tests train the others.
PLUGINS = {
    "vae": Sample(
        {"--with": "journal", "--dump-steps": 15, "--dump-images": 4, "--hidden": 64},
        {"x": np.zeros([2, 28, 28, 1], np.uint8)},
        {"code", "reconstruction"},
        draws=True,
        files=("samples/step-00000015.png", "samples/step-00000020.png", "journal.txt"),
    ),
    "text-classifier": Sample(
        {"--buckets": 256},
        {"x": np.array(["The soup was good.", "It is not."])},
        {"label", "probabilities"},
        files=("reports/test-{step}/votes.png",),
    ),
}
OTHERS = ("diffusion", "segmentation")


def commands_of(name):
    """The commands that use a sample, in the order in which they are given."""
    flags = [part for pair in PLUGINS[name].flags.items() for part in pair]
    flags += ["--steps", STEPS, "--checkpoint-steps", 15, "--batch-size", 8]
    later = ["--from", STEPS, "--run-dir", name + "-later", "--steps", LATER, "--allow", "steps"]
    return {
        "run": ["run", "--plugin", name, "--run-dir", name, *flags, "--json"],
        "evaluate": ["evaluate", name, "--json"],
        # Its cosine follows the length of the run, so that the learning rate jumps.
        "resume": ["resume", name, *later, "--json"],
        "predict": ["predict", name, name + ".npz", "--json"],
        "export": ["export", name, name + "-export", "--json"],
        "sample": ["sample", name, "-n", 6, "--seed", 3, "--out", name + ".png"],
    }


@pytest.fixture(scope="module")
def all_results(installed):
    """Sample -> command -> its result; one interpreter runs all of them."""
    for name, sample in PLUGINS.items():
        np.savez(os.path.join(installed.work, name + ".npz"), **sample.inputs)
    keys = [(name, command) for name in PLUGINS for command in commands_of(name)]
    printed = installed.toolkit(*(commands_of(name)[command] for name, command in keys))
    results = {name: {} for name in PLUGINS}
    for (name, command), result in zip(keys, printed):
        results[name][command] = result
    return results


@pytest.fixture(params=sorted(PLUGINS))
def name(request):
    """Each of the samples that are used."""
    return request.param


@pytest.fixture
def results(all_results, name):
    """Command -> its result, for one sample."""
    for command in set(all_results[name]) - {"sample"}:
        result = all_results[name][command]
        assert result.code == 0, f"{command}: {result.err}"
    return all_results[name]


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
    expected = {plugin: ("model", "toolkit-" + plugin) for plugin in (*PLUGINS, *OTHERS)}
    expected["journal"] = ("extension", "toolkit-vae")
    for plugin, (kind, distribution) in expected.items():
        assert (rows[plugin]["kind"], rows[plugin]["distribution"]) == (kind, distribution)
        assert rows[plugin]["state"] == "ok"
    assert re.search(r"(?m)^vae +model ", lines.out)


# ---------------------------------------------------------------------------------- for each sample


def test_a_run_trains_and_tests(installed, results, name):
    summary = results["run"].json()
    assert (summary["plugin"], summary["steps"]) == (name, STEPS)
    assert all(np.isfinite(value) for value in summary["test"]["metrics"].values())
    for path in ("config.json", *PLUGINS[name].files):
        assert os.path.isfile(os.path.join(installed.work, name, path.format(**summary["test"])))


def test_the_manifest_names_the_distribution(installed, results, name):
    plugins = read_json(installed.work, name, "manifest.json")["plugins"]
    assert plugins[name]["distribution"].startswith("toolkit-" + name)
    modules = os.listdir(os.path.join(REPOSITORY, "samples", name, package_of(name)))
    assert len(plugins[name]["sha256"]) == len([m for m in modules if m.endswith(".py")])
    if "journal" in PLUGINS[name].flags.values():
        assert plugins["journal"]["kind"] == "extension"


def test_evaluate_repeats_the_metrics_of_the_run_and_resume_continues_it(results):
    result, test = results["evaluate"].json(), results["run"].json()["test"]
    assert result["step"] == test["step"]
    assert result["metrics"] == pytest.approx(test["metrics"])
    assert results["resume"].json()["steps"] == LATER


def test_predictions_are_those_of_the_export(results, name):
    rows = results["predict"].json()
    assert len(rows) == 2 and PLUGINS[name].outputs <= set(rows[0])
    assert results["export"].json()["largest_difference"] < 1e-4


def test_samples_are_drawn_by_the_models_that_can(installed, results, name):
    if not PLUGINS[name].draws:
        assert results["sample"].code == 2
        assert "has no hook 'sample'" in results["sample"].err
        return
    assert results["sample"].code == 0
    with Image.open(os.path.join(installed.work, name + ".png")) as picture:
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
