"""Who trains what: claims, what releases them, and whether the owner of a claim is alive.

A process that is about to train a trial appends a *claim*, and trains if the claim is the first in
the order of the records that nothing has released. Each owner increments a counter, its *beat*. An
observer notes by its own clock since when a beat has not changed, so that the clocks of machines
need not agree. An owner on this host whose process has ended is dead at once.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import time
from typing import Any, Callable, Dict, Iterable, Mapping, NamedTuple, Tuple

from .halving import Key

BEAT_SECS = 10.0  # from one beat to the next
TIMEOUT_SECS = 60.0  # without a beat, after which an owner counts as dead
CLAIM, RELEASE = "claim", "release"  # kinds of records
_BOOT_ID = "/proc/sys/kernel/random/boot_id"


class Owner(NamedTuple):
    """A process that trains.

    Attributes:
        name: a random text, of this process alone.
        host: a text that processes have in common if they see each other's ids; "" if unknown.
        pid: its process id on this host.
        start: when it started, in a unit of the system, so that a reused id is recognized.
    """

    name: str
    host: str
    pid: int
    start: str


class Claim(NamedTuple):
    """A process trains a trial, or is about to.

    Attributes:
        key: of the trial.
        token: a text of this claim alone.
        owner: the process.
    """

    key: Key
    token: str
    owner: Owner

    def as_record(self) -> Dict[str, Any]:
        return {"kind": CLAIM, "key": self.key, "token": self.token, "owner": self.owner}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Claim:
        configuration, seed, rung = record["key"]
        return cls((configuration, seed, rung), record["token"], Owner(*record["owner"]))


def this_process() -> Owner:
    """Return this process as an owner, with a new name."""
    pid = os.getpid()
    return Owner(secrets.token_hex(8), _host(), pid, _start(pid))


def release_record(token: str) -> Dict[str, Any]:
    """Return the record that releases the claim with a token."""
    return {"kind": RELEASE, "token": token}


def live_claims(records: Iterable[Mapping[str, Any]]) -> Dict[Key, Claim]:
    """Return the claims that hold after all records.

    A claim of a trial that another claim has is void, also after the end of the other one.
    """
    claims: Dict[Key, Claim] = {}
    keys: Dict[str, Key] = {}  # of all tokens
    for record in records:
        if record["kind"] == CLAIM:
            claim = Claim.from_record(record)
            keys[claim.token] = claim.key
            claims.setdefault(claim.key, claim)
        elif record["kind"] == RELEASE:
            key = keys.get(record["token"])
            if key in claims and claims[key].token == record["token"]:
                del claims[key]
    return claims


class Watch:
    """Observes the beats of owners.

    Args:
        timeout_secs: without a beat, after which an owner counts as dead.
        clock: returns the time of this process in seconds.
    """

    def __init__(
        self, timeout_secs: float = TIMEOUT_SECS, clock: Callable[[], float] = time.monotonic
    ):
        self._timeout_secs = timeout_secs
        self._clock = clock
        self._beats: Dict[str, Tuple[Any, float]] = {}  # by owner: the last one, and since when

    def observe(self, beats: Mapping[str, Any]) -> None:
        """Note the present beats of all owners, by their names."""
        now = self._clock()
        for name, beat in beats.items():
            if name not in self._beats or self._beats[name][0] != beat:
                self._beats[name] = beat, now

    def forget(self) -> None:
        """Begin again: while the storage did not answer, nobody could beat."""
        self._beats.clear()

    def is_dead(self, owner: Owner) -> bool:
        """Return whether an owner has ended, as far as can be known."""
        if has_ended(owner):
            return True
        now = self._clock()
        _, since = self._beats.setdefault(owner.name, (None, now))
        return now - since >= self._timeout_secs


def has_ended(owner: Owner) -> bool:
    """Return whether the owner is a process of this host that has ended."""
    return bool(owner.host) and owner.host == _host() and _start(owner.pid) != owner.start


def _host() -> str:
    """A text for this boot of this machine and for its table of processes; "" if unknown."""
    with contextlib.suppress(OSError), open(_BOOT_ID, encoding="ascii") as file:
        return f"{file.read().strip()} {os.readlink('/proc/self/ns/pid')}"
    return ""


def _start(pid: int) -> str:
    """When a process started; "" if it has ended."""
    with contextlib.suppress(OSError):
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()  # from the state on
        return "" if fields[0] in "ZX" else fields[19]
    return ""
