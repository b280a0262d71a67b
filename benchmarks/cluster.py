"""Speed of one, two and three workers, and of parameter servers, beside one process.

    python benchmarks/cluster.py --rounds 3 --network mlp --batch-size 512
    python benchmarks/cluster.py --latency-ms 0.5 --mbit 1000 --only "1 process;2 workers"

The contenders train the same network with the same whole batch. They take turns: one job at a time,
in the reverse order in every other round. All processes are on this machine and share its cores, so
the figures show what communication costs, and not how much faster two machines are.

`compute` is the time of a step of as many processes side by side that do not communicate, each with
a batch of the size of a part. `share` is the part of a step that is not that.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
PLUGINS = [os.path.join(ROOT, "plugins", name) for name in ("classifier", "gan")]
sys.path[:0] = [HERE, ROOT]

import cluster_link  # noqa: E402

from toolkit.cluster.layout import held_ports  # noqa: E402

SECS = 900  # for one job, at most


class Job:
    """The processes of a run on loopback.

    Args:
        folder: for logs and runs.
        num_workers: trainers.
        num_ps: parameter servers.
        latency: seconds, in each direction, of a slow link to each task; 0 for none.
        bytes_per_sec: of that link; None for no limit.
    """

    def __init__(self, folder, num_workers, num_ps=0, latency=0.0, bytes_per_sec=None):
        self._folder = folder
        self._held = contextlib.ExitStack()
        ports = self._held.enter_context(held_ports(num_workers + num_ps + 1))
        *ports, self._channel_port = ports
        self._tasks = [("worker", i, ports[i]) for i in range(num_workers)]
        self._tasks += [("ps", i, ports[num_workers + i]) for i in range(num_ps)]
        self._links = []
        if latency or bytes_per_sec:
            self._links = [
                cluster_link.SlowLink(("127.0.0.1", port), latency, bytes_per_sec) for port in ports
            ]

    def _spec(self, own: int):
        """The addresses of all tasks as one of them sees them."""
        jobs = {}
        for number, (job, _, port) in enumerate(self._tasks):
            if self._links and number != own:
                port = self._links[number].port
            jobs.setdefault(job, []).append(f"127.0.0.1:{port}")
        return jobs

    def environment(self, number: int):
        job, index, _ = self._tasks[number]
        variables = dict(os.environ, PYTHONPATH=os.pathsep.join([ROOT, *PLUGINS]))
        if len(self._tasks) > 1:
            task = {"type": job, "index": index}
            config = {"cluster": self._spec(number), "task": task}
            variables["TF_CONFIG"] = json.dumps(config)
            variables["TOOLKIT_CHANNEL_PORT"] = str(self._channel_port)
        return variables

    def run(self, command):
        """Run a command of Python in each process; fail unless all succeed."""
        processes = []
        for number in range(len(self._tasks)):
            log = open(os.path.join(self._folder, f"log{number}"), "w")  # noqa: SIM115
            processes.append(
                subprocess.Popen(
                    [sys.executable, *command],
                    cwd=self._folder,
                    env=self.environment(number),
                    stdout=log,
                    stderr=log,
                )
            )
        try:
            codes = [process.wait(SECS) for process in processes]
        finally:
            for process in processes:
                process.kill()
            self._held.close()
        if any(codes):
            number = next(i for i, code in enumerate(codes) if code)
            with open(os.path.join(self._folder, f"log{number}")) as log:
                raise SystemExit(f"{command}: exit codes {codes}\n{log.read()[-3000:]}")


def train_command(options, batch_size: int, run_dir: str):
    words = ["-m", "toolkit", "run", "--plugin", "classifier", "--network", options.network]
    words += ["--batch-size", batch_size, "--steps", options.steps, "--log-steps", options.interval]
    words += ["--augment", "none", "--no-evaluate", "--checkpoint-secs", 3600, "--xla", "off"]
    words += ["--run-dir", run_dir]
    return [str(word) for word in [*words, *options.flags]]


def step_secs(run_dir: str) -> float:
    """The median seconds of a step, of the intervals after the first two."""
    with open(os.path.join(run_dir, "speed.jsonl")) as file:
        records = [json.loads(line) for line in file]
    records = [record for record in records if "seconds" in record][1:]
    pairs = list(zip(records, records[1:]))
    return statistics.median(
        (b["seconds"] - a["seconds"]) / (b["step"] - a["step"]) for a, b in pairs
    )


def bytes_received() -> int:
    """What this machine has received on loopback."""
    with open("/proc/net/dev") as file:
        line = next(line for line in file if line.strip().startswith("lo:"))
    return int(line.split(":")[1].split()[0])


class Trial:
    """Measures jobs, each in a folder of its own.

    Args:
        options: of the command line.
        folder: for all of it.
    """

    def __init__(self, options, folder):
        self._options, self._folder = options, folder
        self._count = 0

    def _new_folder(self):
        self._count += 1
        path = os.path.join(self._folder, str(self._count))
        os.mkdir(path)
        return path

    def cluster(self, num_workers: int, num_ps: int = 0):
        """Seconds and bytes of a step of a job."""
        folder, options = self._new_folder(), self._options
        rate = options.mbit * 1e6 / 8 if options.mbit else None
        job = Job(folder, num_workers, num_ps, options.latency_ms / 1e3, rate)
        before = bytes_received()
        job.run(train_command(options, options.batch_size, "run"))
        num_bytes = (bytes_received() - before) / options.steps
        return step_secs(os.path.join(folder, "run")), num_bytes

    def side_by_side(self, count: int):
        """Seconds of a step of processes that do not communicate, each with its part."""
        folder, options = self._new_folder(), self._options
        size = -(-options.batch_size // count)
        processes, paths = [], [os.path.join(folder, str(i)) for i in range(count)]
        for path in paths:
            environment = dict(os.environ, PYTHONPATH=os.pathsep.join([ROOT, *PLUGINS]))
            command = [sys.executable, *train_command(options, size, path)]
            devnull = subprocess.DEVNULL
            processes.append(
                subprocess.Popen(
                    command, cwd=folder, env=environment, stdout=devnull, stderr=devnull
                )
            )
        if any(process.wait(SECS) for process in processes):
            raise SystemExit("a process failed")
        return statistics.mean(step_secs(path) for path in paths), 0.0

    def keras(self, num_workers: int):
        """Seconds of a step of MultiWorkerMirroredStrategy under Keras."""
        folder, options = self._new_folder(), self._options
        job = Job(folder, num_workers, 0)
        script = os.path.join(HERE, "cluster_keras_contender.py")
        before = bytes_received()
        job.run([script, str(options.batch_size), str(options.steps), options.network])
        num_bytes = (bytes_received() - before) / options.steps
        with open(os.path.join(folder, "speed.json")) as file:
            return json.load(file), num_bytes


def contenders(trial: Trial):
    """Name -> a function that measures seconds and bytes of a step."""
    table = {
        "1 process": lambda: trial.cluster(1),
        "2 workers": lambda: trial.cluster(2),
        "3 workers": lambda: trial.cluster(3),
        "2 side by side": lambda: trial.side_by_side(2),
        "3 side by side": lambda: trial.side_by_side(3),
        "2 workers, 1 ps": lambda: trial.cluster(2, 1),
        "1 worker, keras": lambda: trial.keras(1),
        "2 workers, keras": lambda: trial.keras(2),
    }
    return table


def measure(options):
    """Name -> the seconds of a step in each round, and the bytes of the last."""
    folder = tempfile.mkdtemp()
    secs, num_bytes = {}, {}
    try:
        table = contenders(Trial(options, folder))
        only = [name.strip() for name in options.only.split(";")] if options.only else list(table)
        for number in range(options.rounds):
            for name in only if number % 2 == 0 else reversed(only):
                value, num_bytes[name] = table[name]()
                secs.setdefault(name, []).append(value)
                print(f"round {number + 1}  {name:18} {1e3 * value:8.2f} ms", file=sys.stderr)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return secs, num_bytes


def print_table(options, secs, num_bytes) -> None:
    medians = {name: statistics.median(values) for name, values in secs.items()}
    base = medians.get("1 process")
    print(f"{'':18} {'ms/step':>8} {'examples/s':>11} {'ratio':>6} {'share':>6} {'kB/step':>8}")
    for name, value in medians.items():
        ratio = f"{base / value:6.2f}" if base else " " * 6
        compute = medians.get(name.split(" ")[0] + " side by side")
        is_cluster = name.endswith("workers") and compute is not None
        share = f"{1 - compute / value:6.2f}" if is_cluster else " " * 6
        speed = options.batch_size / value
        print(
            f"{name:18} {1e3 * value:8.2f} {speed:11.0f} {ratio} {share} "
            f"{num_bytes[name] / 1e3:8.0f}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--network", default="mlp")
    parser.add_argument("--batch-size", type=int, default=512, help="of a whole step")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--interval", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="names of contenders, separated by ';'")
    parser.add_argument("--latency-ms", type=float, default=0.0, help="one way, of each link")
    parser.add_argument("--mbit", type=float, default=0.0, help="bandwidth of each link")
    parser.add_argument("--json", default="")
    options, options.flags = parser.parse_known_args()
    secs, num_bytes = measure(options)
    print_table(options, secs, num_bytes)
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"secs": secs, "bytes": num_bytes, "options": vars(options)}, file, indent=1)


if __name__ == "__main__":
    main()
