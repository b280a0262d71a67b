"""Rounds of asynchronous steps: the processes of a job take tickets until they are used up.

The chief opens a round for the steps up to the one before its next due step. Each process, the
chief too, takes one ticket after the other and makes the step with that batch. When all tickets are
used and all have said so, no step is under way anywhere: the variables are those of a number of
steps, and the chief alone makes the due step and commits.
"""

from __future__ import annotations

import collections
from typing import Any, Callable, Deque, Dict, NamedTuple, Optional, Sequence

from ..compat import make_callable, tf
from ..graph.asynchronous import AsynchronousStep
from ..graph.build import TrainingGraph
from ..graph.guard import GuardValues, read_refusal
from ..graph.run import step_builder_of

_CLOSED = 1 << 62  # a ticket that no round has


class Share(NamedTuple):
    """What one process did in a round.

    Attributes:
        num_steps: the steps that it made.
        num_refused: the steps that its guard refused, each with a ticket of its own.
        refused: the number of the batch of the first of these, from 0; None for none.
        refusal: what the guard saw there.
    """

    num_steps: int
    num_refused: int = 0
    refused: Optional[int] = None
    refusal: Sequence[GuardValues] = ()

    def as_json(self) -> Dict[str, Any]:
        """For a message to the chief."""
        return {**self._asdict(), "refusal": [list(values) for values in self.refusal]}

    @classmethod
    def from_json(cls, values: Dict[str, Any]) -> Share:
        """The inverse of `as_json`; other keys of the message are ignored."""
        refusal = [GuardValues(*row) for row in values["refusal"]]
        return cls(values["num_steps"], values["num_refused"], values["refused"], refusal)


class TicketRunner:
    """Takes tickets and makes their steps, by prepared calls of a session.

    Args:
        session: of this process.
        graph: of the session; its strategy is an `AsynchronousStep`.
        reader: of the examples, by number.
    """

    def __init__(self, session: tf.Session, graph: TrainingGraph, reader: Any):
        strategy = step_builder_of(graph.run).strategy
        assert isinstance(strategy, AsynchronousStep) and strategy.tickets is not None
        tickets = strategy.tickets
        self._take = make_callable(session, [tickets.first])
        self._assign = make_callable(session, [tickets.assign], [tickets.value])
        self._make_step = make_callable(session, [graph.train_op, tickets.next], [tickets.number])
        self._num_ahead = getattr(reader, "num_ahead", 0)
        self._request: Callable[[int], None] = getattr(reader, "request", lambda number: None)
        self._tickets: Deque[int] = collections.deque()  # those that this process has to use
        self._is_over = False

    def open(self, step: int) -> None:
        """Begin a round with the batch of a number. Nobody else may be at work."""
        self._assign(step)

    def close(self) -> None:
        """End the round for all, as soon as the tickets that they have are used."""
        self._assign(_CLOSED)

    def run(self, until: int, should_interrupt: Callable[[], bool]) -> Share:
        """Make steps until the tickets are used up.

        Args:
            until: the first ticket that does not belong to the round.
            should_interrupt: whether the round should end early.
        """
        share, self._is_over = Share(0), False
        while not self._is_over and len(self._tickets) <= self._num_ahead:
            self._accept(self._take()[0], until)
        while self._tickets:
            if not self._is_over and should_interrupt():
                self.close()
            share = self._make_one_step(share, until)
        return share

    def _make_one_step(self, share: Share, until: int) -> Share:
        """The share with one more step, that of the oldest ticket."""
        number = self._tickets.popleft()
        try:
            self._accept(self._make_step(number)[-1], until)
            return share._replace(num_steps=share.num_steps + 1)
        except tf.errors.InvalidArgumentError as error:
            refusal = read_refusal(error.message)
            if refusal is None:
                raise
        self._is_over = True
        self.close()
        share = share._replace(num_refused=share.num_refused + 1)
        return share if share.refusal else share._replace(refused=number, refusal=refusal)

    def _accept(self, ticket: Any, until: int) -> None:
        number = int(ticket)
        if number >= until:
            self._is_over = True
            return
        self._tickets.append(number)
        if self._num_ahead:
            self._request(number)
