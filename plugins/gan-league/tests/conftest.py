"""The league's modules, its command, and the helpers of the toolkit's own tests, uninstalled."""

import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent
TESTS = PACKAGE.parent.parent / "tests"
sys.path[:0] = map(str, [PACKAGE, TESTS, TESTS / "gan"])


@pytest.fixture
def cli(monkeypatch, tmp_path, capsys):
    """`cli("gan-league", ...)`: how the command of the package ended, as if it were installed."""
    from process_fixtures import Commands
    from test_plugins import distribution

    command = "[toolkit.commands]\ngan-league = toolkit_gan_league:gan_league\n"
    distribution(tmp_path / "site", "toolkit_gan_league", command)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    return Commands(capsys)
