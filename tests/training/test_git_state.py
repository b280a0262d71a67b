"""The state of the work tree of a plugin: what is recorded, and what is never run."""

from __future__ import annotations

import json
import os
import shutil
import subprocess

import pytest
from file_fixtures import read_json
from linear_fixtures import write_bars
from run_fixtures import sessions, write_plugin

from toolkit.plugins import Plugin
from toolkit.storage import git_record
from toolkit.training import git_state
from toolkit.training.git_state import read_git_states

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


def git(*words):
    identity = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "protocol.file.allow=always"]
    subprocess.run(["git", *identity, *words], check=True, stdout=subprocess.DEVNULL)


def plugin(path):
    path = os.path.abspath(path)
    return Plugin("mine", path, "model", None, path, "")


def state_of(path="mine.py"):
    (state,) = read_git_states([plugin(path)])
    return state


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """Git has time, also on a busy machine."""
    monkeypatch.setattr(git_state, "TOTAL_SECS", 120.0)


@pytest.fixture
def tree(here):
    """A work tree with one commit of mine.py, mate.py and other.txt."""
    git("init", "-q", "-b", "main")
    (here / "mine.py").write_text("import mate\n")
    (here / "mate.py").write_text("X = 1\n")
    (here / "other.txt").write_text("a\nb\n")
    git("add", ".")
    git("commit", "-q", "-m", "first")
    return here


def test_a_clean_tree_has_its_commit_and_branch(tree):
    state = state_of()
    assert len(state.commit) == 40 and state.branch == "main"
    assert (state.is_dirty, state.difference, state.is_complete) == (False, b"", True)


def test_the_difference_restores_the_tree(tree):
    (tree / "other.txt").write_text("a\nc")
    (tree / "mine.py").write_text("import mate\nimport later\n")
    for name, text in (("later.py", "import \u00e4\n"), ("\u00e4.py", "Y = 2"), ("notes", "no")):
        (tree / name).write_text(text, encoding="utf-8")
    state = state_of()
    assert state.is_dirty and state.is_complete and b"notes" not in state.difference
    (tree / "all.diff").write_bytes(state.difference)
    git("checkout", "-q", "-f", "main")
    os.remove("later.py")
    os.remove("\u00e4.py")
    git("apply", "all.diff")
    assert (tree / "other.txt").read_text() == "a\nc"
    assert (tree / "later.py").read_bytes() == "import \u00e4\n".encode()
    assert (tree / "\u00e4.py").read_text() == "Y = 2"


def test_before_the_first_commit_all_files_are_new(here):
    git("init", "-q")
    (here / "mine.py").write_text("X = 1\n")
    state = state_of()
    assert state.commit is None and state.is_dirty and b"+X = 1" in state.difference


def test_a_detached_head_has_no_branch(tree):
    git("checkout", "-q", "--detach")
    assert state_of().branch is None and state_of().commit


def test_further_work_trees_and_submodules_have_states_of_their_own(tree):
    git("worktree", "add", "-q", "../second", "-b", "second")
    assert state_of("../second/mine.py").branch == "second"
    git("submodule", "--quiet", "add", str(tree), "inner")
    git("commit", "-q", "-m", "inner")
    (tree / "inner" / "mine.py").write_text("X = 3\n")
    assert state_of().is_dirty is False  # git of the submodule would have to run for this
    assert b"+X = 3" in state_of("inner/mine.py").difference
    shutil.rmtree(str(tree.parent / "second"))


def test_a_split_index_is_read(tree):
    git("update-index", "--split-index")
    (tree / "mate.py").write_text("X = 2\n")
    assert b"+X = 2" in state_of().difference and state_of().is_complete


@pytest.mark.parametrize("place", ["outside", "bare", "ignored", "no git", "broken"])
def test_elsewhere_there_is_no_state(tree, monkeypatch, place):
    path = "mine.py"
    if place == "bare":
        git("clone", "-q", "--bare", ".", "bare.git")
        path = "bare.git/mine.py"
    elif place == "ignored":
        (tree / ".gitignore").write_text("site/\n")
        path = "site/mine.py"
    elif place == "outside":
        path = str(tree.parent / "outside" / "mine.py")
        monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tree.parent))
    elif place == "no git":
        monkeypatch.setenv("PATH", str(tree))
    else:
        (tree / ".git" / "HEAD").write_text("\0")
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    with open(path, "w") as file:
        file.write("X = 1\n")
    assert read_git_states([plugin(path)]) == []


def test_the_users_own_variables_do_not_move_the_repository(tree, monkeypatch):
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY"):
        monkeypatch.setenv(name, str(tree / "absent"))
    monkeypatch.setenv("GIT_EXTERNAL_DIFF", "false")
    assert state_of().is_dirty is False


def test_nothing_that_a_repository_names_is_run(tree):
    program = str(tree / "program")
    with open(program, "w") as file:
        file.write(f"#!/bin/sh\ntouch {tree}/executed\ncat\n")
    os.chmod(program, 0o755)
    for name in (
        "core.fsmonitor",
        "core.pager",
        "core.sshCommand",
        "diff.external",
        "diff.x.command",
        "diff.x.textconv",
        "filter.x.clean",
        "filter.x.process",
        "remote.origin.uploadpack",
        "credential.helper",
    ):
        git("config", name, program)
    git("config", "remote.origin.promisor", "true")
    (tree / ".gitattributes").write_text("* filter=x diff=x\n")
    hooks = tree / ".git" / "hooks"
    for name in ("post-index-change", "fsmonitor-watchman"):
        shutil.copy(program, str(hooks / name))
    (tree / "mate.py").write_text("X = 2\n")
    os.utime(str(tree / "other.txt"), (1, 1))
    assert b"+X = 2" in state_of().difference
    assert not (tree / "executed").exists()
    subprocess.run(["git", "diff"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    assert (tree / "executed").exists()  # git itself would have run it


def test_a_long_difference_ends_after_a_whole_file(tree, monkeypatch):
    monkeypatch.setattr(git_state, "MAX_DIFFERENCE_BYTES", 2000)
    (tree / "mate.py").write_text("X = 2\n")
    (tree / "other.txt").write_text("a line\n" * 1000)
    state = state_of()
    assert state.is_dirty and not state.is_complete
    (tree / "all.diff").write_bytes(state.difference)
    git("checkout", "-q", "-f", "main")
    git("apply", "all.diff")
    assert (tree / "mate.py").read_text() == "X = 2\n"


def test_a_slow_git_leaves_the_facts_unknown(tree, monkeypatch):
    program = tree / "bin" / "git"
    program.parent.mkdir()
    real = shutil.which("git")
    program.write_text(f'#!/bin/sh\ncase "$*" in *diff*) exec sleep 60;; esac\nexec {real} "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.setattr(git_state, "TOTAL_SECS", 10.0)
    state = state_of()
    assert state.is_dirty is None and not state.is_complete


# --------------------------------------------------------------------------------------- in a run


def test_a_run_records_the_state_and_the_changes(here, cli):
    git("init", "-q", "-b", "main")
    reference = write_plugin()
    git("add", "mine.py")
    git("commit", "-q", "-m", "first")
    argv = ["run", "--plugin", reference, "--data", write_bars("bars.npz"), "--run-dir", "run"]
    assert cli(*argv, "--steps", 2).code == 0
    write_plugin("    pass  # changed")
    assert cli("resume", "run", "--steps", 4, "--trust").code == 0
    first, second = (session["git"][0] for session in sessions(here / "run"))
    assert (first["is_dirty"], first["changes"]) == (False, None)
    assert second["is_dirty"] and first["commit"] == second["commit"]
    assert read_json("run/manifest.json")["git"] == [second]
    path = here / "run" / second["changes"]["file"]
    assert "+    pass  # changed" in path.read_text()
    assert cli("verify", "run").code == 0
    path.write_text("")
    result = cli("verify", "run")
    assert result.code == 6 and f"{second['changes']['file']} is not the file" in result.err


def test_a_run_without_sources_records_that_there_were_changes_and_not_which(here, cli):
    git("init", "-q", "-b", "main")
    reference = write_plugin()
    git("add", "mine.py")
    git("commit", "-q", "-m", "first")
    write_plugin("    pass  # secret")
    argv = ["run", "--plugin", reference, "--data", write_bars("bars.npz"), "--run-dir", "run"]
    assert cli(*argv, "--steps", 2, "--no-keep-sources").code == 0
    (state,) = read_json("run/manifest.json")["git"]
    assert state["commit"] and state["is_dirty"] is True
    assert (state["changes"], state["is_complete"]) == (None, False)
    for folder, _, names in os.walk("run"):
        for name in names:
            with open(os.path.join(folder, name), "rb") as file:
                assert b"# secret" not in file.read()


GOOD = {
    "plugins": ["a"],
    "commit": None,
    "branch": None,
    "is_dirty": None,
    "is_complete": True,
    "changes": git_record.describe_changes(b"x"),
}


@pytest.mark.parametrize("name", list(GOOD))
def test_forged_states_are_refused(name):
    assert git_record.is_valid([GOOD])
    for odd in (0, [0], {}, "../x", {"file": "sources/../../x", "bytes": 0, "sha256": ""}):
        if not (name in ("commit", "branch") and odd == "../x"):
            assert not git_record.is_valid([json.loads(json.dumps(dict(GOOD, **{name: odd})))])
    assert not git_record.is_valid({})
