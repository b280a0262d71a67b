"""Jobs: several processes on this machine that find each other by their addresses."""

import json
import os
import tempfile
from pathlib import Path

import process_fixtures
from process_fixtures import PATIENCE, Ended, free_port, wait_until

from toolkit.child_process import COMMAND_LINE
from toolkit.cluster.layout import Layout, local_environments

CHIEF = "chief"
# The command line, which waits for the true reason of an error of TensorFlow however late it comes.
PATIENT = (
    "from toolkit.training import follower, peers\n"
    f"peers.REASON_SECS = follower.REASON_SECS = {PATIENCE}\n{COMMAND_LINE}"
)


def environments(workers=2, ps=0):
    """Name of a task -> the variables of its process: where it finds the others.

    `workers` counts all that train, with the chief. No process of a job is lost, or missing,
    because the machine is busy.
    """
    layout = Layout(workers, ps)
    ports = [free_port() for _ in range(layout.num_servers + 1)]
    settings = {"TOOLKIT_PEER_SECS": str(PATIENCE), "TOOLKIT_JOIN_SECS": str(PATIENCE)}
    return {n: {**each, **settings} for n, each in local_environments(layout, ports).items()}


# Each process waits in the step that the file "wait at" names, as long as the file is there.
WAITING = """
import time
from toolkit import hookimpl, tf

def is_at(step):
    try:
        with open("wait at") as file:
            return file.read() == str(step)
    except OSError:
        return False

def wait(step):
    while is_at(step):
        open("waits", "w").close()
        time.sleep(0.01)
    return True

@hookimpl
def augment(features, labels):
    step = tf.train.get_or_create_global_step()
    with tf.control_dependencies([tf.py_func(wait, [step], tf.bool, stateful=True)]):
        return tf.identity(features), labels
"""


def write_waiting(folder="."):
    """Write an extension by which a job waits to be killed; its name for `--with`."""
    Path(folder, "waiting.py").write_text(WAITING)
    return "./waiting.py"


def wait_at(step, folder="."):
    """Let a job with that extension wait in a step, and write the file "waits"."""
    Path(folder, "wait at").write_text(str(step))


class Job:
    """Processes with names, and what they have written."""

    def __init__(self):
        process_fixtures.take_turn()
        self._folder = tempfile.mkdtemp(prefix="logs-", dir=os.getcwd())
        self.processes = {}

    def start(self, name, *words, start=process_fixtures.start, **settings):
        """Start a process of the job."""
        with open(self._path(name, "out"), "wb") as out, open(self._path(name, "err"), "wb") as err:
            self.processes[name] = start(*words, stdout=out, stderr=err, **settings)

    def _path(self, name, stream):
        return os.path.join(self._folder, f"{name}.{stream}".replace(" ", "-"))

    def read(self, name=CHIEF, stream="err"):
        """What a process has written so far."""
        return Path(self._path(name, stream)).read_text(encoding="utf-8", errors="replace")

    def describe(self):
        """The exit codes and logs so far, for a failure."""
        return "\n".join(
            f"--- {name}: {process.poll()}\n{self.read(name)}"
            for name, process in self.processes.items()
        )

    def send(self, signum, name=CHIEF):
        """Send a signal to a process."""
        self.processes[name].send_signal(signum)

    def wait_for(self, condition):
        """Wait until a condition holds; all processes have to run until then."""
        wait_until(condition, self.describe, self.processes.values())

    def wait_for_line(self, text, *names):
        """Wait until each process, of all by default, has written something; it runs until then."""
        for name in names or self.processes:
            among = [self.processes[name]]
            wait_until(lambda name=name: text in self.read(name), self.describe, among)

    def wait_for_commit(self, run="r", count=1):
        """Wait until a run has so many commits, whatever the session."""
        self.wait_for(lambda: len(commits(run)) >= count)

    def wait(self, *names):
        """Wait for the end of processes, of all by default: name -> how it ended."""
        return {name: self._wait(name) for name in names or self.processes}

    def _wait(self, name):
        process = self.processes[name]
        wait_until(lambda: process.poll() is not None, self.describe)
        return Ended(process.returncode, self.read(name, "out"), self.read(name))

    def check_codes(self, codes):
        """Wait for the end of those in `codes`, name -> exit code, and return their endings."""
        endings = self.wait(*codes)
        assert {name: ended.code for name, ended in endings.items()} == codes, self.describe()
        return endings

    def succeed(self):
        """Wait for the end of all processes, which has to be a success."""
        return self.check_codes(dict.fromkeys(self.processes, 0))


def start_job(*arguments, workers=2, ps=0, others=(), variables=(), **settings):
    """Start `toolkit ARGUMENTS` in each process of a job, in the working directory.

    Args:
        arguments: of `toolkit`.
        workers: how many train.
        ps: how many are parameter servers.
        others: name -> the arguments of its process instead.
        variables: of the environment of all.
        settings: of `process_fixtures.start`.
    """
    settings = {"statements": PATIENT, **settings}
    job = Job()
    for name, task in environments(workers, ps).items():
        words = dict(others).get(name, arguments)
        job.start(name, *words, env={**os.environ, **task, **dict(variables)}, **settings)
    return job


def commits(run):
    """The commits in the log of a run, also while it is written."""
    try:
        lines = Path(run, "commits.jsonl").read_text().split("\n")
    except OSError:
        return []
    entries = [json.loads(line) for line in lines[:-1]]  # the last one may be written
    return [entry for entry in entries if entry["kind"] == "commit"]
