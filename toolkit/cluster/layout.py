"""Which tasks a job has, the TF_CONFIG and the ports of each, and the command that each runs."""

from __future__ import annotations

import contextlib
import json
import os
import socket
from typing import Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from .tasks import Task

LOOPBACK = "127.0.0.1"


class Layout(NamedTuple):
    """The size of a cluster."""

    trainers: int  # the number of processes that train: the chief and the workers
    ps: int = 0  # the number of parameter servers

    @property
    def num_servers(self) -> int:
        """The number of tasks that have an address."""
        return self.trainers + self.ps

    @property
    def is_alone(self) -> bool:
        """Whether one process trains without a cluster."""
        return self.num_servers == 1

    @property
    def flags(self) -> str:
        """The flags of `toolkit launch` for this layout."""
        ps = f" --ps {self.ps}" if self.ps else ""
        return f"--workers {self.trainers}{ps}"

    def tasks(self, addresses: Sequence[str]) -> List[Task]:
        """All tasks, chief, workers, parameter servers, from the "host:port" of each."""
        jobs = [("chief", 0)]
        jobs += [("worker", index) for index in range(self.trainers - 1)]
        jobs += [("ps", index) for index in range(self.ps)]
        return [Task(job, index, text) for (job, index), text in zip(jobs, addresses)]


@contextlib.contextmanager
def held_ports(count: int) -> Iterator[List[int]]:
    """So many different ports, which the system gives to nobody until the block ends.

    A socket is bound to each and does not listen. Those who are told the port still listen there,
    since the servers of TensorFlow and the channel set SO_REUSEADDR, as these sockets do.
    """
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            each.bind((LOOPBACK, 0))
        yield [each.getsockname()[1] for each in sockets]


def local_environments(layout: Layout, ports: Sequence[int]) -> Dict[str, Dict[str, str]]:
    """The name of each task, and the variables of its process on this machine; there is a port for
    each server, and one more for the channel.
    """
    *ports, channel_port = ports
    tasks = layout.tasks([f"{LOOPBACK}:{port}" for port in ports])
    jobs: Dict[str, List[str]] = {}
    for task in tasks:
        jobs.setdefault(task.job, []).append(task.address)
    environments = {}
    for task in tasks:
        facts = {"cluster": jobs, "task": {"type": task.job, "index": task.index}}
        environments[task.name] = {
            # {}: alone, whatever Slurm's variables say
            "TF_CONFIG": json.dumps({} if layout.is_alone else facts),
            "TOOLKIT_CHANNEL_PORT": str(channel_port),
        }
    return environments


def identify_folder(path: str) -> Optional[Tuple[int, int]]:
    """What a folder keeps when it is renamed, and no other one has; None if there is none."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


class Command(NamedTuple):
    """A command of the toolkit that trains."""

    words: List[str]  # the command: "run" or "resume", and its arguments
    run_dir: str  # the folder of the run
    former: Optional[Tuple[int, int]] = None  # of the folder that --force is to rename, if any

    @property
    def again(self) -> List[str]:
        """The words that continue the run after a death."""
        if self.words[0] == "resume" or self._is_to_be_replaced:
            return self.words
        words = [word for word in self.words if word not in ("--force", "--resume")]
        return [*words, "--resume"]

    @property
    def is_started(self) -> bool:
        """Whether there is a run in the folder that this command has begun or continues."""
        config = os.path.join(self.run_dir, "config.json")
        return os.path.isfile(config) and not self._is_to_be_replaced

    @property
    def _is_to_be_replaced(self) -> bool:
        """Whether the folder is still the one that --force is to rename."""
        return self.former is not None and identify_folder(self.run_dir) == self.former


def has_flag(arguments: Sequence[str], flag: str) -> bool:
    """Whether the arguments have a flag, with a value or without."""
    return any(word == flag or word.startswith(flag + "=") for word in arguments)
