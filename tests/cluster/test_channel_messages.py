"""Commands of the chief and the replies of the followers."""

import threading

from channel_fixtures import encode
from process_fixtures import wait_until


def obey(channel):
    """Reply to a command with the size of its payload."""
    _, payload = channel.receive()
    channel.reply({"size": len(payload)})


def test_each_follower_gets_each_command_and_the_replies_are_in_the_order_of_the_ranks(make_job):
    job = make_job(workers=3, ps=1)
    chief, *workers, _ = job.start()
    chief.channel.command({"steps": 20}, b"\x00\xff")
    for rank, worker in reversed(list(enumerate(workers))):
        assert worker.channel.receive() == ({"steps": 20}, b"\x00\xff")
        worker.channel.reply({"rank": rank})
    assert chief.channel.replies() == [{"rank": 0}, {"rank": 1}, {"rank": 2}]


def test_a_parameter_server_notifies_the_chief_who_does_not_wait_for_it(make_job):
    chief, worker, server = make_job(workers=1, ps=1).start()
    assert chief.channel.notifications() == []
    server.channel.reply({"signal": 15})
    server.channel.reply({"signal": 2})
    messages = []
    while len(messages) < 2:
        messages += chief.channel.notifications()
    signals = [(task.name, message["signal"]) for task, message in messages]
    assert signals == [("ps 0", 15), ("ps 0", 2)]
    chief.channel.command({})  # the replies of workers are not mixed with these
    worker.channel.receive()
    worker.channel.reply({"ok": True})
    assert chief.channel.replies() == [{"ok": True}] and chief.channel.notifications() == []


def test_a_payload_that_arrives_slowly_is_a_sign_of_life(make_job):
    job = make_job(workers=1)
    worker, (chief,) = job.start_with_bare("worker 0")
    chief.channel.command({})
    message = iter(encode("reply", {"ok": True}, bytes(20)))
    peer = chief.peer("worker 0")

    def send_a_byte():
        worker.socket.sendall(bytes([next(message)]))
        wait_until(lambda: peer.last_heard == job.clock.now())

    job.pass_time(3 * job.settings.peer_secs, send_a_byte)
    worker.socket.sendall(bytes(message))
    assert chief.channel.replies() == [{"ok": True}]


def test_a_follower_that_reads_slowly_is_alive_and_so_is_the_chief_for_the_others(make_job):
    job = make_job(workers=2)
    slow, (chief, quick) = job.start_with_bare("worker 0")
    threading.Thread(target=obey, args=(quick.channel,), daemon=True).start()
    chief.channel.command({}, bytes(64 << 20))  # more than the system keeps for who does not read
    peer = chief.peer("worker 0")

    def beat():
        slow.send("beat", {})  # which the system may keep until it knows that the last one arrived
        wait_until(lambda: peer.last_heard == job.clock.now())

    job.pass_time(3 * job.settings.peer_secs, beat)
    while slow.receive()[0] != "command":
        pass
    slow.send("reply", {})
    assert chief.channel.replies()[1] == {"size": 64 << 20}
