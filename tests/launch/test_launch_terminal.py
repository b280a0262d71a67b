"""The progress bar of the chief on a real terminal, among the lines of all processes."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import sys
import termios

import pytest
from file_fixtures import REPOSITORY
from terminal_fixtures import Screen

pytestmark = pytest.mark.usefixtures("turn")

CHIEF = """
from toolkit.cli.streams import guarded
from toolkit.display.console import Console
wait_for("starts of worker")
with guarded():
    console = Console(sys.stderr, 0)
    steps = [0]
    console.start(200, lambda: steps[0])
    for step in (50, 100, 150):
        steps[0] = step
        console.show_metrics({"step": step, "loss": 0.25})
        console._bar.refresh()
        console.log(f"step {step}  validation")
        open(f"at {step}", "w").close()
        wait_for(f"worker at {step}")
    console.stop()
    console.log("end of training")
    print("done    200 steps")
"""
WORKER = """
open("starts of worker", "w").close()
for step in (50, 100, 150):
    wait_for(f"at {step}")
    say("seen at", step)
    open(f"worker at {step}", "w").close()
"""
MAIN = """
import sys
from launch_fixtures import launch_scripts
from toolkit.cli.streams import guarded
with guarded():
    code = launch_scripts({scripts!r})
sys.exit(code)
"""


def show_on_terminal(scripts, width, **variables):
    """The screen after a launcher has run on a terminal, and all that it wrote."""
    names = ("TERM", "COLUMNS", "NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE")
    environment = {name: text for name, text in os.environ.items() if name not in names}
    folders = [
        os.path.join(REPOSITORY, "tests", "launch"),
        os.path.join(REPOSITORY, "tests"),
        REPOSITORY,
    ]
    environment.update(variables, PYTHONPATH=os.pathsep.join(folders))
    code = MAIN.format(scripts=scripts)
    pid, terminal = pty.fork()
    if pid == 0:
        size = struct.pack("HHHH", 24, width, 0, 0)
        fcntl.ioctl(0, termios.TIOCSWINSZ, size)
        os.execve(sys.executable, [sys.executable, "-c", code], environment)
    output = b""
    while True:
        try:
            data = os.read(terminal, 1 << 16)
        except OSError:  # the other end is closed
            break
        output += data
    _, status = os.waitpid(pid, 0)
    os.close(terminal)
    assert status == 0, output
    screen = Screen(width)
    screen.feed(output.decode())
    return screen, output.decode()


def test_lines_stay_above_the_bar_of_the_chief(here):
    scripts = {"chief": CHIEF, "worker 0": WORKER}
    screen, output = show_on_terminal(scripts, 80, TERM="xterm-256color")
    lines = screen.text()
    assert [line for line in lines if line.startswith("chief")] == [
        "chief    | step 50  validation",
        "chief    | step 100  validation",
        "chief    | step 150  validation",
        "chief    | end of training",
    ]
    assert [line for line in lines if line.startswith("worker 0")] == [
        f"worker 0 | seen at {step}" for step in (50, 100, 150)
    ]
    assert lines[-1] == "done    200 steps" and len(lines) == 8
    assert "step 100/200" in output
    assert "\x1b[35mworker 0 |" in output


def test_the_bar_has_room_for_its_prefix(here):
    _, output = show_on_terminal({"chief": CHIEF, "worker 0": WORKER}, 60, TERM="xterm-256color")
    bar = next(part for part in output.split("\r") if "100/200" in part)
    screen = Screen(200)
    screen.feed(bar)
    assert 50 < len(screen.text()[0]) <= 60


def test_there_is_no_colour_if_the_user_wants_none(here):
    scripts = {"chief": CHIEF, "worker 0": WORKER}
    _, output = show_on_terminal(scripts, 80, TERM="xterm-256color", NO_COLOR="1")
    assert "\x1b[33m" not in output and "100/200" in output


def test_a_terminal_that_cannot_move_its_cursor_gets_lines(here):
    scripts = {"chief": CHIEF.replace("console._bar.refresh()", ""), "worker 0": WORKER}
    _, output = show_on_terminal(scripts, 80, TERM="dumb")
    assert "\x1b" not in output
    assert "chief    | step 100/200  loss 0.2500\r\n" in output
