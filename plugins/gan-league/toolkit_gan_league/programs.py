"""Programs that compete in `toolkit gan-league`: tools in any language, by a protocol of files.

A program is called once per seed, as

    COMMAND --data FILE.npz --cpu-secs S --seed K --samples N --out OUT.npz

FILE.npz has the training images of the presets, x_train uint8 [n, H, W, C], and, of data with
classes, y_train int32 [n]. The program trains for at most S seconds of CPU time and writes N images
to OUT.npz, as `images` uint8 [N, H, W, C]. By creating the empty file OUT.npz.trained it says that
its training has ended; drawing, which follows, is then not counted, as for presets and plugins.

Legend: N images, H height, W width, C channels.
"""

from __future__ import annotations

import contextlib
import fcntl
import glob
import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import zipfile
import zlib
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Sequence

import numpy as np

from toolkit import DataError, RetryError, ToolkitError, UsageError, atomic_write

from . import supervisor
from .rivals import check_distinct

FOLDER = "programs"  # the subfolder of a tournament with the runs of programs
IMAGES = "images.npz"  # in the folder of a run
# A program that still trains is killed after this multiple of its budget and the time of a start.
LIMIT, START_SECS = 1.5, 30.0
DRAWING_SECS = 60.0  # of CPU time, for the samples, and for each of them:
DRAWING_SECS_PER_IMAGE = 0.1
IDLE_SECS = 600.0  # without any CPU time, after which a program hangs
_MARK = ".trained"  # follows the name of the output
_MAX_SCRIPT_BYTES = 1 << 24
_TAIL_BYTES = 4000  # of a log, in which its last line is searched
# What reading a file raises that numpy.savez did not write, or not to its end.
_DAMAGE = (
    *(OSError, ValueError, TypeError, AttributeError, EOFError, MemoryError, RuntimeError),
    *(zipfile.BadZipFile, zlib.error),
)


class Program(NamedTuple):
    """A program that competes with the presets.

    Attributes:
        name: in the table.
        words: of its command.
    """

    name: str
    words: Sequence[str]

    @property
    def folder(self) -> str:
        """The name of the folder of its runs."""
        return re.sub(r"[^\w.=]+", "-", self.name)

    def sha256(self) -> str:
        """A hash of the command, with the contents of its code.

        The code is what is executed, the first file among the words, and the modules beside it.
        Other files that the words name may be what the program writes.
        """
        digest = hashlib.sha256(json.dumps(list(self.words)).encode())
        for path in self._code_paths():
            with contextlib.suppress(OSError):
                if os.path.getsize(path) <= _MAX_SCRIPT_BYTES:
                    with open(path, "rb") as file:
                        content = hashlib.sha256(file.read()).digest()
                    digest.update(os.path.basename(path).encode("utf-8", "replace") + content)
        return digest.hexdigest()

    def _code_paths(self) -> List[str]:
        executable = shutil.which(self.words[0]) or self.words[0]
        paths = [executable, *[word for word in self.words[1:] if os.path.isfile(word)][:1]]
        if len(paths) == 1 and not executable.endswith(".py"):
            return paths
        folder = glob.escape(os.path.dirname(os.path.abspath(paths[-1])))
        return [*paths, *sorted(glob.glob(os.path.join(folder, "*.py")))]


class ProgramRun(NamedTuple):
    """How a run of a program ended.

    Attributes:
        folder: with its images and its log.
        status: "finished", "failed", or "stopped" if it was killed.
        reason: why it did not finish; "" if it did.
        cpu_secs: of its training; of all if it does not say when its training ended.
    """

    folder: str
    status: str
    reason: str
    cpu_secs: float

    @property
    def images_path(self) -> str:
        return os.path.join(self.folder, IMAGES)


class Task(NamedTuple):
    """What each run of each program of a tournament gets.

    Attributes:
        cpu_secs: for its training.
        seeds: one for each run of a program.
        samples: the number of images to write.
        shape: (H, W, C) of the images.
        data_sha256: of the training images.
        cores: on which its processes may run; 0 for all.
    """

    cpu_secs: float
    seeds: Sequence[int]
    samples: int
    shape: Sequence[int]
    data_sha256: str
    cores: int = 0


# ------------------------------------------------------------------------------------- the options


def parse_programs(texts: Sequence[str]) -> List[Program]:
    """Return the programs that the values of `--program` name.

    Args:
        texts: of the form "NAME=COMMAND".

    Raises:
        UsageError: a text has no name or no command, or what it calls is missing.
    """
    programs = list(map(_parse_program, texts))
    hint = "Give each program a name of its own: --program 'NAME=COMMAND'."
    check_distinct("--program", programs, hint)
    return programs


def _parse_program(text: str) -> Program:
    name, _, command = (part.strip() for part in text.partition("="))
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise UsageError(f"--program '{text}' cannot be read: {error}.") from None
    has_name = bool(re.search(r"\w", name))
    if not (has_name and words):
        raise UsageError(
            f"--program '{text}' has no {'command' if has_name else 'name'}.",
            hint="Write --program 'NAME=COMMAND', such as --program 'mine=python3 mine.py'.",
        )
    if shutil.which(words[0]) is None:
        raise UsageError(
            f"--program '{name}': there is no program '{words[0]}' that can be executed.",
            hint="Write its path, or for a script its interpreter first: 'NAME=python3 FILE'.",
        )
    return Program(name, words)


def check_names(programs: Sequence[Program], others: Sequence[str]) -> None:
    """Check that no program has the name of a preset or a plugin. Raises UsageError."""
    for program in programs:
        if program.name in others:
            raise UsageError(
                f"--program '{program.name}' has the name of a preset or a plugin.",
                hint="Give it another name, so that the rows of the table differ.",
            )


# ----------------------------------------------------------------------------------------- the runs


def train(programs: Sequence[Program], folder: str, split: Any, task: Task) -> None:
    """Run the programs that have not finished, one after another; a failure keeps its row.

    A run whose images are damaged has not finished.

    Args:
        programs: in the order of their runs.
        folder: of the tournament.
        split: the training `Split` of the presets.
        task: equal for all.

    Raises:
        UsageError: a program has finished with another command, other data or another budget.
        RetryError: another process runs the programs of this tournament.
    """
    place = os.path.join(folder, FOLDER)
    for program in programs:
        check_runs(program, folder, task)
    os.makedirs(place, exist_ok=True)
    with _lock(place):
        data = os.path.join(place, f"data-{task.data_sha256[:16]}.npz")
        if not os.path.exists(data):
            _write_data(split, data)
        for program in programs:
            facts = _describe(program, task)  # before it runs, as its code may change meanwhile
            for seed in task.seeds:
                path = run_folder(folder, program, seed)
                if not _is_finished(path):
                    _log(f"Program {program.name}, seed {seed}: {task.cpu_secs:g} CPU seconds.")
                    result = _run(program, seed, task, data, path, facts)
                    end = result.reason or f"finished in {result.cpu_secs:.0f} CPU seconds."
                    _log(f"Program {program.name}, seed {seed}: {end}")


def run_folder(folder: str, program: Program, seed: int) -> str:
    """Return the folder of a program's run in a tournament."""
    return os.path.join(folder, FOLDER, program.folder, f"s{seed}")


def check_runs(program: Program, folder: str, task: Task) -> None:
    """Check that the runs that have finished are those of this task. Raises UsageError."""
    for seed in task.seeds:
        path = run_folder(folder, program, seed)
        if not _is_finished(path):
            continue
        former, present = _read_record(path)["request"], _describe(program, task)
        for name, text in (
            ("program", "its command or its script"),
            ("data_sha256", "the data"),
            ("cpu_secs", "the budget"),
            ("samples", "the number of samples"),
        ):
            if former.get(name) != present[name]:
                raise UsageError(
                    f"--program '{program.name}' has run in {path}, and {text} has changed since.",
                    hint=f"Repeat the tournament in another --dir, or remove {path}.",
                )


def read_runs(program: Program, folder: str, seeds: Sequence[int]) -> List[ProgramRun]:
    """Return the runs of a program that have ended."""
    paths = [run_folder(folder, program, seed) for seed in seeds]
    return [_read_run(path) for path in paths if os.path.exists(os.path.join(path, "result.json"))]


def _read_run(path: str) -> ProgramRun:
    record = _read_record(path)
    return ProgramRun(path, record["status"], record["reason"], record["cpu_secs"])


def _is_finished(path: str) -> bool:
    """Whether a run has finished, and its images are still as it wrote them."""
    try:
        run, request = _read_run(path), _read_record(path)["request"]
        if run.status == "finished":
            open_images(run.images_path, request["samples"], request["shape"])
        return run.status == "finished"
    except (OSError, ValueError, KeyError, DataError):
        return False


def _read_record(path: str) -> Dict[str, Any]:
    with open(os.path.join(path, "result.json"), encoding="utf-8") as file:
        record: Dict[str, Any] = json.load(file)
        return record


def _describe(program: Program, task: Task) -> Dict[str, Any]:
    """Return what the images of a run depend on, besides its seed."""
    facts = {"data_sha256": task.data_sha256, "cpu_secs": task.cpu_secs, "samples": task.samples}
    return dict(facts, shape=list(task.shape), program=program.sha256())


@contextlib.contextmanager
def _lock(folder: str) -> Iterator[None]:
    """Let one process at a time run the programs of a tournament. Raises RetryError."""
    with open(os.path.join(folder, ".lock"), "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise RetryError(
                f"Another process runs the programs in {folder}.", hint="Wait until it has ended."
            ) from None
        yield


def _log(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def _write_data(split: Any, path: str) -> None:
    """Write the images of a split, and their labels where it has classes."""
    images, labels = split.take(np.arange(len(split)))
    if images.dtype != np.uint8:  # but floats in [0, 1]
        images = np.rint(255 * images).astype(np.uint8)
    arrays: Dict[str, Any] = {"x_train": images}
    if labels is not None:
        arrays["y_train"] = labels.astype(np.int32)
    with atomic_write(path, durable=True) as file:
        np.savez(file, **arrays)


def _run(
    program: Program, seed: int, task: Task, data: str, path: str, facts: Mapping[str, Any]
) -> ProgramRun:
    """Run a program once and record how it ended.

    Args:
        program, seed, task: which program, and what it gets.
        data: the file of the training images.
        path: the folder of the run, which replaces that of a run that did not finish.
        facts: of `_describe`.
    """
    shutil.rmtree(path, ignore_errors=True)
    os.makedirs(path)
    out = os.path.join(path, IMAGES)
    flags = {
        "--data": data,
        "--cpu-secs": f"{task.cpu_secs:g}",
        "--seed": str(seed),
        "--samples": str(task.samples),
        "--out": out,
    }
    request = {
        "command": [*program.words, *(word for pair in flags.items() for word in pair)],
        "log": os.path.join(path, "log.txt"),
        "limit": LIMIT * task.cpu_secs + START_SECS,
        "mark": out + _MARK,
        "drawing_limit": DRAWING_SECS + DRAWING_SECS_PER_IMAGE * task.samples,
        "idle_secs": IDLE_SECS,
        "cores": task.cores,
    }
    ending = supervise(request)
    reason = _as_plain_text(_find_failure(ending, request, task, out))
    if not reason:
        _flush(out)  # before the record says that they are there
    training_secs = ending.get("training_cpu_secs")
    cpu_secs = ending.get("cpu_secs", 0.0) if training_secs is None else training_secs
    status = "stopped" if ending.get("stopped") else "failed" if reason else "finished"
    record = {
        "status": status,
        "reason": reason,
        "cpu_secs": cpu_secs,
        "ending": ending,
        "command": request["command"],
        "request": facts,
    }
    with atomic_write(os.path.join(path, "result.json"), durable=True) as file:
        file.write(json.dumps(record, indent=2).encode())
    return _read_run(path)


def _flush(path: str) -> None:
    """Let a file be on the disk."""
    with open(path, "rb") as file:
        os.fsync(file.fileno())


def supervise(request: Mapping[str, Any]) -> Dict[str, Any]:
    """Run a program under a `supervisor`, which ends it if this process ends or is interrupted.

    Args:
        request: see `supervisor.Supervisor`.

    Returns:
        As `supervisor.Supervisor.run`, or {"error": why it did not start}.

    Raises:
        ToolkitError: the supervisor itself was killed.
    """
    process = subprocess.Popen(
        [sys.executable, "-I", supervisor.__file__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=_initial_environment(),
        start_new_session=True,  # Ctrl-C reaches this process alone
    )
    assert process.stdin is not None and process.stdout is not None
    try:
        process.stdin.write(json.dumps(request).encode() + b"\n")
        process.stdin.flush()
        answer = process.stdout.read()
    finally:
        process.stdin.close()
        process.wait()
        process.stdout.close()
    if not answer:
        raise ToolkitError(
            "The process that supervised a program was killed.",
            hint="Continue with the same command.",
        )
    ending: Dict[str, Any] = json.loads(answer.decode())
    return ending


def _initial_environment() -> Dict[bytes, bytes]:
    """The environment that this process was started with.

    TensorFlow 2 adds variables that change how TensorFlow 1 works in a program.
    """
    try:
        with open("/proc/self/environ", "rb") as file:
            pairs = [entry.partition(b"=") for entry in file.read().split(b"\0")]
        return {name: value for name, _, value in pairs if name}
    except OSError:  # not on Linux
        return dict(os.environb)


# -------------------------------------------------------------------------------------- the images


def _find_failure(
    ending: Mapping[str, Any], request: Mapping[str, Any], task: Task, out: str
) -> str:
    """Return why a run has no images that could be scored; "" if it has them."""
    if "error" in ending:
        return f"it did not start: {ending['error']}"
    secs = ending["cpu_secs"]
    if ending["stopped"] == "training":
        return f"it was killed after {secs:.0f} CPU seconds; its budget is {task.cpu_secs:g}"
    if ending["stopped"] == "drawing":
        return f"it was killed while it drew: that took over {request['drawing_limit']:.0f} CPU s"
    if ending["stopped"] == "idle":
        return f"it was killed after {IDLE_SECS / 60:.0f} minutes without any CPU time"
    if ending["stopped"] or ending["code"]:
        line = _last_line(request["log"])
        return f"exit code {ending['code']}" + (f": {line}" if line else "")
    try:
        open_images(out, task.samples, task.shape)
    except DataError as error:
        return error.message
    return ""


def _last_line(path: str) -> str:
    """The last line of a log that is not empty; a progress bar begins a line with each \\r."""
    with open(path, "rb") as file:
        file.seek(max(0, os.path.getsize(path) - _TAIL_BYTES))
        text = file.read().decode("utf-8", "replace")
    lines = map(_as_plain_text, reversed(re.split(r"[\r\n]", text)))
    return next((line for line in lines if line), "")[:200]


def _as_plain_text(text: str) -> str:
    """A text on one line without what controls a terminal, such as colours."""
    text = re.sub(r"\x1b\[[0-?]*[ -/]*[@-~]", "", text)
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def open_images(path: str, count: int, shape: Sequence[int]) -> np.ndarray:
    """Return the images that a program wrote, uint8 [count, H, W, C].

    Args:
        path: of the npz file.
        count: the number of images.
        shape: (H, W, C); the axis C of grey images may be missing in the file.

    Raises:
        DataError: the file is missing or has other contents.
    """
    images = load_images(path)
    if images.dtype != np.uint8 or images.shape != (count, *shape):
        raise DataError(
            f"it wrote {images.dtype} {list(images.shape)}, expected uint8 {[count, *shape]}"
        )
    return images


def load_images(path: str) -> np.ndarray:
    """Return the array `images` of an npz file, or its only one, with an axis of channels.

    Raises:
        DataError: the file is missing or has other contents.
    """
    names: List[str] = []
    try:
        with np.load(path, allow_pickle=False) as arrays:
            names = list(arrays)
            name = "images" if "images" in names or len(names) != 1 else names[0]
            images: Any = arrays[name]
    except FileNotFoundError:
        raise DataError("it wrote no file of images") from None
    except KeyError:
        raise DataError(f"its file has no 'images', but {', '.join(names) or 'nothing'}") from None
    except _DAMAGE:
        raise DataError("its file of images is not one of numpy.savez") from None
    if not isinstance(images, np.ndarray):  # the bytes of a file of another kind
        raise DataError("its file of images is not one of numpy.savez")
    return images[..., np.newaxis] if images.ndim == 3 else images
