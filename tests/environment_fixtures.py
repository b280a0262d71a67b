"""One environment for each Python in which the toolkit and the packages of `samples` are installed.

    python tests/environment_fixtures.py FOLDER

builds it. The variable TOOLKIT_TEST_ENVIRONMENT names its folder to tests; without the variable,
the first test of a session that needs it builds it for all.

Nothing of the repository can be imported there: all packages are wheels, which are built from
copies. The dependencies are those of the environment that runs this program; they follow its own
packages on the path. A layer is an environment in which a test installs more.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import List

import process_fixtures
import pytest
from process_fixtures import Ended

VARIABLE = "TOOLKIT_TEST_ENVIRONMENT"
GIVEN = os.environ.get(VARIABLE)  # before a test changes the environment
REPOSITORY = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SAMPLES = os.path.join(REPOSITORY, "samples")
# What a wheel of the toolkit is built from.
SOURCES = ("pyproject.toml", "LICENSE", "toolkit", "plugins", "samples")
# What a sample needs that not every environment has.
OPTIONAL = {"mlflow-tracker": "mlflow", "ray-search": "ray"}
PACKAGES = sorted(
    name
    for name in os.listdir(SAMPLES)
    if os.path.isfile(os.path.join(SAMPLES, name, "pyproject.toml"))
    and (name not in OPTIONAL or importlib.util.find_spec(OPTIONAL[name]))
)
SETUPTOOLS = 64  # the first that pyproject.toml accepts
RUN_ALL = """
import contextlib, io, json, sys
from toolkit.cli import run_command

results = []
for argv in json.load(sys.stdin):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run_command(argv)
    results.append([code, out.getvalue(), err.getvalue()])
json.dump(results, sys.stdout)
"""


class Environment:
    """An environment for Python, and how tests use it.

    Args:
        folder: that of the environment.
        work: the working directory of its commands.
    """

    def __init__(self, folder, work=None):
        self.folder = os.path.realpath(str(folder))
        self.work = os.path.realpath(str(work or folder))
        self.bin = os.path.join(self.folder, "bin")
        self.python = os.path.join(self.bin, "python")

    def variables(self):
        """The environment of its commands, without what belongs to the tests."""
        own = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
        variables = {
            name: value
            for name, value in os.environ.items()
            if name not in own and not name.startswith(("TOOLKIT_", "PYTEST_"))
        }
        return dict(
            variables,
            PATH=self.bin + os.pathsep + os.environ["PATH"],
            PYTHONNOUSERSITE="1",
            TOOLKIT_CACHE=os.path.join(self.work, "cache"),
            XDG_STATE_HOME=os.path.join(self.work, "state"),
        )

    def run(self, *arguments, code=0, folder="", stdin=""):
        """Run its Python.

        Args:
            arguments: of Python.
            code: the exit code that is expected; None accepts any.
            folder: the working directory, relative to `work`.
            stdin: what the process reads.
        """
        command = [self.python, *map(str, arguments)]
        folder = os.path.join(self.work, folder)
        process = _run(command, check=False, cwd=folder, env=self.variables(), input=stdin)
        result = Ended(process.returncode, process.stdout, process.stderr)
        assert code in (None, result.code), f"{command}\n{result.out}{result.err}"
        return result

    def toolkit(self, *commands):
        """Run commands of the toolkit, one after the other, in one interpreter.

        Each is a list of words. Returns an `Ended` for each.
        """
        texts = [[str(word) for word in words] for words in commands]
        printed = self.run("-c", RUN_ALL, stdin=json.dumps(texts)).out
        return [Ended(*fields) for fields in json.loads(printed)]

    def layer(self, folder, work):
        """A new environment with the packages of this one, in which a test may install more."""
        layer = Environment(folder, work)
        _create(layer, f"import site; site.addsitedir({_purelib(self)!r})\n")
        return layer


def build(folder):
    """Build the environment in a new folder; returns it."""
    environment = Environment(os.path.join(str(folder), "env"))
    copies = [_copy(REPOSITORY, os.path.join(str(folder), "toolkit"), SOURCES)]
    for name in PACKAGES:
        source = os.path.join(SAMPLES, name)
        copies.append(_copy(source, os.path.join(str(folder), name), os.listdir(source)))
    tools = _find_setuptools(folder)
    wheels = os.path.join(str(folder), "wheels")
    pip = [sys.executable, "-m", "pip"]
    command = ["wheel", "-q", "--no-deps", "--no-index", "--no-build-isolation", "-w", wheels]
    _run([*pip, *command, *copies], env=dict(os.environ, PYTHONPATH=os.pathsep.join(tools)))
    # The shared packages are not visible to pip, which would find another toolkit among them.
    _create(environment, "")
    files = [os.path.join(wheels, name) for name in sorted(os.listdir(wheels))]
    command = ["install", "-q", "--no-deps", "--no-index", "--no-warn-script-location"]
    # Without PYTHONPATH, on which pip would find a toolkit that is installed already.
    _run([*pip, "--python", environment.python, *command, *files], env=environment.variables())
    shared = [p for p in sys.path if os.path.basename(p) in ("site-packages", "dist-packages")]
    # Python ignores .pth files in folders that are added this way, and so editable installs.
    _share(environment, "".join(path + "\n" for path in [*tools, *shared]))
    return environment


@pytest.fixture(scope="session")
def _folder_of_environment(tmp_path_factory):
    """The folder of the environment, which the first of the processes of a session builds."""
    if GIVEN:
        return GIVEN
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    folder = folder / "installed"
    with process_fixtures.locked(f"{folder}.lock"):
        done = folder / "done"
        if not done.exists():
            shutil.rmtree(str(folder), ignore_errors=True)
            folder.mkdir()
            build(folder)
            done.touch()
    return str(folder)


@pytest.fixture(scope="module")
def installed(_folder_of_environment, tmp_path_factory):
    """The environment, with a working directory for the tests of a module."""
    folder = os.path.join(_folder_of_environment, "env")
    return Environment(folder, tmp_path_factory.mktemp("installed"))


def _run(command, check=True, **settings):
    process = subprocess.run(
        [str(word) for word in command],
        capture_output=True,
        text=True,
        timeout=process_fixtures.PATIENCE,
        **settings,
    )
    if check and process.returncode:
        raise RuntimeError(f"{command}\n{process.stdout}{process.stderr}")
    return process


def _copy(source, target, names):
    """Copy a project, since setuptools writes files beside the sources; returns the copy."""
    ignore = shutil.ignore_patterns(".*", "*.egg-info", "__pycache__", "build", "dist", "runs")
    os.makedirs(target)
    for name in names:
        path, copy = os.path.join(source, name), os.path.join(target, name)
        if os.path.isfile(path):
            shutil.copy(path, copy)
        elif name not in ignore(source, names):
            shutil.copytree(path, copy, ignore=ignore)
    return target


def _find_setuptools(folder) -> List[str]:
    """The folders that have to be on the path so that packages can be built.

    There is none where the environment that runs this has what a build needs; Python 3.7 brings a
    setuptools that is too old.
    """
    try:
        setuptools, _ = importlib.import_module("setuptools"), importlib.import_module("wheel")
        if int(setuptools.__version__.split(".")[0]) >= SETUPTOOLS:
            return []
    except ImportError:
        pass
    tools = os.path.join(str(folder), "tools")
    command = ["install", "-q", "--target", tools, f"setuptools>={SETUPTOOLS}", "wheel"]
    _run([sys.executable, "-m", "pip", *command])
    return [tools]


def _create(environment, shared):
    """Create an environment without pip, which it has from those that it shares."""
    # Of the Python that runs this, whose environment it may be.
    _run([sys.executable, "-m", "venv", "--without-pip", environment.folder])
    _share(environment, shared)


def _share(environment, lines):
    Path(_purelib(environment), "shared.pth").write_text(lines)


def _purelib(environment):
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    return _run([environment.python, "-c", code]).stdout.strip()


if __name__ == "__main__":
    build(*sys.argv[1:])
