"""How two processes of one cluster meet: the chief listens, each other process connects to it."""

from __future__ import annotations

import errno
import hashlib
import ipaddress
import json
import socket
import threading
from typing import TYPE_CHECKING, Any, Callable, Dict, List, NamedTuple, Optional, Set, Tuple

from .. import __version__
from ..errors import RetryError, ToolkitError, UsageError
from .clock import Clock
from .frames import Connection, Frame, FrameError, Kind, encode_frame

if TYPE_CHECKING:
    from .tasks import Cluster, Task

PROTOCOL = 1
_ANSWER_SECS = 5.0  # for the first bytes and frames of the other side
_BIND_SECS = 15.0  # as long as the processes of a job that ended may hold the port
_MAX_HANDSHAKES = 1024  # at one time


class Identity(NamedTuple):
    """What a process says about itself when it connects.

    Attributes:
        protocol: the version of the frames.
        toolkit: the version of the toolkit.
        digest: of all tasks of the cluster with their addresses.
        task: its name.
    """

    protocol: int
    toolkit: str
    digest: str
    task: str


def identify(cluster: Cluster) -> Identity:
    """The identity of this process."""
    tasks = json.dumps([[task.job, task.index, task.address] for task in cluster.tasks])
    digest = hashlib.sha256(tasks.encode("utf-8")).hexdigest()
    return Identity(PROTOCOL, __version__, digest, cluster.task.name)


def describe(task: Task) -> str:
    """A task for a message: "worker 1 (host:2222)"."""
    return f"{task.name} ({task.address})"


def describe_chief(cluster: Cluster) -> str:
    """The chief for those that connect: "worker 0, the chief (a:2222; its channel a:2223)"."""
    chief = cluster.chief
    name = chief.name if chief.name == "chief" else f"{chief.name}, the chief"
    return f"{name} ({chief.address}; its channel {show_address(*cluster.channel_address)})"


def show_address(host: str, port: int) -> str:
    """ "host:port", with an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class Refusal(Exception):
    """A process that is refused.

    Args:
        text: why, one sentence for its user.
        retry_secs: how long it should try again, since the reason may pass.
        ends_job: whether the job cannot start with this process of the cluster.
    """

    def __init__(self, text: str, retry_secs: float = 0.0, ends_job: bool = False):
        super().__init__(text)
        self.text, self.retry_secs, self.ends_job = text, retry_secs, ends_job


def check_identity(header: Dict[str, Any], cluster: Cluster) -> Task:
    """The task of a process that connects to the chief.

    Raises:
        FrameError: it is no identity.
        Refusal: it is of another cluster or version.
    """
    try:
        identity = Identity(**header)
    except TypeError:
        raise FrameError(f"its identity is {str(header)[:60]}") from None
    own = identify(cluster)
    tasks = [task for task in cluster.tasks if task.name == identity.task]
    if identity.digest != own.digest or not tasks or tasks[0] == cluster.task:
        raise Refusal(
            f"{identity.task} has another definition of the cluster than the chief"
            f" at {show_address(*cluster.channel_address)}: all processes need the same addresses."
        )
    if (identity.protocol, identity.toolkit) != (own.protocol, own.toolkit):
        raise Refusal(
            f"{describe(tasks[0])} runs toolkit {identity.toolkit} and the chief {own.toolkit}.",
            ends_job=True,
        )
    return tasks[0]


# ------------------------------------------------------------------------------- the chief listens


class Listener:
    """Accepts the connections of the other processes in a thread.

    Args:
        cluster: of this process, the chief.
        log: gets lines for people.
        admit: takes each connection of a process of the cluster, or raises Refusal.
        end: takes an error that ends the job.
        clock: the time.

    Attributes:
        strangers: the hosts of connections that were dropped.
        problem: why it does not listen yet; "" if it does.
    """

    def __init__(
        self,
        cluster: Cluster,
        log: Callable[[str], None],
        admit: Callable[[Task, Connection], None],
        end: Callable[[ToolkitError], None],
        clock: Clock,
    ):
        self._cluster, self._log, self._admit, self._end = cluster, log, admit, end
        self._clock = clock
        self._sockets: List[socket.socket] = []
        self._is_closed = threading.Event()
        self._slots = threading.BoundedSemaphore(_MAX_HANDSHAKES)
        self._notes: Set[str] = set()  # that were logged
        self.strangers: Set[str] = set()
        self.problem = ""

    def start(self) -> None:
        """Begin to listen."""
        start_thread(self._run, "channel listener")

    def close(self) -> None:
        """Stop to listen."""
        self._is_closed.set()
        for listening in list(self._sockets):
            try:
                listening.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
            except OSError:
                pass

    def _run(self) -> None:
        try:
            listening = self._open()
        except ToolkitError as error:
            self._end(error)
            return
        with listening:
            self._sockets.append(listening)
            while not self._is_closed.is_set():
                self._accept(listening)

    def _accept(self, listening: socket.socket) -> None:
        try:
            connected, address = listening.accept()
        except OSError:  # closed; or too many files are open
            self._is_closed.wait(0.1)
            return
        if not self._slots.acquire(blocking=False):
            connected.close()
            return
        start_thread(self._meet, "channel handshake", connected, address[0])

    def _open(self) -> socket.socket:
        """Listen, as soon as the port is free."""
        deadline = self._clock.now() + _BIND_SECS
        while True:
            try:
                listening = _listen(self._cluster, self._note)
                self.problem = ""
                return listening
            except OSError as error:
                self.problem = error.strerror or str(error)
                if error.errno != errno.EADDRINUSE or self._clock.now() > deadline:
                    break
            self._note(f"{show_address(*self._cluster.channel_address)} is in use; trying again")
            if self._is_closed.wait(0.5):
                break
        raise listen_error(self._cluster, self.problem)

    def _note(self, text: str) -> None:
        """Log a line, once for all attempts to listen."""
        if text not in self._notes:
            self._notes.add(text)
            self._log(text)

    def _meet(self, connected: socket.socket, host: str) -> None:
        try:
            connection = Connection(connected, self._clock)
            connection.limit(_ANSWER_SECS)
            self._welcome(connection)
        except (FrameError, OSError) as error:
            connected.close()
            self._report(host, error)
        finally:
            self._slots.release()

    def _welcome(self, connection: Connection) -> None:
        connection.receive_magic()
        connection.send_magic()
        frame = connection.receive(is_first=True)
        if frame is None or frame.kind != Kind.IDENTITY:
            raise FrameError("it did not introduce itself")
        try:
            task = check_identity(frame.header, self._cluster)
            connection.remove_limit()
            self._admit(task, connection)
        except Refusal as refusal:
            self._refuse(connection, refusal)

    def _refuse(self, connection: Connection, refusal: Refusal) -> None:
        header = {"text": refusal.text, "retry_secs": refusal.retry_secs}
        connection.try_send(encode_frame(Kind.REFUSAL, header))
        connection.finish_sending()
        if refusal.ends_job:
            self._end(UsageError(refusal.text, hint="Install the same version on all machines."))
        elif not refusal.retry_secs:
            self._log(f"refused a process: {refusal.text}")
        connection.limit(1.0)
        try:
            connection.receive()  # its end: it has read the reason
        except (OSError, FrameError):
            pass
        connection.close()

    def _report(self, host: str, error: Exception) -> None:
        if host in self.strangers or str(error) == "it sent nothing":  # a probe of the port
            return
        self.strangers.add(host)
        reason = str(error) if isinstance(error, FrameError) else "it did not introduce itself"
        self._log(f"dropped a connection from {host} that is not of this job: {reason}")


def listen_error(cluster: Cluster, reason: str) -> RetryError:
    """The error of a chief that cannot listen."""
    return RetryError(
        f"The channel cannot listen on {show_address(*cluster.channel_address)}: {reason}.",
        hint="Start each task of a cluster once, or choose another port for all processes with"
        " --channel-port.",
    )


def _listen(cluster: Cluster, log: Callable[[str], None]) -> socket.socket:
    """Listen on the chief's address, on all interfaces if only other machines know which it is."""
    host, port = cluster.channel_address
    note = f"{host} is no address of a network interface here: the channel listens on all of them"
    try:
        infos = _resolve(host, port)
        if not _is_loopback_of_a_name(host, infos) or _is_on_one_host(cluster):
            return _bind_first(infos)
    except OSError as error:
        if not isinstance(error, socket.gaierror) and error.errno != errno.EADDRNOTAVAIL:
            raise
        if isinstance(error, socket.gaierror):
            note = f"{host} does not resolve here: the channel listens on all interfaces"
    log(f"note   {note}")
    infos = _resolve(None, port)
    return _bind_first(sorted(infos, key=lambda info: info[0] != socket.AF_INET6))


def _resolve(host: Optional[str], port: int) -> List[Any]:
    return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)


def _is_loopback_of_a_name(host: str, infos: List[Any]) -> bool:
    """Whether a name stands for a loopback address, as that of the machine does in /etc/hosts."""
    addresses = [info[4][0].partition("%")[0] for info in infos]
    is_name = host != "localhost" and host not in addresses
    return is_name and all(ipaddress.ip_address(address).is_loopback for address in addresses)


def _is_on_one_host(cluster: Cluster) -> bool:
    return len({task.address.rpartition(":")[0] for task in cluster.tasks}) == 1


def _bind_first(infos: List[Any]) -> socket.socket:
    """Listen on the first address that can be bound. Raises OSError if none can."""
    problem = OSError("the name has no address")
    for info in infos:
        try:
            return _bind(*info)
        except OSError as error:
            problem = error
    raise problem


def _bind(family: int, kind: int, protocol: int, _: str, address: Any) -> socket.socket:
    listening = socket.socket(family, kind, protocol)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:  # "::" is for IPv4, too
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, address[0] != "::")
        listening.bind(address)
        listening.listen(_MAX_HANDSHAKES)
        return listening
    except OSError:
        listening.close()
        raise


# ------------------------------------------------------------------------------- the others connect


class Connector:
    """Connects to the chief in a thread, again and again until it answers.

    Args:
        cluster: of this process.
        log: gets lines for people.
        admit: takes the connection.
        end: takes an error that ends the job.
        clock: the time.

    Attributes:
        problem: why the last attempt failed.
        is_refused: whether the chief does not want this process.
    """

    def __init__(
        self,
        cluster: Cluster,
        log: Callable[[str], None],
        admit: Callable[[Task, Connection], None],
        end: Callable[[ToolkitError], None],
        clock: Clock,
    ):
        self._cluster, self._log, self._admit, self._end = cluster, log, admit, end
        self._clock = clock
        self._is_closed = threading.Event()
        self._refusal_time: Optional[float] = None  # of the first
        self.problem = "it was not tried yet"
        self.is_refused = False

    def start(self) -> None:
        """Begin to connect."""
        start_thread(self._run, "channel connector")

    def close(self) -> None:
        """Stop the attempts."""
        self._is_closed.set()

    def _run(self) -> None:
        delay = 0.05
        while not self._is_closed.is_set():
            try:
                self._connect()
                return
            except Refusal as refusal:
                self.problem = refusal.text
                if self._is_final(refusal):
                    self.is_refused = True
                    self._end(UsageError(refusal.text, hint="Start each task of a cluster once."))
                    return
            except (OSError, FrameError) as error:
                self.problem = _explain(error, self._cluster.channel_address)
            self._is_closed.wait(delay)
            delay = min(1.0, 1.5 * delay)

    def _is_final(self, refusal: Refusal) -> bool:
        now = self._clock.now()
        self._refusal_time = self._refusal_time or now
        return now - self._refusal_time >= refusal.retry_secs

    def _connect(self) -> None:
        connected = socket.create_connection(self._cluster.channel_address, _ANSWER_SECS)
        try:
            if connected.getsockname() == connected.getpeername():  # TCP connects a port to itself
                raise ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")
            connection = Connection(connected, self._clock)
            connection.limit(_ANSWER_SECS)
            self._introduce(connection)
            connection.remove_limit()
            self._admit(self._cluster.chief, connection)
        except BaseException:
            connected.close()
            raise

    def _introduce(self, connection: Connection) -> None:
        connection.send_magic()
        connection.send(encode_frame(Kind.IDENTITY, identify(self._cluster)._asdict()))
        connection.receive_magic()
        answer = connection.receive()
        if answer is None:
            raise ConnectionResetError(errno.ECONNRESET, "the chief closed the connection")
        if answer.kind == Kind.REFUSAL:
            raise _read_refusal(answer)
        if answer.kind != Kind.WELCOME:
            raise FrameError(f"it answered with a frame of kind {answer.kind}")


def _read_refusal(answer: Frame) -> Refusal:
    return Refusal(str(answer.header.get("text")), float(answer.header.get("retry_secs", 0.0)))


def _explain(error: Exception, address: Tuple[str, int]) -> str:
    """Why a connection failed, to follow the chief and the address of its channel."""
    place = show_address(*address)
    if isinstance(error, FrameError):
        return f"something else listens on {place}, {error}"
    if isinstance(error, socket.gaierror):
        return f"the name {address[0]} does not resolve"
    if isinstance(error, socket.timeout):
        return "it does not answer"
    return str(getattr(error, "strerror", None) or error)


def start_thread(function: Callable[..., None], name: str, *arguments: Any) -> threading.Thread:
    """Run a function in a thread that does not keep the process alive."""
    thread = threading.Thread(target=function, args=arguments, name=name, daemon=True)
    thread.start()
    return thread
