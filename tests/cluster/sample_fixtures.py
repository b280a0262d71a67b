"""The files of samples/cluster, and the processes that they start.

`submit` runs the batch script as Slurm does, with `fake_slurm.py` as the commands of Slurm.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from typing import Dict, List, NamedTuple

from file_fixtures import REPOSITORY
from process_fixtures import PATIENCE, take_turn

SAMPLES = os.path.join(REPOSITORY, "samples", "cluster")
SCRIPT = os.path.join(SAMPLES, "slurm.sh")
FAKE_SLURM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "fake_slurm.py")


def read_sample(name: str) -> str:
    with open(os.path.join(SAMPLES, name), encoding="utf-8") as file:
        return file.read()


class Process(NamedTuple):
    """A process that a sample starts: the words after `toolkit`, and its environment."""

    argv: List[str]
    environ: Dict[str, str]

    def flag(self, name):
        """The value of a flag; None if it is not there."""
        for word, following in zip(self.argv, [*self.argv[1:], ""]):
            if word == name:
                return following
            if word.startswith(name + "="):
                return word[len(name) + 1 :]
        return None


# ------------------------------------------------------------------------------------ Kubernetes


def read_objects():
    """Kind -> the object of the manifest of Kubernetes."""
    import yaml

    objects = list(yaml.safe_load_all(read_sample("kubernetes.yaml")))
    kinds = {each["kind"]: each for each in objects}
    assert len(kinds) == len(objects)
    return kinds


def pod_of(job):
    return job["spec"]["template"]["spec"]


def container_of(job):
    (container,) = pod_of(job)["containers"]
    return container


def read_pods(job) -> List[Process]:
    """The processes of the pods of an indexed job, as the kubelet starts them."""
    container = container_of(job)
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


# ----------------------------------------------------------------------------------------- Slurm


class Job(NamedTuple):
    """What a batch script did."""

    code: int  # its exit code
    log: str  # all that it and its tasks wrote
    requests: List[List[str]]  # the arguments of each call of `scontrol`


def submit(folder, toolkit, nodes=("localhost",), tasks_per_node=1, script=SCRIPT, **variables):
    """Run a batch script in a folder, and wait for its end.

    Args:
        folder: of the job, also its working directory; made where it is missing.
        toolkit: the text of a shell script that is the command `toolkit`.
        nodes: names of machines. The tasks of all of them run on this one.
        tasks_per_node: the number of tasks on each.
        script: the path of the batch script.
        variables: of the environment, beside those of Slurm.

    Returns:
        The `Job`.
    """
    take_turn()
    bin_folder = os.path.join(str(folder), "bin")
    os.makedirs(bin_folder, exist_ok=True)
    for name in ("srun", "scontrol"):
        command = f'exec "{sys.executable}" "{FAKE_SLURM}" {name} "$@"\n'
        write_command(bin_folder, name, command)
    write_command(bin_folder, "toolkit", toolkit)
    environ = {k: v for k, v in os.environ.items() if not k.startswith(("SLURM", "TOOLKIT_"))}
    environ.update(job_variables(nodes, tasks_per_node), **variables)
    environ["TOOLKIT_CACHE"] = os.path.join(str(folder), "cache")
    environ["TOOLKIT_JOIN_SECS"] = environ["TOOLKIT_PEER_SECS"] = str(PATIENCE)
    environ["PATH"] = bin_folder + os.pathsep + environ["PATH"]
    environ["FAKE_SLURM_REQUESTS"] = requests = os.path.join(str(folder), "requests.jsonl")
    log = os.path.join(str(folder), "log")
    with open(log, "wb") as file:
        process = subprocess.Popen(
            ["bash", script],
            cwd=str(folder),
            env=environ,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            process.wait(PATIENCE)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # what is left of the session
    with open(log, encoding="utf-8") as file:
        return Job(process.returncode, file.read(), read_requests(requests))


def write_command(folder, name, text):
    path = os.path.join(folder, name)
    with open(path, "w") as file:
        file.write("#!/bin/sh\n" + text)
    os.chmod(path, 0o755)


def job_variables(nodes, tasks_per_node):
    """The variables that Slurm sets for a batch script."""
    return {
        "SLURM_JOB_ID": "77",
        "SLURM_JOBID": "77",
        "SLURM_JOB_NODELIST": ",".join(nodes),
        "SLURM_NODELIST": ",".join(nodes),
        "SLURM_JOB_NUM_NODES": str(len(nodes)),
        "SLURM_NNODES": str(len(nodes)),
        "SLURM_NTASKS": str(len(nodes) * tasks_per_node),
        "SLURM_NTASKS_PER_NODE": str(tasks_per_node),
        "SLURM_TASKS_PER_NODE": f"{tasks_per_node}(x{len(nodes)})",
        "SLURM_CPUS_PER_TASK": "1",
    }


def read_requests(path):
    if not os.path.exists(path):
        return []
    with open(path) as file:
        return [json.loads(line) for line in file]
