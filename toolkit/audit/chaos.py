"""Kill training processes at random moments, and check that the run ends with the same bits.

A copy of a run is trained from its beginning, by as many processes as the run. Each time, one of
them is ended by SIGKILL at a random moment: at any time after its start, between two steps, or
during a save. `toolkit resume` then continues it.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import os
import random
import signal
import time
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Set

from ..display.waits import waiting
from ..errors import CheckFailed, InterruptedRun, ToolkitError, UsageError
from ..files import write_json
from ..plugins import require_trust
from ..storage.run_folder import RunFolder
from .checks import declared_options
from .processes import KILLED, POLL_SECS, TrainingProcesses, count_processes
from .replay import Segment, compare_runs, session_config, session_place

START_SECS = 3.0  # from the start of each process to its first step, about
SAVE_SECS = 0.03  # for a save, about
MAX_SECS = 86400.0  # of a training; a manifest may say anything
MAX_SAVES = 4  # a process is killed during one of so many first saves
# When to kill, with the relative frequency.
MOMENTS = {"any": 1, "training": 3, "save": 4}


class Kill(NamedTuple):
    """A kill and its effect."""

    step: int  # the last committed step
    moment: str  # in words, such as "during a save"


class Outcome(NamedTuple):
    """The result of all kills."""

    kills: List[Kill]
    copies: int  # how many copies were trained to the end
    result: str  # what is equal, in words

    def moments(self) -> Dict[str, int]:
        """The number of kills per moment."""
        return dict(collections.Counter(kill.moment for kill in self.kills))


class Chaos:
    """Trains copies of one run, and kills them.

    Args:
        folder: of the run.
        segment: the steps to train, from the beginning.
        path: the folder for the copies.
        log: called with a message for each kill.
        seed: of the random moments, which also depend on the machine.
    """

    def __init__(
        self,
        folder: RunFolder,
        segment: Segment,
        path: str,
        log: Callable[[str], Any],
        seed: int = 0,
    ):
        self._folder = folder
        self._segment = segment
        self._path = os.path.abspath(path)
        self._count = count_processes(segment.session)
        self._log = log
        self._random = random.Random(seed)
        self._secs = training_secs(folder)

    def run(self, kills: int) -> Outcome:
        """Kill processes so many times in all, and compare each copy that is trained to the end.

        Raises:
            CheckFailed: a copy differs (the message names the first difference) or cannot resume.
            UsageError: the run needs code that is not trusted.
            InterruptedRun: this process got a signal to end; it ends the copy's process too.
        """
        with _raise_on_signals():
            return self._run(kills)

    def _run(self, count: int) -> Outcome:
        config = self._write_config()
        kills: List[Kill] = []
        copies = 0
        result = ""
        with waiting("Killing copies of the run", count, is_logged=False) as wait:
            wait.follow(lambda: len(kills))
            while len(kills) < count or not copies:
                copies += 1
                path = os.path.join(self._path, f"copy-{copies}")
                self._train(RunFolder(path), config, kills, count)
                result = compare_runs(self._folder, RunFolder(path), self._segment.end)
        return Outcome(kills, copies, result)

    def _write_config(self) -> str:
        """Write a configuration file that trains the same run; return its path."""
        from ..config import move

        config = session_config(self._folder, self._segment.session)
        for reference in (config.plugin, *config.extensions):
            require_trust(reference, session_place(self._folder))
        path = os.path.join(self._path, "config.json")
        write_json(path, move(config, declared_options(config), self._path))
        return path

    def _train(self, copy: RunFolder, config: str, kills: List[Kill], count: int) -> None:
        """Train a copy to the end, and kill its processes until there are `count` kills."""
        while True:
            size = _file_size(copy.commits.path)
            processes = self._start(copy, config)
            try:
                if len(kills) < count and self._wait(processes, copy):
                    processes.kill(self._random.choice)
                    if _file_size(copy.commits.path) == size:  # the others would wait for it
                        processes.kill_all()
                code = processes.wait()
            finally:
                processes.kill_all()  # if this process was interrupted; otherwise they have ended
            if code == 0:
                return
            if code != KILLED:
                raise _ending_error(code, len(kills), processes.last_words())
            kill = _describe_kill(RunFolder(copy.path))
            kills.append(kill)
            self._log(f"kill {len(kills)} of {count}: {kill.moment}, step {kill.step} committed")

    def _start(self, copy: RunFolder, config: str) -> TrainingProcesses:
        if os.path.isfile(copy.file("config.json")):
            command = ["resume", copy.path]
        else:
            command = ["run", "--config", config, "--run-dir", copy.path]
        command += ["--pause-at", str(self._segment.end.step)]
        return TrainingProcesses(command, self._count, self._path)

    def _wait(self, processes: TrainingProcesses, copy: RunFolder) -> bool:
        """Wait for a random moment to kill; False if the processes ended by themselves before."""
        moment = self._random.choices(list(MOMENTS), list(MOMENTS.values()))[0]
        if moment == "any":
            return processes.outlive(self._random.uniform(0, START_SECS * self._count))
        start = _file_size(copy.commits.path)
        if not _wait_until(processes, lambda: _file_size(copy.commits.path) > start):
            return False
        if moment == "training":
            return processes.outlive(self._random.uniform(0, self._secs / 4))
        for _ in range(self._random.randint(1, MAX_SAVES)):
            saves = _checkpoint_names(copy)
            if not _wait_until(processes, functools.partial(_has_new_checkpoint, copy, saves)):
                return False
        return processes.outlive(self._random.uniform(0, SAVE_SECS))


@contextlib.contextmanager
def _raise_on_signals() -> Iterator[None]:
    """Let Ctrl-C and a request to end raise InterruptedRun in the block."""

    def fail(signum, frame):
        raise InterruptedRun("Interrupted; the run is unchanged.", signum=signum)

    handlers = {}
    with contextlib.suppress(ValueError):  # not in the main thread: others handle the signals
        for signum in (signal.SIGINT, signal.SIGTERM):
            handlers[signum] = signal.signal(signum, fail)
    try:
        yield
    finally:
        for signum, handler in handlers.items():
            signal.signal(signum, handler)


def training_secs(folder: RunFolder) -> float:
    """How long the run trained, about; at most MAX_SECS."""
    return float(min(folder.state()["seconds"] or 10.0, MAX_SECS))


def _wait_until(processes: TrainingProcesses, condition: Callable[[], Any]) -> bool:
    """Wait until a condition holds; False if the processes ended before."""
    while not condition():
        if not processes.is_running:
            return False
        time.sleep(POLL_SECS)
    return True


def _ending_error(code: int, kills: int, text: str) -> ToolkitError:
    """The error of a process that ended before its copy was trained; `text` is what it wrote."""
    if code == UsageError.exit_code and not kills:  # such as code that is not trusted
        return UsageError(f"A copy of the run cannot be trained: {text}")
    return CheckFailed(f"After {kills} kills a process ended with exit code {code}: {text}")


def _file_size(path: str) -> int:
    try:
        return os.path.getsize(path)
    except OSError:
        return 0


def _checkpoint_names(copy: RunFolder) -> Set[str]:
    """The checkpoints that have a file, even if it is unfinished, such as `ckpt-25`."""
    try:
        names = os.listdir(copy.file("checkpoints"))
    except OSError:
        return set()
    return {name.split(".")[1] for name in names if name.startswith("model.")}


def _has_new_checkpoint(copy: RunFolder, names: Set[str]) -> bool:
    return bool(_checkpoint_names(copy) - names)


def _describe_kill(copy: RunFolder) -> Kill:
    """What a kill hit, from the files that it left."""
    checkpoints = copy.checkpoints.list()
    entries = copy.commits.entries()
    step = checkpoints[-1].step if checkpoints else 0
    if not any(entry.is_session for entry in entries):
        return Kill(0, "before the first step")
    if copy.checkpoints.leftovers(checkpoint.step for checkpoint in checkpoints):
        return Kill(step, "during a save")
    is_new_session = entries[-1].is_session
    return Kill(step, "before a step was saved" if is_new_session else "between two saves")
