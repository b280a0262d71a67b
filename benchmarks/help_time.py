"""Measure `toolkit --help` and `toolkit plugins list` with many installed plugins.

    python benchmarks/help_time.py [--plugins 50] [--repetitions 7]

The plugins are distributions in a temporary folder on sys.path, each with a model plugin and an
extension, every fifth with a command; one of them is broken. Prints a JSON object: the seconds of
each command with and without them and of `python -c pass`, each the median of the repetitions; with
_cpu, the processor's seconds, which depend less on what else the machine does.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

COMMANDS = {"help": ["-m", "toolkit", "--help"], "list": ["-m", "toolkit", "plugins", "list"]}
COMMAND_SOURCE = 'import click\n\n\n@click.command()\ndef main():\n    """Do something."""\n'


def write_distributions(folder, count):
    """Write `count` distributions with their modules to a folder; the first is broken."""
    for number in range(count):
        name = f"many_{number:03d}"
        info = os.path.join(folder, f"{name}-1.0.dist-info")
        os.makedirs(info)
        points = f"[toolkit.plugins]\n{name} = {name}\n"
        points += f"[toolkit.extensions]\n{name}_more = {name}\n"
        if number % 5 == 0:
            points += f"[toolkit.commands]\n{name} = {name}_command:main\n"
        files = {
            os.path.join(info, "METADATA"): f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n"
            "Requires-Dist: toolkit>=0.1\n",
            os.path.join(info, "entry_points.txt"): points,
            os.path.join(folder, name + ".py"): "import tensorflow\n",
            os.path.join(folder, name + "_command.py"): COMMAND_SOURCE,
        }
        if number == 0:
            del files[os.path.join(folder, name + ".py")]
            files[os.path.join(folder, name + "_command.py")] = "raise RuntimeError('broken')\n"
        for path, text in files.items():
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)


def measure(arguments, folder, repetitions):
    """The median seconds of a Python process and of its processor time, after one that warms up."""
    variables = dict(os.environ, PYTHONPATH=folder)
    rows = []
    for _ in range(repetitions + 1):
        start, before = time.perf_counter(), os.times()
        subprocess.run([sys.executable, *arguments], env=variables, stdout=subprocess.DEVNULL)
        now = os.times()
        cpu = sum(now[2:4]) - sum(before[2:4])
        rows.append((time.perf_counter() - start, cpu))
    return [round(statistics.median(column), 3) for column in zip(*rows[1:])]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--plugins", type=int, default=50)
    parser.add_argument("--repetitions", type=int, default=7)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as empty:
        write_distributions(folder, arguments.plugins)
        result = {"python": sys.version.split()[0], "plugins": arguments.plugins}
        cases = {"interpreter": (["-c", "pass"], empty)}
        for name, command in COMMANDS.items():
            cases[name], cases[name + "_without"] = (command, folder), (command, empty)
        for name, case in cases.items():
            result[name], result[name + "_cpu"] = measure(*case, arguments.repetitions)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
