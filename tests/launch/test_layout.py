"""The tasks of a job, their addresses and ports, and the command after a death."""

import socket

import pytest

from toolkit.cluster.definition import read_cluster
from toolkit.cluster.layout import LOOPBACK, Command, Layout, held_ports, local_environments
from toolkit.cluster.tasks import ClusterSettings


def test_a_port_that_is_held_is_no_other_process_and_its_server_listens():
    with held_ports(2) as ports, socket.socket() as server, socket.socket() as other:
        assert ports[0] != ports[1]
        with pytest.raises(OSError):
            other.bind((LOOPBACK, ports[0]))
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind((LOOPBACK, ports[0]))
        server.listen(1)


def clusters(layout):
    """The clusters that the processes of a job read, by the names of their tasks."""
    environments = local_environments(layout, range(1, layout.num_servers + 2)).items()
    return {name: read_cluster(ClusterSettings(), env) for name, env in environments}


def test_each_process_reads_its_own_task():
    read = clusters(Layout(3, 2))
    names = ["chief", "worker 0", "worker 1", "ps 0", "ps 1"]
    assert list(read) == names
    assert [cluster.task.name for cluster in read.values()] == names
    assert read["chief"].is_chief and read["ps 0"].has_ps
    assert len({tuple(map(tuple, cluster.jobs.values())) for cluster in read.values()}) == 1


def test_the_port_of_the_channel_is_none_of_the_servers():
    environment = local_environments(Layout(2), [71, 72, 73])["chief"]
    assert environment["TOOLKIT_CHANNEL_PORT"] == "73"
    assert "73" not in environment["TF_CONFIG"]


@pytest.mark.parametrize(
    "words, again",
    [
        ("run --run-dir r", "run --run-dir r --resume"),
        ("run --run-dir r --resume", "run --run-dir r --resume"),
        ("run --run-dir r --force --json", "run --run-dir r --json --resume"),
        ("resume r --steps 9", "resume r --steps 9"),
    ],
)
def test_the_command_after_a_death_continues_the_run(words, again):
    assert Command(words.split(), "r").again == again.split()
