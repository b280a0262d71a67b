"""A plugin of a third party, from its wheel, with the toolkit from its own, in a fresh environment.

Nothing of the repository is importable there. The heavy dependencies are those of the environment
that runs the tests: they are appended to the fresh one's path, behind what was installed into it.
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


class Fresh:
    """An environment with both wheels, and an empty folder to work in."""

    def __init__(self, root):
        self.root = os.path.realpath(str(root))
        self.work = os.path.join(self.root, "work")
        self.bin = os.path.join(self.root, "env", "Scripts" if os.name == "nt" else "bin")
        os.makedirs(self.work)
        wheels = [self._wheel("toolkit", REPOSITORY), self._wheel("autoencoder", SAMPLE)]
        self.do(sys.executable, "-m", "venv", os.path.join(self.root, "env"))
        # Before the borrowed packages are visible, so that pip finds no toolkit among them.
        self.python("-m", "pip", "install", "--no-deps", "--no-index", *wheels)
        self._borrow_dependencies()

    def _wheel(self, name, source):
        """Build from a copy: setuptools leaves its work beside the sources."""
        copy, wheels = os.path.join(self.root, name), os.path.join(self.root, name + "-wheel")
        left_out = shutil.ignore_patterns(
            ".*", "*.egg-info", "__pycache__", "build", "dist", "runs"
        )
        shutil.copytree(source, copy, ignore=left_out)
        self.do(sys.executable, "-m", "pip", "wheel", "--no-deps", "--wheel-dir", wheels, copy)
        (wheel,) = os.listdir(wheels)
        return os.path.join(wheels, wheel)

    def _borrow_dependencies(self):
        where = "import sysconfig; print(sysconfig.get_path('purelib'))"
        own = self.python("-c", where).stdout.strip()
        ours = [p for p in sys.path if os.path.basename(p) in ("site-packages", "dist-packages")]
        # Its .pth files are not read in a folder that comes in this way: no editable install does.
        with open(os.path.join(own, "borrowed.pth"), "w") as file:
            file.write("".join(path + "\n" for path in ours))

    def do(self, *command, code=0):
        """Run to its end, with none of the tests' own paths and settings. code: None allows any."""
        hidden = ("PYTHONPATH", "PYTHONHOME", "__PYVENV_LAUNCHER__", "VIRTUAL_ENV")
        variables = {
            name: value
            for name, value in os.environ.items()
            if name not in hidden and not name.startswith("TOOLKIT_")
        }
        variables.update(PYTHONNOUSERSITE="1", TOOLKIT_CACHE=os.path.join(self.root, "cache"))
        done = subprocess.run(
            [str(part) for part in command],
            cwd=self.work,
            env=variables,
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )
        assert code in (None, done.returncode), f"{command}\n{done.stdout}{done.stderr}"
        return done

    def python(self, *arguments, **kwargs):
        return self.do(os.path.join(self.bin, "python"), *arguments, **kwargs)

    def toolkit(self, *arguments, **kwargs):
        return self.do(os.path.join(self.bin, "toolkit"), *arguments, **kwargs)

    def json(self, *arguments):
        """The one object on stdout."""
        return json.loads(self.toolkit(*(arguments + ("--json",))).stdout)

    def copy_of(self, run):
        """Another folder with the same run: a run may be moved, and a test leaves it as it was."""
        name = f"copy-{len(os.listdir(self.work))}"
        shutil.copytree(os.path.join(self.work, run), os.path.join(self.work, name))
        return name

    def read(self, *parts):
        with open(os.path.join(self.work, *parts), encoding="utf-8") as file:
            return file.read()


@pytest.fixture(scope="module")
def fresh(tmp_path_factory):
    return Fresh(tmp_path_factory.mktemp("third-party"))


@pytest.fixture(scope="module")
def trained(fresh):
    """The summary of a run of 60 steps in the default place."""
    return fresh.json("run", "--plugin", "autoencoder", "--with", "journal", *FLAGS)


def test_both_packages_come_from_their_wheels(fresh):
    told = fresh.python(
        "-c", "import toolkit, toolkit_autoencoder as a; print(toolkit.__file__, a.__file__)"
    )
    for path in told.stdout.split():
        assert os.path.realpath(path).startswith(os.path.join(fresh.root, "env"))
        assert not os.path.realpath(path).startswith(REPOSITORY + os.sep)


def test_what_the_wheels_require_is_what_they_need(fresh):
    """`pip check` names what a package requires and does not find; others' faults are not ours."""
    told = fresh.python("-m", "pip", "check", code=None).stdout
    assert re.findall(r"(?m)^toolkit\S* .*", told) == []


def test_the_list_names_plugin_and_extension_with_their_distribution(fresh):
    rows = {row["name"]: row for row in fresh.json("plugins", "list")}
    for name, kind in (("autoencoder", "model"), ("journal", "extension")):
        assert rows[name]["kind"] == kind
        assert rows[name]["distribution"] == "toolkit-autoencoder"
        assert rows[name]["state"] == "ok"
    assert re.search(r"(?m)^autoencoder +model ", fresh.toolkit("plugins", "list").stdout)


def test_the_plugins_options_are_flags(fresh):
    told = fresh.toolkit("run", "--plugin", "autoencoder", "--help").stdout
    assert "--code" in told and "--dump-steps" in told


def test_a_misspelt_flag_of_the_plugin_exits_with_2(fresh):
    told = fresh.toolkit("run", "--plugin", "autoencoder", "--dump-step", "5", code=2)
    assert "--dump-step" in told.stderr and "Traceback" not in told.stderr


def test_the_summary_tells_the_run_its_steps_and_the_test(fresh, trained):
    assert (trained["plugin"], trained["steps"]) == ("autoencoder", STEPS)
    assert os.path.isfile(os.path.join(fresh.work, trained["run"], "config.json"))
    metrics = trained["test"]["metrics"]
    # Grey everywhere is wrong by 0.25 at most on average, and costs ln 2 = 0.693 nats.
    assert 0 < metrics["squared_error"] < 0.25 and 0 < metrics["loss"] < 0.693


def test_pictures_show_originals_above_reconstructions(fresh, trained):
    folder = os.path.join(fresh.work, trained["run"], "samples")
    assert sorted(os.listdir(folder)) == [
        f"reconstruction-{step:06d}.png" for step in (25, 50, STEPS)
    ]
    with Image.open(os.path.join(folder, "reconstruction-000060.png")) as picture:
        # 4 columns and 2 rows of 28 pixels, 2 between and around them.
        assert picture.size == (4 * 30 + 2, 2 * 30 + 2)
        assert picture.convert("L").getextrema()[1] > 200


def test_the_journal_tells_of_each_checkpoint_and_of_the_end(fresh, trained):
    assert fresh.read(trained["run"], "journal.txt").splitlines() == [
        "step 40: checkpoint saved",
        "step 60: checkpoint saved",
        "step 60: reached step 60",
    ]


def test_the_manifest_names_the_plugins_distribution(fresh, trained):
    plugins = json.loads(fresh.read(trained["run"], "manifest.json"))["plugins"]
    assert plugins["autoencoder"]["distribution"].startswith("toolkit-autoencoder")
    assert len(plugins["autoencoder"]["sha256"]) == 6  # the modules of the package
    assert plugins["journal"]["kind"] == "extension"


def test_evaluate_measures_what_the_run_measured(fresh, trained):
    measured = fresh.json("evaluate", trained["run"])
    assert measured["step"] == STEPS
    assert measured["metrics"] == pytest.approx(trained["test"]["metrics"])


def test_resume_goes_on_to_the_later_step(fresh, trained):
    run = fresh.copy_of(trained["run"])
    assert fresh.json("resume", run, "--steps", LATER)["steps"] == LATER
    assert fresh.read(run, "journal.txt").splitlines()[3:] == [
        "step 80: checkpoint saved",
        "step 90: checkpoint saved",
        "step 90: reached step 90",
    ]
    assert os.path.isfile(
        os.path.join(fresh.work, run, "samples", f"reconstruction-{LATER:06d}.png")
    )


def test_the_plugins_own_tests_pass(fresh):
    tests = os.path.join(fresh.root, "autoencoder", "tests")
    told = fresh.python("-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", tests, tests)
    assert re.search(r"\d+ passed", told.stdout) and "skipped" not in told.stdout
