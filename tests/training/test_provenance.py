"""The commit of the work tree of a plugin: what is recorded, and what is never run."""

import os
import shutil
import subprocess

import pytest
from file_fixtures import read_json
from linear_fixtures import write_bars
from process_fixtures import PATIENCE
from run_fixtures import sessions, write_plugin

from toolkit.plugins import Plugin
from toolkit.training import provenance
from toolkit.training.provenance import read_git_commits

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


def git(*words):
    identity = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "protocol.file.allow=always"]
    subprocess.run(["git", *identity, *words], check=True, stdout=subprocess.DEVNULL)


def states_of(path="mine.py"):
    path = os.path.abspath(path)
    return read_git_commits([Plugin("mine", path, "model", None, path, "")])


def state_of(path="mine.py"):
    return states_of(path)["mine"]


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """Git has time, also on a busy machine."""
    monkeypatch.setattr(provenance, "_GIT_SECS", PATIENCE)


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


def test_a_tree_has_its_commit_and_branch(tree):
    (tree / "mine.py").write_text("import mate  # changed\n")
    state = state_of()
    assert len(state["commit"]) == 40 and state["branch"] == "main"
    git("checkout", "-q", "--detach")
    assert state_of() == {**state, "branch": None}


@pytest.mark.parametrize("place", ["outside", "untracked", "no git", "broken", "no commit"])
def test_elsewhere_there_is_no_state(tree, monkeypatch, place):
    path = {"untracked": "site/mine.py", "outside": "../outside/mine.py"}.get(place, "mine.py")
    if place == "outside":
        monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tree.parent))
    elif place == "no git":
        monkeypatch.setenv("PATH", str(tree))
    elif place == "no commit":
        git("checkout", "-q", "--orphan", "new")
    elif place == "broken":
        (tree / ".git" / "HEAD").write_text("\0")
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    with open(path, "w") as file:
        file.write("X = 1\n")
    assert states_of(path) == {}


def test_the_users_own_variables_do_not_move_the_repository(tree, monkeypatch):
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY"):
        monkeypatch.setenv(name, str(tree / "absent"))
    assert state_of()["branch"] == "main"


def test_nothing_that_a_repository_names_is_run(tree):
    program = str(tree / "program")
    with open(program, "w") as file:
        file.write(f"#!/bin/sh\ntouch {tree}/executed\ncat\n")
    os.chmod(program, 0o755)
    diff = ["diff.external", "diff.x.command", "diff.x.textconv"]
    filters = ["filter.x.clean", "filter.x.process"]
    remote = ["core.sshCommand", "remote.origin.uploadpack", "credential.helper"]
    for name in ["core.fsmonitor", "core.pager", *diff, *filters, *remote]:
        git("config", name, program)
    git("config", "remote.origin.promisor", "true")
    (tree / ".gitattributes").write_text("* filter=x diff=x\n")
    for name in ("post-index-change", "fsmonitor-watchman"):
        shutil.copy(program, str(tree / ".git" / "hooks" / name))
    (tree / "mate.py").write_text("X = 2\n")
    os.utime(str(tree / "other.txt"), (1, 1))
    assert state_of()["branch"] == "main"
    assert not (tree / "executed").exists()
    subprocess.run(["git", "diff"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    assert (tree / "executed").exists()  # git itself would have run it


def test_a_run_records_the_state_of_each_session(tree, cli):
    argv = ["run", "--plugin", write_plugin(), "--data", write_bars("bars.npz"), "--run-dir", "run"]
    assert cli(*argv, "--steps", 2).code == 0
    write_plugin("    pass  # changed")
    assert cli("resume", "run", "--steps", 4, "--trust").code == 0
    first, second = (session["git"]["mine"] for session in sessions(tree / "run"))
    assert first == second and first["branch"] == "main"
    assert read_json("run/manifest.json")["git"] == {"mine": second}
