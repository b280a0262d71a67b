"""Training with parameter servers: they hold the variables, which all workers update, each at its
own pace within a round.

The chief opens a round for the steps up to the one before its next due step. Each worker, the chief
too, takes one ticket after the other, the number of a batch, and makes the step with that batch.
When all tickets are used and all have said so, no step is under way anywhere: the variables are
those of a number of steps, and the chief alone makes the due step and commits. It alone initializes
and restores the variables; the others wait for its first command, and then load their examples.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, List, NoReturn, Optional

import numpy as np

from ..cluster.server import start_server
from ..cluster.tasks import Cluster
from ..compat import make_callable, tf
from ..display.numbers import format_count
from ..graph.build import TrainingGraph
from ..graph.guard import GuardValues, read_refusal
from ..graph.run import step_builder_of
from ..graph.session_config import session_config
from ..graph.step_strategy import AsynchronousStep
from ..options import CoreOptions
from .follower import Follower
from .peers import RUN, Interruption, NoPeers, Peers, await_reason
from .signals import FirstSignal
from .step_runner import CallResult

if TYPE_CHECKING:
    from ..cluster.channel import Channel
    from ..graph.step_sums import StepSums

_CLOSED = 1 << 62  # a ticket that no round has


class TicketRunner:
    """Takes tickets and makes their steps, by prepared calls of a session, in whose graph the
    strategy is an `AsynchronousStep`. Its reader reads examples by number.
    """

    def __init__(self, session: tf.Session, graph: TrainingGraph):
        tickets = _tickets_of(graph)
        self._take = make_callable(session, [tickets.first])
        self._assign = make_callable(session, [tickets.assign], [tickets.value])
        self._make_step = make_callable(session, [graph.train_op, tickets.next], [tickets.number])

    def open(self, step: int) -> None:
        """Begin a round with the batch of a number. Nobody else may be at work."""
        self._assign(step)

    def close(self) -> None:
        """End the round for all, as soon as the tickets that they have are used."""
        self._assign(_CLOSED)

    def run(self, until: int, should_interrupt: Callable[[], bool]) -> CallResult:
        """Make steps until the tickets of a round, those before `until`, are used up, or until the
        round should end early. Returns what this process did, besides a step that it refused.
        """
        num_steps, number = 0, int(self._take()[0])
        while number < until:
            if should_interrupt():
                self.close()
            try:
                number = int(self._make_step(number)[-1])
                num_steps += 1
            except tf.errors.InvalidArgumentError as error:
                refusal = read_refusal(error.message)
                if refusal is None:
                    raise
                self.close()
                return CallResult(None, num_steps, refusal, number + 1)
        return CallResult(None, num_steps)


def _tickets_of(graph: TrainingGraph) -> Any:
    strategy = step_builder_of(graph.run).strategy
    assert isinstance(strategy, AsynchronousStep) and strategy.tickets is not None
    return strategy.tickets


class ServerPeers(Peers):
    """The other workers of a run with parameter servers, as its chief sees them; it makes the steps
    between two due ones together with them.
    """

    def __init__(self, cluster: Cluster, channel: Channel):
        super().__init__(cluster, channel)
        self._interruptions: List[Interruption] = []

    def facts(self) -> Dict[str, Any]:
        counts = {"workers": self._cluster.num_trainers, "ps": len(self._cluster.jobs["ps"])}
        return {"cluster": {"mode": "ps", **counts}}

    def describe(self, batch_size: int) -> List[str]:
        names = ", ".join(task.name for task in self._cluster.trainers)
        servers = format_count(len(self._cluster.jobs["ps"]), "parameter server")
        return [
            f"{servers}; each step is one batch of {batch_size} of one of {names}",
            "the order of the updates is not reproducible, so another run has other bits",
        ]

    def open_runner(self, session: tf.Session, graph: TrainingGraph, loop: Any) -> ServerPeers:
        tickets = _tickets_of(graph)
        self._runner, self._loop = TicketRunner(session, graph), loop
        self._read_step = make_callable(session, [tickets.step])
        self._set_step = make_callable(session, [tickets.set_step], [tickets.value])
        return self

    def run(self, max_steps: int) -> CallResult:
        """Make a round of `max_steps` steps; of fewer if the loop or another process ends it."""
        step = self._loop.step
        until = step + max_steps
        self._runner.open(step)
        self._channel.command({"do": RUN, "until": until})
        own = self._runner.run(until, self._loop.should_interrupt)
        replies = self._channel.replies()
        self._interruptions += self._signals(replies)
        shares = [own, *(CallResult(*reply["share"]) for reply in replies)]
        refusals = [(x.refused_step or 0, x.refusal) for x in shares if x.refusal is not None]
        num_steps = sum(share.num_steps for share in shares) + len(refusals)
        if refusals:  # these count, too: the next ticket is that of the next batch
            self._set_step(step + num_steps)
        result = CallResult(int(self._read_step()[0]), num_steps)
        if not refusals:
            return result
        refused, refusal = min(refusals)
        rows = [GuardValues(*row) for row in refusal]
        return result._replace(refusal=rows, refused_step=refused)

    @contextlib.contextmanager
    def calling(self, command: str, num_steps: int = 1) -> Iterator[None]:
        """In the block, the chief makes a step alone."""
        yield

    def collect(self) -> List[Interruption]:
        """The signals that others got since the last call. Does not wait. Raises PeerError if
        another process has failed or is gone.
        """
        self._channel.check()
        for task, message in self._channel.notifications():
            self._interruptions.append((int(message["signal"]), task.name))
        interruptions, self._interruptions = self._interruptions, []
        return interruptions

    def assign_sums(self, session: tf.Session, sums: StepSums, rows: np.ndarray) -> None:
        """They are on the servers, like all variables."""
        NoPeers.assign_sums(self, session, sums, rows)

    def check_equal(self, session: tf.Session, step: int) -> None:
        """There is one copy of the variables."""


class ServerFollower(Follower):
    """A worker of a run with parameter servers, not its chief; arguments as of `Follower`.

    Its `step` is the number of steps before the next round, for errors.
    """

    _runner: Optional[TicketRunner] = None

    def _scaffold(self) -> tf.train.Scaffold:
        """A scaffold that leaves the variables, which are the chief's, alone."""
        with self.tf_graph.as_default():
            is_ready = tf.constant([], tf.string)  # the names of variables without a value
            tables = tf.tables_initializer()
        return tf.train.Scaffold(
            init_op=tables,
            init_fn=lambda _, session: self._begin(session),
            ready_op=is_ready,
            ready_for_local_init_op=is_ready,
            local_init_op=tables,
            saver=self._plan.saver,
        )

    def _make(self, session: tf.Session, command: Dict[str, Any], values: bytes) -> Dict[str, Any]:
        """Make this worker's share of a round; return the reply."""
        assert command["do"] == RUN
        if self._runner is None:
            self._runner = TicketRunner(session, self._graph)
        until = int(command["until"])
        try:
            share = self._runner.run(until, self._should_interrupt)
        except tf.errors.OpError as error:
            await_reason(self._channel, error)
            raise
        self.step = until
        return {"share": share, "signal": self._signals.signum}

    def _should_interrupt(self) -> bool:
        self._channel.check()
        return bool(self._signals.signum)


def serve_variables(options: CoreOptions, cluster: Cluster, channel: Channel) -> NoReturn:
    """Hold variables until the chief ends the job: raises JobEnded, or PeerError if another process
    has failed or is gone. Of the run's options, those of threads and memory matter.
    """
    server = start_server(cluster, session_config(options))
    channel.join({})
    with FirstSignal(lambda signum: channel.reply({"signal": signum})):
        channel.wait()
    del server  # it serves as long as the object lives
