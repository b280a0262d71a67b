"""The time of `toolkit runs` with thousands of runs; the limit is two seconds for 3,000.

Trains one run, and writes copies of its config.json and commit log with other seeds, learning
rates, dates and accuracies, in a tree of folders.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from typing import Any, Dict, List, Tuple

from toolkit.storage.commit_log import CommitLog

LOG = "commits.jsonl"
TRAIN = ["run", "--plugin", "classifier", "--network", "mlp", "--steps", "20", "--run-dir"]
COMMANDS = (
    ["runs"],
    ["runs", "--sort", "metric", "--where", "learning_rate>0.01", "--limit", "20"],
    ["runs", "--json"],
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3000)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="runs-") as folder:
        first = os.path.join(folder, "first")
        call([*TRAIN, first])
        tree = os.path.join(folder, "runs")
        write_copies(first, tree, arguments.runs)
        for command in COMMANDS:
            times = [time_command([*command, tree]) for _ in range(arguments.rounds)]
            seconds, cpu = (sorted(column)[len(times) // 2] for column in zip(*times))
            text = " ".join(["toolkit", *command])
            print(f"{arguments.runs} runs  {seconds:.2f} s, processor {cpu:.2f} s  {text}")


def write_copies(first: str, tree: str, count: int) -> None:
    """Write `count` runs like the first one, a hundred per folder."""
    with open(os.path.join(first, "config.json"), encoding="utf-8") as file:
        config: Dict[str, Any] = json.load(file)
    entries = [each.values for each in CommitLog(os.path.join(first, LOG), str).entries()]
    for number in range(count):
        path = os.path.join(tree, f"{number // 100:03d}", f"{number:05d}")
        os.makedirs(path)
        config.update(seed=number, learning_rate=0.001 * (1 + number % 50))
        config["origins"].update(seed="flag --seed", learning_rate="flag --learning-rate")
        with open(os.path.join(path, "config.json"), "w", encoding="utf-8") as file:
            json.dump(config, file, indent=2)
        log = CommitLog(os.path.join(path, LOG), str)
        for entry in entries:
            values = {n: v for n, v in entry.items() if n not in ("kind", "previous", "hash")}
            if "created" in values:
                day, minute = 1 + number % 28, number % 60
                values["created"] = f"2026-11-{day:02d}T12:{minute:02d}:00+00:00"
            if values.get("summary"):
                metrics = values["summary"]["test"]["metrics"]
                metrics["accuracy"] = 0.5 + number / (2 * count)
            log.add(entry["kind"], **values)


def time_command(command: List[str]) -> Tuple[float, float]:
    """The seconds of a command, and those of the processor, which other processes affect less."""
    start, before = time.monotonic(), os.times()
    call(command)
    now = os.times()
    return time.monotonic() - start, sum(now[2:4]) - sum(before[2:4])


def call(command: List[str]) -> None:
    """Run a command of the toolkit in a process of its own, without its output."""
    subprocess.run(
        [sys.executable, "-m", "toolkit", *command],
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


if __name__ == "__main__":
    main()
