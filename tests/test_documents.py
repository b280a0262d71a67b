"""What the documents say can be done, done."""

import glob
import os
import re
import shutil
import subprocess
import sys

import pytest
from file_fixtures import REPOSITORY
from linear_fixtures import write_bars

from toolkit import errors


def text_of(*parts):
    with open(os.path.join(REPOSITORY, *parts), encoding="utf-8") as file:
        return file.read()


def test_the_plugin_of_the_readme_trains_and_predicts(cli, here):
    code = re.search(r"```python\n(.*?)```", text_of("README.md"), re.S).group(1)
    (here / "linear.py").write_text(code)
    data = write_bars(here / "bars.npz")
    done = cli(
        "run",
        "--plugin",
        "./linear.py",
        "--data",
        data,
        "--batch-size",
        8,
        "--steps",
        40,
        "--run-dir",
        "run",
    )
    assert done.code == 0, done.err
    told = cli("predict", "run", "bars.npz")
    assert told.code == 0, told.err
    assert len(told.out.splitlines()) == 13


def test_the_readme_has_the_two_commands_that_ci_runs():
    commands = re.findall(r"^python3 -m venv .*$", text_of("README.md"), re.M)
    assert len(commands) == 2
    assert [word in command for word, command in zip(("toolkit run", "pytest"), commands)] == [
        True,
        True,
    ]


def test_the_readme_tells_every_exit_code():
    told = set(
        map(int, re.findall(r"\b(\d+)\b", text_of("README.md").split("Exit codes:")[1][:200]))
    )
    kinds = [v for v in vars(errors).values() if isinstance(v, type)]
    assert {kind.exit_code for kind in kinds if issubclass(kind, errors.ToolkitError)} <= told
    assert {0, 130, 143} <= told


def test_every_command_of_the_readme_exists():
    from toolkit.cli.app import COMMANDS
    from toolkit.plugins import list_commands

    told = set(re.findall(r"^toolkit (\w+)", text_of("README.md"), re.M))
    assert told and told <= set(COMMANDS) | {entry.name for entry in list_commands()}


def readme_commands():
    """The commands of the README, in order. Of the set-up commands, which install the toolkit and
    which .ci/run runs whole, only a `toolkit run` at the end is left.
    """
    lines = "".join(re.findall(r"```sh\n(.*?)```", text_of("README.md"), re.S)).splitlines()
    commands = [line.split(" && ")[-1].replace(".venv/bin/toolkit", "toolkit") for line in lines]
    return [command for command in commands if ".venv" not in command]


@pytest.mark.slow
def test_every_command_of_the_readme_runs_as_printed(here):
    code = re.search(r"```python\n(.*?)```", text_of("README.md"), re.S).group(1)
    (here / "linear.py").write_text(code)
    shutil.copytree(os.path.join(REPOSITORY, "samples"), str(here / "samples"))
    path = os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"]
    environment = dict(os.environ, PATH=path, TOOLKIT_CACHE=str(here / "cache"))
    commands = readme_commands()
    assert len(commands) > 10
    for command in commands:
        result = subprocess.run(
            ["bash", "-c", command], env=environment, capture_output=True, text=True
        )
        assert result.returncode == 0, f"{command}\n{result.stderr}"


def test_the_paths_that_the_documents_name_exist():
    for document in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "docs/decisions.md"):
        text = text_of(*document.split("/"))
        paths = re.findall(r"`((?:toolkit|plugins|tests|samples|benchmarks|docs)/[\w./-]*)`", text)
        links = re.findall(r"\]\(([^):#]+)\)", text)
        folder = os.path.dirname(document)
        for path in paths + [os.path.join(folder, link) for link in links]:
            assert os.path.exists(os.path.join(REPOSITORY, path)), f"{document} names {path}"
        assert paths + links, document


@pytest.mark.parametrize(
    "path", sorted(glob.glob(os.path.join(REPOSITORY, "samples", "configurations", "*.toml")))
)
def test_each_sample_configuration_resolves(cli, path):
    told = cli("run", "--config", path, "--print-config")
    assert told.code == 0, told.err
    named = re.search(r'^plugin = "(\w+)"', text_of(path), re.M).group(1)
    assert re.search(rf"^plugin\s+{named}$", told.out, re.M)
