"""A process that trains a replica as the chief of the run commands (peers.py).

It has no run folder: the chief alone writes checkpoints, metrics and reports.
"""

from __future__ import annotations

import contextlib
from typing import Any, Dict, NoReturn

import numpy as np

from ..cluster.channel import Channel
from ..cluster.server import check_port, configure, start_server
from ..cluster.tasks import Cluster
from ..compat import tf
from ..display.console import Console
from ..errors import RetryError
from ..graph.session_config import session_config
from . import variable_values
from .faults import translated_errors
from .loop import open_session
from .peers import (
    BEGIN,
    HASH,
    REASON_SECS,
    RUN,
    STEP,
    SUMS,
    await_reason,
    is_refusal,
    place_of,
    shared_facts,
)
from .provenance import reproducibility_facts
from .setup import Job, open_job
from .signals import FirstSignal
from .step_mode import PlanBuilder
from .step_runner import refusal_fetches


class Follower:
    """One process of a run, not its chief: nothing is written to the job's folder. `train` may be
    called once. `step`, `target`, `tf_graph` and `reader` are for `translated_errors`.
    """

    def __init__(self, job: Job, console: Console, cluster: Cluster, channel: Channel):
        self._console, self._cluster, self._channel = console, cluster, channel
        self._job, self._run_data = open_job(job)
        place = place_of(cluster, self._job.options)
        self._plan = PlanBuilder(self._job, self._run_data, place, has_hooks=False).build()
        self._graph, self.reader = self._plan.graph, self._plan.reader
        self._fetches = [self._graph.step_after, *refusal_fetches(self._graph)]
        self._has_begun = False
        self._signals = FirstSignal()
        self.step, self.target = 0, self._plan.total_steps
        self.tf_graph = self._graph.tf_graph

    def train(self) -> NoReturn:
        """Train until the chief ends the job: raises JobEnded, in all processes with the same exit
        code; PeerError if another process has failed or is gone; ToolkitError if this one has.
        """
        check_port(self._cluster)
        # All processes have to train the same; the chief compares.
        facts = reproducibility_facts(self._job.plugins, self._run_data, self._job.config)
        facts = dict(facts, reader=self.reader.kind, mode=self._plan.mode)
        self._channel.join(shared_facts(facts))
        # The session takes the state of the chief's, and makes one call after the other.
        config = configure(session_config(self._plan.options), self._cluster)
        server = start_server(self._cluster, config)
        scaffold = self._scaffold()
        with self.tf_graph.as_default(), self._signals, translated_errors(self), open_session(
            server.target, scaffold, config
        ) as session:
            session.run_step_fn(self._obey)
        raise AssertionError("the commands end by an exception")

    def _obey(self, step_context: Any) -> None:
        """Make one call after the other, without hooks. The end of the job raises JobEnded here."""
        while True:
            command, values = self._channel.receive()
            self._channel.reply(self._make(step_context.session, command, values))

    def _begin(self, session: tf.Session) -> None:
        """Take the state of the chief's session. Raises RetryError if the session was lost, and
        with it the collective ops of the others.
        """
        if self._has_begun:
            self._channel.check(REASON_SECS)
            raise RetryError(f"The session was lost at step {self.step}.")
        self._has_begun = True
        command, values = self._channel.receive()
        assert command["do"] == BEGIN
        if values:  # else the variables are on parameter servers
            variable_values.assign(session, values)
        self.step = int(command["step"])
        self.reader.initialize(session, self.step)
        self._channel.reply({})
        self._console.log(f"peers  {self._cluster.summary}")

    # ---------------------------------------------------------- what differs with parameter servers

    def _scaffold(self) -> tf.train.Scaffold:
        """The scaffold of the session, which then calls `_begin`."""
        return tf.train.Scaffold(
            saver=self._plan.saver, init_fn=lambda _, session: self._begin(session)
        )

    def _make(self, session: tf.Session, command: Dict[str, Any], values: bytes) -> Dict[str, Any]:
        """Make a call; return the reply."""
        if command["do"] == SUMS:
            sums = self._graph.sums
            rows = np.frombuffer(values).reshape(sums.value.shape.as_list())
            session.run(sums.assign, {sums.value: rows})
            return {}
        if command["do"] == HASH:
            return {"hashes": variable_values.hashes(session)}
        fetches, feeds = [self._graph.train_op, self._fetches], {}
        if command["do"] == STEP:
            fetches.append(list(self._graph.averages))
        elif self._graph.loop is not None:
            assert command["do"] == RUN
            feeds = {self._graph.loop.num_steps: np.int32(command["steps"])}
        try:
            session.run(fetches, feeds)
        except tf.errors.OpError as error:
            if is_refusal(error):
                return {"refused": True}  # so does the chief's guard, which reports it
            await_reason(self._channel, error)
            with contextlib.suppress(tf.errors.OpError, RuntimeError):  # the session may be lost
                self.step = int(session.run(self._graph.run.global_step))
            raise
        self.step += int(command["steps"])
        return {"signal": self._signals.signum}
