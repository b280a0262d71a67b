"""The start of a job: who joins, who is missing, and who does not belong to it."""

from __future__ import annotations

import socket
import threading
import time

import pytest
from channel_fixtures import await_listener, free_port, join, run_all

from toolkit.cluster import channel, handshake, waiting
from toolkit.cluster.channel import PeerError
from toolkit.cluster.frames import Kind, encode_frame
from toolkit.errors import DataError, RetryError, UsageError


def errors_of(members):
    """What `join` of each raises."""
    return run_all([lambda member=member: member.channel.join({}) for member in members])


def await_lines(member):
    """Wait until a process has logged something."""
    end = time.monotonic() + 20
    while not member.lines:
        assert time.monotonic() < end
        time.sleep(0.01)


def test_the_chief_gets_the_hello_of_each_process(make_job):
    job = make_job(workers=2, ps=1)
    chief, *others = [job.open(name) for name in job.names]
    hellos = join([member.channel for member in [chief, *others]])
    assert {task.name: hello["rank"] for task, hello in hellos[0].items()} == {
        "worker 0": 1,
        "worker 1": 2,
        "ps 0": 3,
    }
    assert hellos[1:] == [{}, {}, {}]


def test_workers_that_come_before_the_chief_wait_for_it(make_job):
    job = make_job()
    workers = [job.open("worker 0"), job.open("worker 1")]
    thread = threading.Thread(target=lambda: join([member.channel for member in workers]))
    thread.start()
    time.sleep(0.5)
    assert thread.is_alive()
    job.open("chief").channel.join({})
    thread.join(20)
    assert not thread.is_alive()


def test_without_a_job_named_chief_worker_0_is_the_chief(make_job):
    job = make_job(workers=2)
    del job.jobs["chief"]
    worker, chief = job.open("worker 1"), job.open("worker 0")
    hellos = join([chief.channel, worker.channel])
    assert [task.name for task in hellos[0]] == ["worker 1"]


def test_ipv6(make_job):
    try:
        port = free_port("::1")
    except OSError:
        pytest.skip("this machine has no IPv6")
    job = make_job(workers=1, host="[::1]", channel_port=port)
    job.start()


def test_a_name_of_the_machine_that_only_it_maps_to_loopback_listens_for_the_others(
    make_job, monkeypatch
):
    resolve = socket.getaddrinfo

    def resolve_own_name(host, *args, **options):  # as /etc/hosts of some distributions has it
        return resolve("127.0.1.1" if host == "machine" else host, *args, **options)

    monkeypatch.setattr(socket, "getaddrinfo", resolve_own_name)
    job = make_job(workers=1, host="machine")
    chief = job.open("chief")
    await_listener(job.port).close()
    assert chief.lines == [
        "note   machine is no address of a network interface here: "
        "the channel listens on all of them"
    ]


def test_an_address_of_a_gateway_listens_on_all_interfaces(make_job):
    job = make_job(workers=1, host="192.0.2.1")  # an address for documentation
    chief = job.open("chief")
    await_listener(job.port).close()
    assert "listens on all of them" in chief.lines[0]


def test_a_chief_whose_name_does_not_resolve_listens_on_all_interfaces_and_says_why(
    make_job, monkeypatch
):
    resolve = socket.getaddrinfo

    def resolve_others(host, *args, **options):
        if host == "nowhere.example":
            raise socket.gaierror(-2, "Name or service not known")
        return resolve(host, *args, **options)

    monkeypatch.setattr(socket, "getaddrinfo", resolve_others)
    job = make_job(workers=1, host="nowhere.example")
    chief = job.open("chief")
    await_listener(job.port).close()
    assert chief.lines == [
        "note   nowhere.example does not resolve here: the channel listens on all interfaces"
    ]


def test_loopback_stays_loopback(make_job):
    job = make_job(workers=1)
    job.open("chief")
    await_listener(job.port).close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", job.port), 5)


# ----------------------------------------------------------------------------------- who is missing


def test_a_worker_that_does_not_come_is_named_by_all(make_job):
    job = make_job(workers=2, join_secs=3.0)
    chief, worker = errors_of([job.open("chief"), job.open("worker 0")])
    assert isinstance(chief, RetryError) and chief.exit_code == worker.exit_code == 138
    assert chief.message == (
        "worker 1 (127.0.0.1:61) has not joined within 3 s; worker 0 (127.0.0.1:60) joined."
    )
    assert chief.message == worker.message


def test_one_that_is_connected_and_not_ready_is_named_as_such(make_job):
    job = make_job(workers=1, join_secs=3.0)
    job.open("worker 0")
    error = errors_of([job.open("chief")])[0]
    assert "worker 0 (127.0.0.1:60) connected but is not ready" in error.message


def test_of_many_that_are_missing_the_first_are_named(make_job):
    job = make_job(workers=512, join_secs=0.1)
    error = errors_of([job.open("chief")])[0]
    assert "worker 4 (127.0.0.1:64) and 507 more have not joined" in error.message


def test_a_chief_that_does_not_come_is_named(make_job):
    job = make_job(workers=1, join_secs=1.0)
    error = errors_of([job.open("worker 0")])[0]
    assert isinstance(error, RetryError) and error.exit_code == 138
    assert error.message == (
        "The job has not started within 1 s: waiting for chief (127.0.0.1:1; "
        f"its channel 127.0.0.1:{job.port}): Connection refused."
    )
    assert error.hint.endswith("--cluster '{}' trains alone.")


def test_a_worker_0_that_is_the_chief_and_does_not_come_is_named_as_the_chief(make_job):
    job = make_job(workers=2, join_secs=1.0)
    del job.jobs["chief"]
    error = errors_of([job.open("worker 1")])[0]
    chief = f"worker 0, the chief (127.0.0.1:60; its channel 127.0.0.1:{job.port})"
    assert f": waiting for {chief}: Connection refused." in error.message


def test_the_first_line_about_who_is_missing_names_the_source_of_the_cluster(make_job, monkeypatch):
    monkeypatch.setattr(waiting, "_FIRST_NOTICE_SECS", 0.1)
    monkeypatch.setattr(waiting, "_NOTICE_SECS", 0.1)
    job = make_job(workers=1, join_secs=3.0, source="TF_CONFIG")
    chief = job.open("chief")
    error = errors_of([chief])[0]
    first, second = chief.lines[:2]
    assert second == "waiting for worker 0 (127.0.0.1:60)"
    assert first == f"{second}; the cluster is from TF_CONFIG"
    assert error.hint.endswith("--cluster '{}' trains alone.")


def test_a_chief_that_runs_and_does_not_join_is_named(make_job):
    job = make_job(workers=1, join_secs=3.0)
    job.open("chief")
    error = errors_of([job.open("worker 0")])[0]
    assert "waiting for chief (127.0.0.1:1), which runs but is not ready" in error.message


def test_a_name_that_does_not_resolve_is_named(make_job, monkeypatch):
    def resolve(*args, **options):
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    job = make_job(workers=1, host="nowhere.example", join_secs=0.5)
    error = errors_of([job.open("worker 0")])[0]
    assert "the name nowhere.example does not resolve" in error.message


def test_another_program_on_the_port_of_the_chief_is_named(make_job):
    job = make_job(workers=1, join_secs=1.0)
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", job.port))
        listening.listen(5)
        listening.settimeout(0.9)
        worker = job.open("worker 0")
        other, _ = listening.accept()
        other.sendall(b"SSH-2.0-OpenSSH_9.6\r\n")
        error = errors_of([worker])[0]
        other.close()
    assert f"something else listens on 127.0.0.1:{job.port}, it began with b'SSH-" in error.message


def test_a_port_in_use_is_named_with_the_way_out(make_job, monkeypatch):
    monkeypatch.setattr(handshake, "_BIND_SECS", 0.0)
    job = make_job(workers=1)
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", job.port))
        listening.listen(5)
        error = errors_of([job.open("chief")])[0]
    assert error.exit_code == 138
    assert error.message == (
        f"The channel cannot listen on 127.0.0.1:{job.port}: Address already in use."
    )
    assert "--channel-port" in error.hint


def test_a_port_in_use_and_no_missing_worker_is_named_when_the_time_is_over(make_job):
    job = make_job(workers=1, join_secs=1.2)
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", job.port))
        listening.listen(5)
        chief = job.open("chief")
        error = errors_of([chief])[0]
    place = f"127.0.0.1:{job.port}"
    assert error.message == f"The channel cannot listen on {place}: Address already in use."
    assert "--channel-port" in error.hint
    assert chief.lines == [f"{place} is in use; trying again"]  # once for all attempts


def test_a_second_process_that_is_the_same_chief_names_the_port(make_job):
    job = make_job(workers=1)
    chief = job.open("chief")
    await_listener(job.port).close()
    error = errors_of([job.open("chief", join_secs=0.3)])[0]
    assert f"cannot listen on 127.0.0.1:{job.port}: Address already in use." in error.message
    assert "Start each task of a cluster once" in error.hint
    join([chief.channel, job.open("worker 0").channel])


def test_a_port_that_becomes_free_is_used(make_job):
    job = make_job(workers=1)
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", job.port))
        listening.listen(5)
        chief = job.open("chief")
        await_lines(chief)
    join([chief.channel, job.open("worker 0").channel])
    assert chief.lines == [f"127.0.0.1:{job.port} is in use; trying again"]


def test_a_port_that_was_in_use_is_not_blamed_for_a_missing_worker(make_job):
    job = make_job(workers=1, join_secs=1.5)
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", job.port))
        listening.listen(5)
        chief = job.open("chief")
        await_lines(chief)
    error = errors_of([chief])[0]
    assert "worker 0 (127.0.0.1:60) has not joined" in error.message


# ------------------------------------------------------------------------------ who does not belong


@pytest.mark.parametrize(
    "start",
    [
        b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"toolkit-channel\n" + b"\xff" * 13,
        b"toolkit-channel\n" + encode_frame(Kind.IDENTITY, {"task": "worker 0"}),
        b"toolkit-channel\n" + encode_frame(Kind.IDENTITY, {})[:-2] + b"[]",
        b"toolkit-channel\n" + encode_frame(Kind.COMMAND, {"step": 1}),
    ],
    ids=["http", "tls", "size", "identity", "list", "command"],
)
def test_a_stranger_is_dropped_with_one_line_and_hurts_nobody(make_job, start):
    job = make_job(workers=1)
    chief = job.open("chief")
    for _ in range(2):
        with await_listener(job.port) as stranger:
            stranger.sendall(start)
            stranger.settimeout(10)
            while stranger.recv(100):  # up to its end
                pass
    join([chief.channel, job.open("worker 0").channel])
    assert len(chief.lines) == 1
    assert "dropped a connection from 127.0.0.1 that is not of this job" in chief.lines[0]


def test_a_probe_of_the_port_is_no_stranger(make_job):
    job = make_job(workers=1)
    chief = job.open("chief")
    await_listener(job.port).close()
    join([chief.channel, job.open("worker 0").channel])
    assert chief.lines == []


def test_a_stranger_is_named_when_somebody_is_missing(make_job):
    job = make_job(workers=1, join_secs=0.7)
    chief = job.open("chief")
    with await_listener(job.port) as stranger:
        stranger.sendall(b"GET / HTTP/1.1\r\n\r\n")
        error = errors_of([chief])[0]
    assert "a process that is not of this job connected from 127.0.0.1" in error.message


def test_a_stranger_that_sends_slowly_is_dropped(make_job, monkeypatch):
    monkeypatch.setattr(handshake, "_ANSWER_SECS", 0.5)
    job = make_job(workers=1)
    chief = job.open("chief")
    with await_listener(job.port) as stranger, pytest.raises(OSError):
        for byte in b"toolkit-channel\n" * 10:
            stranger.sendall(bytes([byte]))
            time.sleep(0.2)
    assert len(chief.lines) == 1


def test_a_second_process_of_a_task_is_refused(make_job, monkeypatch):
    monkeypatch.setattr(channel, "_RESTART_SECS", -2.0)
    job = make_job(workers=1)
    job.start()
    error = errors_of([job.open("worker 0")])[0]
    assert isinstance(error, UsageError)
    assert error.message == "Another process is worker 0 (127.0.0.1:60) already."


def test_a_process_of_a_job_that_is_about_to_end_waits_for_the_next_one(make_job):
    job = make_job(workers=1)
    first, worker = job.start()
    following = job.open("worker 0")
    time.sleep(0.3)
    first.channel.close()
    join([job.open("chief").channel, following.channel])


def test_another_version_of_the_toolkit_ends_the_job_for_all(make_job):
    job = make_job(workers=3)
    chief = job.open("chief")
    await_listener(job.port).close()
    worker = job.open("worker 0")
    refusal = job.connect("worker 1", toolkit="0.0.1").receive()
    assert "runs toolkit 0.0.1" in refusal.header["text"]
    errors = errors_of([job.open("worker 2"), chief, worker])  # worker 2 comes after the end
    assert [error.exit_code for error in errors] == [2, 2, 2]
    assert "worker 1 (127.0.0.1:61) runs toolkit 0.0.1 and the chief" in errors[0].message


@pytest.mark.parametrize("first, second", [("chief", "worker 0"), ("worker 0", "chief")])
def test_one_that_comes_a_little_later_learns_why_the_job_does_not_start(make_job, first, second):
    job = make_job(workers=1)
    early = job.open(first)
    failing = threading.Thread(target=lambda: early.channel.fail(DataError("No such file.")))
    failing.start()
    time.sleep(0.3)
    error = errors_of([job.open(second)])[0]
    assert (error.message, error.exit_code) == (f"{first} failed: No such file.", 4)
    failing.join()


def test_a_process_of_another_cluster_is_refused(make_job):
    job = make_job(workers=1)
    chief = job.open("chief")
    other = make_job(workers=2, channel_port=job.port)
    error = errors_of([other.open("worker 0")])[0]
    assert isinstance(error, UsageError)
    assert "worker 0 has another definition of the cluster than the chief" in error.message
    join([chief.channel, job.open("worker 0").channel])


def test_a_worker_lost_before_the_start_ends_the_job(make_job):
    job = make_job(workers=2)
    chief = job.open("chief")
    await_listener(job.port).close()
    job.connect("worker 1").close()
    errors = errors_of([chief, job.open("worker 0", join_secs=1.0)])
    assert isinstance(errors[0], PeerError)
    assert errors[0].message == "worker 1 (127.0.0.1:61) is gone."
