"""What the processes of a cluster compare at the start, and whom they blame for an error."""

import socket
from types import SimpleNamespace
from unittest import mock

import pytest

from toolkit import tf
from toolkit.audit.processes import count_processes
from toolkit.cluster.channel import PeerError
from toolkit.cluster.server import check_port
from toolkit.cluster.tasks import Cluster, ClusterSettings, Task
from toolkit.errors import RetryError, UsageError
from toolkit.training.loop import Loop
from toolkit.training.peers import Peers, await_reason, check_facts, shared_facts

FACTS = {
    "version tensorflow": "2.21.0",
    "option learning_rate": 0.1,
    "plugin mine": {"mine.py": "a1"},
    "data bars.npz": "b2",
    "reader": "resident",
    "mode": "loop",
}
# The channel of a job that has ended.
ENDED = mock.Mock(**{"check.side_effect": PeerError("worker 0 (a:1) is gone.")})


@pytest.mark.parametrize(
    ("title", "value", "difference"),
    [
        ("version tensorflow", "1.15.5", "version tensorflow '1.15.5', the chief '2.21.0'"),
        ("option learning_rate", 0.5, "option learning_rate 0.5, the chief 0.1"),
        ("option steps", 5, "option steps 5, the chief None"),
        ("plugin mine", {}, "other plugin mine than the chief"),
        ("data bars.npz", "c3", "other data bars.npz than the chief"),
        ("reader", "stream", "reader 'stream', the chief 'resident'"),
    ],
)
def test_a_difference_at_the_start_is_named(title, value, difference):
    check_facts("worker 0", FACTS, dict(FACTS))
    with pytest.raises(UsageError) as info:
        check_facts("worker 0", FACTS, {**FACTS, title: value})
    assert info.value.message == f"worker 0 has {difference}."


def test_processes_compare_all_but_places_and_machines():
    places = {"data": "npz:bars.npz", "folder": "r", "plugin": "./mine.py", "with": []}
    facts = {
        "options": {**places, "console_secs": 5, "init_from": "", "learning_rate": 0.1},
        "versions": {"toolkit": "0.2", "tensorflow": "2.21.0", "numpy": "2.0"},
        "plugins": {"mine": {"mine.py": "a1"}},
        "data": {"bars.npz": "b2"},
        **{"machine": {"cpu": "a"}, "partition": {"train": 40}},
        **{"reader": "resident", "mode": "loop"},
    }
    assert shared_facts(facts) == {**FACTS, "version toolkit": "0.2", "partition": {"train": 40}}


def test_processes_that_make_other_calls_are_refused():
    with pytest.raises(UsageError, match=r"^worker 0 can make several steps per call, and") as info:
        check_facts("worker 0", FACTS, {**FACTS, "mode": "single"})
    assert info.value.hint == "Set --steps-per-call 1 in all processes."


@pytest.mark.parametrize(
    "error",
    [
        tf.errors.UnavailableError(None, None, "Connection reset by peer"),
        tf.errors.AbortedError(None, None, "Session was lost"),
        tf.errors.InternalError(None, None, "Collective ops is aborted by: no luck"),
    ],
)
def test_an_error_of_the_runtime_after_a_death_is_blamed_on_the_dead(error):
    with pytest.raises(PeerError, match="is gone"):
        await_reason(ENDED, error)


def test_what_fails_between_two_calls_is_blamed_on_the_dead():
    def read_step_of_a_server():
        raise tf.errors.UnavailableError(None, None, "recvmsg:Connection reset by peer")

    loop = SimpleNamespace(_run_bare_steps=read_step_of_a_server, reader=None, step=10, target=99)
    loop.tf_graph, loop._peers = tf.Graph(), Peers(SimpleNamespace(num_trainers=2), ENDED)
    with pytest.raises(PeerError, match="is gone"):
        Loop._run_to_next_due_step(loop, None)


def test_an_error_of_the_process_itself_is_its_own():
    await_reason(ENDED, tf.errors.InvalidArgumentError(None, None, "no luck"))


def test_a_run_is_trained_again_by_as_many_processes():
    replicated = {"mode": "replicated", "replicas": 2}
    clusters = None, replicated, {**replicated, "devices": 2}
    assert [count_processes({"cluster": cluster}) for cluster in clusters] == [1, 2, 1]


def test_a_port_that_another_program_uses_is_named():
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        address = f"127.0.0.1:{other.getsockname()[1]}"
        jobs = {"worker": [address, "127.0.0.1:1"]}
        cluster = Cluster(jobs, Task("worker", 0, address), ClusterSettings())
        with pytest.raises(RetryError) as info:
            check_port(cluster)
    assert info.value.message == f"worker 0 cannot listen on {address}: Address already in use."
    check_port(cluster)
