"""The console: lines in a pipe, a bar on a terminal."""

import contextlib
import io
import re

import pytest
from process_fixtures import wait_until

from toolkit.display import waits
from toolkit.display.console import Console, progress_line
from toolkit.display.numbers import format_bytes, format_duration, format_number, join_metrics


class Clock:
    """A clock that a test sets, in seconds."""

    now = 0.0

    def __call__(self):
        return self.now


def record(step, **values):
    return dict({"step": step, "kind": "train"}, **values)


# ---------------------------------------------------------------------------------------- in a pipe


@pytest.mark.parametrize(
    "every_secs, records, expected",
    [
        (2, [(0, 10), (1, 20), (1.9, 30), (2, 40), (3.9, 50), (4.5, 60)], [10, 40, 60]),
        (2, [(0, 1), (0.1, 2), (0.2, 100)], [1, 100]),  # the last step
        (0, [(0, 1), (0, 2), (0, 3)], [1, 2, 3]),
        (2, [(0, 1), (1000, 2), (1009, 3), (1011, 4)], [1, 2, 4]),  # a hundredth of a long run
    ],
)
def test_a_line_comes_at_most_every_some_seconds_and_at_the_last_step(
    every_secs, records, expected
):
    stream, clock = io.StringIO(), Clock()
    console = Console(stream, every_secs, clock)
    console.start(100, lambda: 0)
    for clock.now, step in records:
        console.show_metrics(record(step))
    console.stop()
    assert [int(step) for step in re.findall(r"step (\d+)/", stream.getvalue())] == expected


TIMES = {"examples_per_sec": 12345.4, "seconds": 4.0, "secs_left": 12.3}


@pytest.mark.parametrize(
    "step, values, text",
    [
        (
            500,
            dict(TIMES, grad=2.0, loss=0.1234, accuracy=0.963),
            "  loss 0.1234  accuracy 0.9630  grad 2.0000  12345 examples/s  12 s left",
        ),
        (
            500,
            {f"m{i}": float(i) for i in range(9)},
            "  m0 0.0000  m1 1.0000  m2 2.0000  m3 3.0000  m4 4.0000",
        ),
        (2000, {"examples_per_sec": 1.0, "secs_left": 0.0}, "  1 examples/s"),
        (2000, {"examples_per_sec": 0.31, "secs_left": 0.0}, "  0.31 examples/s"),
    ],
    ids=["all", "at most five metrics", "no time left at the end", "slow"],
)
def test_a_line_has_step_metrics_speed_and_time_left(step, values, text):
    assert progress_line(record(step, **values), 2000) == f"step {step}/2000" + text


@pytest.mark.parametrize(
    "value, text",
    [
        (0.1234, "0.1234"),
        (0.0, "0.0000"),
        (-0.0, "0.0000"),
        (12.3456, "12.35"),
        (-2.5, "-2.5000"),
        (9999.0, "9999"),
        (9999.96, "10000"),
        (12345.0, "1.23e+04"),
        (1.2e-5, "1.20e-05"),
        (float("nan"), "nan"),
        (float("inf"), "inf"),
    ],
)
def test_numbers_are_short(value, text):
    assert format_number(value) == text


def test_durations_and_sizes_have_at_most_two_units():
    texts = [format_duration(secs) for secs in (2.5, 26, 200, 7500, 180000)]
    assert texts == ["2.5 s", "26 s", "3 min 20 s", "2 h 5 min", "2 d 2 h"]
    assert [format_bytes(n) for n in (512, 2500, 3e6, 12e11)] == [
        *("512 bytes", "2.5 kB", "3.0 MB", "1,200.0 GB"),
    ]


# ------------------------------------------------------------------------------------ on a terminal


@pytest.fixture
def terminal(monkeypatch):
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "160")
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    stream = io.StringIO()
    stream.isatty = lambda: True
    return stream


def plain(text):
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text)


def run_bar(stream, lines=()):
    """The output of a run with a bar and these lines."""
    console, steps = Console(stream, 2.0, Clock()), iter(range(100, 1000))
    assert console.is_terminal
    console.start(2000, lambda: next(steps))  # one more step at each call
    console.show_metrics(record(150, **{"loss": 0.25, "[red]odd[/red]": 1.0}))
    for text in lines:
        console.log(text)
    for _ in range(3):
        console._bar.refresh()
    console.stop()
    return stream.getvalue()


def test_the_bar_shows_step_loss_and_speed_and_never_hides_the_cursor(terminal):
    output = run_bar(terminal)
    text = plain(output)
    assert re.search(r"step 10\d/2000", text)
    assert "loss 0.2500  [red]odd[/red] 1.0000" in text
    assert re.search(r"[1-9]\d* steps/s", text)
    assert "\x1b[?25" not in output


@pytest.mark.parametrize("name", [None, "", "dumb"])
def test_a_terminal_that_cannot_move_its_cursor_gets_lines(terminal, monkeypatch, name):
    monkeypatch.delenv("TERM") if name is None else monkeypatch.setenv("TERM", name)
    console = Console(terminal, 0, Clock())
    console.start(2000, lambda: 100)
    console.show_metrics(record(150, loss=0.25))
    console.stop()
    assert terminal.getvalue() == "step 150/2000  loss 0.2500\n"


def test_a_long_line_is_neither_broken_nor_markup(terminal, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    text = "run    /" + "/".join(["folder"] * 12) + " [not markup]"
    assert text in plain(run_bar(terminal, [text]))


# -------------------------------------------------------------------------------------------- waits


@pytest.fixture
def at_once(monkeypatch):
    """`with at_once(stream) as see:` shows waits there at once; `see(text)` awaits a text."""
    monkeypatch.setattr(waits, "DELAY_SECS", 0)

    @contextlib.contextmanager
    def show(stream):
        monkeypatch.setattr(waits, "consoles", [Console(stream)])
        yield lambda text: wait_until(lambda: text in stream.getvalue(), lambda: text)

    return show


def test_a_terminal_shows_the_inner_wait_and_is_clean_after_both(terminal, at_once):
    with at_once(terminal) as see, waits.waiting("Training") as outer:
        outer.follow(lambda: 3, 10)
        see("30%")
        with waits.waiting("Decoding"):
            waits.follow_steps(200, lambda: 50)  # of a run within the wait
            see("25%")
    assert plain(terminal.getvalue()).endswith("\r")


def test_elsewhere_the_outer_wait_has_one_line_unless_it_ends_before(at_once):
    stream = io.StringIO()
    with at_once(stream) as see, waits.waiting("Reading") as wait:
        see("Reading")
        with waits.waiting("Decoding") as inner:
            inner.appear()
    wait.appear()
    assert stream.getvalue() == "Reading\n"


def test_small_and_large_metrics_keep_their_digits():
    interval = {"low": 1e-5, "high": 3e-5, "level": 0.95}
    result = {"metrics": {"mse": 2e-5, "accuracy": 0.96}, "intervals": {"mse": interval}}
    assert join_metrics(result) == "accuracy 0.9600  mse 2.00e-05 [1.00e-05, 3.00e-05]"
