"""Copies of the plugins' sources: what a run keeps, and how it is checked."""

import hashlib
import os
from pathlib import Path
from unittest import mock

import pytest
from file_fixtures import forget_modules, read_json
from linear_fixtures import Linear, write_bars
from run_fixtures import sessions, write_plugin

from toolkit.api import load_plugins
from toolkit.cli import run_command
from toolkit.errors import RetryError
from toolkit.plugins import Plugin
from toolkit.storage import source_copies


def copies_in(run):
    """Path -> text of each copy in a run folder."""
    root = run / "sources"
    files = [path for path in root.rglob("*") if path.is_file()]
    return {str(path.relative_to(root)): path.read_text() for path in files}


def train_with_mate():
    """A run of mine.py, which imports its neighbour mate.py."""
    Path("mate.py").write_text("FACTOR = 1.0\n")
    argv = ["--plugin", write_plugin("    import mate"), "--data", write_bars("bars.npz")]
    assert run_command(["run", *argv, "--run-dir", "run", "--steps", "4"]) == 0


@pytest.fixture
def mate(made_once, here, monkeypatch):
    monkeypatch.chdir(made_once(train_with_mate))
    return here / "made"


def test_a_run_copies_a_file_and_its_neighbours(mate):
    (session,) = sessions(mate / "run")
    copies = copies_in(mate / "run")
    folder = session["sources"]["mine"]["folder"]
    assert set(copies) == {f"{folder}/mine.py", f"{folder}/mate.py"}
    for name, sha256 in session["plugins"]["mine"].items():
        assert hashlib.sha256(copies[f"{folder}/{name}"].encode()).hexdigest() == sha256


def test_a_session_with_other_code_keeps_both_versions_and_the_same_code_is_kept_once(mate, cli):
    assert cli("resume", "run", "--steps", 5).code == 0
    assert len(os.listdir("run/sources")) == 1
    (mate / "mate.py").write_text("FACTOR = 2.0\n")
    forget_modules(mate)
    assert cli("resume", "run", "--steps", 6, "--trust").code == 0
    texts = [text for path, text in copies_in(mate / "run").items() if path.endswith("mate.py")]
    assert sorted(texts) == ["FACTOR = 1.0\n", "FACTOR = 2.0\n"]
    assert cli("verify", "run").code == 0


@pytest.mark.parametrize(
    "reference, name",
    [("classifier", "toolkit_classifier/networks.py"), (Linear, "linear_fixtures.py")],
)
def test_a_package_is_copied_with_its_folders_and_an_object_with_its_file(here, reference, name):
    plugin, folder = load_plugins(reference).model, source_copies.RunFolder(str(here))
    copy = source_copies.write_copies(folder, "p", plugin.sha256(), plugin.read_source)
    assert f"{copy.folder}/{name}" in copies_in(here) and copy.omitted == []


def test_the_lock_of_an_editor_in_a_package_is_no_source(here):
    (here / "a").mkdir()
    (here / "a" / "__init__.py").write_text("")
    (here / "a" / ".#part.py").symlink_to("me@host.1234:5678")  # as Emacs makes one
    plugin = Plugin("a", "a", "model", None, str(here / "a" / "__init__.py"), "")
    assert list(plugin.sha256()) == ["a/__init__.py"]


def test_a_file_that_changes_while_the_run_begins_is_omitted(here):
    (here / "a.py").write_text("changed")
    folder = source_copies.RunFolder(str(here))
    plugin = Plugin("a", "./a.py", "model", None, str(here / "a.py"), "")
    hashes = {"a.py": hashlib.sha256(b"before").hexdigest(), "gone.py": "0" * 64, "../x": ""}
    copy = source_copies.write_copies(folder, "a", hashes, plugin.read_source)
    assert copy.omitted == ["../x", "a.py", "gone.py"]


@pytest.mark.parametrize(
    "error, raised", [(KeyboardInterrupt(), KeyboardInterrupt), (OSError(28, "Full"), RetryError)]
)
def test_a_kill_or_a_full_disk_leaves_no_version_in_part(here, monkeypatch, error, raised):
    folder = source_copies.RunFolder(str(here))
    hashes = {name: hashlib.sha256(b"x").hexdigest() for name in ("a.py", "b.py")}
    monkeypatch.setattr(source_copies, "sync", mock.Mock(side_effect=error))
    with pytest.raises(raised):
        source_copies.write_copies(folder, "a", hashes, lambda name: b"x")
    assert os.listdir("sources") == []


@pytest.mark.parametrize(
    "damage, message",
    [
        (lambda path: path.write_text("# other\n"), "mate.py has changed since it was written"),
        (os.remove, "mate.py is missing"),
    ],
)
def test_verify_names_a_copy_that_is_not_as_it_was_written(mate, cli, damage, message):
    (path,) = (mate / "run" / "sources").glob("*/mate.py")
    damage(path)
    cli.refuse(6, f"sources: sources/{path.parent.name}/{message}", "verify", "run")


def test_a_session_may_leave_out_the_copies(mate, cli):
    assert cli("resume", "run", "--steps", 5, "--no-keep-sources").code == 0
    first, second = sessions(mate / "run")
    assert second["sources"] == {} != first["sources"]
    assert set(second["plugins"]["mine"]) == {"mine.py", "mate.py"}
    assert read_json("run/manifest.json")["keeps_sources"] is False
    assert cli("verify", "run").code == 0


def test_commands_name_the_copies_if_the_plugin_is_gone(cli):
    train_with_mate()
    os.remove("mine.py")
    (folder,) = os.listdir("run/sources")
    for command in (["evaluate", "run"], ["resume", "run"], ["predict", "run", "bars.npz"]):
        result = cli.refuse(2, "There is no plugin file", *command)
        assert f"A copy of the code that trained the run is in run/sources/{folder}." in result.err
