"""Which task of which cluster this process is.

The trainers (chief and workers) train a replica each; the chief is the one that drives the others
and writes the run folder. A parameter server (ps) holds variables. An evaluator evaluates the
checkpoints of the run from outside.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import chain
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

_MAX_CHARACTERS = 60  # of a value in a message


@dataclass(frozen=True)  # a named tuple cannot have a field "index"
class Task:
    """One process of a cluster."""

    job: str  # "chief", "worker", "ps" or "evaluator"
    index: int  # in its job, from 0
    address: str  # "host:port" of its TensorFlow server; "" for an evaluator outside of the cluster

    @property
    def name(self) -> str:
        """For people: "chief", "worker 1"."""
        return self.job if self.job == "chief" else f"{self.job} {self.index}"


class ClusterSettings(NamedTuple):
    """The flags of `run` and `resume` that concern the cluster."""

    # JSON, or the path of a JSON file: {"worker": ["a:2222", "b:2222"], ...}
    cluster: Optional[str] = None
    task: Optional[str] = None  # of this process: "chief", "worker:1"
    # where the chief listens for the others; None for a port that follows from the addresses of the
    # tasks
    channel_port: Optional[int] = None
    join_secs: float = 300.0  # how long to wait for the others at the start
    peer_secs: float = 6.0  # after this silence, a peer counts as lost


class Cluster(NamedTuple):
    """The tasks of a cluster, and which of them this process is."""

    # job -> the addresses of its tasks, for `tf.train.ClusterSpec`. The evaluator is not in it: it
    # has no server. {} in an evaluator outside of the cluster.
    jobs: Dict[str, List[str]]
    task: Task  # of this process
    settings: ClusterSettings = ClusterSettings()  # of this process
    source: str = ""  # what defines the cluster: "TF_CONFIG", "--cluster" or "Slurm"

    @property
    def tasks(self) -> List[Task]:
        """All tasks but the evaluator: the trainers by rank, then the parameter servers."""
        return self.trainers + self._tasks_of("ps")

    @property
    def trainers(self) -> List[Task]:
        """The tasks that train, by rank: the chief and the workers."""
        return self._tasks_of("chief") + self._tasks_of("worker")

    @property
    def num_trainers(self) -> int:
        return len(self.trainers)

    @property
    def chief(self) -> Task:
        """The trainer of rank 0; without a job "chief", that is worker 0."""
        return self.trainers[0]

    @property
    def is_chief(self) -> bool:
        return self.rank == 0

    @property
    def is_evaluator(self) -> bool:
        """Whether this process evaluates checkpoints, and is no task of TensorFlow's cluster."""
        return self.task.job == "evaluator"

    @property
    def rank(self) -> Optional[int]:
        """The position of this process among the trainers; None if it does not train."""
        trainers = self.trainers
        return trainers.index(self.task) if self.task in trainers else None

    @property
    def has_ps(self) -> bool:
        return "ps" in self.jobs

    @property
    def channel_address(self) -> Tuple[str, int]:
        """The host and the port where the chief listens for the others."""
        host, port = split_address(self.chief.address)
        if self.settings.channel_port is not None:
            return host, self.settings.channel_port
        used = {split_address(task.address)[1] for task in self.tasks}
        ports = chain(range(port + 1, 1 << 16), range(port - 1, 0, -1))
        return host, next(port for port in ports if port not in used)

    def _tasks_of(self, job: str) -> List[Task]:
        return [Task(job, index, text) for index, text in enumerate(self.jobs.get(job, ()))]

    @property
    def summary(self) -> str:
        """For people: "worker 1 of chief + 2 workers"."""
        counts = {job: len(addresses) for job, addresses in self.jobs.items()}
        parts = [
            job if job == "chief" else f"{n} {job}{'s' * (job == 'worker' and n > 1)}"
            for job, n in counts.items()
        ]
        return " of ".join([self.task.name, *([" + ".join(parts)] if parts else [])])


def describe_resume(cluster: Any, folder: str) -> str:
    """With what to continue the run in a folder, an argument of a command with flags, if any, that
    the tasks of a cluster train, or one process alone: None.
    """
    if cluster is None:
        return f"toolkit resume {folder}"
    return f"the same command in each process ('run' with --resume --run-dir {folder})"


def split_address(address: str) -> Tuple[str, int]:
    """The host and the port of "host:port"; an IPv6 address loses its brackets."""
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


def show_value(value: Any) -> str:
    """A value for a message: as JSON, shortened."""
    text = json.dumps(value)
    return text if len(text) <= _MAX_CHARACTERS else text[: _MAX_CHARACTERS - 3] + "..."
