"""The ports of a job, and the command after a death."""

import socket

import pytest

from toolkit.cluster.layout import LOOPBACK, Command, held_ports


def test_a_port_that_is_held_is_no_other_process_and_its_server_listens():
    with held_ports(2) as ports, socket.socket() as server, socket.socket() as other:
        assert ports[0] != ports[1]
        with pytest.raises(OSError):
            other.bind((LOOPBACK, ports[0]))
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind((LOOPBACK, ports[0]))
        server.listen(1)


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
