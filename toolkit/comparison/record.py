"""What is read of a run to list it, to compare it and to show it; nothing is locked or written.

No code of a plugin is executed and TensorFlow is not imported, so that the runs of strangers can be
read. `read_record` reads config.json and the commit log alone where the run has ended.
"""

from __future__ import annotations

import contextlib
import errno
import math
import os
from typing import IO, Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence

from ..errors import CheckpointError, ToolkitError, UsageError
from ..files import open_regular_file
from ..options import ORIGINS, Origin, read_origins
from ..storage import folder_lock
from ..storage.entries import has_ended
from ..storage.jsonl import parse_object, read_json
from ..storage.own_folders import COMMITS, CONFIG, MANIFEST, is_run_listing
from ..storage.run_folder import DRIVER, RunFolder

METRICS = "metrics.jsonl"
EXTENSIONS = "with"
KILLED, RUNNING, UNSTARTED = "killed", "running", "unstarted"  # no session has ended
# What config.json has besides the options.
_NO_OPTIONS = ("plugin", EXTENSIONS, ORIGINS, "folder", DRIVER)
_TAIL_BYTES = 1 << 16  # of a log, of which only the last lines are needed


class RunRecord(NamedTuple):
    """What config.json and the commit log say of a run."""

    path: str  # of the folder, absolute
    name: str  # of the run among others: a relative path, or the name of the folder
    # "finished", "stopped", "interrupted", "diverged", "failed", "trained"; "running" while a
    # process trains, "killed" if it ended without a word, "unstarted" before the first step
    status: str
    reason: str  # why it ended, a clause or a sentence; "" if nothing says it
    exit_code: Optional[int]  # of the process that trained; None if it has not ended or was killed
    step: int  # the last one; that of the last commit if the run was killed
    total_steps: Optional[int]  # where training ends; None if the run has not started
    seconds: Optional[float]  # of training in all sessions; None if it has not ended
    created: str  # when the run began, in ISO 8601; "" if the run has not started
    plugin: str  # the name or reference of the model plugin
    extensions: List[str]  # those of the extensions, in their order
    argv: List[str]  # the command of the last session
    options: Dict[str, Any]  # the values of all options by name
    origins: Dict[str, Origin]  # where each value comes from, by the name of the option
    data_name: str  # of the data source
    data_sha256: Dict[str, str]  # the hashes of its files by name
    partition: str  # the hash of which examples are in which split
    examples: Dict[str, int]  # the number of examples by split
    test: Optional[Dict[str, Any]]  # the result of the test split, with "metrics" by name
    best: Optional[Dict[str, Any]]  # step, metric and direction of the best checkpoint
    versions: Dict[str, str]  # of the software, by name
    manifest: Dict[str, Any]  # the whole state, as manifest.json shows it

    @property
    def folder(self) -> RunFolder:
        """The folder, to read more than the record contains."""
        return RunFolder(self.path)

    @property
    def metrics(self) -> Dict[str, float]:
        """The metrics of the test split by name; one that was not finite is NaN."""
        return self.test["metrics"] if self.test else {}

    def of_test(self, *names: str) -> Any:
        """A value in the result of the test split, by the names that lead to it; None without."""
        value: Any = self.test
        for name in names:
            value = value.get(name) if isinstance(value, dict) else None
        return value


def read_record(
    path: str, name: Optional[str] = None, is_training: Optional[bool] = None
) -> RunRecord:
    """Read the record of a run; `is_training` says whether a process trains it, if not the lock.

    Raises UsageError if there is no run in the folder, CheckpointError if config.json or the commit
    log is damaged, or of another version.
    """
    path = os.path.abspath(path)
    if not is_run_listing(_list_folder(path)):
        hint = "'toolkit runs DIR' lists the runs below a folder."
        raise UsageError(f"{path} contains no run.", hint=hint)
    config_path = os.path.join(path, CONFIG)
    config = read_json(config_path)
    if not isinstance(config, dict):
        raise CheckpointError(
            f"{config_path} is not valid: it is no JSON object.", path=config_path
        )
    is_started = any(os.path.lexists(os.path.join(path, each)) for each in (COMMITS, MANIFEST))
    state = RunFolder(path).state() if is_started else {}
    is_over, step, status = has_ended(state), state.get("step", 0), state.get("status", UNSTARTED)
    if not is_over:  # while a process has just begun to continue a run, its end is that of before
        is_locked = folder_lock.is_locked(path) if is_training is None else is_training
        status = RUNNING if is_locked else KILLED if state else UNSTARTED
        step = max(step, _read_last_step(path) if is_locked else 0)
    data, extensions = state.get("data") or {}, config.get(EXTENSIONS)
    return RunRecord(
        path=path,
        name=os.path.basename(path) if name is None else name,
        status=status,
        reason=state["reason"] if is_over else "",
        exit_code=state.get("exit_code"),
        step=step,
        total_steps=state.get("total_steps"),
        seconds=state["seconds"] if is_over else None,
        created=state.get("created", ""),
        plugin=str(config.get("plugin") or ""),
        extensions=[str(each) for each in extensions] if isinstance(extensions, list) else [],
        argv=state.get("argv", []),
        options={key: value for key, value in config.items() if key not in _NO_OPTIONS},
        origins=read_origins(config.get(ORIGINS)),
        data_name=str(data.get("name") or config.get("data") or ""),
        data_sha256=data.get("sha256", {}),
        partition=data.get("partition", ""),
        examples=_select(data.get("examples"), int),
        test=_read_test((state.get("summary") or {}).get("test")),
        best=state.get("best"),
        versions=_select(state.get("versions"), str),
        manifest=state,
    )


def _list_folder(path: str, shown: str = "") -> List[str]:
    """The names in a folder. Raises UsageError, which shows the path as `shown`."""
    try:
        return os.listdir(path)
    except OSError as error:
        fault = {FileNotFoundError: "does not exist", NotADirectoryError: "is a file"}.get(
            type(error), f"cannot be read: {error.strerror}"
        )
        raise UsageError(f"{shown or path} {fault}.", hint="Name a folder of runs.") from None


def _read_test(value: Any) -> Optional[Dict[str, Any]]:
    """The result of the test split with the "metrics" that are numbers; None if there is none."""
    if not isinstance(value, dict) or not isinstance(value.get("metrics"), dict):
        return None
    numbers = {
        name: n for name, n in value["metrics"].items() if type(n) in (type(None), int, float)
    }
    metrics = {name: finite(number) for name, number in numbers.items()}
    return dict(value, metrics={name: math.nan if m is None else m for name, m in metrics.items()})


def _select(values: Any, kind: type) -> Dict[str, Any]:
    """The entries of an object of JSON whose values are of a type."""
    pairs = values.items() if isinstance(values, dict) else ()
    return {name: value for name, value in pairs if type(value) is kind}


def finite(value: Any) -> Optional[float]:
    """The number as a float; None if it is no finite number."""
    try:
        number = float(value) if type(value) in (int, float) else math.nan
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def open_inside(folder: str, name: str) -> IO[bytes]:
    """Open a file of a run by its path in the folder, with "/". Raises OSError, also if it is no
    regular file, or if the path, or a symbolic link, leads to what may be no part of the run.
    """
    parts = name.split("/")
    path = os.path.join(folder, *parts)
    if "\0" in name or os.path.realpath(path) != os.path.join(os.path.realpath(folder), *parts):
        raise OSError(errno.EPERM, "it is not in the folder of the run")
    return open_regular_file(path)


def _read_last_step(path: str) -> int:
    """The last step of which a run has recorded metrics; 0 if it has none."""
    lines: List[bytes] = []
    with contextlib.suppress(OSError), open_inside(path, METRICS) as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
        lines = file.read().split(b"\n")[:-1]
    records = (parse_object(line.decode("utf-8", "replace")) or {} for line in reversed(lines))
    steps = (record.get("step") for record in records)
    return next((step for step in steps if type(step) is int and step >= 0), 0)


# -------------------------------------------------------------------------------------- many runs


class Found(NamedTuple):
    """A run in a folder that a user named."""

    name: str  # the path that the user named, with the path of the run below it
    path: str  # of the run's folder, absolute
    record: Optional[RunRecord]  # None if it cannot be read
    error: Optional[ToolkitError]  # why it cannot be read; None if it can


def read_runs(
    folders: Sequence[str],
    note: Callable[[str], None] = lambda text: None,
    may_be_empty: bool = False,
) -> List[Found]:
    """Read the runs in folders, as the user named them, and below them, each once. Raises
    UsageError if there is no run in a folder, unless it may be empty; see `find_runs`, too.
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
    """Yield the absolute paths of the runs in a folder and below it, in the order of their names; a
    run itself is the only one.

    It does not descend into runs and hidden folders, and follows no symbolic links below `folder`.
    `note` gets a sentence for each folder that is left out but may contain runs. Raises UsageError
    if the folder does not exist or cannot be read.
    """
    root = os.path.abspath(folder)
    _list_folder(root, folder or repr(folder))
    for path, folders, files in os.walk(
        root, onerror=lambda error: note(f"{error.filename} cannot be read: {error.strerror}")
    ):
        if is_run_listing([*folders, *files]):
            folders.clear()
            yield path
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for link in filter(os.path.islink, (os.path.join(path, name) for name in folders)):
            note(f"{link} is a symbolic link, which is not followed; name it to list it")
