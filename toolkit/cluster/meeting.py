"""How two processes of one cluster meet: addresses, identities, and for whom a process waits."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import socket
from typing import TYPE_CHECKING, Any, Dict, List

from .. import __version__
from ..errors import RetryError, ToolkitError, UsageError
from .wire import WireError

if TYPE_CHECKING:
    from .tasks import Cluster, Task

_PROTOCOL = 2  # the version of the messages
_MAX_NAMES = 5  # in a message
_ALONE = "--cluster '{}' trains alone."


class Refusal(Exception):
    """A process that is refused, with sentences for its user: it may try again for `retry_secs`,
    since the reason may pass; if it `ends_job`, all end.
    """

    def __init__(self, text: str, hint: str = "", retry_secs: float = 0.0, ends_job: bool = False):
        super().__init__(text)
        self.text, self.hint, self.retry_secs, self.ends_job = text, hint, retry_secs, ends_job


def identify(cluster: Cluster) -> Dict[str, Any]:
    """What a process says about itself when it connects: its task, its version, and a digest of all
    tasks of the cluster with their addresses.
    """
    tasks = json.dumps([[task.job, task.index, task.address] for task in cluster.tasks])
    digest = hashlib.sha256(tasks.encode("utf-8")).hexdigest()
    version = [_PROTOCOL, __version__]
    return {"version": version, "digest": digest, "task": cluster.task.name}


def check_identity(body: Dict[str, Any], cluster: Cluster) -> Task:
    """The task of a process that connects to the chief. Raises WireError if it is no identity,
    Refusal if it is of another cluster or version.
    """
    own, name = identify(cluster), body.get("task")
    if body.keys() != own.keys():
        raise WireError(f"its identity is {str(body)[:60]}")
    tasks = [task for task in cluster.tasks if task.name == name and task != cluster.task]
    if body["digest"] != own["digest"] or not tasks:
        raise Refusal(
            f"{name} has another definition of the cluster than the chief"
            f" at {show_address(*cluster.channel_address)}: all processes need the same addresses.",
            hint="Give every process the same cluster, or the chief another port.",
        )
    if body["version"] != own["version"]:
        other = str(body["version"][-1:])[2:-2]
        raise Refusal(
            f"{describe(tasks[0])} runs toolkit {other} and the chief {__version__}.",
            hint="Install the same version on all machines.",
            ends_job=True,
        )
    return tasks[0]


# -------------------------------------------------------------------------------------------- words


def describe(task: Task) -> str:
    """A task for a message: "worker 1 (host:2222)"."""
    return f"{task.name} ({task.address})"


def describe_chief(cluster: Cluster) -> str:
    """The chief for those that connect: "worker 0, the chief (a:2222; its channel a:2223)"."""
    chief = cluster.chief
    name = chief.name if chief.name == "chief" else f"{chief.name}, the chief"
    return f"{name} ({chief.address}; its channel {show_address(*cluster.channel_address)})"


def show_address(host: str, port: int) -> str:
    """ "host:port", with an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def list_tasks(tasks: List[Task]) -> str:
    """Tasks for a message: "worker 1 (b:2222) and worker 2 (c:2222)"."""
    names = [describe(task) for task in tasks[:_MAX_NAMES]]
    if len(tasks) > _MAX_NAMES:
        names.append(f"{len(tasks) - _MAX_NAMES} more")
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def explain(error: Exception, cluster: Cluster) -> str:
    """Why a process cannot connect, to follow the chief and the address of its channel."""
    host, port = cluster.channel_address
    if isinstance(error, WireError):
        return f"something else listens on {show_address(host, port)}, {error}"
    if isinstance(error, socket.gaierror):
        return f"the name {host} does not resolve"
    if isinstance(error, EOFError):
        return "it closed the connection"
    return show_error(error) if isinstance(error, OSError) else "it does not answer"


def show_error(error: OSError) -> str:
    """What the system says about an error, without what asyncio adds."""
    if error.errno is None or isinstance(error, socket.gaierror):
        return str(error) or "it does not answer"
    return os.strerror(error.errno)


def listen_error(name: str, address: str, error: OSError, hint: str) -> ToolkitError:
    """The error of who cannot listen; the hint is for a port that another program uses."""
    message = f"{name} cannot listen on {address}: {show_error(error).rstrip('.')}."
    is_unknown = isinstance(error, socket.gaierror)  # a name that does not resolve
    if is_unknown or error.errno in (errno.EACCES, errno.EADDRNOTAVAIL):
        hint = "Give all processes an address of this machine, with a port from 1024 on."
        return UsageError(message, hint=hint)
    return RetryError(message, hint=hint)


def missing_error(cluster: Cluster, missing: List[Task], peers: List[Task]) -> RetryError:
    """The error of a chief that has waited in vain for the missing tasks."""
    others = [task for task in peers if task not in missing]
    rest = f"; {list_tasks(others)} joined" if others else "; no other process did"
    verb = "has" if len(missing) == 1 else "have"
    return RetryError(
        f"{list_tasks(missing)} {verb} not joined within {cluster.settings.join_secs:g} s{rest}.",
        hint="Look at the log of that process, or wait longer with --join-secs; each process"
        f" has to reach {show_address(*cluster.channel_address)}. {_ALONE}",
    )


def no_start_error(cluster: Cluster, reason: str) -> RetryError:
    """The error of another process that has waited in vain."""
    return RetryError(
        f"The job has not started within {cluster.settings.join_secs:g} s: {reason}.",
        hint=f"Look at the log of the chief, or wait longer with --join-secs. {_ALONE}",
    )
