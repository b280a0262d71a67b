"""The console on a real terminal, whose lines are broken again when its width changes."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import sys
import termios

import pytest
from terminal_fixtures import Screen

SCRIPT = """
import sys
from toolkit.display.console import Console

console = Console(sys.stderr, 0)
console.start(2000, lambda: 100)
console.show_metrics({"step": 150, "loss": 0.25, "[red]odd[/red]": 1.0})
for text in sys.stdin:
    if console._bar is not None:
        console._bar.refresh()
    console.log("READY " + text.strip())
console.stop()
"""


class Terminal:
    """A pseudo-terminal in which SCRIPT runs."""

    def __init__(self, width, **variables):
        names = ("TERM", "COLUMNS", "NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE")
        environment = {name: text for name, text in os.environ.items() if name not in names}
        self._pid, self._terminal = pty.fork()
        if self._pid == 0:
            os.execve(sys.executable, [sys.executable, "-c", SCRIPT], {**environment, **variables})
        settings = termios.tcgetattr(self._terminal)
        settings[3] &= ~termios.ECHO
        termios.tcsetattr(self._terminal, termios.TCSANOW, settings)
        self.output = ""
        self.screen = Screen(width)
        self.resize(width)

    def resize(self, width):
        size = struct.pack("HHHH", 24, width, 0, 0)
        fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, size)
        self.screen.width = width

    def redraw(self, label):
        """Have the bar drawn, and read what was written up to the label."""
        os.write(self._terminal, (label + "\n").encode())
        self._read_until(f"READY {label}\r\n")

    def end(self):
        """End the input of SCRIPT, and read all that it writes."""
        os.write(self._terminal, b"\x04")
        self._read_until(None)
        _, status = os.waitpid(self._pid, 0)
        os.close(self._terminal)
        assert status == 0, self.output

    def _read_until(self, text):
        start = len(self.output)
        while text is None or text not in self.output[start:]:
            try:
                data = os.read(self._terminal, 1 << 16)
            except OSError:  # the other end is closed
                data = b""
            if not data:
                break
            part = data.decode("utf-8")
            self.output += part
            self.screen.feed(part)


def run_on_terminal(widths, **variables):
    """The terminal after a bar was drawn at each of these widths, in turn."""
    terminal = Terminal(widths[0], **variables)
    for width in widths:
        terminal.resize(width)
        terminal.redraw(f"at {width}")
    return terminal


@pytest.mark.parametrize("widths", [(120, 50), (120, 50, 30, 90), (60, 140)], ids=str)
def test_one_bar_is_left_when_the_width_changes(widths):
    terminal = run_on_terminal([*widths, widths[-1]], TERM="xterm-256color")
    bars = [line for line in terminal.screen.text() if "100/2000" in line or "steps/s" in line]
    terminal.end()
    assert len(bars) <= 1, bars
    assert terminal.screen.text() == [f"READY at {width}" for width in [*widths, widths[-1]]]


def test_the_cursor_is_never_hidden():
    terminal = run_on_terminal([80], TERM="xterm-256color")
    terminal.end()
    assert "100/2000" in terminal.output
    assert "\x1b[?25" not in terminal.output


def test_a_metric_with_brackets_is_shown_as_it_is_called():
    terminal = run_on_terminal([120], TERM="xterm-256color")
    terminal.end()
    assert "[red]odd[/red] 1.0000" in terminal.output


@pytest.mark.parametrize("variables", [{}, {"TERM": ""}, {"TERM": "dumb"}], ids=str)
def test_a_terminal_that_cannot_move_its_cursor_gets_lines(variables):
    terminal = run_on_terminal([80], **variables)
    terminal.end()
    assert "\x1b" not in terminal.output
    assert terminal.screen.text() == [
        "step 150/2000  loss 0.2500  [red]odd[/red] 1.0000",
        "READY at 80",
    ]
