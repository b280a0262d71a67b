"""Copies of the plugins' sources: what a run keeps, and how it is checked."""

import errno
import hashlib
import os

import pytest
from file_fixtures import forget_modules, read_json
from linear_fixtures import write_bars
from run_fixtures import sessions, write_plugin

import toolkit
from toolkit.cli import run_command
from toolkit.plugins import Plugin
from toolkit.storage import source_copies


def train(cli, *more, run="run", plugin="./mine.py"):
    argv = ["--plugin", plugin, "--data", write_bars("bars.npz"), "--run-dir", run]
    result = cli("run", *argv, "--steps", 4, "--steps-per-call", 1, *more)
    assert result.code == 0, result.err
    return result


def copies_in(run):
    """Path -> text of each copy in a run folder."""
    root = run / "sources"
    return {
        str(path.relative_to(root)): path.read_text()
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


def train_with_mate():
    """A run of mine.py, which imports its neighbour mate.py."""
    with open("mate.py", "w") as file:
        file.write("FACTOR = 1.0\n")
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


def test_an_installed_package_is_copied_with_its_folders_and_extensions_too(here, cli):
    flags = ["--network", "mlp", "--batch-size", 8, "--with", "gradient-noise"]
    train(cli, *flags, plugin="classifier")
    sources = sessions(here / "run")[0]["sources"]
    assert set(sources) == {"classifier", "gradient-noise"}
    assert {copy["folder"] for copy in sources.values()} == set(os.listdir("run/sources"))
    folder = sources["classifier"]["folder"]
    assert f"{folder}/toolkit_classifier/networks.py" in copies_in(here / "run")


def test_an_object_in_python_is_copied_with_its_file(here):
    from linear_fixtures import Linear

    toolkit.train(Linear, str(here / "run"), {"data": write_bars("bars.npz"), "steps": 2})
    assert [path.partition("/")[2] for path in copies_in(here / "run")] == ["linear_fixtures.py"]


def test_a_large_file_is_omitted_with_a_warning(here, cli, monkeypatch):
    monkeypatch.setattr(source_copies, "MAX_FILE_BYTES", 100)
    write_plugin()
    result = train(cli)
    assert "lacks files that are large or have just changed: mine.py" in result.err
    assert cli("verify", "run").code == 0


def test_a_file_that_changes_while_the_run_begins_is_omitted(here):
    (here / "a.py").write_text("changed")
    folder = source_copies.Folder(str(here))
    plugin = Plugin("a", "./a.py", "model", None, str(here / "a.py"), "")
    hashes = {"a.py": hashlib.sha256(b"before").hexdigest(), "gone.py": "0" * 64, "../x": ""}
    copy = source_copies.write_copies(folder, "a", hashes, plugin.read_source)
    assert copy.omitted == ["../x", "a.py", "gone.py"]


def test_a_kill_leaves_no_version_in_part(here, monkeypatch):
    folder = source_copies.Folder(str(here))
    hashes = {name: hashlib.sha256(b"x").hexdigest() for name in ("a.py", "b.py")}

    def write(path):
        raise KeyboardInterrupt

    monkeypatch.setattr(source_copies, "sync", write)
    with pytest.raises(KeyboardInterrupt):
        source_copies.write_copies(folder, "a", hashes, lambda name: b"x")
    assert os.listdir("sources") == []


def test_a_full_disk_is_one_sentence_and_a_resume_copies_again(here, cli, monkeypatch):
    def write(path):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)

    reference = write_plugin()
    argv = ["run", "--plugin", reference, "--data", write_bars("bars.npz"), "--run-dir", "run"]
    with monkeypatch.context() as patch:
        patch.setattr(source_copies, "sync", write)
        result = cli(*argv, "--steps", 4)
    assert result.code == 138 and "No space left on device" in result.err
    assert os.listdir("run/sources") == [] and "Traceback" not in result.err
    assert cli("resume", "run").code == 0 and cli("verify", "run").code == 0
    assert len(copies_in(here / "run")) == 1


def test_a_branch_has_the_copies_of_its_parent(mate, cli):
    assert cli("resume", "run", "--from", 2, "--run-dir", "branch").code == 0
    assert copies_in(mate / "branch") == copies_in(mate / "run")
    assert cli("verify", "branch").code == 0


@pytest.mark.parametrize(
    "damage, message",
    [
        (lambda path: path.write_text("# other\n"), "mate.py is not the file that its session"),
        (os.remove, "mate.py is missing"),
        (lambda path: (os.remove(path), os.mkdir(path)), "mate.py cannot be read (Is a directory)"),
        (lambda path: (os.remove(path), os.mkfifo(path)), "mate.py cannot be read (not a regular"),
    ],
)
def test_verify_names_a_copy_that_is_not_as_it_was_written(mate, cli, damage, message):
    (path,) = (mate / "run" / "sources").glob("*/mate.py")
    damage(path)
    result = cli("verify", "run")
    assert result.code == 6 and f"sources: sources/{path.parent.name}/{message}" in result.err


# ---------------------------------------------------------------------------------------- left out


def test_a_run_may_leave_out_the_copies(mate, cli):
    train(cli, "--no-keep-sources", run="bare")
    (session,) = sessions(mate / "bare")
    assert session["sources"] == {} and set(session["plugins"]["mine"]) == {"mine.py", "mate.py"}
    assert not (mate / "bare" / "sources").exists()
    assert read_json("bare/manifest.json")["keeps_sources"] is False
    assert read_json("run/manifest.json")["keeps_sources"] is True
    result = cli("verify", "bare", "--replay", "0:4")
    assert result.code == 0 and "no copies" in result.out
    assert cli("compare", "run", "bare").code == 0


def test_a_session_without_copies_is_between_sessions_with_copies(mate, cli):
    assert cli("resume", "run", "--steps", 5, "--no-keep-sources").code == 0
    assert cli("resume", "run", "--steps", 6, "--keep-sources").code == 0
    first, second, third = (session["sources"] for session in sessions(mate / "run"))
    assert second == {} and first == third != {}
    assert cli("verify", "run").code == 0


@pytest.mark.parametrize("command", [["evaluate"], ["resume"], ["predict", "bars.npz"]])
def test_commands_name_the_copies_if_the_plugin_is_gone(cli, command):
    train_with_mate()
    os.remove("mine.py")
    (folder,) = os.listdir("run/sources")
    name, *rest = command
    result = cli(name, "run", *rest)
    assert result.code == 2 and "There is no plugin file" in result.err
    assert f"A copy of the code that trained the run is in run/sources/{folder}." in result.err
