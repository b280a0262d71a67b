"""Start, restart and end of the processes of a job, which play scripts here."""

import os
import signal

import process_fixtures
import pytest
from file_fixtures import read_text
from launch_fixtures import HANG, LIVE, launch_scripts, starts_of
from process_fixtures import PATIENCE, is_gone, wait_for_file, wait_until

from toolkit.cluster import launcher
from toolkit.cluster.chaos import Chaos
from toolkit.cluster.layout import Command, Layout
from toolkit.cluster.signals import handle_signals


@pytest.fixture(autouse=True)
def _turn():
    """Wait until the processes of few other tests run."""
    process_fixtures.take_turn()


# A trainer whose peer dies ends with 138, as the channel lets it.
WITH_PEER = "wait_for_end('dead'); sys.exit(138)\n"
DIE = "announce_end('dead'); {}\n"


def test_stdout_is_that_of_the_chief_and_all_lines_have_their_task_in_front(here, capsys):
    script = "say('log'); print('result', flush=True); say('late')"
    assert launch_scripts({"chief": script, "worker 0": "print('x')"}) == 0
    captured = capsys.readouterr()
    assert captured.out == "result\n"
    lines = captured.err.splitlines()
    assert [line for line in lines if "chief" in line] == ["chief    | log", "chief    | late"]
    assert "worker 0 | x" in lines


def test_a_death_restarts_all_processes(here, capsys):
    scripts = {"chief": WITH_PEER, "worker 0": DIE.format("os.kill(os.getpid(), 11)")}
    assert launch_scripts({name: "if start == 1: " + text for name, text in scripts.items()}) == 0
    assert starts_of("chief") == ["run --run-dir r", "run --run-dir r --resume"]
    assert starts_of("worker 0") == starts_of("chief")
    message = "worker 0 was ended by SIGSEGV; starting all 2 processes again (restart 1 of 3)"
    assert f"launch   | {message}\n" in capsys.readouterr().err


@pytest.mark.parametrize("code", [1, 3])
def test_a_failure_that_would_come_again_ends_the_job(here, capsys, code):
    scripts = {"chief": WITH_PEER, "worker 0": DIE.format(f"sys.exit({code})")}
    assert launch_scripts(scripts) == code
    assert len(starts_of("chief")) == 1
    assert f"worker 0 ended with exit code {code}, and with it the job" in capsys.readouterr().err


def test_without_restarts_the_exit_code_is_that_of_the_first_failure(here):
    scripts = {"chief": WITH_PEER, "worker 0": DIE.format("os.kill(os.getpid(), 9)")}
    assert launch_scripts(scripts, restarts=0) == 137


def test_a_process_that_hangs_after_a_failure_is_killed(here, capsys):
    scripts = {"chief": HANG, "worker 0": "wait_for('ready chief'); sys.exit(4)"}
    assert launch_scripts(scripts, grace_secs=0.5) == 4
    assert "chief did not end with the others; killing it" in capsys.readouterr().err


def test_workers_are_ended_soon_after_a_chief_that_failed(here, capsys, monkeypatch):
    monkeypatch.setattr(launcher, "NOTICE_SECS", 0.1)
    scripts = {"chief": "wait_for('ready worker 0'); sys.exit(2)", "worker 0": LIVE}
    assert launch_scripts(scripts) == 2
    assert f"worker 0 | signal {signal.SIGTERM.value}\n" in capsys.readouterr().err


def test_what_a_process_that_died_had_started_is_killed(here):
    sleeper = "p = subprocess.Popen(['sleep', '3600']); open('pid', 'w').write(str(p.pid))\n"
    assert launch_scripts({"chief": sleeper + "sys.exit(1)"}, Layout(1)) == 1
    wait_until(lambda: is_gone(read_text("pid")))


def test_only_the_chief_prints_json_and_once(here, capsys):
    scripts = {"chief": "print('{}', start, flush=True); sys.exit(138 if start == 1 else 0)"}
    assert launch_scripts(scripts, command=Command(["run", "--json"], "r")) == 0
    words = "run --json --resume"
    assert starts_of("chief") == ["run --json", words]
    assert starts_of("worker 0") == [word.replace(" --json", "") for word in starts_of("chief")]
    assert capsys.readouterr().out == "{} 2\n"  # of the last attempt alone


def num_starts(name):
    return len(starts_of(name)) if os.path.exists("starts of " + name) else 0


def test_kills_at_random_are_not_counted_as_restarts(here, capsys):
    chaos = Chaos(2, "r", seed=1)
    names = ("chief", "worker 0")
    chaos.is_due = lambda: chaos.is_active and all(
        num_starts(name) == len(chaos.victims) + 1 for name in names
    )
    scripts = {"*": "while start < 3: signal.pause()"}
    assert launch_scripts(scripts, chaos=chaos, restarts=0, grace_secs=0.1) == 0
    err = capsys.readouterr().err
    assert "launch   | chaos: 2 of 2 kills (" in err
    assert "; the job ended with exit code 0" in err


def test_a_kill_that_comes_after_the_end_does_not_count(here, capsys):
    chaos = Chaos(1, "r")

    def end_first():
        open("go", "w").close()
        wait_for_file("ended")
        wait_until(lambda: is_gone(read_text("ended")))
        return chaos.is_active

    chaos.is_due = end_first
    scripts = {"chief": "wait_for('go'); announce_end('ended')"}
    assert launch_scripts(scripts, Layout(1), chaos=chaos) == 0
    assert "chaos: 0 of 1 kills; the job ended with exit code 0" in capsys.readouterr().err


def log_lines():
    return read_text("log").splitlines()


def wait_for_lines(launcher, *lines):
    """Wait until each of these lines is in the log."""
    wait_until(lambda: not set(lines) - set(log_lines()), log_lines, [launcher])


def start_launcher(script):
    """A launcher in a process and a session of its own, when its two processes are ready."""
    scripts = {"*": "open('pid of ' + name, 'w').write(str(os.getpid()))\n" + script}
    code = f"import sys; from launch_fixtures import *; sys.exit(launch_scripts({scripts!r}))"
    with open("log", "w") as log:
        launcher = process_fixtures.start(statements=code, stderr=log, start_new_session=True)
    wait_for_lines(launcher, "chief    | ready", "worker 0 | ready")
    return launcher


def test_a_signal_reaches_each_process_once(here):
    launcher = start_launcher(LIVE)
    os.killpg(launcher.pid, signal.SIGTERM)  # as a terminal does
    assert launcher.wait(PATIENCE) == 143
    lines = [line for line in sorted(log_lines()) if "| signal" in line]
    assert lines == ["chief    | signal 15", "worker 0 | signal 15"]


def test_the_signals_of_a_terminal_that_closes_are_one_request_to_end():
    came = []
    with handle_signals(came.append):
        for signum in (signal.SIGHUP, signal.SIGHUP, signal.SIGTERM, signal.SIGINT):
            os.kill(os.getpid(), signum)
    assert came == [signal.SIGTERM, signal.SIGINT]


def test_the_second_signal_kills(here):
    launcher = start_launcher(HANG)
    launcher.send_signal(signal.SIGINT)
    wait_for_lines(launcher, "launch   | Interrupted: waiting for 2 to end; a second signal kills")
    launcher.send_signal(signal.SIGINT)
    assert launcher.wait(PATIENCE) == 130
    assert all(is_gone(read_text("pid of " + name)) for name in ("chief", "worker 0"))


def test_no_process_survives_a_launcher_that_is_killed(here):
    start_launcher(HANG).kill()
    for name in ("chief", "worker 0"):
        wait_until(lambda name=name: is_gone(read_text("pid of " + name)))
