"""Contenders that take turns: each is a live process, stopped while another is timed.

The order is reversed in every other round. The result is the median over the rounds, as a ratio to
one contender, the base. A benchmark lists its contenders and the command that starts each.
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

QUIET = 0.1  # cores that other processes may use during a timed span
TICKS = os.sysconf("SC_CLK_TCK")
# Seconds between checkpoints when their cost is measured; the default is a minute.
CHECKPOINT_SECS = 1


class Contender:
    """A child process that trains on request.

    Args:
        name: Its name in the tables.
        command: The arguments of Python that start it.
        folder: Its working directory, which also gets its log.
        span_options: Sent with every request of a span, see `link.Link.should_continue`.
    """

    def __init__(self, name: str, command, folder: str, **span_options):
        self.name = name
        self.spans = []  # its report of each span
        self.marks = {}  # name -> seconds after the start of the process
        self._span_options = span_options
        self._log = os.path.join(folder, name + ".log")
        down, up = os.pipe(), os.pipe()  # each: read, write
        environment = dict(os.environ, PYTHONWARNINGS="ignore")
        environment["PYTHONPATH"] = os.pathsep.join([HERE, ROOT] + PLUGINS)
        environment[link.VARIABLE] = f"{down[0]},{up[1]}"
        start = time.monotonic()
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
            report = self._read_report()
            self.marks[report["mark"]] = report["at"] - start
        self.stop()

    def _read_report(self):
        line = self._read.readline()
        if not line:
            with open(self._log) as log:
                output = log.read()[-2000:]
            raise SystemExit(f"{self.name} ended with {self._process.wait()}:\n{output}")
        return json.loads(line)

    def stop(self) -> None:
        self._process.send_signal(signal.SIGSTOP)

    def span(self, seconds: float, **span_options):
        """Train for at least `seconds` and return its report: steps, seconds and more."""
        self._process.send_signal(signal.SIGCONT)
        self._write.write(
            json.dumps(dict(self._span_options, seconds=seconds, **span_options)) + "\n"
        )
        self._write.flush()
        report = self._read_report()
        self.stop()
        return report

    def observed_span(self, seconds: float, **span_options):
        """A span; its `others` is the number of cores that other processes used meanwhile."""
        start, before = time.monotonic(), busy_secs() - self._cpu_secs()
        report = self.span(seconds, **span_options)
        others = busy_secs() - self._cpu_secs() - before  # both count in ticks of 10 ms
        report["others"] = max(0.0, others / (time.monotonic() - start))
        return report

    def time(self, seconds: float, tries: int) -> None:
        """A span, timed again where other processes took more of the machine than QUIET."""
        reports = []
        while len(reports) < tries:
            reports.append(self.observed_span(seconds))
            if reports[-1]["others"] < QUIET:
                break
        quietest = min(reports, key=lambda report: report["others"])
        self.spans.append(quietest)
        if quietest["steps"] % self._span_options.get("period", 1):
            say(
                "note: {} trained {steps} steps in {seconds:.0f} s, not a multiple of {}, "
                "because of checkpoints".format(self.name, self._span_options["period"], **quietest)
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
        """Peak memory so far in MiB, including mapped files."""
        return self._status("VmHWM")

    def own_mib(self) -> float:
        """Current memory in MiB without mapped files, which the system can reclaim."""
        return self._status("RssAnon")

    def _status(self, name: str) -> float:
        with open(f"/proc/{self._process.pid}/status") as status:
            line = next(line for line in status if line.startswith(name))
        return int(line.split()[1]) / 1024

    def finish(self):
        """Let it end as it would without the harness; returns the maxima of (peak, own) in MiB."""
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
    """Total busy seconds of all cores of the machine so far."""
    with open("/proc/stat") as file:
        user, nice, system, _, _, irq, softirq, steal = map(int, file.readline().split()[1:9])
    return (user + nice + system + irq + softirq + steal) / TICKS


class Benchmark:
    """The contenders of a benchmark.

    Attributes:
        base: The contender to which the others are compared.
        peers: Name -> the module that it needs, for contenders that are other software.
        checkpoint_span: Seconds over which the cost of checkpoints is measured.
    """

    base = ""
    peers = {}
    checkpoint_span = 8.0

    def names(self, setting: str, arguments):
        """The contenders of a setting, in their order."""
        return arguments.only

    def command(self, name: str, setting: str, arguments, folder: str, more=()):
        """The arguments of Python that start a contender, with `more` flags for `ours`."""
        raise NotImplementedError

    def span_options(self, name: str, arguments):
        """Options that are sent to a contender with every span, besides the seconds."""
        return {}


def run(benchmark: Benchmark, arguments) -> None:
    """Measure all settings, print a table of each, and write the requested files."""
    end_on_sigterm()
    drop_missing_peers(benchmark, arguments)
    folder = tempfile.mkdtemp(prefix="training-speed-")
    try:
        count = save_digits(folder)
        result = {"machine": machine(), "base": benchmark.base, "examples": count, "settings": {}}
        print(f"{count} digits; {describe_machine(result['machine'])}")
        for setting in arguments.settings:
            rows = measure(benchmark, setting, arguments, folder)
            result["settings"][setting] = rows
            outputs.show(setting, rows)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    outputs.write_all([result], arguments)


def end_on_sigterm() -> None:
    """Exit through every `finally`, so that no stopped child outlives the harness."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))


def drop_missing_peers(benchmark: Benchmark, arguments) -> None:
    """Remove the peers whose packages are not installed, with a note for each package."""
    present = {module: is_installed(module) for module in benchmark.peers.values()}
    for module in sorted(module for module in present if not present[module]):
        names = [n for n in arguments.only if benchmark.peers.get(n) == module]
        if names:
            say(f"note: no package '{module}', skipping {', '.join(names)}")
    arguments.only = [n for n in arguments.only if present.get(benchmark.peers.get(n), True)]


def is_installed(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def save_digits(folder: str) -> int:
    """Write the training digits of mnist5k to `digits.npz`; returns their number."""
    import numpy as np

    from toolkit.data.sources import open_data

    images, labels = open_data("mnist5k").splits["train"].take(slice(None))
    np.savez(os.path.join(folder, "digits.npz"), images=images, labels=labels)
    return len(labels)


def measure(benchmark: Benchmark, setting: str, arguments, folder: str):
    """Rows of one setting: contender -> measurements."""
    names, contenders = benchmark.names(setting, arguments), []
    variants = {"ours+" + name: flags for name, flags in arguments.ours}
    try:
        for name in names + list(variants):
            say(f"{setting}: starting {name}")
            stock, more = ("ours", variants[name]) if name in variants else (name, ())
            command = benchmark.command(stock, setting, arguments, folder, more)
            span_options = benchmark.span_options(stock, arguments)
            contenders.append(Contender(name, command, folder, **span_options))
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
        command = benchmark.command("ours", setting, arguments, folder, more)
        rows["ours"]["checkpoints"] = checkpoint_cost(command, folder, benchmark.checkpoint_span)
    return rows


def table(contenders, benchmark: Benchmark):
    """name -> measurements, with the ratios to the base and to the fastest peer."""
    rows = {name: summarize(contender) for name, contender in contenders.items()}
    peers = [name for name in benchmark.peers if name in rows]
    best = max(peers, key=lambda name: rows[name]["steps_per_sec"]) if peers else None
    for row in rows.values():
        if benchmark.base in rows:
            row["to_base"] = ratio(row, rows[benchmark.base])
        if best:
            row["to_best_peer"] = dict(ratio(row, rows[best]), peer=best)
    return rows


def summarize(contender: Contender):
    return {
        "steps_per_sec": statistics.median(contender.rates),
        "rates": contender.rates,
        "others": statistics.median(span["others"] for span in contender.spans),
        "startup_secs": contender.marks,
        "peak_mib": contender.peak_mib(),
        "way": contender.spans[-1].get("way"),  # its own choice of settings, if any
    }


def ratio(row, other):
    """The ratio of the medians, and the least and most ratio within a round."""
    ratios = [rate / against for rate, against in zip(row["rates"], other["rates"])]
    middle = row["steps_per_sec"] / other["steps_per_sec"]
    return {"ratio": middle, "least": min(ratios), "most": max(ratios)}


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
    """The parser with the options of every benchmark.

    Args:
        doc: The module's docstring.
        known: Names of the contenders.
        settings: Names of the settings.
        flag: The option that selects settings, such as "--networks".
        rounds: Default of `--rounds`.
        seconds: Default of `--seconds`.
    """
    result = argparse.ArgumentParser(description=doc.split("\n")[0])
    result.add_argument("--rounds", type=int, default=rounds, help="[default %(default)s]")
    result.add_argument(
        "--seconds",
        type=float,
        default=seconds,
        help="minimum length of a timed span [default %(default)s]",
    )
    result.add_argument(
        "--tries",
        type=int,
        default=3,
        help="maximum number of attempts for a span if other processes "
        "are busy [default %(default)s]",
    )
    result.add_argument(
        "--only",
        type=among(known),
        default=list(known),
        metavar="NAME,...",
        help=f"contenders [default all: {','.join(known)}]",
    )
    result.add_argument(
        flag,
        type=among(settings),
        default=list(settings),
        dest="settings",
        metavar="NAME,...",
        help=f"settings [default {','.join(settings)}]",
    )
    result.add_argument(
        "--no-checkpoints",
        dest="checkpoints",
        action="store_false",
        help="do not measure the cost of checkpoints",
    )
    result.add_argument(
        "--ours",
        type=variant,
        action="append",
        default=[],
        metavar="NAME=FLAGS",
        help="also time ours with further flags of 'toolkit run', as 'ours+NAME'; "
        "may be given several times",
    )
    outputs.add_arguments(result)
    return result


def variant(text: str):
    """A type of argparse: "NAME=--flag value ..." as a name and a list of arguments."""
    name, separator, flags = text.partition("=")
    if not (name and separator):
        raise argparse.ArgumentTypeError(f"'{text}' is not of the form NAME=FLAGS")
    return name, shlex.split(flags)


def among(known):
    """A type of argparse: names of `known`, separated by commas."""

    def parse_names(text: str):
        names = text.split(",")
        for name in names:
            if name not in known:
                message = f"'{name}' is not one of {', '.join(known)}"
                raise argparse.ArgumentTypeError(message)
        return names

    return parse_names


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


def describe_machine(machine) -> str:
    """The result of `machine` as one line of text."""
    form = "Python {python}, TensorFlow {tensorflow}, {cpus} cores, load {load[0]:.1f}"
    return form.format(**machine)
