"""The console on a real terminal, whose lines are broken again when its width changes."""

import fcntl
import os
import pty
import struct
import termios

import fork_server
import process_fixtures
import pytest
from terminal_fixtures import Screen

SCRIPT = """
import os, sys
from toolkit.display import bar
from toolkit.display.console import Console

bar.REDRAWS_PER_SEC = 1e-6  # no redraw but those that the test asks for
sys.stdin.readline()
console = Console(sys.stderr, 0)
console.start(2000, lambda: 100)
console.show_metrics({"step": 150, "loss": 0.25, "[red]odd[/red]": 1.0})
for text in sys.stdin:
    if console._bar is not None:
        console._bar.refresh()
    console.log("READY " + text.strip())
    os.write(2, bytes(1))  # all of it is written
console.stop()
"""


class Terminal:
    """A pseudo-terminal in which SCRIPT runs."""

    def __init__(self, width, **variables):
        names = ("TERM", "COLUMNS", "NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE")
        environment = {name: text for name, text in os.environ.items() if name not in names}
        self._terminal, other = pty.openpty()
        self._process = process_fixtures.start(
            statements=SCRIPT,
            env={**environment, **variables},
            **dict.fromkeys(fork_server.STREAMS, other),
        )
        os.close(other)
        settings = termios.tcgetattr(self._terminal)
        settings[3] &= ~termios.ECHO
        termios.tcsetattr(self._terminal, termios.TCSANOW, settings)
        self.output = ""
        self.screen = Screen(width)
        self.resize(width)
        os.write(self._terminal, b"begin\n")

    def resize(self, width):
        size = struct.pack("HHHH", 24, width, 0, 0)
        fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, size)
        self.screen.width = width

    def redraw(self, label):
        """Have the bar drawn, and read all that is written for it."""
        os.write(self._terminal, (label + "\n").encode())
        self._read_until("\0")

    def end(self):
        """End the input of SCRIPT, and read all that it writes."""
        os.write(self._terminal, b"\x04")
        self._read_until(None)
        os.close(self._terminal)
        assert self._process.wait(process_fixtures.PATIENCE) == 0, self.output

    def _read_until(self, end):
        data = b""
        while end is None or end not in data.decode("utf-8", "ignore"):
            try:
                part = os.read(self._terminal, 1 << 16)
            except OSError:  # the other end is closed
                part = b""
            if not part:
                break
            data += part
        text = data.decode("utf-8").replace("\0", "")
        self.output += text
        self.screen.feed(text)


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


def test_the_cursor_is_never_hidden_and_a_metric_with_brackets_is_shown_as_it_is_called():
    terminal = run_on_terminal([120], TERM="xterm-256color")
    terminal.end()
    assert "100/2000" in terminal.output and "[red]odd[/red] 1.0000" in terminal.output
    assert "\x1b[?25" not in terminal.output


@pytest.mark.parametrize("variables", [{}, {"TERM": ""}, {"TERM": "dumb"}], ids=str)
def test_a_terminal_that_cannot_move_its_cursor_gets_lines(variables):
    terminal = run_on_terminal([80], **variables)
    terminal.end()
    assert "\x1b" not in terminal.output
    assert terminal.screen.text() == [
        "step 150/2000  loss 0.2500  [red]odd[/red] 1.0000",
        "READY at 80",
    ]
