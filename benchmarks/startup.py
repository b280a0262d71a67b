"""Where a short run spends time and memory, from the start of its process to its end.

    python benchmarks/startup.py --rounds 7 --json startup.json
    python benchmarks/startup.py --runs mlp --rounds 3

Each run is a process `toolkit run --with THIS FILE`. As an extension, this file observes every
stage and reports wall-clock time, processor time and peak memory at its end.
"""

from __future__ import annotations

import os
import sys
import time

from toolkit import hookimpl

VARIABLE = "STARTUP_MARKS"  # the file descriptor for marks
RUNS = {
    "mlp": ["--plugin", "classifier", "--network", "mlp"],
    "gan": ["--plugin", "gan", "--features", "pixels"],
}
# stage -> the work in it
STAGES = {
    "command": "the interpreter, click, finding and loading the plugins",
    "options": "pydantic, options and their origins, the folder",
    "tensorflow": "TensorFlow and the modules of the core that need it",
    "data": "reading the examples",
    "graph": "build, call, loss, optimize",
    "session": "hooks, session, initial values",
    "step": "the first step, with all hooks",
    "training": "checkpoint and evaluation of the validation split",
    "test": "evaluation of the test split",
    "reports": "reports of the test split",
    "end": "leaving",
}


# ------------------------------------------------------------------------------------ the extension


def mark(stage: str) -> None:
    """Report that a stage ends now."""
    with open("/proc/self/status") as status:
        peak = next(line for line in status if line.startswith("VmHWM")).split()[1]
    text = f"{stage} {time.monotonic()} {time.process_time()} {int(peak) / 1024}\n"
    os.write(int(os.environ[VARIABLE]), text.encode())


class Watch:
    """A finder on `sys.meta_path` that finds nothing and reports the first import of TensorFlow."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == "tensorflow":
            sys.meta_path.remove(Watch)
            mark("options")


if VARIABLE in os.environ:
    mark("command")
    sys.meta_path.insert(0, Watch)


@hookimpl
def data(split):
    if split == "train":
        mark("tensorflow")


@hookimpl(wrapper=True)
def build(run):
    if run.mode == "train":
        mark("data")
    return (yield)


@hookimpl
def session_hooks():
    mark("graph")
    return [watcher()()]


@hookimpl(wrapper=True)
def evaluated(split):
    mark("test")
    answers = yield
    mark("reports")
    return answers


def watcher():
    """The hook's class, created on demand since `toolkit.SessionHook` imports TensorFlow."""
    from toolkit import SessionHook

    class Watcher(SessionHook):
        name = "watcher"

        def on_restore(self, session, step):
            mark("session")

        def on_step(self, step, values, context):
            if step == 1:
                mark("step")

        def on_stop(self, session, step, error):
            mark("training")

        def next_due_step(self, step):
            return 1 if step == 0 else float("inf")

        def is_due(self, step):
            return step == 1

    return Watcher


# ------------------------------------------------------------------------------------ the benchmark


def measure(arguments, folder):
    """Stage -> (seconds, seconds of the processor, peak MiB) at its end, of one process."""
    import subprocess
    import tempfile

    read, write = os.pipe()
    environment = dict(os.environ, PYTHONWARNINGS="ignore")
    environment[VARIABLE] = str(write)
    start = time.monotonic()
    with tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen(
            [sys.executable] + arguments,
            cwd=folder,
            env=environment,
            pass_fds=(write,),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
        os.close(write)
        with os.fdopen(read) as marks:
            rows = [line.split() for line in marks]
        _, status, usage = os.wait4(process.pid, 0)
        if status:
            log.seek(0)
            raise SystemExit(f"{' '.join(arguments)} failed:\n{log.read()[-2000:]}")
    stages = {s: (float(at) - start, float(cpu), float(peak)) for s, at, cpu, peak in rows}
    duration = time.monotonic() - start
    stages["end"] = (duration, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)
    return stages


def commands(names):
    """Name -> the arguments of Python, for bare processes and for runs."""
    bare = {
        "python": ["-c", "pass"],
        "import tensorflow": ["-c", "import tensorflow"],
        "toolkit --help": ["-m", "toolkit", "--help"],
    }
    run = ["-m", "toolkit", "run", "--steps", "1", "--with", os.path.abspath(__file__)]
    return dict(bare, **{name: run + RUNS[name] for name in names})


def medians(processes):
    """Stage -> medians of its own seconds (clock and processor) and of the peak at its end."""
    from statistics import median

    rows, before = {}, [(0.0, 0.0)] * len(processes)
    for stage in [stage for stage in STAGES if stage in processes[0]]:
        after = [process[stage] for process in processes]
        own = [(b[0] - a[0], b[1] - a[1], b[2]) for a, b in zip(before, after)]
        rows[stage] = [median(column) for column in zip(*own)]
        before = after
    return rows


def show(name: str, rows, processes) -> None:
    from statistics import median

    print(f"\n{name:20}{'ms':>9}{'cpu ms':>9}{'MiB':>9}")
    for stage, (secs, cpu, peak) in rows.items():
        print(
            (
                f"{stage:20}{1000.0 * secs:9.0f}{1000.0 * cpu:9.0f}{peak:9.0f}  "
                f"{STAGES[stage] if len(rows) > 1 else ''}"
            ).rstrip()
        )
    if "step" in rows:
        firsts = [process["step"][0] for process in processes]
        print(
            "{:20}{:9.0f}  ({:.0f} to {:.0f})".format(
                "to the first step", *(1e3 * f(firsts) for f in (median, min, max))
            )
        )


def main() -> None:
    import argparse
    import json
    import tempfile

    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=7, help="processes each [default 7]")
    parser.add_argument("--runs", default=",".join(RUNS), help="[default %(default)s]")
    parser.add_argument("--json", metavar="FILE", help="also write all measurements")
    options = parser.parse_args()
    processes_by_name = commands(options.runs.split(","))
    results = {name: [] for name in processes_by_name}
    for number in range(options.rounds + 1):  # the first one fills the caches of files and bytecode
        for name, arguments in processes_by_name.items():
            with tempfile.TemporaryDirectory() as folder:
                stages = measure(arguments, folder)
            if number:
                results[name].append(stages)
    for name, processes in results.items():
        show(name, medians(processes), processes)
    if options.json:
        with open(options.json, "w") as file:
            json.dump(results, file, indent=1)


if __name__ == "__main__":
    main()
