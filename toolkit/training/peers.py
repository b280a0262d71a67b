"""The other processes of a run, as its chief sees them.

The chief commands every call that changes variables before it makes the call itself, and the
followers (follower.py) make the same call on their replicas. So all make the same changes in the
same order, whatever their clocks say. A follower's reply says whether it was asked to stop.
"""

from __future__ import annotations

import contextlib
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Dict,
    Iterator,
    List,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
)

import numpy as np

from ..cluster.server import check_port, configure, device_name, start_server
from ..cluster.tasks import Cluster, describe_resume
from ..compat import tf
from ..errors import InterruptedRun, ToolkitError, UsageError
from ..graph.guard import read_refusal
from ..graph.replica import ALONE, Replica
from ..graph.step_strategy import PLAIN, AsynchronousStep, PlainStep
from ..options import CoreOptions
from . import variable_values

if TYPE_CHECKING:
    from ..cluster.channel import Channel
    from ..graph.build import TrainingGraph
    from ..graph.step_sums import StepSums
    from .step_mode import TrainingPlan

# Commands of the chief, the values of "do".
BEGIN, RUN, STEP, SUMS, HASH = "begin", "run", "step", "sums", "hash"
# Options that may differ from those of the chief: places of files, whose hashes are compared.
_OWN_OPTIONS = ("data", "folder", "plugin", "with", "console_secs", "init_from")

REASON_SECS = 4.0  # until the channel knows why another process has ended
Interruption = Tuple[int, str]  # a signal that a process of the job got, and the name of its task
# Errors of TensorFlow where another process has ended.
_CONSEQUENCES = (tf.errors.AbortedError, tf.errors.CancelledError, tf.errors.UnavailableError)


class Place(NamedTuple):
    """What a process trains of a run."""

    options: CoreOptions  # of the run, as its graph needs them
    replica: Replica = ALONE  # that reads its part of each batch
    strategy: PlainStep = PLAIN  # of a step that is not compiled


class NoPeers:
    """The peers of a process that trains alone, and what others do unless they override it."""

    count = 0  # how many other replicas or workers there are

    def place(self, options: CoreOptions) -> Place:
        """What this process trains. Raises UsageError for options that are not possible with it."""
        return Place(options)

    def facts(self) -> Dict[str, Any]:
        """What the run's log records of those who train."""
        return {}

    def describe(self, batch_size: int) -> List[str]:
        """Sentences on those who train, for the first lines of a run."""
        return []

    def describe_resume(self, folder: str) -> str:
        """With what to continue the run in a folder, an argument of a command."""
        return describe_resume(None, folder)

    def complete(
        self, plan: TrainingPlan, build: Callable[[Replica], TrainingPlan]
    ) -> TrainingPlan:
        """The plan of all replicas of this process, from that of the first; `build` makes one."""
        return plan

    def join(self, facts: Dict[str, Any]) -> None:
        """Wait for the others, and compare their facts with those of the chief."""

    def start(self, config: tf.ConfigProto) -> Tuple[str, tf.ConfigProto]:
        """The target of the session that trains, and its configuration."""
        return "", config

    def begin(self, session: tf.Session, step: int) -> None:
        """Give the others the state of a session whose variables are restored, at a step."""

    def open_runner(self, session: tf.Session, graph: TrainingGraph, loop: Any) -> Any:
        """What makes the steps without hooks in the place of a `StepRunner`; None for that."""
        return None

    @contextlib.contextmanager
    def explained(self) -> Iterator[None]:
        """In the block, where the session fails since another process has ended, raise why."""
        yield

    @contextlib.contextmanager
    def calling(self, command: str, num_steps: int = 1) -> Iterator[None]:
        """In the block, this process makes the call that it commands here, and `collect` follows in
        it or after it.
        """
        yield

    def collect(self) -> List[Interruption]:
        """Wait until all have made the call, and return the signals that they got meanwhile."""
        return []

    def assign_sums(self, session: tf.Session, sums: StepSums, rows: np.ndarray) -> None:
        """Give the sums of all replicas a value, `StepSums.rows`."""
        session.run(sums.assign, {sums.value: rows})

    def check_equal(self, session: tf.Session, step: int) -> None:
        """Compare the variables of all replicas. Raises ToolkitError where they differ."""

    def end(self, error: Optional[BaseException] = None) -> None:
        """End the other processes of the job: with code 0, or with that of an error."""


class Peers(NoPeers):
    """The followers of a run, over the channel of its chief."""

    def __init__(self, cluster: Cluster, channel: Channel):
        self.count = cluster.num_trainers - 1
        self._cluster, self._channel = cluster, channel
        self._server: Any = None  # it serves as long as the object lives
        self._is_waiting = False  # for the replies to a command
        self._has_ended = False

    def place(self, options: CoreOptions) -> Place:
        return place_of(self._cluster, options)

    def facts(self) -> Dict[str, Any]:
        return {"cluster": {"mode": "replicated", "replicas": self._cluster.num_trainers}}

    def describe(self, batch_size: int) -> List[str]:
        return [describe_replicas(batch_size, [task.name for task in self._cluster.trainers])]

    def describe_resume(self, folder: str) -> str:
        return describe_resume(self._cluster, folder)

    def join(self, facts: Dict[str, Any]) -> None:
        """See `NoPeers`. Raises RetryError if one has not come, or the port of this process is in
        use; UsageError if one has other options, another plugin, other data or another version.
        """
        check_port(self._cluster)
        for task, others in self._channel.join(facts).items():
            if task in self._cluster.trainers and task != self._cluster.task:
                check_facts(task.name, facts, others)

    def start(self, config: tf.ConfigProto) -> Tuple[str, tf.ConfigProto]:
        config = configure(config, self._cluster)
        self._server = start_server(self._cluster, config)
        return self._server.target, config

    def begin(self, session: tf.Session, step: int) -> None:
        # With parameter servers, the variables are there already.
        values = b"" if self._cluster.has_ps else variable_values.read(session)
        self._channel.command({"do": BEGIN, "step": step}, values)
        self._channel.replies()

    @contextlib.contextmanager
    def calling(self, command: str, num_steps: int = 1) -> Iterator[None]:
        self._channel.command({"do": command, "steps": num_steps})
        self._is_waiting = True
        with self.explained():  # before the loop asks a call that failed for its steps
            yield

    @contextlib.contextmanager
    def explained(self) -> Iterator[None]:
        try:
            yield
        except tf.errors.OpError as error:
            if not is_refusal(error):
                await_reason(self._channel, error)
            elif self._is_waiting:
                self.collect()  # the guards of all refuse alike
            raise

    def collect(self) -> List[Interruption]:
        replies = self._channel.replies()
        self._is_waiting = False
        return self._signals(replies)

    def _signals(self, replies: List[Dict[str, Any]]) -> List[Interruption]:
        named = zip(self._cluster.trainers[1:], replies)
        return [(int(r["signal"]), task.name) for task, r in named if r.get("signal")]

    def assign_sums(self, session: tf.Session, sums: StepSums, rows: np.ndarray) -> None:
        self._channel.command({"do": SUMS}, rows.tobytes())
        super().assign_sums(session, sums, rows)
        self._channel.replies()

    def check_equal(self, session: tf.Session, step: int) -> None:
        self._channel.command({"do": HASH})
        hashes = variable_values.hashes(session)
        for task, reply in zip(self._cluster.trainers[1:], self._channel.replies()):
            check_hashes(task.name, step, hashes, reply.get("hashes", {}))

    def end(self, error: Optional[BaseException] = None) -> None:
        if self._has_ended:
            return
        self._has_ended = True
        if isinstance(error, InterruptedRun):  # no failure
            self._channel.close(error.exit_code, error.message)
        else:
            self._channel.__exit__(None, error, None)


class DismissedPeers(NoPeers):
    """The peers of a chief that only tests what was trained; they end with the test."""

    def __init__(self, peers: Peers):
        self.facts, self.end = peers.facts, peers.end  # type: ignore[method-assign]


def place_of(cluster: Cluster, options: CoreOptions) -> Place:
    """What a process of a cluster trains: with parameter servers, one step per call, and whole
    batches. Raises UsageError if the batch is too small, or an option is not possible with them.
    """
    assert cluster.rank is not None
    if not cluster.has_ps:
        return Place(options, Replica(cluster.rank, cluster.num_trainers, options.batch_size))
    wrong = "--xla is on" if options.xla == "on" else ""
    if options.accumulate != 1:
        wrong = f"--accumulate is {options.accumulate}"
    if wrong:
        raise UsageError(
            f"{wrong}, which training with parameter servers does not support.",
            hint="Leave it out, or start the workers without parameter servers.",
        )
    strategy = AsynchronousStep(device_name(cluster.task), len(cluster.jobs["ps"]))
    replica = Replica(cluster.rank, 1, options.batch_size, is_asynchronous=True)
    options = options.model_copy(update={"steps_per_call": 1, "xla": "off"})
    return Place(options, replica, strategy)


def describe_replicas(batch_size: int, names: Sequence[str]) -> str:
    """How many replicas share a batch, and in which processes or devices they are."""
    count = len(names)
    shares = sorted({batch_size // count, -(-batch_size // count)})
    return (
        f"{count} replicas, each of {' or '.join(map(str, shares))} of the {batch_size} examples "
        f"of a batch: {', '.join(names)}"
    )


def check_hashes(name: str, step: int, own: Dict[str, str], others: Dict[str, str]) -> None:
    """Raise ToolkitError where the variables of the first replica and of the replica `name` have
    other hashes.
    """
    names = sorted(variable for variable in own if others.get(variable) != own[variable])
    if names:
        more = f" and {len(names) - 1} more variables" if len(names) > 1 else ""
        raise ToolkitError(
            f"The replicas differ at step {step}: {name} has other values of '{names[0]}'{more}.",
            hint="What a plugin writes into variables by run.update_state or by an op of its own "
            "may not depend on the examples of one replica: average them by "
            "run.mean_over_replicas. Processors of different kinds may round differently, too.",
        )


def is_refusal(error: tf.errors.OpError) -> bool:
    """Whether an error is that of the guard."""
    is_guard = isinstance(error, tf.errors.InvalidArgumentError)
    return is_guard and read_refusal(error.message) is not None


def await_reason(channel: Channel, error: tf.errors.OpError) -> None:
    """Raise why the job has ended, if an error of TensorFlow is but a consequence of that.

    Where a process dies or fails, the runtime of the others notices that, too, and perhaps first.
    """
    is_of_connection = isinstance(error, _CONSEQUENCES)
    if is_of_connection or "ollective" in error.message:  # of a collective op
        channel.check(REASON_SECS)


def check_facts(name: str, own: Dict[str, Any], others: Dict[str, Any]) -> None:
    """Compare the facts of the follower `name` with the chief's own; see `shared_facts`. Raises
    UsageError with the first difference.
    """
    if own.get("mode") != others.get("mode"):
        raise UsageError(
            f"{name} can make several steps per call, and the chief cannot, or the reverse: a "
            "session hook allows one.",
            hint="Set --steps-per-call 1 in all processes.",
        )
    for title in [*own, *others]:
        value, other = own.get(title), others.get(title)
        if value != other:
            is_hash = title.startswith(("plugin ", "data "))  # which says nothing
            difference = f"{title} {other!r:.60}, the chief {value!r:.60}"
            raise UsageError(
                f"{name} has {f'other {title} than the chief' if is_hash else difference}.",
                hint="Start every process with the same command, installation and data.",
            )


def shared_facts(facts: Dict[str, Any]) -> Dict[str, Any]:
    """Those of `provenance.reproducibility_facts` that are equal in all processes of a job."""
    options = {n: v for n, v in facts["options"].items() if n not in _OWN_OPTIONS}
    versions = {name: facts["versions"][name] for name in ("toolkit", "tensorflow")}
    groups = {"version": versions, "option": options}
    groups.update({"plugin": facts["plugins"], "data": facts["data"]})
    shared = {f"{kind} {name}": v for kind, group in groups.items() for name, v in group.items()}
    return {**shared, **{name: facts[name] for name in ("partition", "reader", "mode")}}
