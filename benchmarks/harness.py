"""Contenders that run in turn: each a live process of its own, stopped while another is timed.

The order is reversed in every other round, and what counts is the median over the rounds, as a
ratio to one of them, the base. A benchmark says which contenders it has and what starts each.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import platform
import shlex
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
PLUGINS = [os.path.join(ROOT, "plugins", name) for name in ("classifier", "gan")]
sys.path[:0] = [HERE, ROOT]

import link  # noqa: E402
import outputs  # noqa: E402

QUIET = 0.1  # cores that other processes may take while a span is timed
TICKS = os.sysconf("SC_CLK_TCK")
# Between two checkpoints of the contender that measures their cost; the default is a minute.
CHECKPOINT_SECS = 1


class Contender:
    """A child process that trains when it is told to. how: told with every span, see `link`."""

    def __init__(self, name: str, command, folder: str, **how):
        self.name = name
        self.spans = []  # what it told of each span
        self.marks = {}  # name -> seconds after the start of the process
        self._how = how
        self._log = os.path.join(folder, name + ".log")
        down, up = os.pipe(), os.pipe()  # each: read, write
        environment = dict(os.environ, PYTHONWARNINGS="ignore")
        environment["PYTHONPATH"] = os.pathsep.join([HERE, ROOT] + PLUGINS)
        environment[link.VARIABLE] = f"{down[0]},{up[1]}"
        started = time.monotonic()
        with open(self._log, "w") as log:
            self._process = subprocess.Popen(
                [sys.executable] + command,
                cwd=folder,
                env=environment,
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                pass_fds=(down[0], up[1]),
            )
        os.close(down[0])
        os.close(up[1])
        self._write, self._read = os.fdopen(down[1], "w"), os.fdopen(up[0], "r")
        while "step" not in self.marks:
            told = self._told()
            self.marks[told["mark"]] = told["at"] - started
        self.stop()

    def _told(self):
        line = self._read.readline()
        if not line:
            with open(self._log) as log:
                last = log.read()[-2000:]
            raise SystemExit(f"{self.name} ended with {self._process.wait()}:\n{last}")
        return json.loads(line)

    def stop(self) -> None:
        self._process.send_signal(signal.SIGSTOP)

    def span(self, seconds: float, **how):
        """Train for at least `seconds` and return what it tells: steps, seconds and more."""
        self._process.send_signal(signal.SIGCONT)
        self._write.write(json.dumps(dict(self._how, seconds=seconds, **how)) + "\n")
        self._write.flush()
        told = self._told()
        self.stop()
        return told

    def watched_span(self, seconds: float, **how):
        """A span, and as `others` how many cores other processes kept busy meanwhile."""
        started, before = time.monotonic(), busy_secs() - self._cpu_secs()
        told = self.span(seconds, **how)
        others = busy_secs() - self._cpu_secs() - before  # both count in ticks of 10 ms
        told["others"] = max(0.0, others / (time.monotonic() - started))
        return told

    def time(self, seconds: float, tries: int) -> None:
        """A span, timed again where other processes took more of the machine than QUIET."""
        tried = []
        while len(tried) < tries:
            tried.append(self.watched_span(seconds))
            if tried[-1]["others"] < QUIET:
                break
        chosen = min(tried, key=lambda told: told["others"])
        self.spans.append(chosen)
        if chosen["steps"] % self._how.get("period", 1):
            say(
                "note: {} made {steps} steps in {seconds:.0f} s, no multiple of {}: checkpoints "
                "came between".format(self.name, self._how["period"], **chosen)
            )

    def _cpu_secs(self) -> float:
        with open(f"/proc/{self._process.pid}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS  # of user and system

    @property
    def rates(self):
        """Steps per second in each round."""
        return [span["steps"] / span["seconds"] for span in self.spans]

    def peak_mib(self) -> float:
        """The most memory so far, files that are mapped included."""
        return self._status("VmHWM")

    def own_mib(self) -> float:
        """The memory of this moment that the system cannot take back, so without mapped files."""
        return self._status("RssAnon")

    def _status(self, name: str) -> float:
        with open(f"/proc/{self._process.pid}/status") as status:
            told = next(line for line in status if line.startswith(name))
        return int(told.split()[1]) / 1024

    def finish(self):
        """Let it end as it would without the harness; returns the most (peak, own) MiB seen."""
        self._process.send_signal(signal.SIGCONT)
        self._write.write(json.dumps({"stop": True}) + "\n")
        self._write.flush()
        peak = own = 0.0
        while self._process.poll() is None:
            try:
                peak, own = max(peak, self.peak_mib()), max(own, self.own_mib())
            except (OSError, StopIteration):
                continue  # it has just ended
            time.sleep(0.02)
        return peak, own

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        self._write.close()
        self._read.close()


def busy_secs() -> float:
    """Seconds that the machine's cores were busy so far, all together."""
    with open("/proc/stat") as file:
        user, nice, system, _, _, irq, softirq, steal = map(int, file.readline().split()[1:9])
    return (user + nice + system + irq + softirq + steal) / TICKS


class Benchmark:
    """What a benchmark says of itself.

    base: the contender that the others' ratios are to. peers: name -> the module that it needs, of
    those that are other people's software. checkpoint_span: seconds in which the cost of
    checkpoints is measured.
    """

    base = ""
    peers = {}
    checkpoint_span = 8.0

    def names(self, setting: str, arguments):
        """The contenders of a setting, in their order."""
        return arguments.only

    def command(self, name: str, setting: str, arguments, folder: str, more=()):
        """The arguments of Python that start a contender; more: further flags of `ours`."""
        raise NotImplementedError

    def how(self, name: str, arguments):
        """What is told to a contender with every span, besides the seconds."""
        return {}


def run(benchmark: Benchmark, arguments) -> None:
    """Measure all settings, print a table of each, and write the files that were asked for."""
    end_on_sigterm()
    leave_out_missing(benchmark, arguments)
    folder = tempfile.mkdtemp(prefix="training-speed-")
    try:
        count = save_digits(folder)
        result = {"machine": machine(), "base": benchmark.base, "examples": count, "settings": {}}
        print(f"{count} digits; {told_of(result['machine'])}")
        for setting in arguments.settings:
            rows = measure(benchmark, setting, arguments, folder)
            result["settings"][setting] = rows
            outputs.show(setting, rows)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    outputs.write_all([result], arguments)


def end_on_sigterm() -> None:
    """Leave through every `finally`: a stopped child would outlive a harness that just ends."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))


def leave_out_missing(benchmark: Benchmark, arguments) -> None:
    """Strike the peers whose packages are not installed, with a line for each package."""
    present = {module: is_installed(module) for module in benchmark.peers.values()}
    for module in sorted(module for module in present if not present[module]):
        names = [n for n in arguments.only if benchmark.peers.get(n) == module]
        if names:
            say(f"note: no package '{module}', so without {', '.join(names)}")
    arguments.only = [n for n in arguments.only if present.get(benchmark.peers.get(n), True)]


def is_installed(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def save_digits(folder: str) -> int:
    """The training digits of mnist5k as `digits.npz`; returns how many there are."""
    import numpy as np

    from toolkit.data.sources import open_data

    images, labels = open_data("mnist5k").splits["train"].take(slice(None))
    np.savez(os.path.join(folder, "digits.npz"), images=images, labels=labels)
    return len(labels)


def measure(benchmark: Benchmark, setting: str, arguments, folder: str):
    """Rows of one setting: contender -> what was measured."""
    names, contenders = benchmark.names(setting, arguments), []
    variants = {"ours+" + name: flags for name, flags in arguments.ours}
    try:
        for name in names + list(variants):
            say(f"{setting}: starting {name}")
            stock, more = ("ours", variants[name]) if name in variants else (name, ())
            asked = benchmark.command(stock, setting, arguments, folder, more)
            how = benchmark.how(stock, arguments)
            contenders.append(Contender(name, asked, folder, **how))
        for number in range(arguments.rounds):
            say(f"{setting}: round {number + 1} of {arguments.rounds}")
            for contender in contenders[:: -1 if number % 2 else 1]:
                contender.time(arguments.seconds, arguments.tries)
        rows = table({c.name: c for c in contenders}, benchmark)
    finally:
        for contender in contenders:
            contender.close()
    if "ours" in names and arguments.checkpoints:
        say(f"{setting}: checkpoints")
        more = ["--checkpoint-secs", str(CHECKPOINT_SECS)]
        asked = benchmark.command("ours", setting, arguments, folder, more)
        rows["ours"]["checkpoints"] = checkpoint_cost(asked, folder, benchmark.checkpoint_span)
    return rows


def table(contenders, benchmark: Benchmark):
    """name -> what was measured, with the ratios to the base and to the fastest peer."""
    rows = {name: measured(contender) for name, contender in contenders.items()}
    peers = [name for name in benchmark.peers if name in rows]
    best = max(peers, key=lambda name: rows[name]["steps_per_sec"]) if peers else None
    for row in rows.values():
        if benchmark.base in rows:
            row["to_base"] = ratio(row, rows[benchmark.base])
        if best:
            row["to_best_peer"] = dict(ratio(row, rows[best]), peer=best)
    return rows


def measured(contender: Contender):
    return {
        "steps_per_sec": statistics.median(contender.rates),
        "rates": contender.rates,
        "others": statistics.median(span["others"] for span in contender.spans),
        "startup_secs": contender.marks,
        "peak_mib": contender.peak_mib(),
        "way": contender.spans[-1].get("way"),  # what it chose for itself, if it tells
    }


def ratio(row, other):
    """The ratio of the medians, and the least and most ratio within a round."""
    paired = [rate / against for rate, against in zip(row["rates"], other["rates"])]
    middle = row["steps_per_sec"] / other["steps_per_sec"]
    return {"ratio": middle, "least": min(paired), "most": max(paired)}


def checkpoint_cost(command, folder: str, seconds: float):
    """Seconds of the first checkpoint with its evaluation and of a later one, and its share."""
    contender = Contender("ours", command, folder)
    try:
        costs = contender.span(seconds, whole=True)["checkpoints"]
    finally:
        contender.close()
    later = statistics.median(costs[1:]) if costs[1:] else float("nan")
    return {"first_secs": costs[0], "later_secs": later, "share": later / (60 + later)}


def say(text: str) -> None:
    sys.stderr.write(text + "\n")


def parser(doc: str, known, settings, flag: str, rounds: int, seconds: float):
    """What every benchmark takes. flag: what names the settings, as "--networks"."""
    made = argparse.ArgumentParser(description=doc.split("\n")[0])
    made.add_argument("--rounds", type=int, default=rounds, help="[default %(default)s]")
    made.add_argument(
        "--seconds",
        type=float,
        default=seconds,
        help="least length of a timed span [default %(default)s]",
    )
    made.add_argument(
        "--tries",
        type=int,
        default=3,
        help="most times that a span is timed where other processes "
        "were busy [default %(default)s]",
    )
    made.add_argument(
        "--only",
        type=among(known),
        default=list(known),
        metavar="NAME,...",
        help=f"contenders [default all: {','.join(known)}]",
    )
    made.add_argument(
        flag,
        type=among(settings),
        default=list(settings),
        dest="settings",
        metavar="NAME,...",
        help=f"settings [default {','.join(settings)}]",
    )
    made.add_argument(
        "--no-checkpoints",
        dest="checkpoints",
        action="store_false",
        help="do not measure what checkpoints cost",
    )
    made.add_argument(
        "--ours",
        type=variant,
        action="append",
        default=[],
        metavar="NAME=FLAGS",
        help="also time ours with further flags of 'toolkit run', as 'ours+NAME'; "
        "may be given several times",
    )
    outputs.add_arguments(made)
    return made


def variant(text: str):
    """A type of argparse: "NAME=--flag value ..." as a name and a list of arguments."""
    name, found, flags = text.partition("=")
    if not (name and found):
        raise argparse.ArgumentTypeError(f"'{text}' is not of the form NAME=FLAGS")
    return name, shlex.split(flags)


def among(known):
    """A type of argparse: names of `known`, with commas between."""

    def names(text: str):
        found = text.split(",")
        for name in found:
            if name not in known:
                told = f"'{name}' is none of {', '.join(known)}"
                raise argparse.ArgumentTypeError(told)
        return found

    return names


def machine():
    try:
        from importlib import metadata
    except ImportError:
        import importlib_metadata as metadata
    return {
        "python": platform.python_version(),
        "tensorflow": metadata.version("tensorflow"),
        "cpus": len(os.sched_getaffinity(0)),
        "load": os.getloadavg(),
    }


def told_of(machine) -> str:
    """One line of what `machine` returned."""
    form = "Python {python}, TensorFlow {tensorflow}, {cpus} cores, load {load[0]:.1f}"
    return form.format(**machine)
