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

_MAX_TASKS = 10000
_FIRST_PORT = 10240  # those up to 30719 are below the ports that Linux gives to clients
_BLOCKS = 160  # of ports; each step of a job has one
_BLOCK_PORTS = 128
_PART = re.compile(r"(?:[^,\[\]]|\[[^\[\]]*\])+")  # of a list of nodes, up to a comma
_BRACKETS = re.compile(r"\[([^\[\]]*)\]")
_RANGE = re.compile("([0-9]{1,9})(?:-([0-9]{1,9}))?")
_NAME = re.compile("[A-Za-z0-9._-]+")
_REPETITION = re.compile(r"([0-9]{1,6})(?:\(x([0-9]{1,6})\))?")
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
    parts = _PART.findall(text)
    names: List[str] = []
    if ",".join(parts) == text:
        for part in parts:
            # Alternately a text and the contents of a pair of brackets.
            choices = [
                _expand_ranges(piece) if number % 2 else [piece]
                for number, piece in enumerate(_BRACKETS.split(part))
            ]
            room = _MAX_TASKS + 1 - len(names)
            names += itertools.islice(map("".join, itertools.product(*choices)), room)
    if not 0 < len(names) <= _MAX_TASKS or not all(map(_NAME.fullmatch, names)):
        raise UsageError(
            f"SLURM_STEP_NODELIST is {show_value(text)}, which is no list of at most {_MAX_TASKS} "
            "nodes.",
            hint=_WAY_OUT,
        )
    return names


def _expand_ranges(ranges: str) -> List[str]:
    """The numbers in a pair of brackets, each range with its leading zeros: "08-10,2".

    What is no range of up to `_MAX_TASKS` numbers gives a name that no node has.
    """
    numbers: List[str] = []
    for piece in ranges.split(","):
        match = _RANGE.fullmatch(piece)
        first, last = match.groups() if match else ("1", "0")
        count = int(last or first) - int(first) + 1
        if not 0 < count <= _MAX_TASKS:
            return ["?"]
        numbers += [str(int(first) + number).zfill(len(first)) for number in range(count)]
    return numbers


def expand_sizes(text: str) -> List[int]:
    """The number of tasks on each node: "2(x2),1" -> 2, 2, 1."""
    sizes: List[int] = []
    for piece in text.split(","):
        match = _REPETITION.fullmatch(piece)
        size, repetitions = (int(match.group(1)), int(match.group(2) or 1)) if match else (0, 0)
        sizes += [size] * min(repetitions, _MAX_TASKS + 1)
        if match is None or max(len(sizes), sum(sizes)) > _MAX_TASKS:
            raise UsageError(
                f"SLURM_STEP_TASKS_PER_NODE is {show_value(text)}, which is no list of numbers "
                f"of at most {_MAX_TASKS} tasks.",
                hint=_WAY_OUT,
            )
    return sizes


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
