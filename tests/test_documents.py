"""The commands, paths and facts in the documents are true."""

import glob
import os
import re

import pytest
from file_fixtures import REPOSITORY
from linear_fixtures import write_bars

from toolkit import errors


def text_of(*parts):
    with open(os.path.join(REPOSITORY, *parts), encoding="utf-8") as file:
        return file.read()


def test_the_plugin_of_the_readme_trains_and_predicts(cli, here):
    source = re.search(r"```python\n(.*?)```", text_of("README.md"), re.S).group(1)
    (here / "linear.py").write_text(source)
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


PAGES = glob.glob(os.path.join(REPOSITORY, "docs", "**", "*.md"), recursive=True)
DOCUMENTS = [
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    *sorted(os.path.relpath(page, REPOSITORY) for page in PAGES),
]


def test_the_paths_that_the_documents_name_exist():
    for document in DOCUMENTS:
        text, folder = text_of(document), os.path.dirname(document)
        paths = re.findall(r"`((?:toolkit|plugins|tests|samples|benchmarks|docs)/[\w./-]*)`", text)
        links = [os.path.join(folder, link) for link in re.findall(r"\]\(([^):#]+)[#)]", text)]
        for path in paths + links:
            assert os.path.exists(os.path.join(REPOSITORY, path)), f"{document} names {path}"


def test_the_sections_to_which_the_documents_link_exist():
    for document in DOCUMENTS:
        for link, section in re.findall(r"\]\(([^):#]*)#([^)]+)\)", text_of(document)):
            page = document
            if link:
                page = os.path.normpath(os.path.join(os.path.dirname(document), link))
            headings = re.findall(r"^#+ (.*)$", text_of(page), re.M)
            assert section in map(anchor_of, headings), f"{document} links to {link}#{section}"


def anchor_of(heading):
    """The name by which a link finds a heading."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


@pytest.mark.parametrize(
    "path", sorted(glob.glob(os.path.join(REPOSITORY, "samples", "configurations", "*.toml")))
)
def test_each_sample_configuration_resolves(cli, path):
    result = cli("run", "--config", path, "--print-config")
    assert result.code == 0, result.err
    plugin = re.search(r'^plugin = "(\w+)"', text_of(path), re.M).group(1)
    assert re.search(rf"^plugin\s+{plugin}$", result.out, re.M)
