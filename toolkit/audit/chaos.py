"""Trains copies of a run, kills their processes at random moments, and compares the results.

Each kill is SIGKILL, so no code of the copy runs in its last moment. Then the copy is resumed. A
copy that was trained to the end has to have the bits of the run.
"""

from __future__ import annotations

import collections
import os
import shutil
from typing import Any, Callable, Dict, List, Tuple

from ..cluster.chaos import Chaos
from ..display.waits import waiting
from ..errors import CheckFailed, RetryError, UsageError
from ..files import write_json
from ..plugins import require_trust
from ..storage.own_folders import COMMITS
from ..storage.run_folder import RunFolder
from .checks import declared_options
from .processes import LastWords, count_processes, train
from .replay import Segment, compare_runs, session_config

START_SECS = 3.0  # from the start of each process to its first step, about
MAX_SECS = 86400.0  # of a training; a log may say anything


def kill_copies(
    folder: RunFolder,
    segment: Segment,
    path: str,
    kills: int,
    log: Callable[[str], Any],
    seed: int = 0,
) -> Dict[str, Any]:
    """Kill processes so many times in all, and compare each copy that is trained to the end.
    Returns "kills", their number for each moment, in words, such as "during a save"; "copies", how
    many were trained to the end; and "result", what is equal, in words.

    The copies, in the folder `path`, train a segment from the beginning. `log` is called with a
    message for each kill; the seed is that of the moments, which also depend on the machine. Raises
    CheckFailed if a copy differs or cannot resume, UsageError if the run needs code that is not
    trusted, RetryError if a process fails by the machine before a kill, InterruptedRun if this
    process got a signal to end, as does then the copy's.
    """
    from ..config import move

    path, count = os.path.abspath(path), count_processes(segment.session)
    config = session_config(folder, segment.session)
    for reference in (config.plugin, *config.extensions):
        require_trust(reference, os.path.join(str(folder), COMMITS))
    config_path = os.path.join(path, "config.json")
    write_json(config_path, move(config, declared_options(config), path))
    moments: List[str] = []
    copies, result, copy = 0, "", folder

    def note_kill() -> None:
        moment, step = _describe_kill(RunFolder(copy.path))
        moments.append(moment)
        log(f"kill {len(moments)} of {kills}: {moment}, step {step} committed")

    secs = min(folder.state()["seconds"] or 10.0, MAX_SECS) / 4
    chaos = Chaos(kills, path, seed, START_SECS * count, secs, on_death=note_kill)
    with waiting("Killing copies of the run", kills, is_logged=False) as wait:
        wait.follow(lambda: len(moments))
        while chaos.is_active or not copies:
            copies += 1
            copy = RunFolder(os.path.join(path, f"copy-{copies}"))
            chaos.plan_kill(copy.path)
            words = ["run", "--config", config_path, "--run-dir", copy.path]
            words += ["--pause-at", str(segment.end.step)]
            last_words = LastWords()
            code = train(words, copy.path, count, last_words, chaos)
            if code == UsageError.exit_code and not moments:  # such as code that is not trusted
                raise UsageError(f"A copy of the run cannot be trained: {last_words}")
            if code == RetryError.exit_code and not moments:  # a fault of the machine, by itself
                raise RetryError(f"A copy of the run was not trained to the end: {last_words}")
            if code:
                raise CheckFailed(
                    f"After {len(moments)} kills a process ended with exit code {code}: "
                    f"{last_words}"
                )
            result = compare_runs(folder, RunFolder(copy.path), segment.end)
            shutil.rmtree(copy.path, ignore_errors=True)  # many kills take many copies
    return {"kills": dict(collections.Counter(moments)), "copies": copies, "result": result}


def _describe_kill(copy: RunFolder) -> Tuple[str, int]:
    """What a kill hit, from the files that it left, and the last committed step."""
    steps = [checkpoint.step for checkpoint in copy.checkpoints.list()]
    step = steps[-1] if steps else 0
    if not copy.commits.sessions():
        return "before the first step", 0
    if copy.checkpoints.leftovers(steps):
        return "during a save", step
    is_new_session = copy.commits.entries()[-1].kind == "session"
    return "before a step was saved" if is_new_session else "between two saves", step
