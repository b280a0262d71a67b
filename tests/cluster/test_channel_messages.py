"""Commands of the chief and the replies of the followers."""

from __future__ import annotations

import threading

import pytest
from process_fixtures import wait_until

from toolkit.cluster.channel import JobEnded, PeerError
from toolkit.cluster.frames import Kind, encode_frame


def obey(channel):
    """Reply to each command with its header and the size of its payload until the job ends."""
    try:
        while True:
            message, payload = channel.receive()
            channel.reply({**message, "size": len(payload)})
    except (JobEnded, PeerError, RuntimeError):  # it has ended, or the test has
        pass


def start_with_obedient_workers(job):
    """The chief's channel; the workers obey in threads."""
    chief, *workers = job.start()
    for worker in workers:
        threading.Thread(target=obey, args=(worker.channel,), daemon=True).start()
    return chief.channel


def test_each_follower_gets_each_command_and_the_replies_are_in_the_order_of_the_ranks(make_job):
    job = make_job(workers=3, ps=1)
    chief, *workers, _ = job.start()
    chief.channel.command({"steps": 20}, b"\x00\xff")
    for rank, worker in reversed(list(enumerate(workers))):
        assert worker.channel.receive() == ({"steps": 20}, b"\x00\xff")
        worker.channel.reply({"rank": rank})
    assert chief.channel.replies() == [{"rank": 0}, {"rank": 1}, {"rank": 2}]


def test_many_commands(make_job):
    chief = start_with_obedient_workers(make_job(workers=2))
    for step in range(500):
        chief.command({"step": step})
        assert chief.replies() == [{"step": step, "size": 0}] * 2


def test_a_cluster_of_a_chief_and_parameter_servers_has_no_followers(make_job):
    chief, _ = make_job(workers=0, ps=1).start()
    chief.channel.command({"step": 1})
    assert chief.channel.replies() == []


def test_a_parameter_server_notifies_the_chief_who_does_not_wait_for_it(make_job):
    chief, worker, server = make_job(workers=1, ps=1).start()
    assert chief.channel.notifications() == []
    server.channel.notify({"signal": 15})
    server.channel.notify({"signal": 2})
    messages = []
    while len(messages) < 2:
        messages += chief.channel.notifications()
    assert [(task.name, message["signal"]) for task, message in messages] == [
        ("ps 0", 15),
        ("ps 0", 2),
    ]
    chief.channel.command({})  # the replies of workers are not mixed with these
    worker.channel.receive()
    worker.channel.reply({"ok": True})
    assert chief.channel.replies() == [{"ok": True}] and chief.channel.notifications() == []


def test_a_large_payload_arrives_as_it_is(make_job):
    chief, worker = make_job(workers=1).start()
    payload = bytes(range(256)) * (1 << 17)
    threading.Thread(target=chief.channel.command, args=({}, payload), daemon=True).start()
    assert worker.channel.receive() == ({}, payload)


def test_a_payload_that_arrives_slowly_is_a_sign_of_life(make_job):
    job = make_job(workers=1)
    worker, (chief,) = job.start_with_bare("worker 0")
    chief.channel.command({})
    frame = iter(encode_frame(Kind.REPLY, {"ok": True}, 20) + bytes(20))
    peer = chief.peer("worker 0")

    def send_a_byte():
        worker._socket.sendall(bytes([next(frame)]))
        wait_until(lambda: peer.connection.last_heard == job.clock.now())

    job.pass_time(3 * job.settings.peer_secs, send_a_byte)
    worker._socket.sendall(bytes(frame))
    assert chief.channel.replies() == [{"ok": True}]


def test_a_follower_that_reads_slowly_is_alive_and_so_is_the_chief_for_the_others(make_job):
    job = make_job(workers=2)
    slow, (chief, quick) = job.start_with_bare("worker 0")
    threading.Thread(target=obey, args=(quick.channel,), daemon=True).start()
    sender = threading.Thread(target=chief.channel.command, args=({}, bytes(64 << 20)))
    sender.start()
    wait_until(chief.peer("worker 0").connection._send_lock.locked)
    job.pass_time(3 * job.settings.peer_secs, slow.beat)  # in which the chief's sending blocks
    assert sender.is_alive()
    while slow.receive().kind != Kind.COMMAND:
        pass
    slow.send(encode_frame(Kind.REPLY, {}))
    assert chief.channel.replies()[1] == {"size": 64 << 20}


def test_a_busy_main_thread_does_not_stop_the_beats(make_job):
    job = make_job(workers=1)
    chief = start_with_obedient_workers(job)
    clock = threading.Thread(target=job.pass_time, args=[3 * job.settings.peer_secs])
    clock.start()
    while clock.is_alive():
        sum(range(100000))
    chief.command({})
    assert chief.replies() == [{"size": 0}]


# --------------------------------------------------------------------------- mistakes of the caller


def test_a_command_before_the_replies_to_the_last_one_is_refused(make_job):
    chief, _ = make_job(workers=1).start()
    chief.channel.command({"step": 1})
    with pytest.raises(RuntimeError, match="has no replies yet"):
        chief.channel.command({"step": 2})


def test_replies_without_a_command_are_refused(make_job):
    chief, worker = make_job(workers=1).start()
    with pytest.raises(RuntimeError, match="no command"):
        chief.channel.replies()
    with pytest.raises(RuntimeError, match="no command"):
        worker.channel.reply({})


def test_a_message_that_is_no_json_is_refused_before_anything_is_sent(make_job):
    chief = start_with_obedient_workers(make_job(workers=1))
    with pytest.raises(TypeError):
        chief.command({"value": object()})
    chief.command({"step": 1})
    assert chief.replies() == [{"step": 1, "size": 0}]


def test_a_closed_channel_refuses_calls(make_job):
    _, worker = make_job(workers=1).start()
    worker.channel.close()
    for call in (worker.channel.receive, lambda: worker.channel.reply({})):
        with pytest.raises(RuntimeError, match="The channel is closed"):
            call()
