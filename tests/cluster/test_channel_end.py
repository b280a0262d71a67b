"""How a job ends: by its chief, by an error, or by the loss of a process; all learn it."""

import socket
import struct
import threading

import pytest
from channel_fixtures import run_all
from process_fixtures import PATIENCE, wait_until

from toolkit.cluster.channel import ENDING_SECS, GRACE_SECS, JobEnded, PeerError
from toolkit.errors import DataError, DivergedError


def errors_of(*members):
    """How the job ended for members that wait for each other."""

    def wait(channel):
        if channel._cluster.is_chief:
            channel.command({})
            return channel.replies()
        return channel.receive() and channel.receive()

    return run_all([lambda member=member: wait(member.channel) for member in members])


def test_the_end_of_the_chief_is_the_end_of_all_with_its_code(make_job):
    chief, worker, server = make_job(workers=1, ps=1).start()
    chief.channel.close(130, "Interrupted; step 20 is saved.")
    with pytest.raises(JobEnded) as info:
        worker.channel.receive()
    assert (info.value.exit_code, info.value.message) == (130, "Interrupted; step 20 is saved.")
    with pytest.raises(JobEnded):
        server.channel.wait()


def test_no_thread_and_no_socket_is_left(make_job):
    before = threading.active_count()
    job = make_job(workers=3, ps=1)
    members = job.start()
    job.close()
    assert [member.codes for member in members] == [[]] * 5
    for thread in threading.enumerate():
        if thread.name.startswith("channel"):
            thread.join(PATIENCE)
    assert threading.active_count() <= before
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", job.port))


def test_the_error_of_a_follower_ends_all_with_its_code_and_sentence(make_job):
    chief, first, second, server = make_job(workers=2, ps=1).start()
    second.channel.fail(DataError("The file a.png is damaged.", hint="Delete it."))
    chief_error, first_error = errors_of(chief, first)
    for error in (chief_error, first_error):
        assert isinstance(error, PeerError) and error.exit_code == 4
        assert error.message == "worker 1 failed: The file a.png is damaged."
        assert error.hint == "Delete it."
    with pytest.raises(PeerError):
        server.channel.wait()


def test_the_first_error_counts(make_job):
    chief, first, second = make_job(workers=2).start()
    first.channel.fail(DataError("first"))
    with pytest.raises(PeerError, match="first"):
        second.channel.receive()
    second.channel.fail(DivergedError("second"))
    assert "worker 0 failed: first" in errors_of(chief)[0].message


@pytest.mark.parametrize(
    "error, code, text",
    [
        (DataError("bad"), 4, "worker 0 failed: bad"),
        (KeyboardInterrupt(), 130, "worker 0 ended: Interrupted."),
        (KeyError("x"), 1, "worker 0 failed: KeyError: 'x'"),
        (SystemExit(1), 1, "worker 0 failed: SystemExit: 1"),
    ],
)
def test_an_exception_in_the_block_of_a_channel_ends_the_job(make_job, error, code, text):
    chief, worker = make_job(workers=1).start()
    with pytest.raises(type(error)), worker.channel:
        raise error
    error = errors_of(chief)[0]
    assert (error.message, error.exit_code) == (text, code)


def reset(connection):
    """Let the kernel reset a connection, as it does after a restart of the machine."""
    linger = struct.pack("ii", 1, 0)
    connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    connection.close()


def test_a_worker_whose_machine_restarts_is_named_by_all(make_job):
    bare, members = make_job().start_with_bare("worker 0")
    reset(bare)
    errors = errors_of(*members)
    expected = [("worker 0 (127.0.0.1:60) is gone.", 138)] * 2
    assert [(error.message, error.exit_code) for error in errors] == expected
    assert "log" in errors[0].hint


def test_the_reason_of_an_end_is_read_where_a_write_fails_before(make_job):
    bare, (chief, _) = make_job().start_with_bare("worker 0")
    peer, reason = chief.peer("worker 0"), "worker 0 failed: The disk is full."

    def write_after_the_end():
        bare.send("end", {"text": reason, "hint": "", "code": 4, "is_failure": True})
        reset(bare)
        peer.send("beat", {})

    chief.channel._call(write_after_the_end)  # in the thread that reads, which reads nothing then
    (error,) = errors_of(chief)
    assert (error.message, error.exit_code) == (reason, 4)


def test_a_worker_that_is_silent_is_named_by_all(make_job):
    job = make_job(peer_secs=8.0)
    bare, members = job.start_with_bare("worker 0")
    job.pass_time(8.0)
    assert not any(member.has_ended for member in members)
    job.pass_time(2.0)
    assert members[0].has_ended
    text = "worker 0 (127.0.0.1:60) has not answered for 8 s."
    errors = errors_of(*members)
    assert [(error.message, error.exit_code) for error in errors] == [(text, 138)] * 2
    kind, body = bare.receive()
    while kind != "end":  # in case that it can read again
        kind, body = bare.receive()
    assert body["text"] == text


def test_a_process_that_was_stopped_itself_does_not_blame_the_others(make_job):
    job = make_job(workers=1, peer_secs=8.0)
    _, (chief,) = job.start_with_bare("worker 0")
    job.clock.move(100)  # what SIGSTOP and SIGCONT leave
    job.await_looks()
    job.pass_time(8.0)
    chief.channel.check()
    job.pass_time(2.0)
    with pytest.raises(PeerError, match="has not answered"):
        chief.channel.check()


def move(job, secs):
    """Move the clock, when all know that the job has ended."""
    wait_until(lambda: all(member.has_ended for member in job.members))
    job.clock.move(secs)


def test_a_follower_that_is_busy_at_the_end_is_ended_with_the_code_of_the_chief(make_job):
    job = make_job(workers=1)
    chief, worker = job.start()
    chief.channel.close(3, "The loss is not finite.")
    move(job, GRACE_SECS + 0.1)
    wait_until(lambda: worker.codes and worker.lines)
    assert worker.codes == [3] and worker.lines == ["Error: The loss is not finite."]


@pytest.mark.parametrize("closes", [False, True])
def test_a_process_that_knows_it_has_some_time_to_close(make_job, closes):
    job = make_job()
    bare, members = job.start_with_bare("worker 0")
    bare.close()
    errors_of(*members)
    move(job, ENDING_SECS - 0.1)
    if closes:
        job.close()
    job.clock.move(1.1)  # more than a beat
    for member in members:
        wait_until(
            lambda member=member: bool(member.codes) != closes or not member.channel._is_watched
        )
        assert member.codes == ([] if closes else [138])


def test_what_is_sent_while_the_end_arrives_is_dropped(make_job):
    chief, worker = make_job(workers=1).start()
    chief.channel.close()
    wait_until(lambda: worker.has_ended)
    worker.channel._call(worker.peer("chief").send, "ready", {})
    with pytest.raises(JobEnded):
        worker.channel.check()
