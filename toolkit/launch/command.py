"""The command that each process of a job runs, at its start and after a death."""

from __future__ import annotations

import os
from typing import List, NamedTuple, Sequence


class Command(NamedTuple):
    """A command of the toolkit that trains.

    Attributes:
        words: the command: "run" or "resume", and its arguments.
        run_dir: the folder of the run.
        has_json: whether its result is one JSON object on stdout.
    """

    words: List[str]
    run_dir: str
    has_json: bool = False

    @property
    def again(self) -> List[str]:
        """The words that continue the run after a death."""
        if self.words[0] == "resume":
            return self.words
        words = [word for word in self.words if word not in ("--force", "--resume")]
        return [*words, "--resume"]

    @property
    def is_started(self) -> bool:
        """Whether there is a run in the folder."""
        return os.path.isfile(os.path.join(self.run_dir, "config.json"))


def has_flag(arguments: Sequence[str], flag: str) -> bool:
    """Whether the arguments have a flag, with a value or without."""
    return any(word == flag or word.startswith(flag + "=") for word in arguments)
