"""How fast the toolkit trains, beside other ways to train the same network on the same digits.

    python benchmarks/training_speed.py --rounds 7 --seconds 2 --json speed.json

Every contender is a live process of its own. They run in turn: while one is timed, the others are
stopped. The order is reversed in every other round, and what counts is the median over the rounds,
as a ratio to the limit (1.00): the same step looped inside TensorFlow, with no Python and no input.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
sys.path[:0] = [HERE, ROOT]

import link  # noqa: E402

SETTINGS = {"mlp-32": ("mlp", 32), "mlp-128": ("mlp", 128), "cnn-128": ("cnn", 128)}
GRAPH = ["ours", "limit", "raw", "per_example"]
KERAS_1 = {"keras_fit": ["tf.keras"]}
KERAS_2 = {
    "tf_keras_fit": ["tf_keras"],
    "tf_keras_fit_50": ["tf_keras", "--steps-per-execution", "50"],
    "keras3_fit": ["keras"],
    "keras3_fit_50": ["keras", "--steps-per-execution", "50"],
}
KERAS = KERAS_1 if sys.version_info < (3, 8) else KERAS_2
THREADED = {"ours+threads": "ours", "limit+threads": "limit"}  # with --threads
MARKS = ("import", "build", "step")
QUIET = 0.1  # cores that other processes may take while a span is timed
MOST_TRIES = 3
TICKS = os.sysconf("SC_CLK_TCK")
# Between two checkpoints of the contender that measures their cost; the default is a minute.
CHECKPOINT_SECS = 1
CHECKPOINT_SPAN = 8.0


class Contender:
    """A child process that trains when it is told to."""

    def __init__(self, name: str, command, folder: str):
        self.name = name
        self.spans = []  # what it told of each span
        self.marks = {}  # name -> seconds after the start of the process
        self._log = os.path.join(folder, name + ".log")
        down, up = os.pipe(), os.pipe()  # each: read, write
        environment = dict(os.environ, PYTHONWARNINGS="ignore")
        environment["PYTHONPATH"] = os.pathsep.join(
            [HERE, ROOT, os.path.join(ROOT, "plugins", "classifier")]
        )
        environment[link.VARIABLE] = "{},{}".format(down[0], up[1])
        started = time.monotonic()
        with open(self._log, "w") as log:
            self._process = subprocess.Popen(
                [sys.executable] + command, cwd=folder, env=environment, stdout=log, stderr=log,
                stdin=subprocess.DEVNULL, pass_fds=(down[0], up[1]),
            )  # fmt: skip
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
            raise SystemExit("{} ended with {}:\n{}".format(self.name, self._process.wait(), last))
        return json.loads(line)

    def stop(self) -> None:
        self._process.send_signal(signal.SIGSTOP)

    def span(self, seconds: float, **how):
        """Train for at least `seconds` and return what it tells: steps, seconds and more."""
        self._process.send_signal(signal.SIGCONT)
        self._write.write(json.dumps(dict(how, seconds=seconds)) + "\n")
        self._write.flush()
        told = self._told()
        self.stop()
        return told

    def time(self, seconds: float) -> None:
        """A span, timed again where other processes took more of the machine than QUIET."""
        tried = []
        while len(tried) < MOST_TRIES:
            started, before = time.monotonic(), busy_secs() - self._cpu_secs()
            told = self.span(seconds)
            others = busy_secs() - self._cpu_secs() - before  # both count in ticks of 10 ms
            told["others"] = max(0.0, others / (time.monotonic() - started))
            tried.append(told)
            if told["others"] < QUIET:
                break
        self.spans.append(min(tried, key=lambda told: told["others"]))

    def _cpu_secs(self) -> float:
        with open("/proc/{}/stat".format(self._process.pid)) as file:
            fields = file.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS  # of user and system

    @property
    def rates(self):
        """Steps per second in each round."""
        return [span["steps"] / span["seconds"] for span in self.spans]

    def peak_mib(self) -> float:
        with open("/proc/{}/status".format(self._process.pid)) as status:
            told = next(line for line in status if line.startswith("VmHWM"))
        return int(told.split()[1]) / 1024

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


def command(name: str, network: str, batch_size: int, folder: str, more=()):
    """The arguments of Python that start a contender."""
    sizes = ["--network", network, "--batch-size", str(batch_size)]
    if name == "ours":
        return ["-m", "toolkit", "run", "--plugin", "classifier"] + sizes + [
            "--learning-rate", "0.001", "--schedule", "constant", "--steps", "1000000000",
            "--shift", "0", "--rotate", "0", "--zoom", "0", "--elastic", "0",
            "--run-dir", tempfile.mkdtemp(dir=folder), "--with", os.path.join(HERE, "pause.py"),
        ] + list(more)  # fmt: skip
    if name in KERAS:
        return [os.path.join(HERE, "keras_contenders.py")] + KERAS[name] + sizes + [
            "--folder", folder
        ]  # fmt: skip
    return [os.path.join(HERE, "graph_contenders.py"), name] + sizes + [
        "--folder", folder
    ] + list(more)  # fmt: skip


def thread_flags(threads: str):
    intra, inter = threads.split(",")
    return ["--intra-op-threads", intra, "--inter-op-threads", inter]


def save_digits(folder: str) -> int:
    """The training digits of mnist5k as `digits.npz`; returns how many there are."""
    import numpy as np

    from toolkit.data.sources import open_data

    images, labels = open_data("mnist5k").splits["train"].take(slice(None))
    np.savez(os.path.join(folder, "digits.npz"), images=images, labels=labels)
    return len(labels)


def measure(setting: str, names, arguments, folder: str):
    """Rows of one setting: contender -> what was measured."""
    network, batch_size = SETTINGS[setting]
    contenders = []
    try:
        for name in names:
            say("{}: starting {}".format(setting, name))
            more = thread_flags(arguments.threads) if name in THREADED else []
            asked = command(THREADED.get(name, name), network, batch_size, folder, more)
            started = Contender(name, asked, folder)
            contenders.append(started)
        for number in range(arguments.rounds):
            say("{}: round {} of {}".format(setting, number + 1, arguments.rounds))
            for contender in contenders[:: -1 if number % 2 else 1]:
                contender.time(arguments.seconds)
        rows = table({c.name: c for c in contenders})
    finally:
        for contender in contenders:
            contender.close()
    if "ours" in names and arguments.checkpoints:
        say("{}: checkpoints".format(setting))
        rows["ours"]["checkpoints"] = checkpoint_cost(network, batch_size, folder)
    return rows


def table(contenders):
    limit = contenders["limit"].rates if "limit" in contenders else None
    rows = {}
    for name, contender in contenders.items():
        rates = contender.rates
        row = {
            "steps_per_sec": statistics.median(rates),
            "rates": rates,
            "others": statistics.median(span["others"] for span in contender.spans),
            "startup_secs": contender.marks,
            "peak_mib": contender.peak_mib(),
        }
        if limit:
            row["ratio"] = statistics.median(rates) / statistics.median(limit)
            paired = [rate / base for rate, base in zip(rates, limit)]
            row["ratio_least"], row["ratio_most"] = min(paired), max(paired)
        rows[name] = row
    return rows


def checkpoint_cost(network: str, batch_size: int, folder: str):
    """Seconds of the first checkpoint with its evaluation and of a later one, and its share."""
    more = ["--checkpoint-secs", str(CHECKPOINT_SECS)]
    contender = Contender("ours", command("ours", network, batch_size, folder, more), folder)
    try:
        costs = contender.span(CHECKPOINT_SPAN, whole=True)["checkpoints"]
    finally:
        contender.close()
    later = statistics.median(costs[1:]) if costs[1:] else float("nan")
    return {"first_secs": costs[0], "later_secs": later, "share": later / (60 + later)}


def show(setting: str, rows) -> None:
    heads = ["(rounds)", "steps/s", "us/step", "import", "build", "step", "MiB", "others"]
    form = "\n{:16}{:>7}  {:13}{:>9}{:>10}{:>9}{:>8}{:>8}{:>9}{:>8}"
    print(form.format(setting, "ratio", *heads))
    for name, row in sorted(rows.items(), key=lambda item: -item[1]["steps_per_sec"]):
        spread = ""
        if "ratio" in row:
            spread = "({:.2f}-{:.2f})".format(row["ratio_least"], row["ratio_most"])
        marks = [row["startup_secs"][mark] for mark in MARKS]
        print("{:16}{:>7}  {:13}{:9.1f}{:10.0f}{:8.1f}s{:7.1f}s{:7.1f}s{:9.0f}{:8.2f}".format(
            name, "{:.2f}".format(row["ratio"]) if "ratio" in row else "-", spread,
            row["steps_per_sec"], 1e6 / row["steps_per_sec"], marks[0], marks[1], marks[2],
            row["peak_mib"], row["others"],
        ))  # fmt: skip
    cost = rows.get("ours", {}).get("checkpoints")
    if cost:
        print("a checkpoint with its evaluation: {:.2f} s (the first {:.2f} s); "
              "once a minute, {:.1%} of the time".format(
                  cost["later_secs"], cost["first_secs"], cost["share"]))  # fmt: skip
    sys.stdout.flush()


def say(text: str) -> None:
    sys.stderr.write(text + "\n")


def main() -> None:
    known = GRAPH + list(KERAS)
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=7, help="[default %(default)s]")
    parser.add_argument("--seconds", type=float, default=2.0,
                        help="least length of a timed span [default %(default)s]")  # fmt: skip
    parser.add_argument("--only", default=",".join(known), metavar="NAME,...",
                        help="contenders [default all: %(default)s]")  # fmt: skip
    parser.add_argument("--networks", default=",".join(SETTINGS), metavar="NAME,...",
                        help="settings [default %(default)s]")  # fmt: skip
    parser.add_argument("--no-checkpoints", dest="checkpoints", action="store_false",
                        help="do not measure what checkpoints cost")  # fmt: skip
    parser.add_argument("--threads", metavar="INTRA,INTER",
                        help="also time ours and the limit with so many threads")  # fmt: skip
    parser.add_argument("--json", metavar="FILE", help="also write all that was measured")
    arguments = parser.parse_args()
    names, settings = arguments.only.split(","), arguments.networks.split(",")
    for name in set(names) - set(known) | set(settings) - set(SETTINGS):
        parser.error("'{}' is none of {}".format(name, ", ".join(known + list(SETTINGS))))
    names += list(THREADED) if arguments.threads else []
    # A stopped child would outlive a harness that is ended without its `finally`.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    folder = tempfile.mkdtemp(prefix="training-speed-")
    try:
        count = save_digits(folder)
        result = {"machine": machine(), "examples": count, "settings": {}}
        print("{examples} digits; Python {python}, TensorFlow {tensorflow}, {cpus} cores, "
              "load {load[0]:.1f}".format(examples=count, **result["machine"]))  # fmt: skip
        for setting in settings:
            rows = measure(setting, names, arguments, folder)
            result["settings"][setting] = rows
            show(setting, rows)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump(result, file, indent=1)


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


if __name__ == "__main__":
    main()
