"""The commands, paths and facts in the documents are true."""

import glob
import os
import re

import pytest
from file_fixtures import REPOSITORY, read_text

from toolkit import errors
from toolkit.storage import run_folder


def test_a_page_lists_every_exit_code():
    text = read_text(REPOSITORY, "docs", "troubleshooting.md").split("\nExit codes:")[1][:200]
    codes = set(map(int, re.findall(r"\b(\d+)\b", text)))
    classes = [value for value in vars(errors).values() if isinstance(value, type)]
    assert {c.exit_code for c in classes if issubclass(c, errors.ToolkitError)} <= codes
    assert {0, 129, 130, 143} <= codes


PAGES = glob.glob(os.path.join(REPOSITORY, "docs", "**", "*.md"), recursive=True)
DOCUMENTS = [
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    *sorted(os.path.relpath(page, REPOSITORY) for page in PAGES),
]


def test_the_paths_that_the_documents_name_exist():
    for document in DOCUMENTS:
        text = read_text(REPOSITORY, document)
        paths = re.findall(r"`((?:toolkit|plugins|tests|samples|benchmarks|docs)/[\w./-]*)`", text)
        for path in paths:
            assert os.path.exists(os.path.join(REPOSITORY, path)), f"{document} names {path}"


def test_each_message_of_the_troubleshooting_page_is_one_of_the_toolkit():
    sources = glob.glob(os.path.join(REPOSITORY, "toolkit", "**", "*.py"), recursive=True)
    sources += glob.glob(os.path.join(REPOSITORY, "plugins", "**", "*.py"), recursive=True)
    code = re.sub(r'"\s+f?"', "", "".join(map(read_text, sources)))  # texts of several lines
    messages = re.findall(
        r"^\| `(.*?)` \|", read_text(REPOSITORY, "docs", "troubleshooting.md"), re.M
    )
    assert len(messages) > 20
    for part in (part.strip(" '") for message in messages for part in message.split("...")):
        assert part in code


def test_the_pages_on_runs_name_each_file_of_one(trained):
    files = {name + "/" * (trained / "run" / name).is_dir() for name in os.listdir(trained / "run")}
    assert files <= set(
        re.findall(r"^\| `(\S+)` \|", read_text(REPOSITORY, "docs", "runs.md"), re.M)
    )
    assert files <= set(run_folder.__doc__.split()) | {".lock"}


@pytest.mark.parametrize(
    "path", sorted(glob.glob(os.path.join(REPOSITORY, "samples", "configurations", "*.toml")))
)
def test_each_sample_configuration_resolves(cli, path):
    result = cli("run", "--config", path, "--print-config").ok()
    plugin = re.search(r'^plugin = "(\w+)"', read_text(path), re.M).group(1)
    assert re.search(rf"^plugin\s+{plugin}$", result.out, re.M)
