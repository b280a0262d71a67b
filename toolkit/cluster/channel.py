"""The channel of a job: the chief commands, the others obey, and all learn at once how it ends.

TensorFlow's runtime carries gradients and variables. The channel, a TCP connection of the chief
with each other process, carries what to do next, the signs of life, and the end of the job. A
process that dies ends all others: TensorFlow 1.15 would wait for it for ever.

A loop of asyncio in one thread makes all connections, sends a beat each second, and receives. So
neither the work of the main thread nor a large payload delays a sign of life. The main thread waits
at a condition for what the loop has received. The thread does not keep the process alive.
"""

from __future__ import annotations

import asyncio
import errno
import json
import math
import os
import socket
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterable, List, NoReturn, Optional, Tuple

from ..errors import InterruptedRun, RetryError, ToolkitError, UsageError
from .meeting import (
    Refusal,
    check_identity,
    describe,
    describe_chief,
    explain,
    identify,
    list_tasks,
    listen_error,
    missing_error,
    no_start_error,
    show_address,
    show_error,
)
from .signals import INTERRUPTED
from .wire import MAX_FIRST_TEXT, PIECE, Message, Peer, WireError

if TYPE_CHECKING:
    from .tasks import Cluster, Task

GRACE_SECS = 2.0  # for the main thread to notice that the job has ended
ENDING_SECS = 3.0  # for it to close the channel after that
BIND_SECS = 15.0  # as long as the processes of a job that ended may hold the port
_ANSWER_SECS = 5.0  # for the first messages of the other side
_RESTART_SECS = 5.0  # in which a job ends that has lost a process, and the next one may begin
_BACKLOG = 1024  # connections
_LATE_SECS = 8.0  # between the starts of two processes of a job, at most, mostly
_FAREWELL_SECS = 1.0  # for the others to read how the job ended; stdout may be a full pipe
_FIRST_NOTICE_SECS, _NOTICE_SECS = 10.0, 30.0  # until a process that waits says for whom
_LASTING = range(7)  # exit codes of success and of mistakes, not of faults and signals
_FAULTS = (WireError, OSError, EOFError, asyncio.TimeoutError)  # of a connection


class PeerError(RetryError):
    """Another process was lost or failed, so the job has ended. The exit code is that of all
    processes: 138 if one was lost, else that of the one that failed.
    """

    def __init__(self, message: str, hint: str = "", exit_code: int = RetryError.exit_code):
        super().__init__(message, hint)
        self.exit_code = exit_code


class JobEnded(ToolkitError):
    """The chief has ended the job, with an exit code for all processes and perhaps a sentence."""

    def __init__(self, message: str = "", exit_code: int = 0):
        super().__init__(message)
        self.exit_code = exit_code


class Clock:
    """The time by which a channel waits and judges silence. Tests have one that they move."""

    def now(self) -> float:
        """The time in seconds."""
        return time.monotonic()

    def wait(self, happening: threading.Condition, secs: float) -> bool:
        """Wait until something happens; False if it does not within a time."""
        return happening.wait(secs)

    async def sleep(self, secs: float) -> None:
        """Let a time pass, between two looks at the others."""
        await asyncio.sleep(secs)


class Channel:
    """The connections of this process with the others of its job.

    The chief listens, the others connect to it: the constructor does not block. All methods are for
    the main thread. Those that block raise PeerError when another process is lost or fails, and
    JobEnded when the chief has ended the job. A process that does not call one of them for
    `GRACE_SECS` after that, or does not close the channel for `ENDING_SECS` more, is ended by
    `leave` with an exit code. `log` gets lines for people.
    """

    def __init__(
        self,
        cluster: Cluster,
        log: Callable[[str], None],
        leave: Callable[[int], None] = os._exit,
        clock: Optional[Clock] = None,
    ):
        self._clock = clock or Clock()
        self._cluster, self._leave, self._peer_secs = cluster, leave, cluster.settings.peer_secs
        self._log_line = log
        self.problem = "it was not tried yet"  # why it does not listen, or is not connected, yet
        self._strangers: List[str] = []  # the hosts of connections that were dropped
        self._changed = threading.Condition()  # guards what follows
        self._peers: Dict[Task, Peer] = {}
        self._followers: List[Peer] = []  # by rank, once all have joined
        self._is_started = self._is_refused = False
        self._error: Optional[ToolkitError] = None  # how the job ended
        self._failure: Dict[str, Any] = {}  # the same for the others
        self._is_noticed = self._is_watched = self._is_closed = False
        self._deadline = math.inf  # at which this process is ended
        self._last_look = self._clock.now()
        self._loop = asyncio.new_event_loop()
        self._is_over: asyncio.Future[None] = self._loop.create_future()
        self._server: Optional[asyncio.AbstractServer] = None
        self._thread = threading.Thread(target=self._run_loop, name="channel", daemon=True)
        self._thread.start()

    # ------------------------------------------------------------------------------------ the start

    def join(self, hello: Dict[str, Any]) -> Dict[Task, Dict[str, Any]]:
        """Wait until all processes have joined, which `hello` introduces in JSON; return the hellos
        of all others if this is the chief, else {}.

        Raises RetryError if one has not joined within the time, PeerError if one was lost or has
        failed.
        """
        is_chief, chief = self._cluster.is_chief, self._cluster.chief
        try:
            if not self._wait_for_start(
                lambda: not self._missing_tasks() if is_chief else chief in self._peers
            ):
                error = no_start_error(self._cluster, self._describe_wait())
                if is_chief:
                    peers = list(self._peers)
                    error = missing_error(self._cluster, self._missing_tasks(), peers)
                self._call(self._end, error)
            self._raise_end()
            if not is_chief:
                self._call(self._peers[chief].send, "ready", hello)
                self._wait_for_start(lambda: self._is_started)
                self._raise_end()
                return {}
        except KeyboardInterrupt:
            self.fail(InterruptedRun("Interrupted before the start."))
            raise
        trainers = [task for task in self._cluster.trainers if task != self._cluster.task]
        self._followers = [self._peers[task] for task in trainers]
        self._is_started = True
        self._call(self._tell, list(self._peers.values()), "start")
        return {task: peer.hello or {} for task, peer in self._peers.items()}

    def dismiss(self, text: str) -> None:
        """End a job before its start, once all have come, or the time is over, with a sentence."""
        self._wait_for_start(lambda: not self._missing_tasks())
        self.close(text=text)

    def _wait_for_start(self, is_over: Callable[[], bool]) -> bool:
        """Wait for a condition or the end of the job. Returns False at the end of the time.

        From time to time it is logged for whom this process waits, first with where the cluster is
        defined. One that is connected to the chief leaves the end of the time to it.
        """
        now = self._clock.now()
        deadline, notice = now + self._cluster.settings.join_secs, now + _FIRST_NOTICE_SECS
        source = f"; the cluster is from {self._cluster.source}" if self._cluster.source else ""
        while not self._wait_until(
            lambda: self._error is not None or is_over(),
            min(each for each in (deadline, notice) if each > now),
        ):
            now = self._clock.now()
            if now >= deadline and (self._cluster.is_chief or not self._peers):
                return False
            if now >= notice:
                self._log(self._describe_wait() + source)
                notice, source = now + _NOTICE_SECS, ""
        return True

    def _wait_until(self, is_over: Callable[[], bool], deadline: float) -> bool:
        """Wait for a condition; False if it does not hold by a time of the clock."""
        with self._changed:
            while not is_over():
                secs = deadline - self._clock.now()
                if secs <= 0:
                    return False
                self._clock.wait(self._changed, secs)
        return True

    def _missing_tasks(self) -> List[Task]:
        others = [task for task in self._cluster.tasks if task != self._cluster.task]
        return [t for t in others if t not in self._peers or self._peers[t].hello is None]

    def _describe_wait(self) -> str:
        """For whom this process waits, and why it is not connected to the chief."""
        if self._cluster.is_chief:
            return f"waiting for {list_tasks(self._missing_tasks())}"
        if self._peers:
            chief = describe(self._cluster.chief)
            return f"waiting for {chief}, which is not ready or waits for others"
        return f"waiting for {describe_chief(self._cluster)}: {self.problem}"

    # ------------------------------------------------------------------------------------- messages

    def command(self, message: Dict[str, Any], payload: bytes = b"") -> None:
        """Send a command, JSON and bytes of any number, from the chief to every follower. It does
        not wait until they read it. Raises TypeError where the command is not JSON.
        """
        self._raise_end()
        json.dumps(message)  # here: nobody would learn of an error in the loop
        asyncio.run_coroutine_threadsafe(self._command(message, payload), self._loop)

    async def _command(self, message: Dict[str, Any], payload: bytes) -> None:
        try:
            for peer in self._followers:  # in turn: a payload is copied for one at a time
                peer.send("command", message, payload)
                await peer.drain()
        except OSError:  # who receives from it knows why
            pass

    def replies(self) -> List[Dict[str, Any]]:
        """Wait for the replies to the last command, one of each follower, by rank."""
        return [self._take(peer).body for peer in self._followers]

    def receive(self) -> Tuple[Dict[str, Any], bytes]:
        """Wait for the next command of the chief."""
        message = self._take(self._peers[self._cluster.chief])
        return message.body, message.payload

    def reply(self, message: Dict[str, Any]) -> None:
        """Answer the last command; what a parameter server says are `notifications`."""
        self._raise_end()
        # It does not wait for the loop: this may be the handler of a signal.
        self._loop.call_soon_threadsafe(self._peers[self._cluster.chief].send, "reply", message)

    def notifications(self) -> List[Tuple[Task, Dict[str, Any]]]:
        """What parameter servers sent to the chief by `reply` since the last call."""
        with self._changed:
            servers = [(task, peer) for task, peer in self._peers.items() if task.job == "ps"]
            return [(t, peer.inbox.popleft().body) for t, peer in servers for _ in list(peer.inbox)]

    def wait(self) -> NoReturn:
        """Wait until the job ends."""
        with self._changed:
            self._changed.wait_for(lambda: self._error is not None)
        self._raise_end()
        raise AssertionError("the job has ended")

    def check(self, secs: float = 0.0) -> None:
        """Raise how the job ended, if it ends within so many seconds.

        An error of TensorFlow's runtime may be the first sign of a process that has died. A caller
        that waits here before it blames itself gives the true reason.
        """
        if self._wait_until(lambda: self._error is not None, self._clock.now() + secs):
            self._raise_end()

    def _take(self, peer: Peer) -> Message:
        """Wait for the next message of a process. A lost one ends the wait for all."""
        with self._changed:
            self._changed.wait_for(lambda: bool(peer.inbox) or self._error or self._is_closed)
            if peer.inbox and not self._is_closed and not isinstance(self._error, PeerError):
                return peer.inbox.popleft()
        self._raise_end()
        raise AssertionError("the job has ended")

    def _raise_end(self) -> None:
        """Raise how the job ended, if it has."""
        if self._error is not None:
            if not self._is_noticed:
                self._is_noticed = True
                self._deadline = self._clock.now() + ENDING_SECS
            raise self._error
        if self._is_closed:
            raise RuntimeError("The channel is closed.")

    # -------------------------------------------------------------------------------------- the end

    def fail(self, error: ToolkitError) -> None:
        """End the job with an error of this process, which the others report and end with, too;
        close the channel.
        """
        self._call(self._end, error, None, _blame(self._cluster, error))
        self._finish()

    def close(self, code: int = 0, text: str = "") -> None:
        """Close the channel; the chief ends the job with it, with an exit code and a sentence for
        all.
        """
        if self._cluster.is_chief:
            self._call(self._end, JobEnded(text, code))
        self._finish()

    def __enter__(self) -> Channel:
        return self

    def __exit__(self, _: Any, error: Optional[BaseException], traceback: Any) -> None:
        """Close the channel, or `fail` if an exception leaves the block."""
        is_exit = isinstance(error, SystemExit) and not error.code  # with success
        if error is None or isinstance(error, JobEnded) or is_exit:
            self.close()
        elif isinstance(error, ToolkitError):
            self.fail(error)
        elif isinstance(error, KeyboardInterrupt):
            self.fail(InterruptedRun("Interrupted."))
        else:
            self.fail(ToolkitError(f"{type(error).__name__}: {error}"))

    def _finish(self) -> None:
        """Let the others read what was sent, and end the loop."""
        self._is_watched = False
        if self._is_refused_start and not self._is_refused:
            own = self._cluster  # those that connect a little later learn why it does not start
            others = (
                {task for task in own.tasks if task != own.task} if own.is_chief else {own.chief}
            )
            self._wait_until(lambda: others <= self._peers.keys(), self._clock.now() + _LATE_SECS)
        with self._changed:
            self._is_closed = True
        self._call(self._is_over.set_result, None)
        self._thread.join(2 * _FAREWELL_SECS)

    @property
    def _is_refused_start(self) -> bool:
        """Whether the job ended before its start, and another attempt would end alike."""
        error = self._error
        return not self._is_started and error is not None and error.exit_code in _LASTING

    def _call(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Call a function in the thread of the loop; nothing once that has ended."""

        async def call() -> None:
            function(*arguments)

        if self._thread.is_alive() and not self._is_over.done():
            asyncio.run_coroutine_threadsafe(call(), self._loop).result()

    # ----------------------------------------------------------- the loop, in a thread of its own

    def _run_loop(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._serve())
        self._loop.close()

    async def _serve(self) -> None:
        """Meet the others and watch them until the channel is closed."""
        meet = self._listen if self._cluster.is_chief else self._connect
        self._is_watched = True
        tasks = [asyncio.ensure_future(work()) for work in (meet, self._watch)]
        await self._is_over
        if self._server is not None:
            self._server.close()
        peers = list(self._peers.values())
        for peer in peers:
            peer.finish()
        if peers:
            await asyncio.wait([peer.is_over for peer in peers], timeout=_FAREWELL_SECS)
        for peer in peers:
            peer.abort()
        tasks += [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)

    async def _listen(self) -> None:
        """Listen, as soon as the port is free; for other machines on all interfaces."""
        host: Optional[str]
        host, port = self._cluster.channel_address
        if len({task.address.rpartition(":")[0] for task in self._cluster.tasks}) > 1:
            host = None
        deadline, family = self._clock.now() + BIND_SECS, socket.AF_UNSPEC
        place, has_logged = show_address(*self._cluster.channel_address), False
        while True:
            try:
                self._server = await asyncio.start_server(
                    self._meet, host, port, family=family, limit=PIECE, backlog=_BACKLOG
                )
                self.problem = ""
                return
            except OSError as error:
                self.problem = show_error(error)
                if error.errno == errno.EADDRNOTAVAIL and family == socket.AF_UNSPEC:
                    family = socket.AF_INET  # the machine has no addresses of IPv6
                elif error.errno != errno.EADDRINUSE or self._clock.now() > deadline:
                    hint = "Start each task of a cluster once, or choose another port for all "
                    hint += "processes with --channel-port."
                    self._is_refused = True  # by the system, so that nobody can connect
                    self._end(listen_error("The channel", place, error, hint))
                    return
                elif not has_logged:
                    has_logged = True
                    self._log(f"{place} is in use; trying again")
            await asyncio.sleep(0.5)

    async def _meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Receive from a process that has connected: of this job, of another one, or a stranger."""
        peer = Peer(reader, writer, self._clock.now)
        host = (writer.get_extra_info("peername") or ["?"])[0]
        try:
            first = await asyncio.wait_for(peer.receive(MAX_FIRST_TEXT, 0), _ANSWER_SECS)
            if first.kind != "identity":
                raise WireError("it did not introduce itself")
            self._admit(peer, check_identity(first.body, self._cluster))
            await self._receive_all(peer)
        except Refusal as refusal:
            facts = {"text": refusal.text, "hint": refusal.hint, "retry_secs": refusal.retry_secs}
            peer.send("refusal", facts)
            peer.finish()
            if refusal.ends_job:
                self._end(UsageError(refusal.text, refusal.hint))
            elif not refusal.retry_secs:
                self._log(f"refused a process: {refusal.text}")
            its_end = asyncio.ensure_future(reader.read())  # it has read the reason
            await asyncio.wait([its_end], timeout=_FAREWELL_SECS)
        except _FAULTS as error:
            is_probe = isinstance(error, EOFError)  # of a port
            if host not in self._strangers and not is_probe:
                self._strangers.append(host)
                reason = error if isinstance(error, WireError) else "it did not introduce itself"
                text = f"dropped a connection from {host} that is not of this job: {reason}"
                self._log(text)
        finally:
            peer.abort()

    async def _connect(self) -> None:
        """Connect to the chief, again and again until it answers, and receive from it."""
        delay, first_refusal = 0.05, math.inf
        while True:
            try:
                peer = await asyncio.wait_for(self._introduce(), _ANSWER_SECS)
                self._admit(peer, self._cluster.chief)
                break
            except Refusal as refusal:
                self.problem, now = refusal.text, self._clock.now()
                first_refusal = min(first_refusal, now)
                if now - first_refusal >= refusal.retry_secs:
                    self._is_refused = True
                    self._end(UsageError(refusal.text, refusal.hint))
                    return
            except _FAULTS as error:
                self.problem = explain(error, self._cluster)
            await asyncio.sleep(delay)
            delay = min(1.0, 1.5 * delay)
        await self._receive_all(peer)

    async def _introduce(self) -> Peer:
        reader, writer = await asyncio.open_connection(*self._cluster.channel_address, limit=PIECE)
        peer = Peer(reader, writer, self._clock.now)
        try:
            if writer.get_extra_info("sockname") == writer.get_extra_info("peername"):
                raise ConnectionRefusedError  # TCP connects a port to itself
            peer.send("identity", identify(self._cluster))
            answer = await peer.receive()
            if answer.kind == "refusal":
                text, hint = (str(answer.body.get(key, "")) for key in ("text", "hint"))
                raise Refusal(text, hint, float(answer.body.get("retry_secs", 0.0)))
            if answer.kind != "welcome":
                raise WireError(f"it answered {answer.kind!r:.40}")
            return peer
        except BaseException:
            peer.abort()
            raise

    def _admit(self, peer: Peer, task: Task) -> None:
        """Take a process of the cluster that has connected, or raise Refusal."""
        with self._changed:
            if self._is_closed or (self._error and not self._is_refused_start):
                raise Refusal("the last job is about to end", retry_secs=math.inf)
            if task in self._peers:  # which may have died a moment ago
                secs = self._peer_secs + _RESTART_SECS
                hint = "Start each task of a cluster once."
                raise Refusal(f"Another process is {describe(task)} already.", hint, secs)
            peer.task = task
            if self._cluster.is_chief:
                peer.send("welcome", {})
            self._peers[task] = peer
            if self._error is not None:
                self._tell([peer], "end")
            self._changed.notify_all()

    async def _receive_all(self, peer: Peer) -> None:
        """Handle each message of a process until the connection ends."""
        reason = "is gone"
        try:
            while True:
                self._handle(peer, await peer.receive())
        except (WireError, TypeError, ValueError) as error:
            reason = f"sent no message of the channel: {error}"
        except (OSError, EOFError):  # reset: its process or machine has died
            pass
        peer.is_over.set_result(None)
        self._lose(peer, reason)

    def _handle(self, peer: Peer, message: Message) -> None:
        kind, body = message.kind, message.body
        with self._changed:
            if kind in ("command", "reply"):
                peer.inbox.append(message)
            elif kind == "ready":
                peer.hello = body
            elif kind == "start":
                self._is_started = True
            self._changed.notify_all()
        if kind == "end":
            self._end(_read_end(body, self._cluster.task), peer)

    async def _watch(self) -> None:
        """Send a beat each second, notice silence, and end this process if it hangs at the end."""
        beat_secs = min(1.0, self._peer_secs / 6)
        while True:
            await self._clock.sleep(beat_secs)
            now = self._clock.now()
            # What this process did not hear while it was stopped itself proves nothing.
            was_delayed = now - self._last_look > beat_secs + self._peer_secs / 2
            for peer in list(self._peers.values()) if self._error is None else ():
                peer.send("beat", {})
                if was_delayed:
                    peer.last_heard = now
                elif now - peer.last_heard > self._peer_secs:
                    self._lose(peer, f"has not answered for {self._peer_secs:g} s")
            if self._error is not None and self._is_watched and now > self._deadline:
                reporter = threading.Thread(target=self._report, args=[self._error], daemon=True)
                reporter.start()
                reporter.join(_FAREWELL_SECS)
                if self._is_watched:  # the main thread did not come back meanwhile
                    self._leave(self._error.exit_code)
                    return
            self._last_look = now

    def _report(self, error: ToolkitError) -> None:
        """Say why this process ends, and do not lose what it wrote."""
        if error.exit_code:
            self._log(str(error) if error.exit_code in INTERRUPTED else f"Error: {error}")
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except (AttributeError, OSError, ValueError):  # there is none, or it is closed
                pass

    def _lose(self, peer: Peer, reason: str) -> None:
        if peer.task is not None:
            self._end(PeerError(f"{describe(peer.task)} {reason}.", "Look at the end of its log."))

    def _end(
        self, error: ToolkitError, source: Optional[Peer] = None, text: Optional[str] = None
    ) -> None:
        """Record how the job ended, unless it has, and let all know but the process that has sent
        it; `text` is for the others, if it is not the message of the error.
        """
        with self._changed:
            if self._error is not None or self._is_closed:
                return
            message = error.message if text is None else text
            self._failure = {"text": message, "hint": error.hint, "code": error.exit_code}
            self._failure["is_failure"] = not isinstance(error, JobEnded)
            self._error, self._deadline = error, self._clock.now() + GRACE_SECS
            self._tell([peer for peer in self._peers.values() if peer is not source], "end")
            self._changed.notify_all()

    def _tell(self, peers: Iterable[Peer], kind: str) -> None:
        """Tell others the start or the end of the job; the end is the last that is sent."""
        for peer in peers:
            peer.send(kind, self._failure)
        for peer in self._peers.values() if kind == "end" else ():
            peer.finish()

    # -------------------------------------------------------------------------------------- the log

    def _log(self, text: str) -> None:
        """Log a line. A closed stderr does not end the channel."""
        try:
            self._log_line(text)
        except (OSError, ValueError):
            pass


def _blame(cluster: Cluster, error: ToolkitError) -> str:
    """The message of an error of this process, for the others."""
    if isinstance(error, PeerError):  # it says itself whose error it is
        return error.message
    verb = "ended" if isinstance(error, InterruptedRun) else "failed"
    return f"{cluster.task.name} {verb}: {error.message}"


def _read_end(body: Dict[str, Any], task: Task) -> ToolkitError:
    text, code = str(body.get("text", "")), int(body.get("code", 1))
    if not body.get("is_failure"):
        return JobEnded(text, code)
    if text.startswith(f"{describe(task)} has not answered"):
        text = f"The job has ended without this process: {text}"
    return PeerError(text, str(body.get("hint", "")), code)
