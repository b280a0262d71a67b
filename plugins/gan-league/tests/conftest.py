"""The league's modules, its command, and the helpers of the toolkit's own tests, uninstalled."""

import os
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
REPOSITORY = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
TESTS = os.path.join(REPOSITORY, "tests")
sys.path[:0] = [os.path.dirname(HERE), TESTS, os.path.join(TESTS, "gan")]


@pytest.fixture(scope="session")
def _distribution(tmp_path_factory):
    """A folder with what the installation of the package would write of its entry point."""
    folder = tmp_path_factory.mktemp("distribution")
    info = folder / "toolkit_gan_league-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Name: toolkit-gan-league\nVersion: 0.1.0\n")
    command = "[toolkit.commands]\ngan-league = toolkit_gan_league:gan_league\n"
    (info / "entry_points.txt").write_text(command)
    return str(folder)


@pytest.fixture
def cli(_distribution, monkeypatch, tmp_path, capsys):
    """A function that runs a command in this process: `cli("gan-league", ...)` -> Ended."""
    from process_fixtures import Ended

    from toolkit.cli import run_command

    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(_distribution)

    def call(*argv):
        capsys.readouterr()
        code = run_command([str(argument) for argument in argv])
        captured = capsys.readouterr()
        return Ended(code, captured.out, captured.err)

    return call
