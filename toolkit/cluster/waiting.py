"""For whom a process waits at the start: when it logs them, and the error when time is up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Iterable, List

from ..errors import RetryError
from .clock import Clock
from .handshake import describe, show_address

if TYPE_CHECKING:
    from .tasks import Cluster, Task

_FIRST_NOTICE_SECS, _NOTICE_SECS = 10.0, 30.0
_MAX_NAMES = 5  # in a message
_ALONE = "--cluster '{}' trains alone."


class Notices:
    """When a process that waits logs for whom.

    Args:
        limit_secs: how long it waits.
        clock: the time.
    """

    def __init__(self, limit_secs: float, clock: Clock):
        self._clock, now = clock, clock.now()
        self._deadline, self._next = now + limit_secs, now + _FIRST_NOTICE_SECS

    @property
    def is_late(self) -> bool:
        """Whether the time is over."""
        return self._clock.now() >= self._deadline

    @property
    def next_secs(self) -> float:
        """The time until there is something to log, or the time is over."""
        now = self._clock.now()
        return max(0.01, min(secs - now for secs in (self._deadline, self._next) if secs > now))

    def is_due(self) -> bool:
        """Whether a line is to be logged now; True once each time."""
        if self._clock.now() < self._next:
            return False
        self._next = self._clock.now() + _NOTICE_SECS
        return True


def list_tasks(tasks: List[Task]) -> str:
    """Tasks for a message: "worker 1 (b:2222) and worker 2 (c:2222)"."""
    names = [describe(task) for task in tasks[:_MAX_NAMES]]
    if len(tasks) > _MAX_NAMES:
        names.append(f"{len(tasks) - _MAX_NAMES} more")
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def missing_error(
    cluster: Cluster, missing: List[Task], peers: List[Task], strangers: Iterable[str]
) -> RetryError:
    """The error of a chief that has waited in vain.

    Args:
        cluster: of the chief.
        missing: the tasks that have not joined.
        peers: the tasks that are connected, some of them among the missing.
        strangers: the hosts that connected and were dropped.
    """
    rest = ""
    late = [task for task in missing if task in peers]
    if late:
        rest += f"; {list_tasks(late)} connected but is not ready"
    others = [task for task in peers if task not in missing]
    rest += f"; {list_tasks(others)} joined" if others else "; no other process did"
    hosts = sorted(strangers)[:_MAX_NAMES]
    if hosts:
        rest += f"; a process that is not of this job connected from {', '.join(hosts)}"
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
