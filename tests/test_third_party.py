"""Plugins of others and the toolkit, all installed from wheels into one new environment.

Nothing of the repository can be imported there. The dependencies are those of the environment that
runs the tests; they are appended to the path of the new environment, after its own packages.

The packages in `samples` are such plugins. The own tests of each check the contracts of toolkit;
here it is used from the command line.
"""

from __future__ import annotations

import glob
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from typing import Any, Dict, NamedTuple

import numpy as np
import pytest
from PIL import Image

pytestmark = pytest.mark.slow

REPOSITORY = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SAMPLES = os.path.join(REPOSITORY, "samples")
STEPS, LATER = 20, 30
SECONDS = 900  # for any one command; the slowest takes 40 s on two cores


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


PLUGINS = {
    "diffusion": Sample(
        {"--filters": 4, "--sampler-steps": 3, "--dump-steps": 20, "--dump-images": 4},
        {"noise": np.zeros([2, 3, 28, 28, 1], np.float32)},
        {"image"},
        draws=True,
        files=("samples/sample-000020.png",),
    ),
    "vae": Sample(
        {"--with": "journal", "--dump-steps": 15, "--dump-images": 4, "--hidden": 64},
        {"x": np.zeros([2, 28, 28, 1], np.uint8)},
        {"code", "reconstruction"},
        draws=True,
        files=("samples/images-000015.png", "samples/images-000020.png", "journal.txt"),
    ),
    "segmentation": Sample(
        {"--filters": 4, "--levels": 1},
        {"x": np.zeros([2, 32, 32, 3], np.uint8)},
        {"mask"},
        files=("reports/test-{step}/worst.png",),
    ),
    "text-classifier": Sample(
        {"--buckets": 256},
        {"x": np.array(["The soup was good.", "It is not."])},
        {"label", "probabilities"},
        files=("reports/test-{step}/votes.png",),
    ),
}


# An extension, which requires a library that not every environment has.
TRACKER = "mlflow-tracker"
HAS_MLFLOW = importlib.util.find_spec("mlflow") is not None
PACKAGES = [*PLUGINS, TRACKER] if HAS_MLFLOW else list(PLUGINS)


class Environment:
    """A new environment with the wheels of all, and an empty folder to work in."""

    def __init__(self, root):
        self.root = os.path.realpath(str(root))
        self.work = os.path.join(self.root, "work")
        self.bin = os.path.join(self.root, "env", "Scripts" if os.name == "nt" else "bin")
        os.makedirs(self.work)
        sources = {name: os.path.join(SAMPLES, name) for name in PACKAGES}
        wheels = self._build_wheels(dict(sources, toolkit=REPOSITORY))
        self.run(sys.executable, "-m", "venv", os.path.join(self.root, "env"))
        # Before the shared packages become visible, so that pip finds no toolkit among them.
        self.python("-m", "pip", "install", "--no-deps", "--no-index", *wheels)
        self._share_dependencies()

    def _build_wheels(self, sources):
        """Build from copies, since setuptools writes files beside the sources."""
        wheels = os.path.join(self.root, "wheels")
        ignore = shutil.ignore_patterns(".*", "*.egg-info", "__pycache__", "build", "dist", "runs")
        copies = [os.path.join(self.root, name) for name in sources]
        for copy, source in zip(copies, sources.values()):
            shutil.copytree(source, copy, ignore=ignore)
        pip = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--wheel-dir", wheels]
        self.run(*pip, *copies)
        assert len(os.listdir(wheels)) == len(sources)
        return [os.path.join(wheels, wheel) for wheel in os.listdir(wheels)]

    def _share_dependencies(self):
        code = "import sysconfig; print(sysconfig.get_path('purelib'))"
        own = self.python("-c", code).stdout.strip()
        ours = [p for p in sys.path if os.path.basename(p) in ("site-packages", "dist-packages")]
        # Python ignores .pth files in folders that are added this way, and so editable installs.
        with open(os.path.join(own, "shared.pth"), "w") as file:
            file.write("".join(path + "\n" for path in ours))

    def run(self, *command, code=0):
        """Run a command without the tests' own paths and settings; `code` None allows any."""
        own_variables = ("PYTHONPATH", "PYTHONHOME", "__PYVENV_LAUNCHER__", "VIRTUAL_ENV")
        variables = {
            name: value
            for name, value in os.environ.items()
            if name not in own_variables and not name.startswith(("TOOLKIT_", "PYTEST_"))
        }
        variables.update(PYTHONNOUSERSITE="1", TOOLKIT_CACHE=os.path.join(self.root, "cache"))
        result = subprocess.run(
            [str(part) for part in command],
            cwd=self.work,
            env=variables,
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )
        assert code in (None, result.returncode), f"{command}\n{result.stdout}{result.stderr}"
        return result

    def python(self, *arguments, **kwargs):
        return self.run(os.path.join(self.bin, "python"), *arguments, **kwargs)

    def toolkit(self, *arguments, **kwargs):
        return self.run(os.path.join(self.bin, "toolkit"), *arguments, **kwargs)

    def json(self, *arguments):
        """The one object on stdout."""
        return json.loads(self.toolkit(*(arguments + ("--json",))).stdout)

    def copy(self, run):
        """A copy of a run in another folder, which a test may change."""
        name = f"copy-{len(os.listdir(self.work))}"
        shutil.copytree(os.path.join(self.work, run), os.path.join(self.work, name))
        return name

    def read(self, *parts):
        with open(os.path.join(self.work, *parts), encoding="utf-8") as file:
            return file.read()


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    return Environment(tmp_path_factory.mktemp("third-party"))


@pytest.fixture(scope="module", params=sorted(PLUGINS))
def name(request):
    """Each of the samples."""
    return request.param


@pytest.fixture(scope="module")
def trained(environment, name):
    """The summary of a run of 20 steps in the default place."""
    flags = [part for pair in PLUGINS[name].flags.items() for part in pair]
    options = ["--steps", STEPS, "--checkpoint-steps", 15, "--batch-size", 8]
    return environment.json("run", "--plugin", name, *options, *flags)


def package_of(name):
    return "toolkit_" + name.replace("-", "_")


# ------------------------------------------------------------------------------------ installation


def test_all_packages_come_from_their_wheels(environment):
    packages = ["toolkit", *map(package_of, PACKAGES)]
    code = "; ".join(f"import {package}; print({package}.__file__)" for package in packages)
    paths = environment.python("-c", code).stdout.split()
    assert len(paths) == len(packages)
    for path in paths:
        assert os.path.realpath(path).startswith(os.path.join(environment.root, "env"))
        assert not os.path.realpath(path).startswith(REPOSITORY + os.sep)


def test_the_wheels_require_what_they_need(environment):
    """`pip check` lists unmet requirements; those of other packages do not matter here."""
    output = environment.python("-m", "pip", "check", code=None).stdout
    assert re.findall(r"(?m)^toolkit\S* .*", output) == []


def test_the_list_names_plugins_and_extensions_with_their_distribution(environment):
    rows = {row["name"]: row for row in environment.json("plugins", "list")}
    expected = {plugin: ("model", "toolkit-" + plugin) for plugin in PLUGINS}
    expected["journal"] = ("extension", "toolkit-vae")
    for plugin, (kind, distribution) in expected.items():
        assert (rows[plugin]["kind"], rows[plugin]["distribution"]) == (kind, distribution)
        assert rows[plugin]["state"] == "ok"
    assert re.search(r"(?m)^vae +model ", environment.toolkit("plugins", "list").stdout)


def test_the_plugins_options_are_flags(environment):
    output = environment.toolkit("run", "--plugin", "vae", "--help").stdout
    assert "--code" in output and "--dump-steps" in output


def test_a_misspelt_flag_of_the_plugin_exits_with_2(environment):
    output = environment.toolkit("run", "--plugin", "vae", "--dump-step", "5", code=2)
    assert "--dump-step" in output.stderr and "Traceback" not in output.stderr


# ---------------------------------------------------------------------------------- for each sample


@pytest.mark.parametrize("name", sorted(PACKAGES), scope="module")
def test_the_own_tests_of_a_sample_pass(environment, name):
    tests = os.path.join(environment.root, name, "tests")
    output = environment.python(
        "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", tests, tests
    )
    assert re.search(r"\d+ passed", output.stdout)


def test_a_run_trains_and_tests(environment, trained, name):
    assert (trained["plugin"], trained["steps"]) == (name, STEPS)
    assert all(np.isfinite(value) for value in trained["test"]["metrics"].values())
    missing = [
        path
        for path in ("config.json", *PLUGINS[name].files)
        if not os.path.isfile(
            os.path.join(environment.work, trained["run"], path.format(**trained["test"]))
        )
    ]
    assert missing == []


def test_the_manifest_names_the_distribution(environment, trained, name):
    plugins = json.loads(environment.read(trained["run"], "manifest.json"))["plugins"]
    assert plugins[name]["distribution"].startswith("toolkit-" + name)
    modules = os.listdir(os.path.join(environment.root, name, package_of(name)))
    assert len(plugins[name]["sha256"]) == len([m for m in modules if m.endswith(".py")])


def test_evaluate_repeats_the_metrics_of_the_run(environment, trained):
    result = environment.json("evaluate", trained["run"])
    assert result["step"] == trained["test"]["step"]
    assert result["metrics"] == pytest.approx(trained["test"]["metrics"])


def test_resume_continues_to_the_later_step(environment, trained):
    run = environment.copy(trained["run"])
    # Its cosine follows the length of the run, so that the learning rate jumps.
    argv = ["--steps", LATER, "--allow", "steps"]
    assert environment.json("resume", run, *argv)["steps"] == LATER


def test_predictions_are_those_of_the_export(environment, trained, name):
    sample = PLUGINS[name]
    file = os.path.join(environment.work, name + ".npz")
    np.savez(file, **sample.inputs)
    rows = environment.json("predict", trained["run"], file)
    assert len(rows) == 2 and sample.outputs <= set(rows[0])
    exported = environment.json("export", trained["run"], name + "-export")
    assert exported["largest_difference"] < 1e-4


def test_samples_are_drawn_by_the_models_that_can(environment, trained, name):
    if not PLUGINS[name].draws:
        output = environment.toolkit("sample", trained["run"], code=None)
        assert "has no hook 'sample'" in output.stderr
        return
    environment.toolkit("sample", trained["run"], "-n", 6, "--seed", 3, "--out", name + ".png")
    with Image.open(os.path.join(environment.work, name + ".png")) as picture:
        # 3 columns and 2 rows of 28 pixels, 2 between and around them.
        assert picture.size == (3 * 30 + 2, 2 * 30 + 2)


# ------------------------------------------------------------------- the extension of the vae


@pytest.mark.parametrize("name", ["vae"], indirect=True, scope="module")
def test_the_journal_lists_each_checkpoint_and_the_end(environment, trained):
    assert environment.read(trained["run"], "journal.txt").splitlines() == [
        "step 15: checkpoint saved",
        "step 20: checkpoint saved",
        "step 20: reached step 20",
    ]
    plugins = json.loads(environment.read(trained["run"], "manifest.json"))["plugins"]
    assert plugins["journal"]["kind"] == "extension"


# ------------------------------------------------------------------------------- the tracker


@pytest.mark.skipif(not HAS_MLFLOW, reason="needs mlflow-skinny")
def test_the_tracker_logs_a_model_of_somebody_else(environment):
    """Its options are flags, and MLflow has the test of the run."""
    place = os.path.join(environment.root, "mlruns")
    flags = ["--hidden", 8, "--steps", STEPS, "--mlflow-uri", place, "--mlflow-wait", 120]
    summary = environment.json("run", "--plugin", "vae", "--with", "mlflow", *flags)
    run_id = json.loads(environment.read(summary["run"], "mlflow.json"))["run_id"]
    (path,) = glob.glob(os.path.join(place, "*", run_id, "metrics", "test", "loss"))
    with open(path) as file:
        value = float(file.read().split()[1])
    assert value == pytest.approx(summary["test"]["metrics"]["loss"])
