"""Jobs of real processes: each ends by itself, with the code of all, however one of them ends."""

from __future__ import annotations

import signal

import pytest
from job_fixtures import start_job
from process_fixtures import PATIENCE

NAMES = ["chief", "worker 0", "worker 1", "ps 0"]


@pytest.fixture
def start(here):
    """A function that starts a job; its arguments are the behaviours that are not `obey`."""

    def start_processes(others=(), behaviour="obey"):
        statements = "import silence_fixtures; silence_fixtures.install(); import channel_process"
        statements += "; import sys; sys.exit(channel_process.main(*sys.argv[1:]))"
        others = {name: [other] for name, other in dict(others).items()}
        return start_job(behaviour, workers=3, ps=1, others=others, statements=statements)

    return start_processes


def all_are(code, *names):
    return dict.fromkeys(names or NAMES, code)


def test_a_kill_ends_those_that_hang_and_their_output_is_not_lost(start):
    job = start({"chief": "hang", "worker 0": "hang"})
    job.wait_for_line("hangs", "chief", "worker 0")
    job.send(signal.SIGKILL, "worker 1")
    endings = job.check_codes(all_are(138, "chief", "worker 0", "ps 0"))
    assert endings["chief"].out == endings["worker 0"].out == "buffered"
    for ended in endings.values():
        assert "worker 1 (127.0.0.1:" in ended.err and ") is gone.\n" in ended.err


@pytest.mark.parametrize("name", ["worker 0", "chief"])
def test_a_stopped_process_is_lost_and_ends_when_it_continues(start, here, name):
    job = start()
    job.wait_for_line("joined")
    job.send(signal.SIGSTOP, name)
    (here / "silent").write_text(name)
    endings = job.check_codes(all_are(138, *[other for other in NAMES if other != name]))
    silence = f") has not answered for {PATIENCE:g} s.\n"
    assert all(silence in ended.err for ended in endings.values())
    job.send(signal.SIGCONT, name)
    endings = job.check_codes({name: 138})
    assert "The job has ended without this process" in endings[name].err


def test_ctrl_c_at_the_start_ends_all(start):
    job = start({"worker 1": "never"}, behaviour="impatient")
    for name in ("worker 0", "ps 0"):  # it is connected
        job.wait_for_line("which is not ready or waits for others", name)
    job.send(signal.SIGINT, "chief")
    endings = job.check_codes(all_are(130, "chief", "worker 0", "ps 0"))
    assert "chief ended: Interrupted before the start." in endings["worker 0"].err
