"""Run the code blocks of a page of documentation, in their order, in a folder of its own.

A page says what is run by the language of each block:

    ```python   With a first line `# linear.py`, the block is that file. With `# add to linear.py`,
                it is added to the end of that file, so that a function replaces one of its name.
                Any other block is run as a script.
    ```toml     The first line names the file, as in Python.
    ```diff     A first line `@@ linear.py @@`: the lines without `+` are in the file once, and
                those without `-` replace them. Each such line begins another change.
    ```sh       Commands, one a line; `\\` at the end continues it. Each has to succeed.
    ```text     After commands: each line is in a line that they print, where numbers and white
                space may differ and `...` is any text. If a line starts with `Error:`, the last
                of the commands has to fail.

Blocks of other languages, or of none, are not run. Comments that a reader of the page does not see:

    <!-- slow -->             before a block: it and the rest of the page are slow, and the fast
                              tests end there.
    <!-- not run: REASON -->  before a block: it is not run.
    <!-- slow elsewhere -->   likewise, and a test of its own runs the page as a whole.
    <!-- before: COMMAND -->  before a block: what the page takes for granted; also several with
                              ` && ` between them, and <!-- slow before: COMMAND -->.
"""

from __future__ import annotations

import itertools
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import process_fixtures
from file_fixtures import REPOSITORY, read_text

BLOCK = re.compile(r"^(?:<!-- ([^\n]*) -->\n\n?)?```(\w*)\n(.*?)^```$", re.M | re.S)
FILE = re.compile(r"# (add to )?([\w./-]+\.(?:py|toml))(?: .*)?\n")
# Of a run that names no length: few single steps, and a small network on images as they are, if it
# has options of these names.
SINGLE = {"TOOLKIT_STEPS_PER_CALL": "1"}
STEPS = {**SINGLE, "TOOLKIT_STEPS": "6", "TOOLKIT_NETWORK": "mlp", "TOOLKIT_AUGMENT": "none"}
# Beside the steps, a GAN has the cheapest scores. Tests of the GAN have all of them.
GAN_VALUES = {
    **STEPS,
    "TOOLKIT_SAMPLE_STEPS": "3",
    "TOOLKIT_TWO_SAMPLE": "no",
    "TOOLKIT_FEATURES": "pixels",
    "TOOLKIT_QUICK_SAMPLES": "100",
    "TOOLKIT_SCORE_SAMPLES": "100",
}
SHELL_WORDS = set("|&;<>")
# What a forked process runs in place of a program of Python.
PROGRAMS = {
    "python": "import runpy, sys; sys.path.insert(0, ''); sys.argv.pop(0); "
    "runpy.run_path(sys.argv[0], run_name='__main__')",
    "pytest": "import pytest, sys; sys.exit(pytest.main(sys.argv[1:]))",
    "python -c": "import sys; sys.argv.pop(0); exec(sys.argv[0])",
}
STARTERS = ("launch", "search")  # commands that start processes
# Programs of an environment without pip, which it shares. pip takes a build's packages from it.
SCRIPTS = {
    "toolkit": 'exec "{0}" -m toolkit "$@"',
    "pytest": 'exec "{0}" -m pytest "$@"',
    "pip": 'command=$1; shift; exec "{0}" -m pip "$command" --no-build-isolation "$@"',
}


class Block(NamedTuple):
    """A block of a page."""

    place: str  # `page:line`
    language: str  # sh, python, ...; "" for none
    text: str  # what is between the fences
    marker: str = ""  # the comment before the block; "" for none


class Output(NamedTuple):
    """The exit code of a command, and all that it printed."""

    code: int
    text: str


def read_blocks(page):
    """The blocks of a page of the repository."""
    return parse_blocks(read_text(REPOSITORY, page), page)


def parse_blocks(text, page="page"):
    blocks = []
    for match in BLOCK.finditer(text):
        line = text.count("\n", 0, match.start(2)) + 1
        blocks.append(Block(f"{page}:{line}", match[2], match[3], match[1] or ""))
    return blocks


def fast_part(blocks):
    """The blocks before the first that is marked as slow."""
    return list(itertools.takewhile(lambda block: not block.marker.startswith("slow"), blocks))


def run_blocks(blocks, folder, execute):
    """Run blocks of one page in a folder.

    `execute`, whose working directory it is, is a function from a command to its `Output`.
    """
    for block, following in zip(blocks, [*blocks[1:], None]):
        if block.marker.startswith("not run"):
            continue
        before = block.marker.partition("before: ")[2]
        for command in before.split(" && ") if before else ():
            check(execute(command), block, command)
        if block.language in ("python", "toml"):
            run_python(block, folder, execute)
        elif block.language == "diff":
            apply_diff(block, folder)
        elif block.language == "sh":
            run_commands(block, following, execute)


def run_python(block, folder, execute):
    """Write the file that a block names, or run the block as a script."""
    named = FILE.match(block.text)
    if named:
        path = Path(folder, named[2])
        path.parent.mkdir(parents=True, exist_ok=True)
        before = read_text(path) + "\n\n" if named[1] else ""
        path.write_text(before + block.text, encoding="utf-8")
        compile_file(path, block)
    elif block.language == "python":
        Path(folder, "script_of_a_page.py").write_text(block.text, encoding="utf-8")
        check(execute("python script_of_a_page.py"), block, block.text)


def compile_file(path, block):
    if path.suffix == ".py":
        compile(read_text(path), f"{path.name} ({block.place})", "exec")


def apply_diff(block, folder):
    """Change the files that a diff names."""
    parts = re.split(r"^@@ (\S+) @@\n", block.text, flags=re.M)
    assert parts[0] == "" and len(parts) > 1, f"{block.place}: begin with '@@ FILE @@'"
    for name, lines in zip(parts[1::2], parts[2::2]):
        path = Path(folder, name)
        rows = [row or " " for row in lines.splitlines()]
        old = "".join(row[1:] + "\n" for row in rows if row[0] in " -")
        new = "".join(row[1:] + "\n" for row in rows if row[0] in " +")
        text = read_text(path)
        assert text.count(old) == 1, f"{block.place}: {text.count(old)} times in {name}:\n{old}"
        path.write_text(text.replace(old, new), encoding="utf-8")
        compile_file(path, block)


def commands_of(block):
    """The commands of a block, without comments and empty lines."""
    lines = block.text.replace("\\\n", " ").splitlines()
    return [line for line in lines if line.strip() and not line.startswith("#")]


def run_commands(block, following, execute):
    """Run the commands of a block, and compare their output with the block after it."""
    expected = ""
    if following is not None and following.language == "text":
        expected = following.text
    commands = commands_of(block)
    fails = re.search(r"^Error:", expected, re.M)
    outputs = [execute(command) for command in commands]
    for command, output in zip(commands[:-1] if fails else commands, outputs):
        check(output, block, command)
    assert not fails or outputs[-1].code, f"{block.place}: does not fail: {commands[-1]}"
    printed = "\n".join(output.text for output in outputs)
    for line in missing_lines(expected, printed):
        raise AssertionError(f"{following.place}: '{line}' is not in:\n{printed[-5000:]}")


def check(output, block, command):
    assert output.code == 0, f"{block.place}: exit {output.code}: {command}\n{output.text}"


def missing_lines(expected, printed):
    """The lines of an expected output that are in no line that was printed."""
    printed = [normalize(line) for line in printed.splitlines()]
    return [line for line in expected.splitlines() if not is_in(normalize(line), printed)]


def is_in(line, printed):
    """Whether a line, where `...` is any text, is in a line of a list."""
    pattern = re.escape(line).replace(re.escape("..."), ".*")
    return any(re.search(pattern, each) for each in printed)


def normalize(text):
    """A text with `#` for each number, and one space for any white space."""
    text = re.sub(r"(?<![\w.])-?\d[\d,]*(\.\d+)?(e[+-]?\d+)?", "#", text)
    return " ".join(text.split())


def shortened(command):
    """The settings for a command: a run makes few steps unless the command says how many."""
    is_run = re.match(r"toolkit run\b", command) and "--help" not in command
    if not is_run or "--steps-per-call" in command:
        return {}
    if "--steps" in command or "--config runs/" in command:  # a run's configuration has them
        return SINGLE
    return GAN_VALUES if "--plugin gan" in command else STEPS


class Page:
    """A page of the repository whose blocks run in one folder, each block once."""

    def __init__(self, page, folder):
        self.folder = folder
        self.blocks = read_blocks(page)
        self.num_fast = len(fast_part(self.blocks))
        self._num_done = 0

    def run_to(self, end, execute):
        """Run the blocks before number `end` that have not run yet."""
        run_blocks(self.blocks[self._num_done : end], self.folder, execute)
        self._num_done = max(self._num_done, end)


class InProcess:
    """Executes commands of toolkit in this process, which has TensorFlow, and others beside it."""

    def __init__(self, cli, monkeypatch):
        self._cli, self._monkeypatch = cli, monkeypatch

    def __call__(self, command):
        words = shlex.split(command, comments=True)
        name = "python -c" if words[:2] == ["python", "-c"] else words[0]
        if set(words) & SHELL_WORDS or name not in ("toolkit", *PROGRAMS):
            return run_shell(command, {})
        if name == "toolkit":
            return self._run_toolkit(command, words[1:])
        arguments = words[len(name.split()) :]
        result = process_fixtures.run(*arguments, statements=PROGRAMS[name])
        return Output(result.code, result.out + result.err)

    def _run_toolkit(self, command, words):
        if words[0] in STARTERS:
            process_fixtures.take_turn()
        with self._monkeypatch.context() as patch:
            for name, value in shortened(command).items():
                patch.setenv(name, value)
            result = self._cli(*words)
        return Output(result.code, result.out + result.err)


class Shell:
    """Executes commands as a user's shell does, in a layer in which pip may install."""

    def __init__(self, environment):
        self._variables = environment.variables()
        for name, text in SCRIPTS.items():
            path = Path(environment.bin, name)
            path.write_text("#!/bin/sh\n" + text.format(environment.python) + "\n")
            path.chmod(0o755)

    def __call__(self, command):
        return run_shell(command, shortened(command), self._variables)


def run_shell(command, variables, environment=None):
    """Run a command by bash in the working directory, with more variables in the environment: by
    default that of this process, with its Python first on PATH.
    """
    if environment is None:
        python = os.path.dirname(sys.executable)
        environment = dict(os.environ, PATH=python + os.pathsep + os.environ["PATH"])
        environment.pop("PYTEST_ADDOPTS", None)  # a reader has none
    result = subprocess.run(
        ["bash", "-c", command],
        env=dict(environment, **variables),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=process_fixtures.PATIENCE,
    )
    return Output(result.returncode, result.stdout.decode("utf-8", "replace"))
