"""New plugins of each kind, installed in a fresh environment beside the wheel of toolkit."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys

import pytest
from file_fixtures import REPOSITORY

pytestmark = pytest.mark.slow

PLUGINS = {"fresh-model": "model", "fresh_extension": "extension", "fresh": "command"}
SECONDS = 400  # for any one command


class Environment:
    """A new environment with the wheel of toolkit, which shares all other packages."""

    def __init__(self, root):
        self.work = os.path.join(root, "work")
        self._root = root
        self._bin = os.path.join(root, "env", "bin")
        os.makedirs(self.work)
        self.run(sys.executable, "-m", "venv", os.path.join(root, "env"))
        self.run(self.python, "-m", "pip", "install", "--no-deps", self._build_wheel())
        self._share_packages()

    @property
    def python(self):
        return os.path.join(self._bin, "python")

    def toolkit(self, *arguments, **options):
        return self.run(self.python, "-m", "toolkit", *arguments, **options)

    def run(self, *command, code=0, folder=""):
        own_variables = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
        variables = {
            name: value
            for name, value in os.environ.items()
            if name not in own_variables and not name.startswith(("TOOLKIT_", "PYTEST_"))
        }
        state = os.path.join(self._root, "state")
        result = subprocess.run(
            command,
            cwd=os.path.join(self.work, folder),
            env=dict(variables, PYTHONNOUSERSITE="1", XDG_STATE_HOME=state),
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )
        assert result.returncode == code, f"{command}\n{result.stdout}{result.stderr}"
        return result

    def _build_wheel(self):
        """Build from a copy, since setuptools writes files beside the sources."""
        copy, wheels = os.path.join(self._root, "copy"), os.path.join(self._root, "wheels")
        ignore = shutil.ignore_patterns(".*", "*.egg-info", "__pycache__", "build", "runs")
        shutil.copytree(REPOSITORY, copy, ignore=ignore)
        self.run(self.python, "-m", "pip", "wheel", "--no-deps", "--wheel-dir", wheels, copy)
        (wheel,) = os.listdir(wheels)
        return os.path.join(wheels, wheel)

    def _share_packages(self):
        code = "import sysconfig; print(sysconfig.get_path('purelib'))"
        own = self.run(self.python, "-c", code).stdout.strip()
        ours = [p for p in sys.path if os.path.basename(p) in ("site-packages", "dist-packages")]
        # Python ignores .pth files in folders that are added this way, and so editable installs.
        with open(os.path.join(own, "shared.pth"), "w") as file:
            file.write("".join(path + "\n" for path in ours))


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """The environment with a new plugin of each kind, installed as their READMEs say."""
    environment = Environment(os.path.realpath(str(tmp_path_factory.mktemp("kit"))))
    for name, kind in PLUGINS.items():
        environment.toolkit("plugins", "new", name, "--kind", kind)
        environment.run(
            environment.python, "-m", "pip", "install", "--no-deps", "-e", ".", folder=name
        )
    return environment


def test_pip_and_toolkit_list_the_new_plugins(environment):
    packages = environment.run(environment.python, "-m", "pip", "list").stdout
    assert len(re.findall(r"(?m)^toolkit-fresh", packages)) == 3 and "UNKNOWN" not in packages
    rows = json.loads(environment.toolkit("plugins", "list", "--json").stdout)
    plugins = {row["name"]: (row["kind"], row["state"]) for row in rows if row["name"] in PLUGINS}
    assert plugins == {name: (kind, "ok") for name, kind in PLUGINS.items()}


def test_the_new_model_trains_with_the_new_extension_and_the_new_command_reads_the_run(environment):
    run = ["run", "--plugin", "fresh-model", "--with", "fresh_extension", "--json"]
    summary = json.loads(environment.toolkit(*run, "--run-dir", "run", "--steps", "100").stdout)
    assert summary["test"]["metrics"]["accuracy"] > 0.7  # ten digits; guessing: 0.1
    outputs = json.loads(environment.toolkit("fresh", "run", "--count", "3", "--json").stdout)
    assert outputs["probabilities"]["shape"] == [3, 10]


@pytest.mark.parametrize("name", PLUGINS)
def test_the_tests_of_a_new_plugin_pass(environment, name):
    tests = environment.run(
        environment.python, "-m", "pytest", "-q", "-p", "no:cacheprovider", folder=name
    )
    assert re.search(r"\d+ passed", tests.stdout) and "failed" not in tests.stdout


def test_a_new_command_keeps_its_contracts(environment):
    """The own tests of a new model and of a new extension check theirs."""
    facts = json.loads(environment.toolkit("plugins", "check", "fresh", "--json").stdout)
    assert facts["counts"]["failed"] == 0 and facts["counts"]["ok"] >= 3


def test_a_disabled_plugin_is_refused_for_its_existing_runs(environment):
    environment.toolkit("run", "--plugin", "fresh-model", "--run-dir", "old", "--steps", "2")
    environment.toolkit("plugins", "disable", "fresh-model")
    try:
        result = environment.toolkit("evaluate", "old", code=2)
        assert "Enable it: toolkit plugins enable fresh-model." in result.stderr
    finally:
        environment.toolkit("plugins", "enable", "fresh-model")
    environment.toolkit("evaluate", "old")
