"""How many steps a run makes in a CPU time: the difference of two short runs, which has no start
and no building of graphs in it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from typing import List, Sequence, Tuple

from toolkit import RetryError, ToolkitError, UsageError

RUNS_SECS = (1.0, 3.0, 9.0)  # of training; the first one fills the caches, and does not count
_NO_LIMIT = 10**9
# Flags of `toolkit search` that a run does not have, and whether they have a value.
_SEARCH_FLAGS = {"--search-dir": True, "--seeds": True, "--workers": True, "--dry-run": False}
_SEARCH_FLAGS.update({"--metric": True, "--study-seed": True, "--trials": True, "--json": False})


def count_steps(words: Sequence[str], cpu_secs: float) -> int:
    """Return how many steps of training take the CPU seconds, at least 1.

    Args:
        words: of `toolkit search` for one configuration.
        cpu_secs: of each run.

    Raises:
        ToolkitError: a run cannot be trained, or its steps are too slow to be timed.
    """
    _, (few, early), (many, late) = [_train(words, secs) for secs in RUNS_SECS]
    if many <= few or late <= early:
        raise ToolkitError(
            f"It makes {many} steps in {RUNS_SECS[-1]:g} s, too few to be timed.",
            hint="Set the budget with --steps.",
        )
    return max(1, int(cpu_secs * (many - few) / (late - early)))


def _train(words: Sequence[str], secs: float) -> Tuple[int, float]:
    """Train for some seconds; return the steps and the CPU seconds of the process."""
    with tempfile.TemporaryDirectory(prefix="toolkit-gan-league-") as folder:
        run, log_path = os.path.join(folder, "run"), os.path.join(folder, "log")
        with open(log_path, "wb") as log:
            command = [sys.executable, "-m", "toolkit", *run_words(words, run, secs)]
            process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
            try:
                _, status, usage = os.wait4(process.pid, 0)
            except BaseException:
                process.kill()
                raise
            process.returncode = os.WEXITSTATUS(status) if os.WIFEXITED(status) else -1
        if process.returncode:
            raise _error(process.returncode, log_path)
        with open(os.path.join(run, "manifest.json"), encoding="utf-8") as file:
            return json.load(file)["step"], usage.ru_utime + usage.ru_stime


def run_words(words: Sequence[str], run: str, secs: float) -> List[str]:
    """Return the arguments of `toolkit` that train as a search does, for some seconds alone."""
    rest, kept, workers = list(words), [], 1
    while rest:
        word = rest.pop(0)
        flag, equals, value = word.partition("=")
        if flag not in _SEARCH_FLAGS:
            kept.append(word)
            continue
        if _SEARCH_FLAGS[flag] and not equals:
            value = rest.pop(0) if rest else ""
        workers = int(value) if flag == "--workers" and value.isdigit() else workers
    threads = str(max(1, len(os.sched_getaffinity(0)) // max(1, workers)))
    for flag in ("--intra-op-threads", "--inter-op-threads"):
        kept += [] if any(word.partition("=")[0] == flag for word in kept) else [flag, threads]
    kept += ["--run-dir", run, "--steps", str(_NO_LIMIT), "--max-secs", f"{secs:g}"]
    return ["run", *kept, "--no-evaluate", "--best-metric", "none", "--xla", "off"]


def _error(code: int, log_path: str) -> ToolkitError:
    with open(log_path, encoding="utf-8", errors="replace") as file:
        lines = [line.strip() for line in file if line.strip()]
    starts = [number for number, line in enumerate(lines) if line.startswith("Error: ")]
    message = (
        lines[starts[-1]][len("Error: ") :] if starts else (lines or ["without a message"])[-1]
    )
    kinds = {each.exit_code: each for each in (RetryError, UsageError)}
    return kinds.get(code, ToolkitError)(
        message, hint=" ".join(lines[starts[-1] + 1 :]) if starts else ""
    )
