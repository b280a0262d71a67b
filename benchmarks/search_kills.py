"""Kill a search again and again, and compare its table with that of an undisturbed one.

    python benchmarks/search_kills.py --kills 50

Each search trains a small model with two workers and halving. Four of five times, SIGKILL hits the
search at a random moment; else SIGTERM does, or SIGKILL hits a process that trains. Then the same
command continues it. The tables are equal if each byte is, measured times aside, and so are the
tensors of all trials. The exit code is 1 if they are not, or if a process survives its search.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from typing import Any, Dict, List

SEARCH = """
search --plugin classifier --network mlp --hidden 16 --vary learning_rate=1e-3..1e-1:log
--vary batch_size=16,32 --steps 40 --halving 2 --sampler tpe --workers 2
"""
TIMES = ("cpu_secs",)  # keys of a row that are measured
KINDS = {"search": 8, "process": 1, "SIGTERM": 1}  # what is killed, with weights
RETRY = 138  # the exit code after a kill of the process that checks
MAX_SECS = 900.0  # of one search, without a kill
END_SECS = 300.0  # of a search after a signal, and of its processes after its end


def start(folder: str, trials: int) -> subprocess.Popen:
    words = [*SEARCH.split(), "--trials", str(trials), "--search-dir", folder]
    with open(f"{folder}.log", "ab") as log:
        command = [sys.executable, "-m", "toolkit", *words]
        return subprocess.Popen(command, stdout=log, stderr=log)


def read_table(folder: str) -> str:
    """The bytes of the table without measured times."""
    with open(os.path.join(folder, "table.json"), encoding="utf-8") as file:
        table = json.load(file)
    for row in table["rows"]:
        for name in TIMES:
            del row[name]
    return json.dumps(table, indent=2)


def read_tensors(folder: str) -> Dict[str, Any]:
    """The hash over the tensors of the last commit of each trial."""
    tensors: Dict[str, Any] = {}
    trials = os.path.join(folder, "trials")
    for name in sorted(os.listdir(trials)):
        path = os.path.join(trials, name, "commits.jsonl")
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                entries = [json.loads(line) for line in file]
            commits = [entry for entry in entries if entry.get("tensors")]
            tensors[name] = (commits[-1]["step"], commits[-1]["tensors"])
    return tensors


def children_of(pid: int) -> List[int]:
    """The processes that a process has started."""
    numbers = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
                fields = file.read().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == pid and fields[0] not in "ZX":
            numbers.append(int(name))
    return numbers


def is_alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def kill(process: subprocess.Popen, kind: str) -> str:
    """Kill a search or one of its processes; return a fault, or ""."""
    children = children_of(process.pid)
    if kind == "process":
        for child in children[:1]:
            with contextlib.suppress(ProcessLookupError):  # it has ended since
                os.kill(child, signal.SIGKILL)
        return ""
    process.send_signal(signal.SIGTERM if kind == "SIGTERM" else signal.SIGKILL)
    code = process.wait(timeout=END_SECS)
    expected = {"SIGTERM": (143, -15, 0), "search": (-9, 0)}[kind]  # 0: it has ended before
    end = time.monotonic() + END_SECS
    while any(map(is_alive, children)) and time.monotonic() < end:
        time.sleep(0.05)
    if any(map(is_alive, children)):
        return f"a process outlived its search by {END_SECS:.0f} s"
    return "" if code in expected else f"the search ended with exit code {code} after {kind}"


def run_with_kills(folder: str, trials: int, count: int, seed: int) -> List[str]:
    """Run a search to its end with kills; return what went wrong."""
    moments = random.Random(seed)
    faults: List[str] = []
    kills, process = 0, start(folder, trials)
    while kills < count:
        secs = moments.uniform(0.2, 6) if moments.random() < 0.7 else moments.uniform(6, 16)
        kind = moments.choices(list(KINDS), list(KINDS.values()))[0]
        if moments.random() < 0.8:
            wait_for_study(folder, process)
        try:
            code = process.wait(timeout=secs)
        except subprocess.TimeoutExpired:
            kills += 1
            fault = kill(process, kind)
            faults += [fault] if fault else []
            print(f"kill {kills} of {count}: {kind} after {secs:.1f} s {fault}", flush=True)
        else:
            if code == 0:
                print(f"the search has ended after {kills} kills; it is repeated", flush=True)
                archive(folder, faults)
            elif code != RETRY:
                faults.append(f"the search ended with exit code {code}")
        if process.poll() is not None:
            process = start(folder, trials)
    code = process.wait(timeout=MAX_SECS)
    return faults + ([f"the last search ended with exit code {code}"] if code else [])


def wait_for_study(folder: str, process: subprocess.Popen) -> None:
    """Wait until all checks are done, and the study is on the disk."""
    while process.poll() is None and not os.path.exists(os.path.join(folder, "study.json")):
        time.sleep(0.05)


def archive(folder: str, faults: List[str]) -> None:
    """Compare a search that has ended before all kills, and begin it again."""
    faults += compare(folder, f"{folder}-undisturbed")
    shutil.rmtree(folder)


def compare(folder: str, other: str) -> List[str]:
    """What differs between two searches."""
    faults = []
    if read_table(folder) != read_table(other):
        faults.append("the tables differ")
    if read_tensors(folder) != read_tensors(other):
        faults.append("the tensors differ")
    return faults


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--trials", type=int, default=10, help="configurations of the search")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--dir", help="an empty folder; by default a temporary one")
    arguments = parser.parse_args()
    place = arguments.dir or tempfile.mkdtemp(prefix="toolkit-search-kills-")
    folder = os.path.join(place, "study")
    begin = time.monotonic()
    if start(folder, arguments.trials).wait(timeout=MAX_SECS):
        sys.exit(f"The undisturbed search failed; see {folder}.log")
    undisturbed = time.monotonic() - begin
    os.rename(folder, f"{folder}-undisturbed")
    faults = run_with_kills(folder, arguments.trials, arguments.kills, arguments.seed)
    faults += compare(folder, f"{folder}-undisturbed")
    print(f"undisturbed: {undisturbed:.0f} s; {arguments.kills} kills: ", end="")
    print("; ".join(faults) or "the same table, the same tensors, no process left behind")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
