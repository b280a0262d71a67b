"""The log of what the console of a run showed."""

import logging
import os
import re
import time

import process_fixtures
import pytest
from linear_fixtures import LINEAR, write_bars

from toolkit.display import console_log
from toolkit.display.console_log import ConsoleLog
from toolkit.storage.run_folder import is_used

TIME = "2026-01-02T03:04:05Z "
LINE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ .*\n")


@pytest.fixture
def log(here, monkeypatch):
    """A log in which it is always the same time."""
    now = time.gmtime(1767323045)
    monkeypatch.setattr(console_log.time, "gmtime", lambda secs: now)
    log = ConsoleLog()
    yield log
    log.end()


def texts(path="run/console.log"):
    with open(path, encoding="utf-8", newline="\n") as file:
        lines = file.readlines()
    assert all(map(LINE.fullmatch, lines)), lines
    return [line[len(TIME) : -1] for line in lines]


def words(steps, *more):
    data = write_bars("bars.npz")
    return ["run", "--plugin", LINEAR, "--data", data, "--run-dir", "run", "--steps", steps, *more]


def test_lines_before_the_folder_follow_the_command(log, here):
    log.write("early")
    log.open(str(here), ["toolkit", "run", "--run-dir", "a b"])
    log.write("two\nlines\n")
    assert texts("console.log") == ["session: toolkit run --run-dir 'a b'", "early", "two", "lines"]
    ends = [TIME + each for each in ("early", "two", "lines")]
    assert (here / "console.log").read_text().split("\n")[1:-1] == ends


def test_control_characters_are_escaped_and_stay_in_their_line(log, here):
    log.open(str(here), [])
    log.write("\x1b[2J\r\t\ud800\u2028\u00e4")
    assert texts("console.log")[1] == r"\x1b[2J\x0d\t\ud800\u2028" + "\u00e4"


def test_loggers_of_others_change_nothing(log, here):
    factory = logging.getLogRecordFactory()
    logging.setLogRecordFactory(lambda name, *rest: factory(name.lower(), *rest))
    try:
        log.open(str(here), [])
        log.write("a line")
    finally:
        logging.setLogRecordFactory(factory)
    assert texts("console.log")[1] == "a line"


def test_a_log_has_limits(log, here, monkeypatch):
    monkeypatch.setattr(console_log, "MAX_BYTES", 2000)
    log.open(str(here), [])
    for _ in range(100):
        log.write("x" * 100)
    log.write("y" * 10**6)
    assert 2000 < os.path.getsize("console.log") < 2200


@pytest.mark.parametrize(
    "obstruct", [os.mkdir, os.mkfifo, lambda path: os.symlink("elsewhere", path)]
)
def test_a_log_that_cannot_be_written_ends_nothing(log, here, obstruct):
    obstruct("console.log")
    log.open(str(here), [])
    log.write("text")
    assert not os.path.exists("elsewhere")


def test_each_session_is_added_and_verify_ignores_the_log(cli, run):
    log = run / "console.log"
    before = texts(str(log))
    assert cli("resume", run, "--steps", 8).code == 0
    after = texts(str(log))
    assert after[: len(before)] == before and after[len(before)].startswith("session: ")
    log.write_bytes(b"\xff\x00 anything")
    assert cli("verify", run).code == 0 and cli("doctor", run).code == 0
    log.unlink()
    assert cli("verify", run).code == 0


def test_a_failure_is_logged(cli, here):
    assert cli(*words(4, "--learning-rate", "1e38", "--steps-per-call", 1)).code == 3
    assert any(line.startswith("Error: Training diverged in step") for line in texts())


def test_a_run_logs_what_the_console_shows(cli, here):
    result = cli.succeed(*words(4))
    lines, errors = texts(), result.err.splitlines()
    assert lines[0].startswith("session: toolkit run --plugin")
    shown = [line for line in errors if not line.startswith("step")]
    assert [line for line in lines if line in shown] == shown
    assert any(line.startswith("step 4/4  loss") for line in lines)
    summary = result.out.splitlines()
    assert lines[-len(summary) :] == summary
    assert [line.split(" ")[0] for line in summary] == ["done", "test", "page", "run"]


def test_a_folder_with_a_log_alone_is_used(here):
    (here / "run").mkdir()
    (here / "run" / "console.log").write_text("")
    assert is_used("run")  # a run writes it after its manifest: this one is somebody's own


def test_a_kill_loses_no_line(here):
    argv = words(10**9, "--log-steps", 10, "--console-secs", 0.05)
    with open("err", "wb") as err:
        process = process_fixtures.start(*argv, stderr=err)
    path = here / "err"
    process_fixtures.wait_until(lambda: path.read_text().count("\nstep ") >= 10, among=[process])
    process_fixtures.kill(process)
    starts = [line.split("  ")[0] for line in path.read_text().split("\n")[:-1]]
    assert [line for line in [t.split("  ")[0] for t in texts()] if line in starts] == starts
