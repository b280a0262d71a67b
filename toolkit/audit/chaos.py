"""Kill training processes at random moments, and see that the run ends with the same bits.

A copy of a run is trained from its beginning by processes of their own, each ended by SIGKILL: at
any moment from its start on, between two steps, or while it saves. Then it goes on with `resume`.
"""

from __future__ import annotations

import collections
import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from typing import Any, Callable, Dict, List, NamedTuple, Optional

from ..errors import CheckFailed, InterruptedRun
from ..files import write_json
from ..options import ENVIRONMENT_PREFIX
from ..storage.run_folder import RunFolder
from .checks import Segment, compare, of_session

POLL_SECS = 0.0005
START_SECS = 3.0  # from the start of a process to its first step, about
SAVE_SECS = 0.03  # what a save takes, about
MOST_SAVES = 4  # a process is killed during one of its first saves
# How a moment is chosen, and how often.
MOMENTS = {"any": 1, "training": 3, "save": 4}
KEPT_VARIABLES = ("TOOLKIT_CACHE",)


class Kill(NamedTuple):
    """What one kill hit. step: committed last. moment: in words."""

    step: int
    moment: str


class Outcome(NamedTuple):
    """kills: all of them. copies: how many copies were trained to the end. told: what is equal."""

    kills: List[Kill]
    copies: int
    told: str

    def moments(self) -> Dict[str, int]:
        """How many kills hit what."""
        return dict(collections.Counter(kill.moment for kill in self.kills))


class Chaos:
    """Copies of one run, in `place`, which are killed `kills` times in all.

    say: is told of each kill. seed: of the moments, which depend on the machine as well.
    """

    def __init__(
        self,
        folder: RunFolder,
        part: Segment,
        place: str,
        say: Callable[[str], None],
        seed: int = 0,
    ):
        self._folder = folder
        self._part = part
        self._place = os.path.abspath(place)
        self._said = os.path.join(self._place, "said.txt")
        self._say = say
        self._random = random.Random(seed)
        self._secs = _training_secs(folder)

    def run(self, kills: int) -> Outcome:
        """Kill so many times, and compare each copy that came to its end.

        Raises CheckFailed with the first difference, or where a copy does not go on, and
        InterruptedRun on a signal to end, which ends the process under way too.
        """
        with _interrupted():
            return self._run(kills)

    def _run(self, kills: int) -> Outcome:
        config = self._write_config()
        done: List[Kill] = []
        copies = 0
        told = ""
        while len(done) < kills or not copies:
            copy = RunFolder(os.path.join(self._place, f"copy-{copies + 1}"))
            copies += 1
            self._train(copy, config, done, kills)
            told = compare(self._folder, RunFolder(copy.path), self._part.end.step)
        return Outcome(done, copies, told)

    def _write_config(self) -> str:
        """A configuration file that trains the same run."""
        from ..config import rebased

        saved = of_session(self._folder, self._part.session)
        path = os.path.join(self._place, "config.json")
        here = os.getcwd()
        names = [rebased(name, here, self._place) for name in saved.extensions]
        values = {"plugin": rebased(saved.plugin, here, self._place), "with": names}
        values.update(saved.values, data=rebased(saved.values["data"], here, self._place))
        write_json(path, values)
        return path

    def _train(self, copy: RunFolder, config: str, done: List[Kill], kills: int) -> None:
        """Train a copy to the end; while there are kills left, each process may be killed."""
        while True:
            process = self._start(copy, config)
            try:
                if len(done) < kills and self._wait(process, copy):
                    process.send_signal(signal.SIGKILL)
                code = process.wait()
            finally:
                process.kill()  # where this process was interrupted; else it has ended
            if code == 0:
                return
            if code != -signal.SIGKILL:
                raise CheckFailed(
                    f"After {len(done)} kills a process ended with exit code {code}: "
                    f"{_last_words(self._said)}"
                )
            done.append(_hit(RunFolder(copy.path)))
            self._say(
                f"kill {len(done)} of {kills}: {done[-1].moment}, step {done[-1].step} committed"
            )

    def _start(self, copy: RunFolder, config: str) -> subprocess.Popen:
        begun = os.path.isfile(copy.file("config.json"))
        named = ["resume", copy.path] if begun else ["run", "--config", config]
        named += [] if begun else ["--run-dir", copy.path]
        argv = [sys.executable, "-m", "toolkit"] + named
        argv += ["--pause-at", str(self._part.end.step)]
        with open(self._said, "wb") as said:  # a pipe that nobody reads would fill up
            return subprocess.Popen(
                argv, stdout=subprocess.DEVNULL, stderr=said, env=_environment()
            )

    def _wait(self, process: subprocess.Popen, copy: RunFolder) -> bool:
        """Wait for the moment to kill; False where the process ended by itself before."""
        moment = self._random.choices(list(MOMENTS), list(MOMENTS.values()))[0]
        if moment == "any":
            return _alive_for(process, self._random.uniform(0, START_SECS))
        began = _size(copy.commits.path)
        if not _until(process, lambda: _size(copy.commits.path) > began):
            return False
        if moment == "training":
            return _alive_for(process, self._random.uniform(0, self._secs / 4))
        for _ in range(self._random.randint(1, MOST_SAVES)):
            saved = _saves(copy)
            if not _until(process, lambda before=saved: _saves(copy) - before):
                return False
        return _alive_for(process, self._random.uniform(0, SAVE_SECS))


@contextlib.contextmanager
def _interrupted():
    """Within it, Ctrl-C and a request to end raise InterruptedRun."""

    def fail(signum, frame):
        raise InterruptedRun("Interrupted; the run is as it was.", signum=signum)

    before = {}
    with contextlib.suppress(ValueError):  # not in the main thread: others handle the signals
        for signum in (signal.SIGINT, signal.SIGTERM):
            before[signum] = signal.signal(signum, fail)
    try:
        yield
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)


def _environment() -> Dict[str, str]:
    """This process's variables, less those that set options."""
    kept = {n: v for n, v in os.environ.items() if not n.startswith(ENVIRONMENT_PREFIX)}
    kept.update((n, os.environ[n]) for n in KEPT_VARIABLES if n in os.environ)
    return kept


def _training_secs(folder: RunFolder) -> float:
    """How long the run trained, about."""
    summary = folder.read_manifest().get("summary")
    seconds: Any = summary.get("seconds") if isinstance(summary, dict) else None
    return float(seconds) if isinstance(seconds, (int, float)) and seconds > 0 else 10.0


def _until(process: subprocess.Popen, holds: Callable[[], Any]) -> bool:
    """Wait until something holds; False where the process ended before."""
    while not holds():
        if process.poll() is not None:
            return False
        time.sleep(POLL_SECS)
    return True


def _alive_for(process: subprocess.Popen, secs: float) -> bool:
    try:
        process.wait(secs)
    except subprocess.TimeoutExpired:
        return True
    return False


def _last_words(path: str) -> str:
    """The end of what a process said."""
    with open(path, encoding="utf-8", errors="replace") as file:
        return " ".join(file.read().split()[-60:]) or "it said nothing."


def _size(path: str) -> int:
    try:
        return os.path.getsize(path)
    except OSError:
        return 0


def _saves(copy: RunFolder) -> set:
    """The checkpoints of which a file is there, be it unfinished: `ckpt-25` and others."""
    try:
        names = os.listdir(copy.file("checkpoints"))
    except OSError:
        return set()
    return {name.split(".")[1] for name in names if name.startswith("model.")}


def _hit(copy: RunFolder) -> Kill:
    """What a kill left."""
    rows = copy.checkpoints.list()
    step: Optional[int] = rows[-1].step if rows else 0
    if not copy.commits.entries():
        return Kill(0, "before the first step")
    if copy.checkpoints.leftovers(row.step for row in rows):
        return Kill(step, "during a save")
    last = copy.commits.entries()[-1]
    return Kill(step, "before a step was saved" if last.is_session else "between two saves")
