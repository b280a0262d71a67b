"""The state of the git work trees in which the plugins' files lie: commit, branch, changes.

A work tree may be a stranger's, whose configuration and attributes can name programs to run: an
external diff, filters, a monitor of the file system, fetches of missing objects. So the changes
are computed with a configuration of our own, in a temporary folder that refers to the objects and
the index of the repository. Nothing in it names a program. Whatever fails or takes long leaves
facts unknown, and never disturbs the training.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
import threading
import time
from typing import Any, Dict, Iterable, Iterator, List, NamedTuple, Optional, Set, Tuple

from ..plugins import Plugin
from ..storage.git_record import describe_changes

TOTAL_SECS = 3.0  # for all that is asked of git at the start of a session
MAX_DIFFERENCE_BYTES = 1 << 20
_MAX_ARGUMENTS = 500
_VARIABLES = (
    "PATH",
    "TMPDIR",
    "SYSTEMROOT",
    "GIT_CEILING_DIRECTORIES",
    "GIT_DISCOVERY_ACROSS_FILESYSTEM",
)
_CONFIG = """[core]
\trepositoryformatversion = {version}
\tbare = false
\tbigFileThreshold = 8m
[extensions]
\tobjectFormat = {format}
"""
_DIFF = (
    "diff",
    "--no-ext-diff",
    "--no-textconv",
    "--no-color",
    "--no-renames",
    "--ignore-submodules=dirty",  # their own changes would start git with their configuration
    "--submodule=short",
    "--src-prefix=a/",
    "--dst-prefix=b/",
)


class GitState(NamedTuple):
    """The state of one work tree."""

    plugins: List[str]  # the names of those whose files lie in it
    commit: Optional[str]  # None before the first one
    branch: Optional[str]  # None with a detached head
    is_dirty: Optional[bool]  # whether anything differs from the commit; None if it is not known
    difference: bytes  # as of `git diff`, with the new files of the plugins
    is_complete: bool  # whether all of it is there

    def without_difference(self) -> GitState:
        """The state for a run that keeps no sources: it says whether anything had changed."""
        return self._replace(difference=b"", is_complete=self.is_complete and not self.difference)


class _Repository(NamedTuple):
    root: str  # of the work tree, absolute
    objects: str  # the folder of the objects
    index_file: str
    exclude: str  # a file with patterns of names to ignore
    commit: Optional[str]
    branch: Optional[str]


def read_git_states(plugins: Iterable[Plugin]) -> List[GitState]:
    """The state of each work tree in which files of the plugins lie; [] without git.

    The folder of a plugin decides, since its code is what a run depends on. What configuration
    files say is in config.json already, and the working directory need not contain any code.
    """
    program = shutil.which("git")
    if program is None or not os.path.isabs(program):
        return []
    git = _Git(program, time.monotonic() + TOTAL_SECS)
    trees: Dict[str, Tuple[_Repository, List[Plugin]]] = {}
    for plugin in plugins:
        repository = git.find_repository(plugin.source_folder) if plugin.file else None
        if repository is not None:
            trees.setdefault(repository.root, (repository, []))[1].append(plugin)
    states = [_read_state(git, repository, members) for repository, members in trees.values()]
    return [state for state in states if state.plugins]


def _read_state(git: _Git, repository: _Repository, plugins: List[Plugin]) -> GitState:
    """The state of a work tree; of no plugin if git ignores their files, as site-packages."""
    names, commit, branch = [p.name for p in plugins], repository.commit, repository.branch
    unknown = GitState(names, commit, branch, None, b"", False)
    with _own_configuration(repository) as variables:
        if variables is None:
            return unknown
        files = {p.name: _files_in(repository.root, p) for p in plugins}
        paths = sorted({path for each in files.values() for path in each})
        tracked = git.list_tracked(repository.root, paths, variables)
        if tracked is None:
            return unknown
        names = [
            name
            for name, each in files.items()
            if set(each) & tracked or not git.is_ignored(repository.root, each, variables)
        ]
        new = [path for name in names for path in files[name] if path not in tracked]
        difference, is_complete = git.compare(repository, variables)
        is_known = is_complete or bool(difference)
        difference += b"".join(_describe_new_file(repository.root, path) for path in new)
        is_dirty = bool(difference) if is_known or difference else None
        is_whole = is_complete and len(difference) <= MAX_DIFFERENCE_BYTES
        return GitState(names, commit, branch, is_dirty, _cut(difference), is_whole)


def _files_in(root: str, plugin: Plugin) -> List[str]:
    """The paths of a plugin's files in a work tree, as git writes them."""
    folder = os.path.realpath(plugin.source_folder)
    try:
        paths = [os.path.relpath(os.path.join(folder, name), root) for name in plugin.sha256()]
    except Exception:  # a file went away
        return []
    return sorted(path for path in paths if not path.startswith(os.pardir + os.sep))


def _cut(difference: bytes) -> bytes:
    """The difference without its last files, if it is too long."""
    if len(difference) <= MAX_DIFFERENCE_BYTES:
        return difference
    end = difference.rfind(b"\ndiff --git ", 0, MAX_DIFFERENCE_BYTES)
    return difference[: end + 1]


# -------------------------------------------------------------------------------------------- git


class _Git:
    """Calls of git, none of which lasts beyond a moment.

    Args:
        program: the path of git.
        end: the time at which the last call is ended, of `time.monotonic`.
    """

    def __init__(self, program: str, end: float):
        self._program = program
        self._end = end

    def find_repository(self, folder: str) -> Optional[_Repository]:
        """The repository whose work tree contains a folder, or None."""
        words = ["rev-parse", "--show-toplevel", "--git-path", "objects", "--git-path", "index"]
        words += ["--git-path", "info/exclude", "HEAD", "--symbolic-full-name", "HEAD"]
        personal = {n: os.environ[n] for n in ("HOME", "XDG_CONFIG_HOME") if n in os.environ}
        text = self._call(words, folder, personal, 1 << 16)[0]
        lines = os.fsdecode(text).split("\n")[:-1]
        if len(lines) not in (4, 6):  # 4 before the first commit
            if len(lines) != 5:
                return None
            lines = lines[:4]
        root, objects, index, exclude = (os.path.join(folder, line) for line in lines[:4])
        commit, head = lines[4:] if len(lines) == 6 else (None, "")
        branch = head[len("refs/heads/") :] if head.startswith("refs/heads/") else None
        return _Repository(os.path.realpath(root), objects, index, exclude, commit, branch)

    def list_tracked(
        self, root: str, paths: List[str], variables: Dict[str, str]
    ) -> Optional[Set[str]]:
        """Those of the paths that the index has; None if it cannot be read."""
        few = paths if len(paths) <= _MAX_ARGUMENTS else [os.path.commonpath(paths) or "."]
        words = ["--literal-pathspecs", "ls-files", "-z", "--", *few]
        text, code = self._call(words, root, variables, 1 << 24)
        return None if code else {os.fsdecode(path) for path in text.split(b"\0") if path}

    def is_ignored(self, root: str, paths: List[str], variables: Dict[str, str]) -> bool:
        """Whether patterns of the work tree exclude all of the paths."""
        some = paths[:_MAX_ARGUMENTS]
        text, code = self._call(["check-ignore", "--", *some], root, variables, 1 << 20)
        return not code and text.count(b"\n") == len(some)

    def compare(self, repository: _Repository, variables: Dict[str, str]) -> Tuple[bytes, bool]:
        """The difference of the work tree from its commit, and whether it is complete."""
        if repository.commit is None:
            return b"", True
        words = [*_DIFF, repository.commit, "--"]
        limit = MAX_DIFFERENCE_BYTES + 1
        text, code = self._call(words, repository.root, variables, limit)
        return text, code == 0

    def _call(
        self, words: List[str], folder: str, variables: Dict[str, str], limit: int
    ) -> Tuple[bytes, int]:
        """Return the first bytes of what git writes to stdout, and its exit code.

        The code is not 0 if git was ended because it took too long or wrote more.
        """
        environment = {n: os.environ[n] for n in _VARIABLES if n in os.environ}
        environment.update(
            GIT_OPTIONAL_LOCKS="0",
            GIT_TERMINAL_PROMPT="0",
            GIT_ALLOW_PROTOCOL="none",
            GIT_NO_LAZY_FETCH="1",
            GIT_PAGER="",
            LC_ALL="C",
            **variables,
        )
        command = [self._program, "--no-pager", "-c", "core.fsmonitor=false", *words]
        secs = self._end - time.monotonic()
        if secs <= 0:
            return b"", -1
        try:
            process = subprocess.Popen(
                command,
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
        except (OSError, ValueError):
            return b"", -1
        timer = threading.Timer(secs, process.kill)
        timer.start()
        try:
            with process:
                assert process.stdout is not None
                text = process.stdout.read(limit)
                if len(text) == limit:
                    process.kill()
        finally:
            timer.cancel()
        return text, process.returncode


@contextlib.contextmanager
def _own_configuration(repository: _Repository) -> Iterator[Optional[Dict[str, str]]]:
    """The variables for git to read a repository without its configuration, or the user's.

    Yields:
        None if the temporary folder cannot be written.
    """
    with contextlib.ExitStack() as stack:
        variables = None
        with contextlib.suppress(OSError):
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="toolkit-git-"))
            variables = _write_configuration(repository, folder)
        yield variables


def _write_configuration(repository: _Repository, folder: str) -> Dict[str, str]:
    for name in ("objects", "refs", "info"):
        os.mkdir(os.path.join(folder, name))
    is_long = len(repository.commit or "") == 64
    config = _CONFIG.format(version=1, format="sha256" if is_long else "sha1")
    if not is_long:
        config = config[: config.index("[extensions]")].replace("version = 1", "version = 0")
    for name, text in (("HEAD", "ref: refs/heads/none\n"), ("config", config)):
        with open(os.path.join(folder, name), "w", encoding="ascii") as file:
            file.write(text)
    if os.path.isfile(repository.exclude):
        shutil.copyfile(repository.exclude, os.path.join(folder, "info", "exclude"))
    place = os.path.dirname(repository.index_file)
    for name in os.listdir(place) if os.path.isdir(place) else ():
        if name.startswith("sharedindex."):  # to which a split index refers
            os.symlink(os.path.join(place, name), os.path.join(folder, name))
    return {
        "GIT_DIR": folder,
        "GIT_WORK_TREE": repository.root,
        "GIT_OBJECT_DIRECTORY": repository.objects,
        "GIT_INDEX_FILE": repository.index_file,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "HOME": folder,
        "XDG_CONFIG_HOME": folder,
    }


# --------------------------------------------------------------------------------------- new files


def _describe_new_file(root: str, path: str) -> bytes:
    """An untracked file as a part of a difference; empty if it cannot be read."""
    try:
        with open(os.path.join(root, path), "rb") as file:
            content = file.read(MAX_DIFFERENCE_BYTES + 1)
    except OSError:
        return b""
    a, b = _quote("a/" + path), _quote("b/" + path)
    head = b"diff --git " + a + b" " + b + b"\nnew file mode 100644\n"
    if b"\0" in content or len(content) > MAX_DIFFERENCE_BYTES:
        return head + b"Binary files /dev/null and " + b + b" differ\n"
    if not content:
        return head
    lines = content.split(b"\n")
    end = b"" if lines[-1] == b"" else b"\\ No newline at end of file\n"
    lines = lines[:-1] if lines[-1] == b"" else lines
    count = b"" if len(lines) == 1 else b",%d" % len(lines)
    body = b"".join(b"+" + line + b"\n" for line in lines)
    return head + b"--- /dev/null\n+++ " + b + b"\n@@ -0,0 +1" + count + b" @@\n" + body + end


def _quote(path: str) -> bytes:
    """A path as git writes it: in quotes, with octal numbers, where it has other than ASCII."""
    raw = os.fsencode(path)
    if all(0x20 <= byte < 0x7F and byte not in b'"\\' for byte in raw):
        return raw
    parts = [
        b"\\" + bytes([byte])
        if byte in b'"\\'
        else bytes([byte])
        if 0x20 <= byte < 0x7F
        else b"\\%03o" % byte
        for byte in raw
    ]
    return b'"' + b"".join(parts) + b'"'


def describe_state(state: GitState) -> Dict[str, Any]:
    """The state for the manifest and the session's entry, without the difference itself."""
    return {
        "plugins": state.plugins,
        "commit": state.commit,
        "branch": state.branch,
        "is_dirty": state.is_dirty,
        "is_complete": state.is_complete,
        "changes": describe_changes(state.difference),
    }
