"""Processes that play a script in place of the toolkit's command line, and a job of them."""

import json
import os
import signal  # noqa: F401
import subprocess  # noqa: F401
import sys
import time

from file_fixtures import read_text
from process_fixtures import PATIENCE

from toolkit.cluster.launcher import Launcher
from toolkit.cluster.layout import Command, Layout
from toolkit.cluster.output import MergedLog

END = "sys.exit(0)"
HANG = """
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, signal.SIG_IGN)
say_ready()
while True:
    signal.pause()
"""
LEAVE = """
def leave(signum, frame):
    say("signal", signum)
    sys.exit(128 + signum)
"""
# Lets a process live until a signal ends it, with the exit code of an interrupted run.
LIVE = LEAVE + HANG.replace("signal.SIG_IGN", "leave")


def task_name():
    task = json.loads(os.environ["TF_CONFIG"]).get("task", {"type": "chief"})
    return f"{task['type']} {task['index']}" if task["type"] == "worker" else task["type"]


def play(scripts):
    """Run the script of this process's task; `start` is the number of its start, from 1."""
    name = task_name()
    with open(f"starts of {name}", "a+") as file:
        file.write(" ".join(sys.argv[1:]) + "\n")
        file.seek(0)
        start = len(file.readlines())

    def say(*words):
        # In one call: a signal handler may say something, too, and `print` is not reentrant.
        os.write(2, (" ".join(map(str, words)) + "\n").encode())

    def wait_for(path):
        while not os.path.exists(path):
            time.sleep(0.01)

    def announce_end(path):
        """Write the file that `wait_for_end` awaits, as the last action of a process."""
        with open(path + ".part", "w") as file:
            file.write(str(os.getpid()))
        os.replace(path + ".part", path)

    def wait_for_end(path):
        """Wait until the launcher has seen the end of the process that announced it."""
        wait_for(path)
        with open(path) as file:
            pid = file.read()
        while os.path.exists("/proc/" + pid):  # also as a zombie, which the launcher has not seen
            time.sleep(0.01)

    def say_ready():
        """Let the log and other processes know that signals have their handlers."""
        say("ready")
        open("ready " + name, "w").close()

    exec(scripts.get(name, scripts.get("*", END)), {**globals(), **locals()})


def starts_of(name):
    """The arguments of each start of a task's process."""
    return read_text(f"starts of {name}").splitlines()


def statements(scripts):
    return f"from launch_fixtures import play; play({scripts!r})"


def launch_scripts(scripts, layout=None, command=None, **options):
    """Run a job, by default of a chief and a worker, whose processes play scripts: name of the
    task, or "*" for all others -> code; return its exit code. The options are of `Launcher`.
    """
    layout = layout or Layout(2)
    command = command or Command(["run", "--run-dir", "r"], "r")
    names = [task.name for task in layout.tasks([""] * layout.num_servers)]
    options = {"grace_secs": PATIENCE, "variables": dict(os.environ), **options}
    options["statements"] = statements(scripts)
    return Launcher(layout, command, MergedLog(names), **options).run()
