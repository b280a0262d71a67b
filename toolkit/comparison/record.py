"""What is read of a run to list it, to compare it and to show it; nothing is locked or written.

No code of a plugin is executed and TensorFlow is not imported, so that the runs of strangers can be
read. `read_record` reads config.json and the commit log alone where the run has ended.
"""

from __future__ import annotations

import math
import os
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from ..errors import CheckpointError, ToolkitError, UsageError
from ..files import open_regular_file
from ..options import ORIGINS, Origin, read_origins
from ..storage import folder_lock
from ..storage.entries import read_end
from ..storage.jsonl import parse_object, read_json
from ..storage.own_folders import COMMITS, MANIFEST, is_run_listing
from ..storage.run_folder import CONFIG, DRIVER, RunFolder

METRICS = "metrics.jsonl"
KILLED, RUNNING, UNSTARTED = "killed", "running", "unstarted"  # no session has ended
_NO_OPTIONS = (
    "plugin",
    "with",
    ORIGINS,
    "folder",
    DRIVER,
)  # what config.json has besides the options
_TAIL_BYTES = 1 << 16  # of a log, of which only the last lines are needed


class RunRecord(NamedTuple):
    """What config.json and the commit log say of a run.

    Attributes:
        path: of the folder, absolute.
        name: of the run among others: a relative path, or the name of the folder.
        status: that of the state ("finished", "stopped", "interrupted", "diverged", "failed",
            "trained"); "running" while a process trains, "killed" if the process that trained has
            ended without a word, "unstarted" before the first step.
        reason: why it ended, a clause or a sentence; "" if nothing says it.
        exit_code: of the process that trained; None if it has not ended or was killed.
        step: the last one; that of the last commit if the run was killed.
        total_steps: where training ends; None if the run has not started.
        seconds: of training in all sessions; None while it trains, or if it was killed. Earlier
            versions recorded those of the last session alone.
        created: when the run began, in ISO 8601; "" if the run has not started.
        plugin: the name or reference of the model plugin.
        extensions: those of the extensions, in their order.
        argv: the command of the last session.
        options: the values of all options by name.
        origins: where each value comes from, by the name of the option.
        data_name: of the data source.
        data_sha256: the hashes of its files by name.
        partition: the hash of which examples are in which split.
        examples: the number of examples by split.
        test: the result of the test split, with "metrics" by name; None if there is none.
        best: step, metric and direction of the best checkpoint; None if none was selected.
        versions: of the software, by name.
        manifest: the whole state, as manifest.json shows it; {} if the run has not started.
    """

    path: str
    name: str
    status: str
    reason: str
    exit_code: Optional[int]
    step: int
    total_steps: Optional[int]
    seconds: Optional[float]
    created: str
    plugin: str
    extensions: List[str]
    argv: List[str]
    options: Dict[str, Any]
    origins: Dict[str, Origin]
    data_name: str
    data_sha256: Dict[str, str]
    partition: str
    examples: Dict[str, int]
    test: Optional[Dict[str, Any]]
    best: Optional[Dict[str, Any]]
    versions: Dict[str, str]
    manifest: Dict[str, Any]

    @property
    def folder(self) -> RunFolder:
        """The folder, to read more than the record contains."""
        return RunFolder(self.path)

    @property
    def metrics(self) -> Dict[str, float]:
        """The metrics of the test split by name."""
        return self.test["metrics"] if self.test else {}


def read_record(
    path: str, name: Optional[str] = None, is_training: Optional[bool] = None
) -> RunRecord:
    """Read the record of a run.

    Args:
        path: of its folder.
        name: the name of the record; None: that of the folder.
        is_training: whether a process trains the run; None: whether one has locked the folder.

    Raises:
        UsageError: there is no run in the folder.
        CheckpointError: config.json or the commit log is damaged, or of another version.
    """
    path = os.path.abspath(path)
    _refuse_other_folder(path)
    config = _read_config(path)
    is_started = any(os.path.lexists(os.path.join(path, name)) for name in (COMMITS, MANIFEST))
    facts = RunFolder(path).state() if is_started else {}
    status, step = _read_state(path, facts, is_training)
    end = read_end(facts) if facts else None
    summary = facts.get("summary") or {}
    data = facts.get("data") or {}
    has_ended = status not in (KILLED, RUNNING, UNSTARTED)
    return RunRecord(
        path=path,
        name=os.path.basename(path) if name is None else name,
        status=status,
        reason=_text(facts.get("reason")) if has_ended else "",
        exit_code=end.exit_code if end and has_ended else None,
        step=step,
        total_steps=facts.get("total_steps"),
        seconds=_number(facts.get("seconds", summary.get("seconds"))) if has_ended else None,
        created=_text(facts.get("created")),
        plugin=_text(config.get("plugin")),
        extensions=_texts(config.get("with")),
        argv=_texts(facts.get("argv")),
        options={key: value for key, value in config.items() if key not in _NO_OPTIONS},
        origins=read_origins(config.get(ORIGINS)),
        data_name=_text(data.get("name")) or _text(config.get("data")),
        data_sha256=_text_dict(data.get("sha256")),
        partition=_text(data.get("partition")),
        examples=_counts(data.get("examples")),
        test=_read_test(summary.get("test")),
        best=facts.get("best"),
        versions=_text_dict(facts.get("versions")),
        manifest=facts,
    )


class Found(NamedTuple):
    """A run in a folder that a user named.

    Attributes:
        name: the path that the user named, with the path of the run below it.
        path: of the run's folder, absolute.
        record: None if it cannot be read.
        error: why it cannot be read; None if it can.
    """

    name: str
    path: str
    record: Optional[RunRecord]
    error: Optional[ToolkitError]


def read_runs(
    folders: Sequence[str],
    note: Callable[[str], None] = lambda text: None,
    may_be_empty: bool = False,
) -> List[Found]:
    """Read the runs in folders and below them, each once; for errors, see `find_runs`, too.

    Args:
        folders: as the user named them.
        note: see `find_runs`.
        may_be_empty: whether a folder may have no run.

    Raises:
        UsageError: there is no run in a folder.
    """
    runs: Dict[str, Found] = {}
    for folder in folders:
        paths = list(find_runs(folder, note))
        if not paths and not may_be_empty:
            raise UsageError(
                f"There is no run in {folder}.", hint="A run's folder has a manifest.json."
            )
        for path in paths:
            name = os.path.relpath(path, os.path.abspath(folder))
            name = os.path.normpath(os.path.join(folder, name))
            if os.path.realpath(path) in runs:
                continue
            try:
                run = Found(name, path, read_record(path, name), None)
            except ToolkitError as error:
                run = Found(name, path, None, error)
            runs[os.path.realpath(path)] = run
    return list(runs.values())


def find_runs(folder: str, note: Callable[[str], None] = lambda text: None) -> Iterator[str]:
    """Yield the absolute paths of the runs in a folder and below it, in the order of their names.

    It does not descend into runs and hidden folders, and follows no symbolic links below `folder`.

    Args:
        folder: where to look; a run itself is the only one.
        note: is called with a sentence for each folder that is left out but may contain runs.

    Raises:
        UsageError: the folder does not exist or cannot be read.
    """
    root = os.path.abspath(folder)
    try:
        os.listdir(root)
    except OSError as error:
        fault = {FileNotFoundError: "does not exist", NotADirectoryError: "is a file"}.get(
            type(error), f"cannot be read: {error.strerror}"
        )
        raise UsageError(f"{folder or repr(folder)} {fault}.", hint="Name a folder.") from None
    paths = [root]  # what is still to be visited, the next one last
    while paths:
        path = paths.pop()
        try:
            folders, names = _scan(path, note)
        except OSError as error:
            note(f"{path} cannot be read: {error.strerror}")
            continue
        if is_run_listing(names):
            yield path
        else:
            paths.extend(os.path.join(path, name) for name in sorted(folders, reverse=True))


def read_last_lines(path: str, size: Optional[int] = _TAIL_BYTES) -> List[bytes]:
    """The complete lines in the last `size` bytes of a file (None: in the whole file); the first
    of them may lack its start. [] if the file cannot be read.
    """
    try:
        with open_regular_file(path) as file:
            end = file.seek(0, os.SEEK_END)
            file.seek(0 if size is None else max(0, end - size))
            return file.read().split(b"\n")[:-1]
    except OSError:
        return []


def _scan(path: str, note: Callable[[str], None]) -> Tuple[List[str], List[str]]:
    """The names of the folders to visit in a folder, and the names of everything in it."""
    folders, names = [], []
    with os.scandir(path) as entries:
        for entry in entries:
            names.append(entry.name)
            if entry.name.startswith("."):
                continue
            if entry.is_dir(follow_symlinks=False):
                folders.append(entry.name)
            elif entry.is_symlink() and os.path.isdir(entry.path):
                note(f"{entry.path} is a symbolic link, which is not followed; name it to list it")
    return folders, names


def _refuse_other_folder(path: str) -> None:
    try:
        names = os.listdir(path)
    except FileNotFoundError:
        raise UsageError(f"{path} does not exist.") from None
    except NotADirectoryError:
        raise UsageError(f"{path} is a file, not the folder of a run.") from None
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror}.", path=path) from None
    if not is_run_listing(names):
        hint = "A run's folder has a config.json and a manifest.json; see runs/."
        raise UsageError(f"{path} contains no run.", hint=hint)


def _read_config(path: str) -> Dict[str, Any]:
    path = os.path.join(path, CONFIG)
    config = read_json(path)
    if not isinstance(config, dict):
        raise CheckpointError(f"{path} is not valid: it is no JSON object.", path=path)
    return config


def _read_state(path: str, facts: Dict[str, Any], is_training: Optional[bool]) -> Tuple[str, int]:
    """The status of a run and its last step; see `read_record`."""
    step = facts.get("step", 0)
    if facts and read_end(facts) is not None:
        # A process that has just begun to continue the run has not written its status yet.
        return facts["status"], step
    if folder_lock.is_locked(path) if is_training is None else is_training:
        return RUNNING, max(step, _last_step(path, METRICS))
    return (KILLED, step) if facts else (UNSTARTED, 0)


def _last_step(path: str, name: str) -> int:
    """The step of the last readable record of a log; 0 if there is none."""
    for size in (_TAIL_BYTES, None):
        for line in reversed(read_last_lines(os.path.join(path, name), size)):
            values = parse_object(line.decode("utf-8", "replace")) or {}
            step = values.get("step", values.get("from"))
            if isinstance(step, int) and not isinstance(step, bool) and step >= 0:
                return step
    return 0


def _read_test(value: Any) -> Optional[Dict[str, Any]]:
    """The result of the test split with "metrics" that are numbers by name; None if there is none.

    A metric that was not finite is NaN.
    """
    if not isinstance(value, dict) or not isinstance(value.get("metrics"), dict):
        return None
    metrics = {}
    for name, number in value["metrics"].items():
        metrics[name] = float("nan") if number is None else _number(number)
    return dict(value, metrics={name: m for name, m in metrics.items() if m is not None})


def finite(value: Any) -> Optional[float]:
    """The number as a float; None if it is no finite number."""
    number = _number(value)
    return number if number is not None and math.isfinite(number) else None


def _number(value: Any) -> Optional[float]:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    try:
        return float(value) if is_number else None
    except OverflowError:
        return None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _texts(value: Any) -> List[str]:
    return [part for part in value if isinstance(part, str)] if isinstance(value, list) else []


def _text_dict(value: Any) -> Dict[str, str]:
    pairs = value.items() if isinstance(value, dict) else ()
    return {name: text for name, text in pairs if isinstance(text, str)}


def _counts(value: Any) -> Dict[str, int]:
    pairs = value.items() if isinstance(value, dict) else ()
    return {
        name: n for name, n in pairs if isinstance(n, int) and not isinstance(n, bool) and n >= 0
    }
