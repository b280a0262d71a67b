"""Start, restart and end of the processes of a job, which play scripts here."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from file_fixtures import REPOSITORY
from launch_fixtures import HANG, LIVE, launch_scripts, starts_of

from toolkit.launch.chaos import Chaos
from toolkit.launch.command import Command
from toolkit.launch.layout import Layout

DEATHS = {
    "killed": ("os.kill(os.getpid(), 9)", "was killed"),
    "crashed": ("os.kill(os.getpid(), 11)", "was ended by SIGSEGV"),
    "aborted": ("os.kill(os.getpid(), 6)", "was ended by SIGABRT"),
    "retry": ("sys.exit(138)", "ended with exit code 138"),
}
# A trainer whose peer dies ends with 138, as the channel lets it.
WITH_PEER = "wait_for_end('dead'); sys.exit(138)\n"
DIE = "announce_end('dead'); {}\n"


def test_all_lines_have_the_task_in_front(here, capsys):
    scripts = {"chief": "say('a'); say('b')", "worker 0": "say('c'); print('d')"}
    assert launch_scripts(scripts) == 0
    lines = capsys.readouterr().err.splitlines()
    assert [line for line in lines if line.startswith("chief")] == ["chief    | a", "chief    | b"]
    assert sorted(lines)[2:] == ["worker 0 | c", "worker 0 | d"]


def test_stdout_is_that_of_the_chief(here, capsys):
    script = "say('log'); print('result', flush=True); say('late')"
    assert launch_scripts({"chief": script, "worker 0": "print('x')"}) == 0
    captured = capsys.readouterr()
    assert captured.out == "result\n"
    assert "worker 0 | x" in captured.err


def test_the_json_of_a_process_that_dies_is_not_printed(here, capsys):
    script = "print('{\"start\": %d}' % start, flush=True)\nif start == 1: os.kill(os.getpid(), 9)"
    command = Command(["run", "--run-dir", "r", "--json"], "r", has_json=True)
    assert launch_scripts({"chief": script}, command=command) == 0
    assert json.loads(capsys.readouterr().out) == {"start": 2}


@pytest.mark.parametrize("kind", DEATHS)
def test_a_death_restarts_all_processes(here, capsys, kind):
    code, words = DEATHS[kind]
    scripts = {
        "chief": "if start == 1: " + WITH_PEER,
        "worker 0": "if start == 1: " + DIE.format(code),
    }
    assert launch_scripts(scripts) == 0
    assert starts_of("chief") == ["run --run-dir r", "run --run-dir r --resume"]
    assert starts_of("worker 0") == ["run --run-dir r", "run --run-dir r --resume"]
    message = f"launch   | worker 0 {words}; starting all 2 processes again (restart 1 of 3)\n"
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("code", [1, 2, 3, 4, 5, 6])
def test_a_failure_that_would_come_again_ends_the_job(here, capsys, code):
    scripts = {"chief": WITH_PEER, "worker 0": DIE.format(f"sys.exit({code})")}
    assert launch_scripts(scripts) == code
    assert len(starts_of("chief")) == 1
    assert f"worker 0 ended with exit code {code}, and with it the job" in capsys.readouterr().err


def test_restarts_are_limited(here, capsys):
    assert launch_scripts({"*": "sys.exit(138)"}, restarts=2) == 138
    assert len(starts_of("chief")) == 3


def test_without_restarts_the_exit_code_is_that_of_the_first_failure(here):
    scripts = {"chief": WITH_PEER, "worker 0": DIE.format("os.kill(os.getpid(), 9)")}
    assert launch_scripts(scripts, restarts=0) == 137


def test_a_failure_of_a_worker_after_the_chief_has_finished_is_reported_alone(here, capsys):
    scripts = {"worker 0": "wait_for_end('end'); os.kill(os.getpid(), 11)"}
    scripts["chief"] = "announce_end('end')"
    assert launch_scripts(scripts) == 0
    err = capsys.readouterr().err
    assert "worker 0 was ended by SIGSEGV, after the chief had finished" in err


def test_a_process_that_hangs_after_a_failure_is_killed(here, capsys):
    scripts = {"chief": HANG, "worker 0": "time.sleep(0.3); sys.exit(4)"}
    assert launch_scripts(scripts, grace_secs=0.5) == 4
    assert "chief did not end with the others; killing it" in capsys.readouterr().err


def test_workers_end_soon_after_a_chief_that_failed(here):
    scripts = {"chief": "time.sleep(0.5); sys.exit(2)", "worker 0": LIVE}
    start = time.monotonic()
    assert launch_scripts(scripts, grace_secs=30.0) == 2
    assert time.monotonic() - start < 20


def test_what_a_process_that_died_had_started_is_killed(here):
    sleeper = "p = subprocess.Popen(['sleep', '60']); open('pid', 'w').write(str(p.pid))\n"
    assert launch_scripts({"chief": sleeper + "sys.exit(1)"}, Layout(1)) == 1
    wait_until(lambda: is_gone(read_pid("pid")))


def test_a_port_in_use_is_replaced_once(here, capsys):
    scripts = {"chief": "say('bind: Address already in use'); sys.exit(1)"}
    assert launch_scripts(scripts) == 1
    assert len(starts_of("chief")) == 2
    assert "a port was in use; starting with other ports" in capsys.readouterr().err


def test_an_evaluator_restarts_alone(here, capsys):
    scripts = {
        "evaluator": "if start == 1: os.kill(os.getpid(), 9)\nopen('done', 'w').close()",
        "*": "wait_for('done')",
    }
    assert launch_scripts(scripts, Layout(2, has_evaluator=True)) == 0
    assert len(starts_of("chief")) == 1 and len(starts_of("evaluator")) == 2


@pytest.mark.parametrize(
    "moment", ["wait_for_end('dead')", "wait_for('again')"], ids=["dead", "again"]
)
def test_an_evaluator_that_ends_with_a_dead_job_is_not_counted_as_a_death(here, moment):
    scripts = {
        "chief": "if start == 1: announce_end('dead'); sys.exit(138)\n"
        "open('again', 'w').close(); wait_for('followed')",
        "worker 0": "if start == 1: wait_for('dead'); time.sleep(0.5); sys.exit(138)",
        "evaluator": f"if start == 1: {moment}; sys.exit(138)\nopen('followed', 'w').close()",
    }
    assert launch_scripts(scripts, Layout(2, has_evaluator=True), restarts=1) == 0
    assert len(starts_of("chief")) == len(starts_of("evaluator")) == 2


def test_only_the_chief_prints_json(here):
    command = Command(["run", "--json"], "r", has_json=True)
    assert launch_scripts({}, Layout(2, 0, has_evaluator=True), command) == 0
    starts = [starts_of(name) for name in ("chief", "worker 0", "evaluator")]
    assert starts == [["run --json"], ["run"], ["run"]]


def test_an_evaluator_may_end_after_the_training(here):
    scripts = {"evaluator": "time.sleep(1.0); sys.exit(0)"}
    assert launch_scripts(scripts, Layout(2, has_evaluator=True), grace_secs=0.2) == 0


def test_an_evaluator_ends_with_a_job_that_failed(here):
    scripts = {"evaluator": LIVE, "chief": "wait_for('starts of evaluator'); sys.exit(3)"}
    assert launch_scripts(scripts, Layout(1, has_evaluator=True)) == 3


def test_an_evaluator_that_fails_does_not_end_the_training(here, capsys):
    scripts = {"evaluator": "sys.exit(4)", "chief": "time.sleep(0.5)"}
    assert launch_scripts(scripts, Layout(1, has_evaluator=True)) == 4
    assert "the training continues without it" in capsys.readouterr().err


def num_starts(name):
    return len(starts_of(name)) if os.path.exists("starts of " + name) else 0


def test_kills_at_random_are_not_counted_as_restarts(here, capsys):
    chaos = Chaos(4, "r", seed=1)
    names = ("chief", "worker 0")
    chaos.is_due = lambda: chaos.is_active and all(
        num_starts(name) == len(chaos.victims) + 1 for name in names
    )
    scripts = {"*": "if start < 5: time.sleep(60)\ntime.sleep(0.5)"}
    assert launch_scripts(scripts, chaos=chaos, restarts=0, grace_secs=0.1) == 0
    err = capsys.readouterr().err
    assert "launch   | chaos: 4 of 4 kills (" in err
    assert "; the job ended with exit code 0" in err


def test_moments_of_kills_follow_the_files_of_the_run(here):
    now = [0.0]
    moments = set()
    for seed in range(20):
        chaos = Chaos(1, "r", seed, clock=lambda: now[0])
        moments.add(chaos._moment)
        os.makedirs("r/checkpoints", exist_ok=True)
        if chaos._moment == "training":
            now[0] += 1000
            assert not chaos.is_due()
            with open("r/commits.jsonl", "a") as file:
                file.write("{}\n")
        for index in range(3):
            open(f"r/checkpoints/model.ckpt-{seed}{index}.index", "w").close()
        chaos.is_due()
        now[0] += 100
        assert chaos.is_due() and chaos.choose(["chief"]) == "chief"
        assert not chaos.is_due()
    assert moments == {"start", "training", "save"}


# ----------------------------------------------------------------------------------------- signals


class LauncherProcess:
    """A launcher in a process of its own."""

    def __init__(self, scripts):
        code = f"import sys; from launch_fixtures import *; sys.exit(launch_scripts({scripts!r}))"
        path = os.pathsep.join([os.path.join(REPOSITORY, "tests", "launch"), REPOSITORY])
        self.process = subprocess.Popen(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONPATH": path},
            stderr=subprocess.PIPE,
            start_new_session=True,
            # Tests may run below nohup, which lets processes ignore it.
            preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),
        )
        self.lines = []

    def wait_for(self, *lines):
        """Read until each of these lines was written."""
        while set(lines) - set(self.lines):
            line = self.process.stderr.readline().decode()
            assert line, self.lines
            self.lines.append(line.rstrip("\n"))

    def end(self):
        """The exit code, and all lines."""
        _, rest = self.process.communicate(timeout=60)
        self.lines += rest.decode().splitlines()
        return self.process.returncode, self.lines


PIDS = "open('pid of ' + name, 'w').write(str(os.getpid()))\n"


def wait_until(condition):
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def read_pid(path):
    with open(path) as file:
        return int(file.read())


def is_gone(pid):
    """Whether a process has ended, also if nobody has waited for it yet."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM], ids=str)
def test_a_signal_reaches_each_process_once(here, signum):
    launcher = LauncherProcess({"*": LIVE})
    launcher.wait_for("chief    | ready", "worker 0 | ready")
    os.killpg(launcher.process.pid, signum)  # as a terminal does
    code, lines = launcher.end()
    assert code == 128 + signum
    assert [line for line in sorted(lines) if "| signal" in line] == [
        f"chief    | signal {signum.value}",
        f"worker 0 | signal {signum.value}",
    ]


def test_a_signal_reaches_the_processes_while_nobody_reads_the_log(here):
    flood = LIVE.replace('say("signal", signum)', "open('ended ' + name, 'w').close(); os._exit(3)")
    launcher = LauncherProcess({"*": flood.replace("time.sleep(60)", "while True: say('x' * 999)")})
    launcher.wait_for("chief    | ready", "worker 0 | ready")
    time.sleep(0.5)  # all pipes fill up
    launcher.process.send_signal(signal.SIGTERM)
    wait_until(lambda: os.path.exists("ended chief") and os.path.exists("ended worker 0"))
    assert launcher.end()[0] == 3


def test_a_hangup_ends_the_processes_like_a_request_to_end(here):
    commit = "time.sleep(0.5); say('committed'); sys.exit(128 + signum)"
    launcher = LauncherProcess({"*": LIVE.replace("sys.exit(128 + signum)", commit)})
    launcher.wait_for("chief    | ready", "worker 0 | ready")
    launcher.process.send_signal(signal.SIGHUP)
    launcher.wait_for("chief    | signal 15", "worker 0 | signal 15")
    launcher.process.send_signal(signal.SIGHUP)  # the shell's after the system's
    code, lines = launcher.end()
    assert code == 143 and "chief    | committed" in lines


def test_the_second_signal_kills(here):
    launcher = LauncherProcess({"*": PIDS + HANG})
    launcher.wait_for("chief    | ready", "worker 0 | ready")
    launcher.process.send_signal(signal.SIGINT)
    launcher.wait_for("launch   | Interrupted: waiting for 2 processes; a second signal kills them")
    launcher.process.send_signal(signal.SIGINT)
    assert launcher.end()[0] == 130
    assert all(is_gone(read_pid("pid of " + name)) for name in ("chief", "worker 0"))


def test_no_process_survives_a_launcher_that_is_killed(here):
    launcher = LauncherProcess({"*": PIDS + HANG})
    launcher.wait_for("chief    | ready", "worker 0 | ready")
    launcher.process.kill()
    launcher.end()
    for name in ("chief", "worker 0"):
        wait_until(lambda name=name: is_gone(read_pid("pid of " + name)))
