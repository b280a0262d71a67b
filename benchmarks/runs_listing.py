"""The time of `toolkit runs` with thousands of runs; the limit is two seconds for 3,000.

Trains one run, and writes copies of its config.json and manifest.json with other seeds and learning
rates, in a tree of folders.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from typing import Any, Dict, List, Tuple

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
    config, manifest = (
        read(os.path.join(first, name)) for name in ("config.json", "manifest.json")
    )
    for number in range(count):
        path = os.path.join(tree, f"{number // 100:03d}", f"{number:05d}")
        os.makedirs(path)
        config.update(seed=number, learning_rate=0.001 * (1 + number % 50))
        config["origins"].update(seed="flag --seed", learning_rate="flag --learning-rate")
        manifest["created"] = f"2026-11-{1 + number % 28:02d}T12:{number % 60:02d}:00+00:00"
        manifest["summary"]["test"]["metrics"]["accuracy"] = 0.5 + number / (2 * count)
        for name, values in (("config.json", config), ("manifest.json", manifest)):
            with open(os.path.join(path, name), "w", encoding="utf-8") as file:
                json.dump(values, file, indent=2)
        shutil.copy(os.path.join(first, "commits.jsonl"), path)


def read(path: str) -> Dict[str, Any]:
    with open(path, encoding="utf-8") as file:
        values: Dict[str, Any] = json.load(file)
    return values


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
