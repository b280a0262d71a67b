"""Drive: the script makes the calls, and the core commits what they trained.

Each call of a session is answered in one of two ways. While the journal has more, the script is
coming back to where a commit was: it is given what the run gave it, and nothing is computed but
what moves iterators and tables. Then the variables are put back, and from there on each call is
computed, journaled and, if it trains, counted: every so many train calls are a commit.
"""

from __future__ import annotations

import hashlib
import os
import signal
import sys
from typing import IO, Any, Callable, Dict, List, Optional, Set

import numpy as np

from toolkit import DivergedError, DrivenRun, ToolkitError, tf

from .calls import Calls, Kind, scalars_of
from .entropy import digest_of_generators, fix_entropy
from .inference import GRAPH
from .journal import Recorder, mismatch
from .noise import make_stateless, with_number
from .order import Order
from .patches import Patches
from .queues import Queues
from .script import own_modules
from .session import Sessions
from .variables import find_places, read_values, write_values


class EndOfRun(SystemExit):
    """Ends the script where the run is to end."""


class Drive:
    """One session of a driven run.

    Args:
        run: opened; its session begins with `install`.
        argv: the command.
        pause_at: a train call after which the script ends, to continue another time.

    Attributes:
        step: the number of train calls so far.
        signum: of the signal that asked for the end; 0 without one.
        is_at_end: whether the run ended the script.
    """

    def __init__(self, run: DrivenRun, argv: List[str], pause_at: Optional[int] = None):
        settings = run.settings
        self.step, self.signum = 0, 0
        self._process = os.getpid()
        self.is_at_end = False
        self._error: Optional[ToolkitError] = None
        self._run, self._argv = run, argv
        self._script = settings["script"]
        self._every, self._log_every = settings["commit_steps"], settings["log_steps"]
        ends = [step for step in (settings["steps"], pause_at) if step]
        self._last_step: Optional[int] = min(ends) if ends else None
        self._number = 0  # of the last call
        self._is_over = False
        self._replay: Optional[IO[bytes]] = None
        self._replay_end = 0
        self._metrics: Dict[str, float] = {}
        self._warned: Set[str] = set()
        self._calls = Calls(self._script, Order().complete)
        self.refuse = self._calls.refusal
        self._recorder = Recorder(run.journal.append, settings["journal_limit"])
        self._sessions = Sessions(
            self._answer, self._observe, self._keep, self._calls.refusal, settings["threads"]
        )
        self._queues = Queues(self._calls, self._sessions.run)
        self._sessions.after = lambda: self._queues.loop(self.step)
        self._closed: Dict[str, np.ndarray] = {}  # variables of sessions since the last commit
        self._trained: Any = None  # the graph of the last train call, and the start of its names
        self._graph_version = -1  # of the graph in the folder

    def install(self, patches: Patches) -> None:
        """Patch what the script calls, and begin the session of the run."""
        seed = self._run.settings["seed"]
        hashes = self._hash_sources([self._script])
        changes = self._run.begin_session(hashes, self._argv, self._last_step or 0)
        if changes:
            self._run.console.log(f"note   no longer bit-exact: {'; '.join(changes)}")
        restart = self._run.restart
        if restart is not None:
            self._replay = self._run.journal.open()
            self._replay_end = os.path.getsize(self._run.journal.path)
            self._run.console.log(
                f"resume from step {restart.step}: {restart.values['calls']} calls are answered "
                "from the journal"
            )
        fix_entropy(patches, seed)
        make_stateless(patches, seed)
        self._calls.record_losses(patches)
        self._sessions.install(patches, os.path.dirname(self._script))
        self._queues.install(patches)

    def interrupt(self, signum: int, frame: Any) -> None:
        """End after the next train call, which is committed; a second signal ends at once."""
        signal.signal(signum, signal.SIG_DFL)
        if os.getpid() != self._process:  # of a worker that the script forked
            os.kill(os.getpid(), signum)
        self.signum = signum

    @property
    def is_coming_back(self) -> bool:
        """Whether the script is still before the commit from which a resume goes on."""
        return self._replay is not None

    @property
    def failure(self) -> Optional[ToolkitError]:
        """Why the run cannot go on, whatever the script made of it."""
        failure: Optional[ToolkitError] = self._error or self._sessions.failure
        return failure

    def end(self) -> None:
        """Commit what was trained since the last commit."""
        if self.failure is not None:
            raise self.failure
        if self.is_coming_back:
            raise mismatch(
                self._number + 1, "none", "the script has ended, and the run made further calls"
            )
        if not self._is_over and self.step > self._run.step:
            self._commit()
        if not self.step:
            self._run.warn("the script made no train call, so there is nothing to continue")

    # ------------------------------------------------------------------------------- observations

    def _observe(self, name: str, read: Callable[[], Any]) -> Any:
        if self._is_over:
            return read()
        if self._replay is not None:
            value = self._recorder.read_observation(self._replay, self._number, name)
            self._end_replay()
            return value
        value = read()
        self._recorder.write_observation(self._number, name, value)
        return value

    # ------------------------------------------------------------------------------------- a call

    def _answer(self, session, targets, fetches, feeds, run) -> List[Any]:
        if self._error is not None:
            raise self._error
        if self._is_over:
            return self._answer_after(session, targets, fetches, feeds, run)
        try:
            return self._answer_next(session, targets, fetches, feeds, run)
        except ToolkitError as error:  # the script may catch it
            self._is_over, self._error = True, error
            raise

    def _answer_after(self, session, targets, fetches, feeds, run) -> List[Any]:
        """What a call after the end of the run gives, such as one in a `finally` of the script."""
        self._number += 1
        kind = self._calls.find(session.graph, targets, fetches, feeds)
        feeds = {**with_number(session.graph, feeds, self._number), **kind.closed}
        self._queues.fill(session, kind, feeds)
        values: List[Any] = run(feeds=feeds)
        return values

    def _answer_next(self, session, targets, fetches, feeds, run) -> List[Any]:
        self._number += 1
        kind = self._calls.find(session.graph, targets, fetches, feeds)
        self._warn(kind)
        arrays = list(feeds.values())
        feeds = {**with_number(session.graph, feeds, self._number), **kind.closed}
        if self._replay is not None:
            values = self._recorder.read(self._replay, self._number, kind, arrays)
            self._move_resources(session, kind, feeds, run, isinstance(values, Exception))
            if kind.trains and not isinstance(values, Exception):
                self.step += 1
            self._end_replay()
        else:
            if kind.trains and not self.step:
                self._sessions.unobserved(self._run.assign_initial_weights, session)
            values = self._compute(session, kind, fetches, feeds, run)
            losses = values[len(fetches) :] if isinstance(values, list) else []
            values = values[: len(fetches)] if isinstance(values, list) else values
            self._recorder.write(self._number, kind, arrays, values)
            if not isinstance(values, Exception):
                self._note_metrics(kind, values, losses)
                if kind.trains:
                    self._trained = session.graph, self._start_of(session)
                    self._count()
        if isinstance(values, Exception):
            raise values
        return values

    def _compute(self, session, kind: Kind, fetches: List[Any], feeds: Any, run: Any) -> Any:
        """The values of the fetches and of the losses, or the error of TensorFlow."""
        try:
            self._queues.fill(session, kind, feeds)
            return run(fetches=[*fetches, *kind.losses], feeds=feeds)
        except tf.errors.OpError as error:
            return error

    def _count(self) -> None:
        """Count a train call, and commit where that is due."""
        self.step += 1
        if self.step % self._log_every == 0 and self._metrics:
            self._run.record(self.step, self._metrics)
            self._metrics = {}
        is_last = self._last_step is not None and self.step >= self._last_step
        if is_last or self.signum or self.step % self._every == 0:
            self._commit()
        if is_last or self.signum:
            self._is_over, self.is_at_end = True, is_last
            if self.signum == signal.SIGINT:
                raise KeyboardInterrupt
            raise EndOfRun(0)

    def _note_metrics(self, kind: Kind, values: List[Any], losses: List[Any]) -> None:
        metrics = scalars_of(values, kind)
        named = {loss.op.name: float(value) for loss, value in zip(kind.losses, losses)}
        if kind.trains:
            judged = named or metrics  # a precision, say, may be 0/0 in a batch
            for name, value in judged.items():
                if not np.isfinite(value):
                    raise self._diverged(self.step + 1, f"{name} is {value}")
        if kind.trains or kind.summaries:
            values_by_name = {**named, **metrics}.items()
            self._metrics.update({n: value for n, value in values_by_name if np.isfinite(value)})

    def _diverged(self, step: int, what: str) -> DivergedError:
        """The error of a train call, whose last good state a resume can make again."""
        before = f"'toolkit resume {self._run.argument} --steps {step - 1}' trains up to the call "
        return DivergedError(
            f"Training diverged in train call {step}: {what}.",
            hint=f"Step {self._run.step} is kept"
            + (f"; {before}before, and ends there" if step - 1 > self._run.step else "")
            + ". Try a lower rate in the script.",
        )

    def _warn(self, kind: Kind) -> None:
        """Say once for each name why a resume may not have the bits of an undisturbed run."""
        reasons = dict.fromkeys(
            kind.noise, "draws random numbers by an op without a stateless form"
        )
        reasons.update(dict.fromkeys(kind.unordered, "is updated twice in a call without an order"))
        for name, reason in reasons.items():
            if name not in self._warned:
                self._warned.add(name)
                self._run.warn(f"'{name}' {reason}: a resume may have other bits")

    # -------------------------------------------------------------------------------- commit, back

    def _commit(self) -> None:
        tensors, self._closed = self._closed, {}
        for number, session in self._sessions.open().items():
            tensors.update(self._read(number, session))
            for variable in session.graph.get_collection("trainable_variables"):
                value = tensors.get(_start(number) + variable.op.name, np.zeros(0))
                if value.dtype.kind == "f" and not np.isfinite(value).all():
                    raise self._diverged(self.step, f"'{variable.op.name}' is not finite")
        graph, start = self._trained
        if graph.version != self._graph_version:
            self._graph_version = graph.version
            self._run.write_file(GRAPH, graph.as_graph_def().SerializeToString())
        values = {
            "calls": self._number,
            "graph": start,
            "metrics": self._metrics,
            "generators": digest_of_generators(),
            "sources": self._hash_sources(
                [self._script, *(sys.modules[n].__file__ for n in own_modules(self._script))]
            ),
        }
        self._sessions.unobserved(self._run.commit, self.step, tensors, values)

    def _keep(self, number: int, session: Any) -> None:
        """Keep what was trained since the last commit, before the session is closed."""
        if self._replay is None and not self._is_over and self.step > self._run.step:
            self._closed.update(self._read(number, session))

    def _read(self, number: int, session: Any) -> Dict[str, np.ndarray]:
        """The variables of a session under the names of the checkpoint."""
        start = _start(number)
        values = read_values(self._runner(session), find_places(session.graph))
        return {start + name: value for name, value in values.items()}

    def _end_replay(self) -> None:
        """Put the variables back where the journal ends."""
        assert self._replay is not None and self._run.restart is not None
        if self._replay.tell() < self._replay_end:
            return
        self._replay.close()
        self._replay, restart = None, self._run.restart
        if digest_of_generators() != restart.values["generators"]:
            raise mismatch(
                self._number, "Python", "the state of its random numbers is not the run's"
            )
        self._metrics = dict(restart.values["metrics"])
        tensors = dict(restart.tensors)
        for number, session in reversed(list(self._sessions.open().items())):
            start = _start(number)
            names = [name for name in tensors if name.startswith(start)]
            values = {name[len(start) :]: tensors.pop(name) for name in names}
            write_values(self._runner(session), find_places(session.graph), values)
        self._run.console.log(f"resume at step {self.step}")

    def _move_resources(self, session, kind: Kind, feeds: Any, run: Any, has_failed: bool) -> None:
        """Let iterators, queues and tables do what they did in a call that is answered."""
        if kind.resources:
            try:
                self._queues.fill(session, kind, feeds)
                run(targets=kind.resources, fetches=[], feeds=feeds)
            except tf.errors.OpError as error:
                if not has_failed:
                    what = f"its data failed ({str(error.message).splitlines()[0]})"
                    raise mismatch(self._number, kind.title, what) from error

    def _start_of(self, session: Any) -> str:
        return next(_start(n) for n, each in self._sessions.open().items() if each is session)

    def _runner(self, session: Any) -> Callable[..., List[Any]]:
        return lambda targets, fetches, feeds: self._sessions.run(session, targets, fetches, feeds)

    def _hash_sources(self, paths: List[Any]) -> Dict[str, str]:
        return {path: hash_file(path) for path in sorted(paths)}


def _start(number: int) -> str:
    """With what the names of a session's variables start in a checkpoint."""
    return f"session-{number}/" if number else ""


def hash_file(path: str) -> str:
    """The SHA-256 of a file, 64 hex digits."""
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()
