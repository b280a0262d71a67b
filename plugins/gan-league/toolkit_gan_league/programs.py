"""Programs that compete in `toolkit gan-league`: tools in any language, by a protocol of files.

A program is called once per seed, as

    COMMAND --data FILE.npz --cpu-secs S --seed K --samples N --out OUT.npz

FILE.npz has the training images of the presets, x_train uint8 [n, H, W, C], and, of data with
classes, y_train int32 [n]. The program trains for at most S seconds of CPU time and writes N images
to OUT.npz, as `images` uint8 [N, H, W, C].

Legend: N images, H height, W width, C channels.
"""

from __future__ import annotations

import contextlib
import fcntl
import glob
import hashlib
import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import types
from typing import Any, Callable, Dict, Iterator, List, Mapping, NamedTuple, Sequence

import click
import numpy as np
from toolkit_image_scores.scorer import ImageScorer
from toolkit_image_scores.sets import read_images

from toolkit import DataError, RetryError, atomic_write, open_trained

from . import starter
from .rivals import Rival

FOLDER = "programs"  # the subfolder of a tournament with the runs of programs
IMAGES = "images.npz"  # in the folder of a run
# A program is killed after this multiple of its budget, and CPU time for its start and its samples.
LIMIT, START_SECS, SECS_PER_SAMPLE = 1.5, 90.0, 0.01
CLOCK = 10  # by the clock it is killed after as many times these CPU seconds, as it may hang
WAIT_SECS = 0.1  # from one look at a program to the next
_MAX_SCRIPT_BYTES = 1 << 24
_TAIL_BYTES = 4000  # of a log, in which its last line is searched


class Task(NamedTuple):
    """What each run of each program of a tournament gets."""

    cpu_secs: float  # for its training
    seeds: Sequence[int]  # one for each run of a program
    samples: int  # the number of images to write
    shape: Sequence[int]  # (H, W, C) of the images
    data_sha256: str  # of the training images
    cores: int = 0  # on which its processes may run; 0 for all


# ----------------------------------------------------------------------------------------- the runs


def train(programs: Sequence[Rival], folder: str, split: Any, task: Task) -> List[List[str]]:
    """Run the programs that have not finished, one after another; a failure keeps its row. Return
    for each program the folders of its runs, by seed.

    The split has the training images of the presets. A program whose code has changed, or that had
    another task, is another program. Raises RetryError if another process runs these programs.
    """
    place = os.path.join(folder, FOLDER)
    os.makedirs(place, exist_ok=True)
    runs = []
    with _lock(place):
        data = os.path.join(place, f"data-{task.data_sha256[:16]}.npz")
        if not os.path.exists(data):
            _write_data(split, data)
        for program in programs:
            key = f"{program.folder}-{_identify(program, task)}"
            runs.append([os.path.join(place, key, f"s{seed}") for seed in task.seeds])
            for seed, path in zip(task.seeds, runs[-1]):
                if not _is_finished(path):
                    name = f"Program {program.name}, seed {seed}"
                    click.echo(f"{name}: {task.cpu_secs:g} CPU seconds.", err=True)
                    record = _run(program, seed, task, data, path)
                    end = record["reason"] or f"finished in {record['cpu_secs']:.0f} CPU seconds."
                    click.echo(f"{name}: {end}", err=True)
    return runs


def _identify(program: Rival, task: Task) -> str:
    """A short hash of what the images of a program depend on, besides its seed.

    Its code is what it executes, its script, which is the first file among its words, and the
    Python modules beside that, or without a script, with -m or -c, those of the working directory.
    Other files may be what the program writes.
    """
    facts = [program.words, task.cpu_secs, task.samples, task.data_sha256]
    digest = hashlib.sha256(json.dumps(facts).encode())
    executable, *words = program.words
    script = [word for word in words if os.path.isfile(word)][:1]
    paths = [shutil.which(executable) or executable, *script]
    if script or not {"-m", "-c"}.isdisjoint(words):
        folder = os.path.dirname(os.path.abspath(script[0])) if script else os.getcwd()
        paths += sorted(glob.glob(os.path.join(glob.escape(folder), "*.py")))
    for path in paths:
        if os.path.isfile(path) and os.path.getsize(path) <= _MAX_SCRIPT_BYTES:
            with open(path, "rb") as file:
                digest.update(os.fsencode(os.path.basename(path)) + file.read())
    return digest.hexdigest()[:12]


def read_record(path: str) -> Dict[str, Any]:
    """Return how the run in a folder ended: "status" ("finished", "failed", or "stopped" if it was
    killed), "reason" (why it did not finish; "" if it did), "cpu_secs" (see `execute`).
    """
    with open(os.path.join(path, "result.json"), encoding="utf-8") as file:
        record: Dict[str, Any] = json.load(file)
        return record


def _is_finished(path: str) -> bool:
    """Whether a run has finished, and its images are there."""
    try:
        has_images = os.path.exists(os.path.join(path, IMAGES))
        return has_images and bool(read_record(path)["status"] == "finished")
    except (OSError, ValueError):
        return False


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


def _write_data(split: Any, path: str) -> None:
    """Write the images of a split, and their labels where it has classes."""
    arrays: Dict[str, Any] = {"x_train": read_images(split, np.arange(len(split)))}
    if split.class_labels is not None:
        arrays["y_train"] = split.class_labels
    with atomic_write(path, durable=True) as file:
        np.savez(file, **arrays)


def _run(program: Rival, seed: int, task: Task, data: str, path: str) -> Dict[str, Any]:
    """Run a program once, anew, in the folder `path`; return its record, see `read_record`."""
    shutil.rmtree(path, ignore_errors=True)
    os.makedirs(path)
    flags = {
        "--data": data,
        "--cpu-secs": f"{task.cpu_secs:g}",
        "--seed": str(seed),
        "--samples": str(task.samples),
        "--out": os.path.join(path, IMAGES),
    }
    command = [*program.words, *(word for pair in flags.items() for word in pair)]
    limit = LIMIT * task.cpu_secs + START_SECS + SECS_PER_SAMPLE * task.samples
    ending = execute(command, os.path.join(path, "log.txt"), limit, task.cores)
    reason = _find_failure(ending, path, task)
    record = {
        "status": "stopped" if ending["stopped"] else "failed" if reason else "finished",
        "reason": reason,
        "cpu_secs": ending["cpu_secs"],
        "command": command,
        "ending": ending,
    }
    with atomic_write(os.path.join(path, "result.json"), durable=True) as file:
        file.write(json.dumps(record, indent=2).encode())
    return record


def execute(command: Sequence[str], log: str, limit: float, cores: int) -> Dict[str, Any]:
    """Run a program to its end, or kill it; it also ends with this process. `log` gets stdout and
    stderr. It is killed after `limit` CPU seconds; by the clock, after `CLOCK` times as many.
    `cores` are on how many it may run; 0 for all.

    Returns "code" (as a shell shows it), "cpu_secs" (of it and of the processes that it waited
    for), "stopped" ("" or why it was killed: "limit" or "clock").
    """
    limits = [str(os.getpid()), str(math.ceil(limit)), str(cores)]
    with open(log, "wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-I", starter.__file__, *limits, *command],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            env=_initial_environment(),
            start_new_session=True,  # Ctrl-C reaches this process alone
        )
    end, is_late = time.monotonic() + CLOCK * limit, False
    try:
        while not is_late and not os.waitid(
            os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT
        ):
            time.sleep(WAIT_SECS)
            is_late = time.monotonic() > end
    finally:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)  # and what it has started and left behind
        _, status, usage = os.wait4(process.pid, 0)
        is_signal = os.WIFSIGNALED(status)
        process.returncode = 128 + os.WTERMSIG(status) if is_signal else os.WEXITSTATUS(status)
    secs = usage.ru_utime + usage.ru_stime
    # By the signal of the limit or, where that is ignored, or was a child's, by what was used.
    is_limited = process.returncode == 128 + signal.SIGXCPU
    is_limited = is_limited or bool(process.returncode) and secs >= limit
    return {
        "code": process.returncode,
        "cpu_secs": secs,
        "stopped": "clock" if is_late else "limit" if is_limited else "",
    }


def _initial_environment() -> Dict[bytes, bytes]:
    """That of the start: TensorFlow 2 adds variables that change TensorFlow 1 in a program."""
    try:
        with open("/proc/self/environ", "rb") as file:
            pairs = [entry.partition(b"=") for entry in file.read().split(b"\0")]
        return {name: value for name, _, value in pairs if name}
    except OSError:  # not on Linux
        return dict(os.environb)


# -------------------------------------------------------------------------------------- the images


def _find_failure(ending: Mapping[str, Any], path: str, task: Task) -> str:
    """Return why a run has no images that could be scored; "" if it has them."""
    if ending["stopped"]:
        secs = f"{ending['cpu_secs']:.0f} CPU seconds"
        late = f", {CLOCK} times its limit by the clock" * (ending["stopped"] == "clock")
        return f"it was killed after {secs}{late}; its budget is {task.cpu_secs:g}"
    if ending["code"]:
        line = _last_line(os.path.join(path, "log.txt"))
        return f"exit code {ending['code']}" + (f": {line}" if line else "")
    try:
        images = load_images(path)
    except DataError as error:
        return error.message
    shape = [task.samples, *task.shape]
    if images.dtype == np.uint8 and list(images.shape) == shape:
        return ""
    return f"it wrote {images.dtype} {list(images.shape)}, expected uint8 {shape}"


def _last_line(path: str) -> str:
    """The last line of a log that is not empty; a progress bar begins one with each \\r."""
    with open(path, "rb") as file:
        file.seek(max(0, os.path.getsize(path) - _TAIL_BYTES))
        text = file.read().decode("utf-8", "replace")
    lines = (" ".join(line.split()) for line in reversed(re.split(r"[\r\n]", text)))
    return next(filter(None, lines), "")[:200]


def load_images(path: str) -> np.ndarray:
    """Return the array `images` in the file of the run in a folder, with an axis of channels.
    Raises DataError if the file is missing or has other contents.
    """
    try:
        with np.load(os.path.join(path, IMAGES), allow_pickle=False) as arrays:
            name = arrays.files[0] if len(arrays.files) == 1 else "images"
            images = np.asarray(arrays[name])
    except FileNotFoundError:
        raise DataError("it wrote no file of images") from None
    except KeyError:
        raise DataError("its file has no array 'images'") from None
    except Exception:  # a file of another kind, or a part of one, fails in many ways
        raise DataError("its file of images is not one of numpy.savez") from None
    return images[..., np.newaxis] if images.ndim == 3 else images


@contextlib.contextmanager
def open_judge(path: str) -> Iterator[Callable[[np.ndarray, str], Dict[str, Any]]]:
    """Yield a function that scores images as those of the run in a path, whose options, test split
    and features are those of all scores.

    Its arguments are images, uint8 [n, H, W, C] (n images, H height, W width, C channels), and the
    folder of the program's run, where it keeps the scores: they are computed once.
    """
    with open_trained(path) as trained:
        options: Any = trained.options
        split: Any = trained.split("test")
        run = types.SimpleNamespace(options=options, data=trained.data)
        with contextlib.closing(ImageScorer(run, trained.split)) as scorer:
            facts = [split.sha256(), scorer.dependencies(split, options.score_samples)]
            key = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]

            def score(images: np.ndarray, folder: str) -> Dict[str, Any]:
                place = os.path.join(folder, f"scores-{key}")
                if not os.path.isdir(place):  # which appears when it is complete
                    shutil.rmtree(place + ".partial", ignore_errors=True)
                    os.makedirs(place + ".partial")
                    scorer.draw = lambda count, seed: [{"images": images[:count]}]
                    scorer.score(split, None, place + ".partial")
                    os.rename(place + ".partial", place)
                with open(os.path.join(place, "scores.json"), encoding="utf-8") as file:
                    scores: Dict[str, Any] = json.load(file)
                    return scores

            yield score
