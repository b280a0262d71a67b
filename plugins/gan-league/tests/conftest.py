"""The league's modules, its command, and the helpers of the toolkit's own tests, uninstalled."""

import os
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
REPOSITORY = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
TESTS = os.path.join(REPOSITORY, "tests")
sys.path[:0] = [os.path.dirname(HERE), TESTS, os.path.join(TESTS, "gan")]


@pytest.fixture
def cli(monkeypatch, tmp_path, capsys):
    """`cli("gan-league", ...)`: how the command of the package ended, as if it were installed."""
    from process_fixtures import Commands

    info = tmp_path / "site" / "toolkit_gan_league-0.1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Name: toolkit-gan-league\nVersion: 0.1.0\n")
    command = "[toolkit.commands]\ngan-league = toolkit_gan_league:gan_league\n"
    (info / "entry_points.txt").write_text(command)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(info.parent))
    return Commands(capsys)
