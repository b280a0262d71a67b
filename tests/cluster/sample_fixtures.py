"""The files of samples/cluster, and the processes that they start.

`submit` runs the batch script as Slurm does, with `fake_slurm.py` as the commands of Slurm.
"""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from typing import Dict, List, NamedTuple

from file_fixtures import REPOSITORY, read_text
from process_fixtures import PATIENCE, take_turn

SAMPLES = os.path.join(REPOSITORY, "samples", "cluster")
SCRIPT = os.path.join(SAMPLES, "slurm.sh")
FAKE_SLURM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "fake_slurm.py")


def read_sample(name: str) -> str:
    return read_text(SAMPLES, name)


class Process(NamedTuple):
    """A process that a sample starts: the words after `toolkit`, and its environment."""

    argv: List[str]
    environ: Dict[str, str]

    def flag(self, name):
        """The value of a flag `NAME=VALUE`; None if it is not there."""
        start = name + "="
        return next((word[len(start) :] for word in self.argv if word.startswith(start)), None)


def read_objects():
    """Kind -> the object of the manifest of Kubernetes."""
    import yaml

    objects = list(yaml.safe_load_all(read_sample("kubernetes.yaml")))
    kinds = {each["kind"]: each for each in objects}
    assert len(kinds) == len(objects)
    return kinds


def read_pods(job) -> List[Process]:
    """The processes of the pods of an indexed job, as the kubelet starts them."""
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert "command" not in container  # that of the image
    pods = []
    for index in range(job["spec"]["completions"]):
        environ = {"JOB_COMPLETION_INDEX": str(index)}
        for variable in container.get("env", []):
            environ[variable["name"]] = expand(variable["value"], environ)
        pods.append(Process([expand(word, environ) for word in container["args"]], environ))
    return pods


def expand(text, environ):
    """A text of a manifest with the values of `$(NAME)`, where the name is defined."""
    return re.sub(r"\$\((\w+)\)", lambda match: environ.get(match[1], match[0]), text)


class Job(NamedTuple):
    """What a batch script did."""

    code: int  # its exit code
    log: str  # all that it and its tasks wrote
    requests: List[List[str]]  # the arguments of each call of `scontrol`


def submit(folder, toolkit, nodes=("localhost",), tasks_per_node=1, script=SCRIPT, **variables):
    """Run a batch script in a folder to its end; returns the `Job`.

    The command `toolkit` is a shell script of that text. The tasks of all nodes run on this machine
    in the folder, with further variables of the environment.
    """
    take_turn()
    bin_folder = os.path.join(str(folder), "bin")
    os.makedirs(bin_folder, exist_ok=True)
    for name in ("srun", "scontrol"):
        command = f'exec "{sys.executable}" "{FAKE_SLURM}" {name} "$@"\n'
        write_command(bin_folder, name, command)
    write_command(bin_folder, "toolkit", toolkit)
    environ = {k: v for k, v in os.environ.items() if not k.startswith(("SLURM", "TOOLKIT_"))}
    environ.update(SLURM_JOB_ID="77", SLURM_JOB_NODELIST=",".join(nodes))
    environ.update({"SLURM_NTASKS_PER_NODE": str(tasks_per_node), **variables})
    environ["TOOLKIT_CACHE"] = os.path.join(str(folder), "cache")
    environ["TOOLKIT_JOIN_SECS"] = environ["TOOLKIT_PEER_SECS"] = str(PATIENCE)
    environ["PATH"] = bin_folder + os.pathsep + environ["PATH"]
    environ["FAKE_SLURM_REQUESTS"] = requests = os.path.join(str(folder), "requests.jsonl")
    open(requests, "w").close()
    log = os.path.join(str(folder), "log")
    with open(log, "wb") as file:
        settings = {"stdout": file, "stderr": subprocess.STDOUT, "start_new_session": True}
        process = subprocess.Popen(["bash", script], cwd=str(folder), env=environ, **settings)
        try:
            process.wait(PATIENCE)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # what is left of the session
    with open(log, encoding="utf-8") as file, open(requests) as lines:
        return Job(process.returncode, file.read(), list(map(json.loads, lines)))


def write_command(folder, name, text):
    path = os.path.join(folder, name)
    with open(path, "w") as file:
        file.write("#!/bin/sh\n" + text)
    os.chmod(path, 0o755)
