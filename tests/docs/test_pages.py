"""The code and the commands of each page in docs/ work, in the order of the page.

`page_fixtures.py` says how a page marks what is run.
"""

import glob
import os
import shutil

import pytest
from file_fixtures import REPOSITORY, forget_modules, read_text
from page_fixtures import (
    InProcess,
    Output,
    Page,
    Shell,
    commands_of,
    fast_part,
    missing_lines,
    parse_blocks,
    read_blocks,
    run_blocks,
    run_shell,
)

DOCUMENTS = glob.glob(os.path.join(REPOSITORY, "docs", "**", "*.md"), recursive=True)
PAGES = sorted(
    page for page in (os.path.relpath(path, REPOSITORY) for path in DOCUMENTS) if read_blocks(page)
)
RUNNABLE = ("python", "toml", "diff", "sh")


def has_slow_part(page):
    """Whether a page has one that no other test runs."""
    blocks = read_blocks(page)
    return any(block.marker.startswith("slow") for block in blocks) and not any(
        block.marker.startswith("slow elsewhere") for block in blocks
    )


@pytest.fixture(scope="module")
def page_run(request, tmp_path_factory):
    """A page with a folder of its own, in which its slow part follows its fast part."""
    folder = tmp_path_factory.mktemp("page")
    if "samples/" in read_text(REPOSITORY, request.param):
        shutil.copytree(os.path.join(REPOSITORY, "samples"), str(folder / "samples"))
    return Page(request.param, folder)


@pytest.fixture
def in_page_folder(page_run, here, monkeypatch):
    """The working directory is that of the page; imports are undone."""
    monkeypatch.chdir(page_run.folder)
    yield
    forget_modules(page_run.folder)


@pytest.mark.usefixtures("in_page_folder")
@pytest.mark.parametrize("page_run", PAGES, indirect=True)
def test_the_fast_part_of_a_page_works(page_run, cli, monkeypatch):
    page_run.run_to(page_run.num_fast, InProcess(cli, monkeypatch))


WHOLE_PAGES = list(filter(has_slow_part, PAGES))


@pytest.mark.usefixtures("in_page_folder")
@pytest.mark.parametrize("page_run", WHOLE_PAGES, indirect=True)
def test_a_page_works_as_a_whole(page_run, cli, monkeypatch, request, tmp_path_factory):
    blocks = page_run.blocks
    installs = [number for number, block in enumerate(blocks) if "pip install" in block.text]
    execute = InProcess(cli, monkeypatch)
    page_run.run_to(min(installs, default=len(blocks)), execute)
    if installs:
        installed = request.getfixturevalue("installed")
        folder = tmp_path_factory.mktemp("shell")
        page_run.run_to(len(blocks), Shell(installed.layer(folder / "env", folder)))


def shown_blocks(page):
    """The blocks of a page whose commands run as they are.

    Of the set-up commands, which install the toolkit and which CI runs whole, only a `toolkit run`
    at the end remains.
    """
    blocks = []
    for block in read_blocks(page):
        commands = [line.split(" && ")[-1] for line in block.text.splitlines()]
        commands = [line.replace(".venv/bin/toolkit", "toolkit") for line in commands]
        text = "".join(line + "\n" for line in commands if ".venv" not in line)
        blocks.append(block._replace(text=text) if block.language == "sh" else block)
    return blocks


def test_every_command_of_the_readme_runs_as_printed(here, cli, monkeypatch):
    blocks = shown_blocks("README.md")
    commands = [c for block in blocks if block.language == "sh" for c in commands_of(block)]
    assert len(commands) > 5
    monkeypatch.setenv("TOOLKIT_CACHE", str(here / "cache"))
    inside = InProcess(cli, monkeypatch)
    # A shell finds the files that a pattern names.
    run_blocks(blocks, here, lambda c: run_shell(c, {}) if "*" in c else inside(c))


@pytest.mark.parametrize("page", PAGES)
def test_a_page_names_the_language_of_each_block(page):
    for block in read_blocks(page):
        assert block.language in (*RUNNABLE, "text"), block.place


def run(text, folder, code=0, printed=""):
    """The commands that the blocks of a text execute."""
    commands = []

    def execute(command):
        commands.append(command)
        return Output(code, printed)

    run_blocks(parse_blocks(text), folder, execute)
    return commands


def test_a_command_that_fails_is_refused(tmp_path):
    with pytest.raises(AssertionError, match="page:1: exit 2: a"):
        run("```sh\na\n```\n", tmp_path, code=2, printed="no")


def test_a_command_must_fail_where_its_error_is_printed(tmp_path):
    text = "```sh\na\n```\n```text\nError: no 'x'\n```\n"
    run(text, tmp_path, code=2, printed="Error: no 'x'.")
    with pytest.raises(AssertionError, match="does not fail: a"):
        run(text, tmp_path, code=0, printed="Error: no 'x'.")


def test_lines_are_compared_but_for_numbers_and_white_space():
    printed = "step 40/40  loss 0.25\ndone  reached step 40\n"
    assert missing_lines("step 625/625 loss 1e-08\ndone ... 625\n...\n", printed) == []
    assert missing_lines("step 40/40 accuracy 0.25\n", printed) == ["step 40/40 accuracy 0.25"]


def test_what_is_slow_or_marked_is_left_out(tmp_path):
    text = "<!-- not run: it is published -->\n```sh\na\n```\n```sh\nb\n```\n"
    text += "<!-- slow -->\n```sh\nc\n```\n```sh\nd\n```\n"
    text += "<!-- before: e -->\n```python\nf\n```\n"
    script = "python script_of_a_page.py"
    assert run(text, tmp_path) == ["b", "c", "d", "e", script]
    assert [block.text for block in fast_part(parse_blocks(text))] == ["a\n", "b\n"]
