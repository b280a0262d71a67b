"""Kills processes of a job at random moments, to try its recovery."""

from __future__ import annotations

import collections
import os
import random
import time
from typing import Callable, List, Optional, Sequence, Set

START_SECS = 10.0  # from the start of the processes to their first step, about
TRAINING_SECS = 3.0  # from the first step to a kill, at most
SAVE_SECS = 0.05  # for a save, about
MAX_SAVES = 3  # a process is killed during one of so many first saves
POLL_SECS = 0.005
# When to kill, with the relative frequency.
MOMENTS = {"start": 1, "training": 3, "save": 3}


class Chaos:
    """Chooses moments and victims of `count` kills; the moments also depend on the machine. The
    files in the folder of the run tell how far it is; `on_death` is called when all processes have
    ended after a kill.
    """

    def __init__(
        self,
        count: int,
        run_dir: str,
        seed: int = 0,
        start_secs: float = START_SECS,
        training_secs: float = TRAINING_SECS,
        on_death: Callable[[], None] = lambda: None,
    ):
        self.count, self.on_death = count, on_death
        self.victims: List[str] = []  # the tasks whose processes were killed
        self._run_dir = run_dir
        self._random = random.Random(seed)
        self._limits = {"start": start_secs, "training": training_secs, "save": SAVE_SECS}
        self.plan_kill()

    @property
    def is_active(self) -> bool:
        """Whether there are kills left."""
        return len(self.victims) < self.count

    @property
    def has_begun(self) -> bool:
        """Whether the processes have met and begun a session since the last plan."""
        return self._size_of_log() > self._log_size

    def plan_kill(self, run_dir: str = "") -> None:
        """Choose the moment of the next kill in a run, perhaps in another folder than before;
        processes have just started.
        """
        self._run_dir = run_dir or self._run_dir
        self._moment = self._random.choices(list(MOMENTS), list(MOMENTS.values()))[0]
        self._log_size = self._size_of_log()
        self._checkpoints = self._checkpoint_names()
        self._saves = self._random.randint(1, MAX_SAVES)
        self._delay = self._random.uniform(0, self._limits[self._moment])
        self._time: Optional[float] = None
        if self._moment == "start":
            self._time = time.monotonic() + self._delay

    def is_due(self) -> bool:
        """Whether to kill now."""
        if not self.is_active:
            return False
        if self._time is None:
            has_come = self.has_begun
            if self._moment == "save":  # so many checkpoints are being written
                has_come = len(self._checkpoint_names() - self._checkpoints) >= self._saves
            self._time = time.monotonic() + self._delay if has_come else None
        return self._time is not None and time.monotonic() >= self._time

    def choose(self, names: Sequence[str]) -> str:
        """Choose and note one of the processes that run."""
        self.victims.append(self._random.choice(list(names)))
        self._time = float("inf")  # until the next plan
        return self.victims[-1]

    def take_back(self) -> None:
        """Do not count the last kill: its process had just ended by itself."""
        self.victims.pop()

    def summary(self) -> str:
        """The kills: `5 of 5 kills (3 chief, 2 worker 0)`."""
        counts = collections.Counter(self.victims)
        parts = ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))
        return f"{len(self.victims)} of {self.count} kills" + (f" ({parts})" if parts else "")

    def _size_of_log(self) -> int:
        try:
            return os.path.getsize(os.path.join(self._run_dir, "commits.jsonl"))
        except OSError:
            return 0

    def _checkpoint_names(self) -> Set[str]:
        """The checkpoints that have a file, even if it is unfinished, such as `ckpt-25`."""
        try:
            names = os.listdir(os.path.join(self._run_dir, "checkpoints"))
        except OSError:
            return set()
        return {name.split(".")[1] for name in names if name.startswith("model.")}
