"""The channel of a job: the chief commands, the others obey, and all learn at once how it ends.

TensorFlow's runtime carries gradients and variables. The channel, a TCP connection of the chief
with each other process, carries what to do next, the signs of life, and the end of the job. A
process that dies ends all others: TensorFlow 1.15 would wait for it for ever.

A thread per connection receives, one more sends the beats (`watch.py`), so that neither the work of
the main thread nor a large payload delays them. No thread keeps the process alive.
"""

from __future__ import annotations

import math
import os
import threading
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterable, List, Optional, Tuple, Union

from ..errors import InterruptedRun, RetryError, ToolkitError, UsageError
from .clock import Clock
from .frames import Connection, Frame, Kind, encode_frame
from .handshake import (
    Connector,
    Listener,
    Refusal,
    describe,
    describe_chief,
    listen_error,
    start_thread,
)
from .peer import Peer
from .waiting import Notices, list_tasks, missing_error, no_start_error
from .watch import ENDING_SECS, GRACE_SECS, Watch

if TYPE_CHECKING:
    from .tasks import Cluster, Task

_RESTART_SECS = 5.0  # in which a job ends that has lost a process, and the next one may begin
_LATE_SECS = 8.0  # between the starts of two processes of a job, at most, mostly
_LASTING = range(1, 7)  # exit codes of mistakes, not of faults and signals
_FAREWELL_SECS = 1.0  # for the others to read how the job ended


class PeerError(RetryError):
    """Another process was lost or failed, so the job has ended.

    Args:
        message: which process and why, one sentence.
        hint: one sentence.
        exit_code: of all processes: 138 if one was lost, else that of the one that failed.
    """

    def __init__(self, message: str, hint: str = "", exit_code: int = RetryError.exit_code):
        super().__init__(message, hint)
        self.exit_code = exit_code


class JobEnded(ToolkitError):
    """The chief has ended the job.

    Args:
        message: what the chief said about it, may be empty.
        exit_code: of all processes.
    """

    def __init__(self, message: str = "", exit_code: int = 0):
        super().__init__(message)
        self.exit_code = exit_code


class Channel:
    """The connections of this process with the others of its job.

    The chief listens, the others connect to it, both in a thread: the constructor does not block.
    All methods are for the main thread. Those that block raise PeerError when another process is
    lost or fails, and JobEnded when the chief has ended the job. A process that does not call one
    of them for `GRACE_SECS` after that, or does not close the channel for `ENDING_SECS` more, is
    ended by `leave`.

    Args:
        cluster: the tasks and the settings of this process.
        log: gets lines for people.
        leave: ends this process with an exit code.
        clock: the time.
    """

    def __init__(
        self,
        cluster: Cluster,
        log: Callable[[str], None],
        leave: Callable[[int], None] = os._exit,
        clock: Optional[Clock] = None,
    ):
        self._clock = clock = clock or Clock()
        self._cluster, self._log = cluster, _make_safe(log)
        self._peers: Dict[Task, Peer] = {}
        self._followers: List[Peer] = []  # by rank, once all have joined
        self._changed = threading.Condition()  # guards what `join` waits for, and the end
        self._notices = Notices(cluster.settings.join_secs, clock)
        self._is_joining = False  # the chief
        self._is_started = False
        self._has_announced = False  # for whom it waits
        self._waiting_text = ""  # from the chief, for whom it waits
        self._awaits_replies = False  # the chief
        self._owes_reply = False  # a follower
        self._error: Optional[ToolkitError] = None  # how the job ended
        self._failure: Dict[str, Any] = {}  # the same for the others
        self._has_ended = threading.Event()  # and the others know it
        self._is_noticed = False  # by the main thread
        self._is_closed = False
        peer_secs = cluster.settings.peer_secs
        self._watch = Watch(
            lambda: self._peers.values(), peer_secs, self._lose, self._log, leave, clock
        )
        arguments = cluster, self._log, self._admit, self._end, clock
        entrance = Listener if cluster.is_chief else Connector
        self._entrance: Union[Listener, Connector] = entrance(*arguments)
        self._entrance.start()
        self._watch.start()

    # ------------------------------------------------------------------------------------ the start

    def join(self, hello: Dict[str, Any]) -> Dict[Task, Dict[str, Any]]:
        """Wait until all processes have joined.

        Args:
            hello: what this process says about itself; JSON.

        Returns:
            The hellos of all others if this is the chief, else {}.

        Raises:
            RetryError: one has not joined within the time; names it.
            PeerError: one was lost or has failed.
        """
        self._notices = Notices(self._cluster.settings.join_secs, self._clock)
        try:
            return self._join_as_chief() if self._cluster.is_chief else self._join(hello)
        except KeyboardInterrupt:
            self.fail(InterruptedRun("Interrupted before the start."))
            raise

    def _join_as_chief(self) -> Dict[Task, Dict[str, Any]]:
        self._is_joining = True
        self._tell_waiting(list(self._peers.values()))
        if not self._wait_for_start(lambda: not self._missing_tasks(), self._announce_missing):
            self._end(self._join_error())
        self._raise_end()
        trainers = [task for task in self._cluster.trainers if task != self._cluster.task]
        self._followers = [self._peers[task] for task in trainers]
        self._is_started = True
        start = encode_frame(Kind.START, {})
        for peer in list(self._peers.values()):
            self._send(peer, start)
        return {task: peer.hello or {} for task, peer in self._peers.items()}

    def _join_error(self) -> RetryError:
        """The error of the chief at the end of the time."""
        assert isinstance(self._entrance, Listener)
        if self._entrance.problem:  # nobody could join
            return listen_error(self._cluster, self._entrance.problem)
        missing, peers = self._missing_tasks(), list(self._peers)
        return missing_error(self._cluster, missing, peers, self._entrance.strangers)

    def _join(self, hello: Dict[str, Any]) -> Dict[Task, Dict[str, Any]]:
        ready = encode_frame(Kind.READY, hello)
        chief = self._cluster.chief
        is_complete = self._wait_for_start(lambda: chief in self._peers, self._announce_reason)
        if is_complete and self._error is None:
            self._send(self._peers[chief], ready)
            is_complete = self._wait_for_start(lambda: self._is_started, self._announce_reason)
        if not is_complete:
            error = no_start_error(self._cluster, self._waiting_reason())
            self._end(error, text=_blame(self._cluster, error))
        self._raise_end()
        return {}

    def _wait_for_start(self, is_over: Callable[[], bool], announce: Callable[[], None]) -> bool:
        """Wait for a condition or the end of the job. Returns False at the end of the time.

        A process for which the chief waits, or which waits with the chief, leaves the end to it.
        """
        with self._changed:
            while self._error is None and not is_over():
                if self._notices.is_late and not self._waiting_text:
                    return False
                if self._notices.is_due():
                    announce()
                self._clock.wait(self._changed, self._notices.next_secs)
        return True

    def _missing_tasks(self) -> List[Task]:
        tasks = [task for task in self._cluster.tasks if task != self._cluster.task]
        return [
            task for task in tasks if task not in self._peers or self._peers[task].hello is None
        ]

    def _announce_missing(self) -> None:
        self._announce(f"waiting for {list_tasks(self._missing_tasks())}")
        self._tell_waiting(list(self._peers.values()))

    def _tell_waiting(self, peers: List[Peer]) -> None:
        self._tell(peers, Kind.WAITING, {"text": list_tasks(self._missing_tasks())})

    def _announce_reason(self) -> None:
        self._announce(self._waiting_reason())

    def _announce(self, text: str) -> None:
        """Log for whom this process waits, the first time with where the cluster is defined."""
        if self._cluster.source and not self._has_announced:
            text = f"{text}; the cluster is from {self._cluster.source}"
        self._has_announced = True
        self._log(text)

    def _waiting_reason(self) -> str:
        chief = describe(self._cluster.chief)
        if self._waiting_text:
            return f"{chief} waits for {self._waiting_text}"
        if self._peers:
            return f"waiting for {chief}, which runs but is not ready"
        return f"waiting for {describe_chief(self._cluster)}: {self._entrance.problem}"

    def _admit(self, task: Task, connection: Connection) -> None:
        """Take a new connection of a process of the cluster, or raise Refusal."""
        peer = Peer(task, connection)
        with self._changed:
            if self._is_closed or (self._error and not self._is_refused_start):
                raise Refusal("the last job is about to end", retry_secs=math.inf)
            if task in self._peers:  # which may have died a moment ago
                secs = self._cluster.settings.peer_secs + _RESTART_SECS
                raise Refusal(f"Another process is {describe(task)} already.", retry_secs=secs)
            if self._cluster.is_chief:
                connection.send(encode_frame(Kind.WELCOME, {}))
            self._peers[task] = peer
            if self._error is not None:  # before `_finish` learns that this process has come
                self._spread(self._error, [peer])
            self._changed.notify_all()
        start_thread(peer.read, f"channel {task.name}", self._handle, self._lose)

    @property
    def _is_refused_start(self) -> bool:
        """Whether the job ended before its start, and another attempt would end alike."""
        return (
            not self._is_started and self._error is not None and self._error.exit_code in _LASTING
        )

    # ------------------------------------------------------------------------------------- messages

    def command(self, message: Dict[str, Any], payload: bytes = b"") -> None:
        """Send a command from the chief to every follower.

        Args:
            message: JSON.
            payload: bytes of any number.
        """
        self._raise_end()
        if self._awaits_replies:
            raise RuntimeError("The last command has no replies yet.")
        start = encode_frame(Kind.COMMAND, message, len(payload))
        self._awaits_replies = True
        for peer in self._followers:
            peer.owes_reply = True
            if peer.has_left:
                self._lose(peer, "is gone")
                self._raise_end()
            self._send(peer, start, payload)

    def replies(self) -> List[Dict[str, Any]]:
        """Wait for the replies to the last command, one of each follower, by rank."""
        if not self._awaits_replies:
            self._raise_end()
            raise RuntimeError("There is no command that awaits replies.")
        messages = [self._next_frame(peer).header for peer in self._followers]
        self._awaits_replies = False
        return messages

    def receive(self) -> Tuple[Dict[str, Any], bytes]:
        """Wait for the next command of the chief."""
        frame = self._next_frame(self._peers[self._cluster.chief])
        self._owes_reply = True
        return frame.header, frame.payload

    def reply(self, message: Dict[str, Any]) -> None:
        """Answer the command that `receive` returned last.

        Args:
            message: JSON.
        """
        self._raise_end()
        if not self._owes_reply:
            raise RuntimeError("There is no command that awaits a reply.")
        self._send(self._peers[self._cluster.chief], encode_frame(Kind.REPLY, message))
        self._owes_reply = False

    def notify(self, message: Dict[str, Any]) -> None:
        """Send a message from a parameter server to the chief, who did not ask for one.

        Args:
            message: JSON.
        """
        self._send(self._peers[self._cluster.chief], encode_frame(Kind.REPLY, message))

    def notifications(self) -> List[Tuple[Task, Dict[str, Any]]]:
        """What parameter servers sent to the chief by `notify` since the last call."""
        messages = []
        for task, peer in list(self._peers.items()):
            while task.job == "ps" and not peer.inbox.empty():
                frame = peer.inbox.get()
                if frame is None:
                    peer.inbox.put(None)
                    break
                messages.append((task, frame.header))
        return messages

    def wait(self) -> int:
        """Wait until the chief ends the job. Returns the exit code of all processes."""
        self._has_ended.wait()
        try:
            self._raise_end()
        except JobEnded as end:
            return end.exit_code
        raise AssertionError("the channel was closed in another thread")

    def check(self, secs: float = 0.0) -> None:
        """Raise how the job ended, if it ends within a time.

        An error of TensorFlow's runtime may be the first sign of a process that has died. A caller
        that waits here before it blames itself gives the true reason.

        Args:
            secs: how long to wait.
        """
        if self._clock.wait(self._has_ended, secs):
            self._raise_end()

    def _send(self, peer: Peer, start: bytes, payload: bytes = b"") -> None:
        try:
            peer.connection.send(start, payload)
        except OSError:
            if not self._clock.wait(self._has_ended, 1.0):  # who receives knows why, mostly
                self._lose(peer, "is gone")
            self._raise_end()

    def _next_frame(self, peer: Peer) -> Frame:
        if self._is_closed:
            self._raise_end()
        frame = peer.inbox.get()
        if frame is None or isinstance(self._error, PeerError):
            peer.inbox.put(None)
            self._raise_end()
        assert frame is not None
        return frame

    def _handle(self, peer: Peer, frame: Frame) -> None:
        """Act on a frame, in the thread that receives."""
        kind, header = frame.kind, frame.header
        if kind in (Kind.COMMAND, Kind.REPLY):
            peer.owes_reply = False
            peer.inbox.put(frame)
        elif kind == Kind.FAILURE:
            self._end(_read_failure(header, self._cluster.task), peer)
        elif kind == Kind.END:
            self._end(JobEnded(str(header.get("text", "")), int(header.get("code", 1))), peer)
        elif kind == Kind.BYE:
            peer.has_left = True
            peer.connection.finish_sending()
        else:
            self._note(peer, frame)

    def _note(self, peer: Peer, frame: Frame) -> None:
        with self._changed:
            if frame.kind == Kind.READY:
                peer.hello = frame.header
                if self._is_joining:
                    self._tell_waiting([peer])
            elif frame.kind == Kind.WAITING:
                self._waiting_text = str(frame.header.get("text", ""))
            elif frame.kind == Kind.START:
                self._is_started = True
            self._changed.notify_all()

    # -------------------------------------------------------------------------------------- the end

    def fail(self, error: ToolkitError) -> None:
        """End the job with an error of this process, and close the channel.

        Args:
            error: the others end with its exit code; they report its message.
        """
        self._end(error, text=_blame(self._cluster, error))
        self._finish()

    def close(self, code: int = 0, text: str = "") -> None:
        """Close the channel; the chief ends the job with it.

        Args:
            code: the exit code of all processes.
            text: one sentence for the others.
        """
        if self._cluster.is_chief:
            self._end(JobEnded(text, code))
        elif self._begin_leaving():
            self._tell(self._peers.values(), Kind.BYE, {})
        self._finish()

    def _begin_leaving(self) -> bool:
        """Ignore what arrives from now on; whether the channel was open."""
        with self._changed:
            is_open = self._error is None and not self._is_closed
            self._is_closed = True
            return is_open

    def __enter__(self) -> Channel:
        return self

    def __exit__(self, _: Any, error: Optional[BaseException], traceback: Any) -> None:
        """Close the channel, or `fail` if an exception leaves the block."""
        if error is None or isinstance(error, (JobEnded, SystemExit)):
            self.close()
        elif isinstance(error, ToolkitError):
            self.fail(error)
        elif isinstance(error, KeyboardInterrupt):
            self.fail(InterruptedRun("Interrupted."))
        else:
            self.fail(ToolkitError(f"{type(error).__name__}: {error}"))

    def _finish(self) -> None:
        if self._error is not None:
            self._clock.wait(self._has_ended, _FAREWELL_SECS)  # another thread may still spread it
        self._watch.stop()
        if self._is_refused_start:
            self._wait_for_late_processes()
        with self._changed:
            self._is_closed = True
        self._entrance.close()
        deadline = self._clock.now() + _FAREWELL_SECS
        peers = list(self._peers.values())
        for peer in peers:
            peer.connection.finish_sending()
        for peer in peers:
            secs = max(0.0, deadline - self._clock.now())
            if not self._clock.wait(peer.is_over, secs):
                peer.connection.abort()
        for peer in peers:
            if self._clock.wait(peer.is_over, _FAREWELL_SECS):
                peer.connection.close()

    def _wait_for_late_processes(self) -> None:
        """Let those that connect a little later learn why the job does not start."""
        if isinstance(self._entrance, Connector) and self._entrance.is_refused:
            return
        own = self._cluster
        others = {task for task in own.tasks if task != own.task} if own.is_chief else {own.chief}
        with self._changed:
            deadline = self._clock.now() + _LATE_SECS
            while not others <= self._peers.keys() and self._clock.now() < deadline:
                self._clock.wait(self._changed, deadline - self._clock.now())

    def _lose(self, peer: Peer, reason: str) -> None:
        if self._is_closed or (peer.has_left and not peer.owes_reply):
            return
        reason = "has left the job before its end" if peer.has_left else reason
        hint = "Look at the end of its log."
        self._end(PeerError(f"{describe(peer.task)} {reason}.", hint))

    def _end(
        self, error: ToolkitError, source: Optional[Peer] = None, text: Optional[str] = None
    ) -> None:
        """Record how the job ended, unless it has, and let all know: the others first.

        Args:
            error: what this process raises.
            source: the process that has sent it; None for this one.
            text: for the others, if it is not the message of the error.
        """
        with self._changed:
            if self._error is not None or self._is_closed:
                return
            message = error.message if text is None else text
            self._failure = {"text": message, "hint": error.hint, "code": error.exit_code}
            self._error = error
            self._watch.expect_end(error, GRACE_SECS)
            self._changed.notify_all()
        self._spread(error, list(self._peers.values()), source)
        self._has_ended.set()
        for peer in list(self._peers.values()):
            peer.inbox.put(None)

    def _spread(
        self, error: ToolkitError, peers: List[Peer], source: Optional[Peer] = None
    ) -> None:
        kind = Kind.END if isinstance(error, JobEnded) else Kind.FAILURE
        self._tell([peer for peer in peers if peer is not source], kind, self._failure)
        for peer in peers:
            peer.connection.finish_sending()

    def _tell(self, peers: Iterable[Peer], kind: Kind, header: Dict[str, Any]) -> None:
        """Send a small frame to some, without waiting for one that does not read."""
        frame = encode_frame(kind, header)
        deadline = self._clock.now() + _FAREWELL_SECS
        for peer in list(peers):
            peer.connection.try_send(frame, deadline - self._clock.now())

    def _raise_end(self) -> None:
        """Raise how the job ended, if it has."""
        if self._error is not None:
            self._clock.wait(self._has_ended, _FAREWELL_SECS)
            if not self._is_noticed:
                self._is_noticed = True
                self._watch.expect_end(self._error, ENDING_SECS)
            raise self._error
        if self._is_closed:
            raise RuntimeError("The channel is closed.")


def _make_safe(log: Callable[[str], None]) -> Callable[[str], None]:
    """Let a closed or full stderr not end the threads of the channel."""

    def log_safely(text: str) -> None:
        try:
            log(text)
        except (OSError, ValueError):
            pass

    return log_safely


def _blame(cluster: Cluster, error: ToolkitError) -> str:
    """The message of an error of this process, for the others."""
    if isinstance(error, PeerError):  # it says itself whose error it is
        return error.message
    name = cluster.task.name
    if cluster.is_chief and error.exit_code == UsageError.exit_code:  # perhaps another's mistake
        return f"{name if name == 'chief' else f'{name} (the chief)'} refused: {error.message}"
    verb = "ended" if isinstance(error, InterruptedRun) else "failed"
    return f"{name} {verb}: {error.message}"


def _read_failure(header: Dict[str, Any], task: Task) -> PeerError:
    text = str(header.get("text", ""))
    if text.startswith(f"{describe(task)} has not answered"):
        text = f"The job has ended without this process: {text}"
    return PeerError(text, str(header.get("hint", "")), int(header.get("code", 1)))
