"""A process that trains a replica as the chief of the run commands (peers.py).

It has no run folder: the chief alone writes checkpoints, metrics and reports.
"""

from __future__ import annotations

import contextlib
import signal
from typing import Any, Dict, List, NoReturn, Optional

import numpy as np

from ..cluster.channel import Channel
from ..cluster.server import check_port, configure, start_server
from ..cluster.tasks import Cluster
from ..compat import tf
from ..display.console import Console
from ..errors import RetryError, ToolkitError
from ..graph.replica import Replica
from ..graph.session_config import session_config
from ..graph.step_strategy import PLAIN, PlainStep
from ..options import CoreOptions
from ..run_data import open_run_data
from . import variable_values
from .faults import translated_errors
from .peers import BEGIN, HASH, REASON_SECS, RUN, STEP, SUMS, await_reason, is_refusal, shared_facts
from .provenance import reproducibility_facts
from .setup import Job, check_options, read_spec
from .step_mode import PlanBuilder, TrainingPlan
from .step_runner import refusal_fetches


class Follower:
    """One process of a run, not its chief. `train` may be called once.

    Args:
        job: what to train; nothing is written to its folder.
        console: shows progress.
        cluster: as this process sees it.
        channel: to the chief.
    """

    def __init__(self, job: Job, console: Console, cluster: Cluster, channel: Channel):
        self._job, self._console = job, console
        self._cluster, self._channel = cluster, channel
        recorded = read_spec(job.folder)
        origins = job.origins if recorded is None else None
        self._run_data = open_run_data(
            job.plugins,
            job.options,
            recorded,
            is_training=True,
            origins=origins,
        )
        self._job = job = job.with_presets(self._run_data)
        check_options(job.options, self._run_data, job.origins)
        self._replica = self._make_replica()
        self._plan = self._build_plan()
        self._current: Optional[Commands] = None

    def train(self) -> NoReturn:
        """Train until the chief ends the job.

        Raises:
            JobEnded: it has; all processes have the same exit code.
            PeerError: another process has failed or is gone.
            ToolkitError: this process has failed.
        """
        check_port(self._cluster)
        self._channel.join(self._facts())
        plan = self._plan
        config = configure(session_config(plan.options), self._cluster)
        server = start_server(self._cluster, config)
        scaffold = self._scaffold(plan)
        with plan.graph.tf_graph.as_default(), Signals() as signals:
            self._current = commands = self._commands(plan, signals)
            with translated_errors(commands), _open_session(
                server.target, scaffold, config
            ) as session:
                session.run_step_fn(commands.obey)
        raise AssertionError("the commands end by an exception")

    # ---------------------------------------------------------- what differs with parameter servers

    def _make_replica(self) -> Replica:
        """The replica that this process trains. Raises UsageError if the batch is too small."""
        assert self._cluster.rank is not None
        batch_size = self._job.options.batch_size
        replica = Replica(self._cluster.rank, self._cluster.num_trainers, batch_size)
        replica.check_batch_size()
        return replica

    def _plan_options(self) -> CoreOptions:
        return self._job.options

    def _strategy(self) -> PlainStep:
        return PLAIN

    def _describe(self) -> str:
        """What this process does, for its log."""
        replica = self._replica
        return (
            f"{self._cluster.task.name} of {replica.count} replicas, {replica.num_examples} of the "
            f"{replica.batch_size} examples of a batch"
        )

    def _scaffold(self, plan: TrainingPlan) -> tf.train.Scaffold:
        """The scaffold of the session, which then calls `_begin`."""
        return tf.train.Scaffold(saver=plan.saver, init_fn=lambda _, session: self._begin(session))

    def _commands(self, plan: TrainingPlan, signals: Signals) -> Commands:
        return Commands(self._channel, plan, signals)

    # ------------------------------------------------------------------------------------- the rest

    def _facts(self) -> Dict[str, Any]:
        facts = reproducibility_facts(self._job.plugins, self._run_data, self._job.config)
        return shared_facts(dict(facts, reader=self._plan.reader.kind, mode=self._plan.mode.value))

    def _build_plan(self) -> TrainingPlan:
        options, strategy = self._plan_options(), self._strategy()
        builder = PlanBuilder(
            self._job, self._run_data, self._replica, options, strategy, has_hooks=False
        )
        return builder.build()

    def _begin(self, session) -> None:
        """Take the state of the chief's session."""
        assert self._current is not None
        self._current.begin(session)
        self._console.log(f"peers  {self._describe()}")


class Commands:
    """Makes the calls that the chief commands.

    Args:
        channel: to the chief.
        plan: what is trained.
        signals: those that this process gets.

    Attributes:
        step: the number of steps so far.
        target: the last step of the run.
    """

    def __init__(self, channel: Channel, plan: TrainingPlan, signals: Signals):
        self._channel, self._graph, self._signals = channel, plan.graph, signals
        self._reader = plan.reader
        self._target = [self._graph.step_after, *refusal_fetches(self._graph)]
        self._has_begun = False
        self.step, self.target = 0, plan.total_steps

    @property
    def tf_graph(self) -> tf.Graph:
        return self._graph.tf_graph

    @property
    def reader_failure(self) -> Optional[ToolkitError]:
        """The cause of a failure in the input, of which TensorFlow only says that an op failed."""
        return getattr(self._reader, "failure", None)

    def begin(self, session) -> None:
        """Take the state of the chief's session.

        Raises:
            RetryError: the session was lost, and with it the collective ops of the others.
        """
        if self._has_begun:
            self._channel.check(REASON_SECS)
            raise RetryError(f"The session was lost at step {self.step}.")
        self._has_begun = True
        command, values = self._channel.receive()
        assert command["do"] == BEGIN
        self._take_state(session, values)
        self.step = int(command["step"])
        self._reader.initialize(session, self.step)
        self._channel.reply({})

    def _take_state(self, session, values: bytes) -> None:
        """Assign the variables those of the chief."""
        variable_values.assign(session, values)

    def obey(self, step_context) -> None:
        """Make one call after the other. Raises JobEnded when the chief ends the job.

        Args:
            step_context: of `MonitoredSession.run_step_fn`; its session calls no hooks.
        """
        while True:
            command, values = self._channel.receive()
            self._channel.reply(self._make(step_context.session, command, values))

    def _make(self, session, command: Dict[str, Any], values: bytes) -> Dict[str, Any]:
        """Make a call; return the reply."""
        if command["do"] == SUMS:
            sums = self._graph.sums
            rows = np.frombuffer(values).reshape(sums.value.shape.as_list())
            session.run(sums.assign, {sums.value: rows})
            return {}
        if command["do"] == HASH:
            return {"hashes": variable_values.hashes(session)}
        try:
            if command["do"] == RUN:
                self._run_steps(session, int(command["steps"]))
            else:
                assert command["do"] == STEP
                session.run([self._graph.train_op, self._target, list(self._graph.averages)])
        except tf.errors.OpError as error:
            if is_refusal(error):
                return {"refused": True}  # so does the chief's guard, which reports it
            await_reason(self._channel, error)
            with contextlib.suppress(tf.errors.OpError, RuntimeError):  # the session may be lost
                self.step = int(session.run(self._graph.run.global_step))
            raise
        self.step += int(command["steps"])
        return {"signal": self._signals.signum}

    def _run_steps(self, session, num_steps: int) -> None:
        loop = self._graph.loop
        feeds = {} if loop is None else {loop.num_steps: np.int32(num_steps)}
        session.run([self._graph.train_op, self._target], feeds)


def _open_session(master: str, scaffold, config):
    return tf.train.MonitoredTrainingSession(
        master=master,
        scaffold=scaffold,
        config=config,
        save_checkpoint_secs=None,
        save_checkpoint_steps=None,
        save_summaries_steps=None,
        save_summaries_secs=None,
        log_step_count_steps=None,
    )


class Signals:
    """The first SIGINT or SIGTERM is passed on to the chief; the second ends the process at once.

    Attributes:
        signum: of the first signal; 0 for none.
    """

    def __init__(self) -> None:
        self.signum = 0
        self._handlers: List[Any] = []

    def __enter__(self) -> Signals:
        try:
            self._handlers = [
                (s, signal.signal(s, self._note)) for s in (signal.SIGINT, signal.SIGTERM)
            ]
        except ValueError:  # not in the main thread
            self._handlers = []
        return self

    def __exit__(self, *_: Any) -> None:
        for signum, handler in self._handlers:
            signal.signal(signum, handler)

    def _note(self, signum: int, frame: Any) -> None:
        self.signum = signum
        signal.signal(signum, signal.SIG_DFL)
