"""Drive: the script makes the calls, and the core commits what they trained; `train` is one
session of a run, however the script ends.

Each call of a session is answered in one of two ways. While the journal has more, the script is
coming back to where a commit was: it is given what the run gave it, and nothing is computed but
what moves iterators and tables. Then the variables are put back, and from there on each call is
computed, journaled and, if it trains, counted: the first and every so many train calls are a
commit.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import signal
import sys
import traceback
from typing import IO, Any, Callable, Dict, List, Optional, Sequence, Set

import numpy as np

from toolkit import DivergedError, DrivenRun, InterruptedRun, ToolkitError, UsageError, tf

from .calls import SUMMARIES, Kind, scalars_of
from .inference import GRAPH
from .journal import Mismatch, Recorder
from .observations import digest_of_generators, keep_folders
from .patches import Patches
from .script import Observer
from .variables import read_values, write_values

_NOTICE = b"\nInterrupted: the next train call is the last; a second signal ends at once.\n"
_MOST_ENDS = 10  # that a script may catch, such as in the rest of a loop of train calls
Show = Callable[[Dict[str, Any]], None]  # of the summary of a run
HANDLE = "IteratorToStringHandle"  # the type of the op that tells how a feed names an iterator


def train(
    run: DrivenRun, argv: List[str], show: Show, allow: Sequence[str] = (), pause_at: int = 0
) -> None:
    """Train a run to its end, or up to the train call `pause_at` if it is not 0; show the summary.

    With "script" in `allow`, the contents of the script's files may differ. Raises InterruptedRun
    after Ctrl-C or SIGTERM, when the last train call is committed, DivergedError if a loss is not
    finite, and ToolkitError if the script failed or cannot be driven.
    """
    with run:
        sources = {**run.sources_before(), **(run.restart.values["sources"] if run.restart else {})}
        for path, sha256 in sorted(sources.items()):
            if not os.path.isfile(path):
                raise UsageError(f"{path}, which the run executes, is gone.", hint="Put it back.")
            if _hash_file(path) != sha256 and "script" not in allow:
                raise UsageError(
                    f"{path} has changed since the run began.",
                    hint="Put it back, start a new run, or allow the change: --allow script",
                )
        run.require_trust(run.settings["script"], is_chosen="script" in allow)
        drive = Drive(run, argv, show, pause_at)
        drive.finish(drive.run_to_end())


class Drive(Observer):
    """One session of an opened run, which begins with `install`."""

    def __init__(self, run: DrivenRun, argv: List[str], show: Show, pause_at: int = 0):
        settings = run.settings
        super().__init__(settings)
        # The number of train calls so far; the signal that asked for the end, 0 without one.
        self.step, self._signum = 0, 0
        self._run, self._argv, self._show, self._pause_at = run, argv, show, pause_at
        self._streams = sys.stdout, sys.stderr  # of the command, whatever the script has there
        ends = [step for step in (settings["steps"], pause_at) if step]
        self._last_step: Optional[int] = min(ends) if ends else None
        self._num_ends = 0  # how often the script was told that the run is over
        self._replay: Optional[IO[bytes]] = None
        self._metrics: Dict[str, float] = {}
        self._warned: Set[str] = set()
        self._recorder = Recorder(run.journal.append, settings["journal_limit"], run.warn)
        self._closed: Dict[str, np.ndarray] = {}  # variables of sessions since the last commit
        self._handles: Dict[bytes, bytes] = {}  # of iterators -> what the journal has for them
        self._trained: Any = None  # the graph of the last train call, and the start of its names
        self._graph_version = -1  # of the graph in the folder

    def install(self, patches: Patches) -> None:
        """Begin the session of the run, and patch what the script calls."""
        run, script = self._run, self.settings["script"]
        hashes = {script: _hash_file(script)}
        changes = run.begin_session(hashes, self._argv, self._last_step or 0)
        if changes:
            run.console.log(f"note   no longer bit-exact: {'; '.join(changes)}")
        if run.restart is not None:
            self._replay = run.journal.open()
            keep_folders(patches, self.folders)
            run.console.log(
                f"resume from step {run.restart.step}: {run.restart.values['calls']} calls are "
                "answered from the journal"
            )
        super().install(patches)

    def interrupt(self, signum: int, frame: Any) -> None:
        """End after the next train call, which is committed; a second signal ends at once."""
        signal.signal(signum, signal.SIG_DFL)
        if os.getpid() != self._process:  # of a worker that the script forked
            os.kill(os.getpid(), signum)
        self._signum = signum
        with contextlib.suppress(OSError):  # the terminal may be gone
            os.write(2, _NOTICE)  # past the buffers, which the handler may have interrupted

    def run_to_end(self) -> Optional[ToolkitError]:
        """Run the script; return the error with which it ended, None without one."""
        name = os.path.basename(self.settings["script"])
        handlers = {s: signal.signal(s, self.interrupt) for s in (signal.SIGINT, signal.SIGTERM)}
        try:
            self.run_script()
        except SystemExit as end:
            if end.code not in (None, 0) and not self.is_over:  # as click does after Ctrl-C
                return ToolkitError(f"{name} ended with exit code {end.code}.")
        except KeyboardInterrupt:
            if not self._signum:
                return ToolkitError(f"{name} raised KeyboardInterrupt.")
        except ToolkitError as refusal:  # ours, not the script's
            return refusal
        except BaseException as fault:
            return self.failure or self._describe(fault)
        finally:
            for signum, handler in handlers.items():
                signal.signal(signum, handler)
        return None

    def finish(self, error: Optional[ToolkitError]) -> None:
        """Commit what is left, write how the run ended, and show it; raise the error, if any."""
        run = self._run
        try:
            error = self.failure or error
            if error is None and self._replay is not None:
                what = "the script has ended, and the run made further calls"
                error = Mismatch(self.number + 1, "none", what)
            if error is not None:
                raise error
            if not self.is_over and self.step > run.step:
                self._commit()
            if not self.step:
                run.warn("the script made no train call, so there is nothing to continue")
            if self._signum:
                raise InterruptedRun("", signum=self._signum)
        except ToolkitError as failure:
            run.fail(failure)
            raise
        reason = f"{os.path.basename(self.settings['script'])} ended"
        is_paused = bool(self._pause_at) and self.step >= self._pause_at
        if self._is_at_end:
            reason = f"{'paused at' if is_paused else 'reached'} step {self.step}"
        self._show(run.finish(reason, not is_paused))

    def _leave(self) -> None:
        """End the process as the command would: all is committed, and the script goes on for ever.

        No exception gets out of a `while True` with a bare `except` in it.
        """
        self.has_ended = True
        sys.stdout, sys.stderr = self._streams
        code = 0
        try:
            self.finish(None)
        except ToolkitError as error:
            code = error.exit_code
            sys.stderr.write(f"{'' if self._signum else 'Error: '}{error}\n")
        self._run.__exit__()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)

    def _describe(self, fault: BaseException) -> ToolkitError:
        """The error of a script that failed, whose own traceback is shown."""
        path, run = self.settings["script"], self._run
        frames = traceback.extract_tb(fault.__traceback__)
        own = [place for place, frame in enumerate(frames) if frame.filename == path]
        shown = frames[own[0] :] if own else frames
        lines = traceback.format_list(shown) + traceback.format_exception_only(type(fault), fault)
        sys.stderr.write("Traceback (most recent call last):\n" + "".join(lines))
        line = f" (line {shown[0].lineno})" if own else ""
        hint = (
            f"Correct the cause; go on from train call {run.step} with: toolkit resume "
            f"{run.argument} --allow script."
        )
        if self._replay is not None:
            hint += " What it wrote into files before may be in its way here: move that."
        error = ToolkitError(
            f"{os.path.basename(path)} failed: {type(fault).__name__}: {reason_of(fault)}{line}.",
            hint=hint,
        )
        error.__cause__ = fault
        return error

    def see(self, name: str, read: Callable[[], Any]) -> Any:
        if self.is_over:
            return read()
        if self._replay is not None:
            value = self._recorder.read_observation(self._replay, self.number, name)
            self._end_replay()
            return value
        value = read()
        self._recorder.write_observation(self.number, name, value)
        return value

    # ------------------------------------------------------------------------------------- a call

    def answer(self, session, targets, fetches, feeds, run) -> List[Any]:
        if self.failure is not None:  # which the script has caught
            self._count_end()
            raise self.failure
        kind, run = self.prepare(session, targets, fetches, feeds, run)
        if self.is_over:  # such as a call in a `finally` of the script
            if kind.trains:  # it has caught the end
                self._count_end()
                raise SystemExit(0)
            return list(run())
        arrays = list(feeds.values())
        for place, value in enumerate(arrays if self._handles else ()):
            if value.dtype == object and not value.shape:  # perhaps a handle
                arrays[place] = np.array(self._handles.get(value.item(), value), object)
        values = self._answer_next(session, kind, fetches, arrays, run)
        if isinstance(values, Exception):
            raise values
        return values

    def _count_end(self) -> None:
        self._num_ends += 1
        if self._num_ends > _MOST_ENDS:
            self._leave()

    def _answer_next(self, session, kind: Kind, fetches, arrays, run) -> Any:
        """The values of the fetches, or the error of TensorFlow, from the journal or computed."""
        for name in kind.noise:
            if name not in self._warned:
                self._warned.add(name)
                what = "draws random numbers by an op without a stateless form"
                self._run.warn(f"'{name}' {what}: a resume may have other bits")
        if self._replay is not None:
            values = self._recorder.read(self._replay, self.number, kind, arrays)
            self._move_resources(kind, fetches, values, run)
            self.step += kind.trains and not isinstance(values, Exception)
            self._end_replay()
            return values
        if kind.trains and not self.step:
            self.unobserved(self._run.assign_initial_weights, session)
        try:
            found = run(fetches=[*fetches, *kind.losses])
        except tf.errors.OpError as error:
            self._recorder.write(self.number, kind, arrays, error)
            return error
        values, losses = found[: len(fetches)], found[len(fetches) :]
        self._recorder.write(self.number, kind, arrays, values)
        self._note_metrics(kind, fetches, values, losses)
        if kind.trains:
            self._trained = session.graph, self._start(session)
            self._count()
        return values

    @property
    def _is_at_end(self) -> bool:
        """Whether the last train call that is to be made is made."""
        return self._last_step is not None and self.step >= self._last_step

    def _count(self) -> None:
        """Count a train call, and commit where that is due."""
        self.step += 1
        if self.step % self.settings["log_steps"] == 0 and self._metrics:
            self._run.record(self.step, self._metrics)
            self._metrics = {}
        is_last = self._is_at_end or bool(self._signum)
        # The first is one, too: a script that begins anew would find what it has saved itself.
        if is_last or self.step % self.settings["commit_steps"] == 0 or self.step == 1:
            self._commit()
        if is_last:
            self.is_over = True
            raise KeyboardInterrupt if self._signum == signal.SIGINT else SystemExit(0)

    def _note_metrics(self, kind: Kind, fetches, values: List[Any], losses: List[Any]) -> None:
        metrics = scalars_of(fetches, values)
        named = {loss.op.name: float(value) for loss, value in zip(kind.losses, losses)}
        for name, value in (named or metrics).items() if kind.trains else ():
            if not np.isfinite(value):  # a precision beside a loss may be 0/0 in a batch
                raise self._diverged(self.step + 1, f"{name} is {value}")
        if kind.trains or any(tensor.op.type in SUMMARIES for tensor in fetches):
            metrics = {**named, **metrics}
            self._metrics.update({n: value for n, value in metrics.items() if np.isfinite(value)})

    def _diverged(self, step: int, what: str) -> DivergedError:
        """The error of a train call, whose last good state a resume can make again."""
        before = f"'toolkit resume {self._run.argument} --steps {step - 1}' trains up to the call "
        return DivergedError(
            f"Training diverged in train call {step}: {what}.",
            hint=f"Step {self._run.step} is kept"
            + (f"; {before}before, and ends there" if step - 1 > self._run.step else "")
            + ". Try a lower rate in the script.",
        )

    # -------------------------------------------------------------------------------- commit, back

    def _commit(self) -> None:
        tensors, self._closed = self._closed, {}
        for session in self.open:
            tensors.update(self._read(session))
            for variable in session.graph.get_collection("trainable_variables"):
                value = tensors.get(self._start(session) + variable.op.name, np.zeros(0))
                if value.dtype.kind == "f" and not np.isfinite(value).all():
                    raise self._diverged(self.step, f"'{variable.op.name}' is not finite")
        graph, start = self._trained
        if graph.version != self._graph_version:
            self._graph_version = graph.version
            self._run.write_file(GRAPH, graph.as_graph_def().SerializeToString())
        sources = sorted([self.settings["script"], *self.own_modules().values()])
        values = {
            "calls": self.number,
            "graph": start,
            "metrics": self._metrics,
            "generators": digest_of_generators(),
            "sources": {path: _hash_file(path) for path in sources},
        }
        self.unobserved(self._run.commit, self.step, tensors, values)

    def close(self, session: Any) -> None:
        """Keep what was trained since the last commit, before the session is closed."""
        if self._replay is None and not self.is_over and self.step > self._run.step:
            self._closed.update(self._read(session))

    def _read(self, session: Any) -> Dict[str, np.ndarray]:
        """The variables of a session under the names of the checkpoint."""
        values, start = read_values(self.run_session, session), self._start(session)
        return {start + name: value for name, value in values.items()}

    def _start(self, session: Any) -> str:
        """With what the names of a session's variables start in a checkpoint."""
        number = self.open[session]
        return f"session-{number}/" if number else ""

    def _end_replay(self) -> None:
        """Put the variables back where the journal ends."""
        restart, replay = self._run.restart, self._replay
        assert replay is not None and restart is not None
        if replay.tell() < os.path.getsize(self._run.journal.path):
            return
        replay.close()
        self._replay = None
        if digest_of_generators() != restart.values["generators"]:
            what = "the state of its random numbers is not the run's"
            raise Mismatch(self.number, "Python", what)
        self._metrics = dict(restart.values["metrics"])
        tensors = dict(restart.tensors)
        for session in reversed(list(self.open)):
            start = self._start(session)
            is_of = re.compile(re.escape(start) or r"(?!session-\d+/)")
            names = list(filter(is_of.match, tensors))
            values = {name[len(start) :]: tensors.pop(name) for name in names}
            write_values(self.run_session, session, values)
        self._run.console.log(f"resume at step {self.step}")
        if self._is_at_end:  # killed after its last commit
            self.is_over = True
            raise SystemExit(0)

    def _move_resources(self, kind: Kind, fetches, values: Any, run) -> None:
        """Let iterators, queues and tables do what they did in a call that is answered.

        A handle by which the call knows an iterator is that of this process: it replaces the one
        among the values.
        """
        handles = {k: each for k, each in enumerate(fetches) if each.op.type == HANDLE}
        if not kind.resources and not handles:
            return
        try:
            found = run(targets=kind.resources, fetches=list(handles.values()))
        except tf.errors.OpError as error:
            if isinstance(values, Exception):
                return
            what = f"its data failed ({reason_of(error)})"
            raise Mismatch(self.number, kind.title, what) from error
        if isinstance(values, Exception):
            return
        for place, handle in zip(handles, found):  # the first that the journal has names it
            self._handles.setdefault(handle, values[place])
            values[place] = handle


def reason_of(error: BaseException) -> str:
    """The first line of what an error says; 2.x begins with a title and where the op was made."""
    return re.sub(r"(?s)^Graph execution error:.*?\nNode: .*?\n", "", str(error)).partition("\n")[0]


def _hash_file(path: str) -> str:
    """The SHA-256 of a file, 64 hex digits."""
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()
