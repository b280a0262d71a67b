"""The start of a job: who joins, who is missing, and who does not belong to it."""

import asyncio
import errno
import socket
import threading

import pytest
from channel_fixtures import await_listener, encode, join, listening, run_all
from process_fixtures import PATIENCE, wait_until

from toolkit.cluster.channel import BIND_SECS, Channel, JobEnded, PeerError
from toolkit.errors import DataError, RetryError, UsageError


def errors_of(members):
    """What `join` of each raises."""
    return run_all([lambda member=member: member.channel.join({}) for member in members])


def test_the_chief_gets_the_hello_of_each_process(make_job):
    job = make_job(workers=2, ps=1)
    chief, *others = [job.open(name) for name in job.names]
    hellos = join([chief, *others])
    ranks = {task.name: hello["rank"] for task, hello in hellos[0].items()}
    assert ranks == {"worker 0": 1, "worker 1": 2, "ps 0": 3}
    assert hellos[1:] == [{}, {}, {}]


def test_a_chief_of_several_hosts_listens_for_them_whatever_its_name_is_here(make_job):
    job = make_job(workers=1, host="machine.example")  # which does not resolve
    chief = job.open("chief")
    await_listener(job.port, "127.0.0.2").close()
    assert chief.lines == []


def test_loopback_stays_loopback(make_job):
    job = make_job(workers=1)
    job.open("chief")
    await_listener(job.port).close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", job.port))


def test_a_worker_that_does_not_come_is_named_by_all(make_job):
    job = make_job(workers=2, join_secs=3.0)
    chief, worker = job.miss_start(job.open("chief"), job.open("worker 0"))
    assert isinstance(chief, RetryError) and chief.exit_code == worker.exit_code == 138
    assert chief.message == (
        "worker 1 (127.0.0.1:61) has not joined within 3 s; worker 0 (127.0.0.1:60) joined."
    )
    assert chief.message == worker.message
    assert chief.hint.endswith("--cluster '{}' trains alone.")


def test_a_chief_that_does_not_come_is_named(make_job):
    job = make_job(workers=1, join_secs=1.0)
    (error,) = job.miss_start(job.open("worker 0"))
    assert isinstance(error, RetryError) and error.exit_code == 138
    assert error.message == (
        "The job has not started within 1 s: waiting for chief (127.0.0.1:1; "
        f"its channel 127.0.0.1:{job.port}): Connection refused."
    )
    assert error.hint.endswith("--cluster '{}' trains alone.")


def test_the_first_line_about_who_is_missing_names_the_source_of_the_cluster(make_job):
    job = make_job(workers=1, join_secs=100.0, source="TF_CONFIG")
    chief = job.open("chief")
    thread = threading.Thread(target=errors_of, args=[[chief]])
    thread.start()
    wait_until(lambda: job.clock.awaited)
    for count, secs in ((1, 10), (2, 30)):
        job.clock.move(secs)
        wait_until(lambda count=count: len(chief.lines) == count)
    job.clock.move(60)
    thread.join()
    first, second = chief.lines[:2]
    assert second == "waiting for worker 0 (127.0.0.1:60)"
    assert first == f"{second}; the cluster is from TF_CONFIG"


def test_a_name_that_does_not_resolve_is_named(make_job, monkeypatch):
    def resolve(*args, **options):
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    job = make_job(workers=1, host="nowhere.example")
    (error,) = job.miss_start(job.open("worker 0"))
    assert "the name nowhere.example does not resolve" in error.message


def test_another_program_on_the_port_of_the_chief_is_named(make_job):
    job = make_job(workers=1)
    with listening(job.port) as server:
        worker = job.open("worker 0")
        other, _ = server.accept()
        other.sendall(b"SSH-2.0-OpenSSH_9.6\r\n")
        worker.await_problem("something else")
        (error,) = job.miss_start(worker)
        other.close()
    assert f"something else listens on 127.0.0.1:{job.port}, it began with b'SSH-" in error.message


def test_a_port_in_use_is_named_with_the_way_out_after_some_time(make_job):
    job = make_job(workers=1)
    with listening(job.port):
        chief = job.open("chief")
        chief.await_problem("in use")
        job.clock.move(BIND_SECS + 1)
        (error,) = errors_of([chief])
    place = f"127.0.0.1:{job.port}"
    assert error.message == f"The channel cannot listen on {place}: Address already in use."
    assert "Start each task of a cluster once" in error.hint and "--channel-port" in error.hint
    assert error.exit_code == 138
    assert chief.lines == [f"{place} is in use; trying again"]  # once for all attempts


@pytest.mark.parametrize(
    "fault, reason",
    [
        (PermissionError(errno.EACCES, "of asyncio"), "Permission denied"),
        (socket.gaierror(-2, "Name or service not known"), "[Errno -2] Name or service not known"),
    ],
)
def test_an_address_that_may_not_be_used_is_a_mistake_and_needs_no_other_try(
    make_job, monkeypatch, fault, reason
):
    async def refuse(*_, **__):
        raise fault

    monkeypatch.setattr(asyncio, "start_server", refuse)
    job = make_job(workers=1)
    (error,) = errors_of([job.open("chief")])
    place = f"127.0.0.1:{job.port}"
    assert error.message == f"The channel cannot listen on {place}: {reason}."
    assert isinstance(error, UsageError) and "port from 1024 on" in error.hint


def test_a_port_that_becomes_free_is_used_and_not_blamed_for_a_missing_worker(make_job):
    job = make_job(workers=1)
    with listening(job.port):
        chief = job.open("chief")
        wait_until(lambda: chief.lines)
    await_listener(job.port).close()  # a probe, which is no stranger
    (error,) = job.miss_start(chief)
    assert "worker 0 (127.0.0.1:60) has not joined" in error.message
    assert chief.lines == [f"127.0.0.1:{job.port} is in use; trying again"]


@pytest.mark.parametrize(
    "start",
    [
        b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        encode("identity", {}, bytes(9)),
        encode("identity", {"task": "worker 0"}),
        encode("command", {"step": 1}),
    ],
    ids=["http", "payload", "identity", "command"],
)
def test_a_stranger_is_dropped_with_one_line_and_hurts_nobody(make_job, start):
    job = make_job(workers=1)
    chief = job.open("chief")
    for _ in range(2):
        with await_listener(job.port) as stranger:
            stranger.sendall(start)
            stranger.settimeout(PATIENCE)
            while stranger.recv(100):  # up to its end
                pass
    join([chief, job.open("worker 0")])
    assert len(chief.lines) == 1
    assert "dropped a connection from 127.0.0.1 that is not of this job" in chief.lines[0]


def test_a_second_process_of_a_task_is_refused_after_some_time(make_job):
    job = make_job(workers=1)
    job.start()
    second = job.open("worker 0")
    second.await_problem("is worker 0 (127.0.0.1:60) already")
    job.clock.move(1000)
    (error,) = errors_of([second])
    assert isinstance(error, UsageError)
    assert error.message == "Another process is worker 0 (127.0.0.1:60) already."


def test_a_process_of_a_job_that_is_about_to_end_waits_for_the_next_one(make_job):
    job = make_job(workers=1)
    first, _ = job.start()
    following = job.open("worker 0")
    following.await_problem("already")
    first.channel.close()
    join([job.open("chief"), following])


def test_another_version_of_the_toolkit_ends_the_job_for_all(make_job):
    job = make_job(workers=2)
    chief = job.open("chief")
    await_listener(job.port).close()
    worker = job.open("worker 0")
    kind, refusal = job.connect("worker 1", version=[2, "0.0.1"]).receive()
    assert kind == "refusal" and refusal["hint"] == "Install the same version on all machines."
    errors = errors_of([chief, worker])
    assert [error.exit_code for error in errors] == [2, 2]
    assert "worker 1 (127.0.0.1:61) runs toolkit 0.0.1 and the chief" in errors[0].message


def fail(channel):
    channel.fail(DataError("No such file."))


@pytest.mark.parametrize(
    "first, second, end, message, code",
    [
        ("chief", "worker 0", fail, "chief failed: No such file.", 4),
        ("worker 0", "chief", fail, "worker 0 failed: No such file.", 4),
        ("chief", "worker 0", Channel.close, "", 0),  # whose training needs no worker
    ],
)
def test_one_that_comes_a_little_later_learns_how_the_job_ended(
    make_job, first, second, end, message, code
):
    job = make_job(workers=1)
    early = job.open(first)
    ending = threading.Thread(target=end, args=[early.channel])
    ending.start()
    wait_until(lambda: early.has_ended)
    (error,) = errors_of([job.open(second)])
    assert (error.message, error.exit_code) == (message, code)
    ending.join()


def test_a_job_that_does_not_begin_ends_well_for_those_that_come(make_job):
    job = make_job(workers=2, join_secs=3.0)
    chief, worker = job.open("chief"), job.open("worker 0")
    dismissal = threading.Thread(target=lambda: chief.channel.dismiss("Nothing is left."))
    dismissal.start()
    wait_until(lambda: chief.peer("worker 0"))
    job.clock.stop_waiting()  # worker 1 never comes
    with pytest.raises(JobEnded) as end:
        worker.channel.join({})
    assert (end.value.exit_code, end.value.message) == (0, "Nothing is left.")
    dismissal.join()


def test_a_process_of_another_cluster_is_refused(make_job):
    job = make_job(workers=1)
    chief = job.open("chief")
    other = make_job(workers=2, channel_port=job.port)
    error = errors_of([other.open("worker 0")])[0]
    assert isinstance(error, UsageError)
    assert "worker 0 has another definition of the cluster than the chief" in error.message
    join([chief, job.open("worker 0")])


def test_a_worker_lost_before_the_start_ends_the_job(make_job):
    job = make_job(workers=2)
    chief = job.open("chief")
    await_listener(job.port).close()
    job.connect("worker 1").close()
    (error,) = errors_of([chief])
    assert isinstance(error, PeerError)
    assert error.message == "worker 1 (127.0.0.1:61) is gone."
