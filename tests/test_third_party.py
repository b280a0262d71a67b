"""A third party's plugin and the toolkit, both installed from wheels into a new environment.

Nothing of the repository can be imported there. The dependencies are those of the environment that
runs the tests; they are appended to the path of the new environment, after its own packages.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys

import pytest
from PIL import Image

pytestmark = pytest.mark.slow

REPOSITORY = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SAMPLE = os.path.join(REPOSITORY, "samples", "third-party-plugin")
STEPS, LATER = 60, 90
SECONDS = 300  # for any one command; the slowest takes 20 s on two cores
FLAGS = ["--steps", STEPS, "--dump-steps", "25", "--dump-images", "4", "--checkpoint-steps", "40"]


class Environment:
    """A new environment with both wheels, and an empty folder to work in."""

    def __init__(self, root):
        self.root = os.path.realpath(str(root))
        self.work = os.path.join(self.root, "work")
        self.bin = os.path.join(self.root, "env", "Scripts" if os.name == "nt" else "bin")
        os.makedirs(self.work)
        wheels = [
            self._build_wheel("toolkit", REPOSITORY),
            self._build_wheel("autoencoder", SAMPLE),
        ]
        self.run(sys.executable, "-m", "venv", os.path.join(self.root, "env"))
        # Before the shared packages become visible, so that pip finds no toolkit among them.
        self.python("-m", "pip", "install", "--no-deps", "--no-index", *wheels)
        self._share_dependencies()

    def _build_wheel(self, name, source):
        """Build from a copy, since setuptools writes files beside the sources."""
        copy, wheels = os.path.join(self.root, name), os.path.join(self.root, name + "-wheel")
        ignore = shutil.ignore_patterns(".*", "*.egg-info", "__pycache__", "build", "dist", "runs")
        shutil.copytree(source, copy, ignore=ignore)
        self.run(sys.executable, "-m", "pip", "wheel", "--no-deps", "--wheel-dir", wheels, copy)
        (wheel,) = os.listdir(wheels)
        return os.path.join(wheels, wheel)

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


@pytest.fixture(scope="module")
def trained(environment):
    """The summary of a run of 60 steps in the default place."""
    return environment.json("run", "--plugin", "autoencoder", "--with", "journal", *FLAGS)


def test_both_packages_come_from_their_wheels(environment):
    output = environment.python(
        "-c", "import toolkit, toolkit_autoencoder as a; print(toolkit.__file__, a.__file__)"
    )
    for path in output.stdout.split():
        assert os.path.realpath(path).startswith(os.path.join(environment.root, "env"))
        assert not os.path.realpath(path).startswith(REPOSITORY + os.sep)


def test_the_wheels_require_what_they_need(environment):
    """`pip check` lists unmet requirements; those of other packages do not matter here."""
    output = environment.python("-m", "pip", "check", code=None).stdout
    assert re.findall(r"(?m)^toolkit\S* .*", output) == []


def test_the_list_names_plugin_and_extension_with_their_distribution(environment):
    rows = {row["name"]: row for row in environment.json("plugins", "list")}
    for name, kind in (("autoencoder", "model"), ("journal", "extension")):
        assert rows[name]["kind"] == kind
        assert rows[name]["distribution"] == "toolkit-autoencoder"
        assert rows[name]["state"] == "ok"
    assert re.search(r"(?m)^autoencoder +model ", environment.toolkit("plugins", "list").stdout)


def test_the_plugins_options_are_flags(environment):
    output = environment.toolkit("run", "--plugin", "autoencoder", "--help").stdout
    assert "--code" in output and "--dump-steps" in output


def test_a_misspelt_flag_of_the_plugin_exits_with_2(environment):
    output = environment.toolkit("run", "--plugin", "autoencoder", "--dump-step", "5", code=2)
    assert "--dump-step" in output.stderr and "Traceback" not in output.stderr


def test_the_summary_has_the_run_its_steps_and_the_test(environment, trained):
    assert (trained["plugin"], trained["steps"]) == ("autoencoder", STEPS)
    assert os.path.isfile(os.path.join(environment.work, trained["run"], "config.json"))
    metrics = trained["test"]["metrics"]
    # Uniform grey has a squared error of at most 0.25 and a loss of ln 2 = 0.693 nats.
    assert 0 < metrics["squared_error"] < 0.25 and 0 < metrics["loss"] < 0.693


def test_pictures_show_originals_above_reconstructions(environment, trained):
    folder = os.path.join(environment.work, trained["run"], "samples")
    assert sorted(os.listdir(folder)) == [
        f"reconstruction-{step:06d}.png" for step in (25, 50, STEPS)
    ]
    with Image.open(os.path.join(folder, "reconstruction-000060.png")) as picture:
        # 4 columns and 2 rows of 28 pixels, 2 between and around them.
        assert picture.size == (4 * 30 + 2, 2 * 30 + 2)
        assert picture.convert("L").getextrema()[1] > 200


def test_the_journal_lists_each_checkpoint_and_the_end(environment, trained):
    assert environment.read(trained["run"], "journal.txt").splitlines() == [
        "step 40: checkpoint saved",
        "step 60: checkpoint saved",
        "step 60: reached step 60",
    ]


def test_the_manifest_names_the_plugins_distribution(environment, trained):
    plugins = json.loads(environment.read(trained["run"], "manifest.json"))["plugins"]
    assert plugins["autoencoder"]["distribution"].startswith("toolkit-autoencoder")
    assert len(plugins["autoencoder"]["sha256"]) == 7  # the modules of the package
    assert plugins["journal"]["kind"] == "extension"


def test_evaluate_repeats_the_metrics_of_the_run(environment, trained):
    result = environment.json("evaluate", trained["run"])
    assert result["step"] == STEPS
    assert result["metrics"] == pytest.approx(trained["test"]["metrics"])


def test_resume_continues_to_the_later_step(environment, trained):
    run = environment.copy(trained["run"])
    # Its cosine follows the length of the run, so that the learning rate jumps.
    argv = ["--steps", LATER, "--allow", "steps"]
    assert environment.json("resume", run, *argv)["steps"] == LATER
    assert environment.read(run, "journal.txt").splitlines()[3:] == [
        "step 80: checkpoint saved",
        "step 90: checkpoint saved",
        "step 90: reached step 90",
    ]
    assert os.path.isfile(
        os.path.join(environment.work, run, "samples", f"reconstruction-{LATER:06d}.png")
    )


def test_the_plugins_own_tests_pass(environment):
    tests = os.path.join(environment.root, "autoencoder", "tests")
    output = environment.python(
        "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", tests, tests
    )
    assert re.search(r"\d+ passed", output.stdout) and "skipped" not in output.stdout
