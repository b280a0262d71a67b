"""The cluster that Slurm's variables describe: the tasks of an `srun` step, all of them workers.

TensorFlow's `SlurmClusterResolver` does not serve: in 1.15 it needs `scontrol` and as many tasks on
each node, in 2.x it calls `nvidia-smi` and refuses nodes such as "rack[1-2]node[1-4]", and in both
two jobs on one node take the same ports.
"""

from __future__ import annotations

import itertools
import re
from typing import List, Mapping, Optional

from ..errors import UsageError
from .tasks import Cluster, Task, show_value

_FIRST_PORT = 10240  # those up to 30719 are below the ports that Linux gives to clients
_BLOCKS = 160  # of ports; each step of a job has one
_BLOCK_PORTS = 128
_RANGE = "[0-9]{1,9}(?:-[0-9]{1,9})?"
_NODE = rf"(?:[A-Za-z0-9._-]|\[{_RANGE}(?:,{_RANGE})*\])+"  # "r[1-2,4]n01"
_SIZE = r"[0-9]{1,6}(?:\(x[0-9]{1,6}\))?"  # "2(x3)"
_NUMBER = re.compile("[0-9]{1,12}")
_WAY_OUT = (
    "Start all processes with one srun, or set TF_CONFIG; --cluster '{}' is one process alone."
)


def read_slurm(environ: Mapping[str, str]) -> Optional[Cluster]:
    """The cluster of an `srun` step of several tasks, from the variables of the process; None
    elsewhere.

    In a batch script without srun there is one process, whatever the size of the job. Task R of the
    step is worker R. Its port is the first of the step, which follows from the job's number, plus
    its number on the node. Raises UsageError if the variables are incomplete or do not agree.
    """
    if environ.get("SLURM_STEP_NUM_TASKS", "") in ("", "0", "1"):
        return None
    count = _number(environ, "SLURM_STEP_NUM_TASKS")
    rank = _number(environ, "SLURM_PROCID")
    nodes = expand_nodes(_text(environ, "SLURM_STEP_NODELIST"))
    sizes = expand_sizes(_text(environ, "SLURM_STEP_TASKS_PER_NODE"))
    is_one_to_one = len(nodes) == len(set(nodes)) == len(sizes)
    if not is_one_to_one or sum(sizes) != count or rank >= count:
        raise UsageError(
            f"Slurm's variables contradict one another: SLURM_PROCID {rank}, SLURM_STEP_NUM_TASKS "
            f"{count}, {len(set(nodes))} nodes in SLURM_STEP_NODELIST, and {sum(sizes)} tasks on "
            f"{len(sizes)} nodes in SLURM_STEP_TASKS_PER_NODE.",
            hint=_WAY_OUT,
        )
    # The node of each task, and the task's number there: Slurm distributes them in blocks.
    places = [(node, local) for node, size in enumerate(sizes) for local in range(size)]
    actual = tuple(
        _number(environ, name) if name in environ else expected
        for name, expected in zip(("SLURM_NODEID", "SLURM_LOCALID"), places[rank])
    )
    if actual != places[rank]:
        raise UsageError(
            f"Slurm has placed task {rank} on node {actual[0]} as its task {actual[1]}, which is "
            "not its block distribution.",
            hint="Add --distribution=block to srun.",
        )
    base = _first_port(environ)
    addresses = [f"{nodes[node]}:{base + local}" for node, local in places]
    return Cluster({"worker": addresses}, Task("worker", rank, addresses[rank]), source="Slurm")


def expand_nodes(text: str) -> List[str]:
    """The names in a list of nodes: "n[01-02,7],m2" -> n01, n02, n07, m2."""
    if not re.fullmatch(f"{_NODE}(?:,{_NODE})*", text):
        raise UsageError(
            f"SLURM_STEP_NODELIST is {show_value(text)}, which is no list of nodes.", hint=_WAY_OUT
        )
    names: List[str] = []
    for node in re.findall(_NODE, text):
        choices: List[List[str]] = []
        # Alternately a text and the contents of a pair of brackets, numbers with leading zeros.
        for number, piece in enumerate(re.split(r"\[([^\]]*)\]", node)):
            choices.append([] if number % 2 else [piece])
            for first, last in re.findall("([0-9]+)(?:-([0-9]+))?", piece) if number % 2 else ():
                numbers = range(int(first), int(last or first) + 1)
                choices[-1] += [str(each).zfill(len(first)) for each in numbers]
        names += map("".join, itertools.product(*choices))
    return names


def expand_sizes(text: str) -> List[int]:
    """The number of tasks on each node: "2(x2),1" -> 2, 2, 1."""
    if not re.fullmatch(f"{_SIZE}(?:,{_SIZE})*", text):
        raise UsageError(
            f"SLURM_STEP_TASKS_PER_NODE is {show_value(text)}, which is no list of numbers.",
            hint=_WAY_OUT,
        )
    pairs = re.findall(r"([0-9]+)(?:\(x([0-9]+)\))?", text)
    return [int(size) for size, count in pairs for _ in range(int(count or 1))]


def _first_port(environ: Mapping[str, str]) -> int:
    """The first port of the step on each node: steps that run side by side have others."""
    job, step = (
        int(environ[name]) if _NUMBER.fullmatch(environ.get(name, "")) else 0
        for name in ("SLURM_JOB_ID", "SLURM_STEP_ID")
    )
    return _FIRST_PORT + _BLOCK_PORTS * ((job + 53 * step) % _BLOCKS)


def _text(environ: Mapping[str, str], name: str) -> str:
    if not environ.get(name):
        raise UsageError(f"SLURM_STEP_NUM_TASKS is set, but {name} is not.", hint=_WAY_OUT)
    return environ[name]


def _number(environ: Mapping[str, str], name: str) -> int:
    text = _text(environ, name)
    if not _NUMBER.fullmatch(text):
        raise UsageError(f"{name} is {show_value(text)}, which is no number.", hint=_WAY_OUT)
    return int(text)
