"""The commands, paths and facts in the documents are true."""

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


def readme_plugin():
    """The source of the plugin in the README."""
    return re.search(r"```python\n(.*?)```", text_of("README.md"), re.S).group(1)


def test_the_plugin_of_the_readme_trains_and_predicts(cli, here):
    (here / "linear.py").write_text(readme_plugin())
    data = write_bars(here / "bars.npz")
    argv = ["run", "--plugin", "./linear.py", "--data", data, "--run-dir", "run"]
    result = cli(*argv, "--batch-size", 8, "--steps", 40)
    assert result.code == 0, result.err
    result = cli("predict", "run", "bars.npz")
    assert result.code == 0, result.err
    assert len(result.out.splitlines()) == 13


def test_the_readme_has_the_two_commands_that_ci_runs():
    run, test = re.findall(r"^python3 -m venv .*$", text_of("README.md"), re.M)
    assert "toolkit run" in run
    assert "pytest" in test


def test_the_readme_lists_every_exit_code():
    text = text_of("README.md").split("Exit codes:")[1][:200]
    codes = set(map(int, re.findall(r"\b(\d+)\b", text)))
    classes = [value for value in vars(errors).values() if isinstance(value, type)]
    assert {c.exit_code for c in classes if issubclass(c, errors.ToolkitError)} <= codes
    assert {0, 130, 143} <= codes


def test_every_command_of_the_readme_exists():
    from toolkit.cli.app import COMMANDS
    from toolkit.plugins import list_commands

    names = set(re.findall(r"^toolkit (\w+)", text_of("README.md"), re.M))
    assert names
    assert names <= set(COMMANDS) | {entry.name for entry in list_commands()}


def readme_commands():
    """The commands of the README, in order.

    Of the set-up commands, which install the toolkit and which CI runs whole, only a `toolkit run`
    at the end remains.
    """
    lines = "".join(re.findall(r"```sh\n(.*?)```", text_of("README.md"), re.S)).splitlines()
    commands = [line.split(" && ")[-1].replace(".venv/bin/toolkit", "toolkit") for line in lines]
    return [command for command in commands if ".venv" not in command]


def shortened(environment, command):
    """The environment of a command: a `toolkit run` makes few steps unless the command says how
    many.
    """
    if command.startswith("toolkit run") and "--steps" not in command:
        return dict(environment, TOOLKIT_STEPS="40", TOOLKIT_SAMPLE_STEPS="20")
    return environment


@pytest.mark.slow
def test_every_command_of_the_readme_runs_as_printed(here):
    (here / "linear.py").write_text(readme_plugin())
    shutil.copytree(os.path.join(REPOSITORY, "samples"), str(here / "samples"))
    path = os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"]
    environment = dict(os.environ, PATH=path, TOOLKIT_CACHE=str(here / "cache"))
    commands = readme_commands()
    assert len(commands) > 10
    for command in commands:
        result = subprocess.run(
            ["bash", "-c", command],
            env=shortened(environment, command),
            capture_output=True,
            text=True,
        )
        assert result.returncode == 0, f"{command}\n{result.stderr}"


def test_the_paths_that_the_documents_name_exist():
    documents = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "docs/decisions.md")
    for document in (*documents, "docs/data.md"):
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
    result = cli("run", "--config", path, "--print-config")
    assert result.code == 0, result.err
    plugin = re.search(r'^plugin = "(\w+)"', text_of(path), re.M).group(1)
    assert re.search(rf"^plugin\s+{plugin}$", result.out, re.M)
