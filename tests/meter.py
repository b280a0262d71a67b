"""Measures the CPU seconds of each test, those of the processes that it starts included.

`--save-seconds FILE` writes them, a line for each test. `--show-seconds` prints, at the end, what
the folders took and which tests took most.
"""

import collections
import os

import process_fixtures
import pytest

PROPERTY = "cpu_seconds"
SLOWEST = 20


def cpu_seconds():
    """The CPU seconds of this process and of all children that have ended."""
    times = os.times()
    own = times.user + times.system + times.children_user + times.children_system
    return own + process_fixtures.forked_seconds()


class Meter:
    """A plugin of pytest; workers measure, and the process that prints collects."""

    def __init__(self, config):
        self._config = config
        self._start = None
        self._seconds = {}

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_runtest_setup(self):
        self._start = cpu_seconds()
        yield

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self, item):
        yield
        item.user_properties.append((PROPERTY, round(cpu_seconds() - self._start, 3)))

    def pytest_runtest_logreport(self, report):
        if report.when == "teardown":
            self._seconds[report.nodeid] = dict(report.user_properties).get(PROPERTY, 0.0)

    def pytest_terminal_summary(self, terminalreporter):
        path = self._config.option.save_seconds
        if path:
            with open(path, "w", encoding="utf-8") as file:
                for nodeid, seconds in self._seconds.items():
                    file.write(f"{seconds:.3f} {nodeid}\n")
        if self._config.option.show_seconds:
            terminalreporter.section("CPU seconds")
            for line in describe(self._seconds):
                terminalreporter.write_line(line)


def describe(seconds):
    """The lines that `--show-seconds` prints, of test -> seconds."""
    folders = collections.Counter()
    for nodeid, number in seconds.items():
        folders[os.path.dirname(nodeid.partition("::")[0])] += number
    yield f"{sum(seconds.values()):8.1f}  all {len(seconds)} tests"
    for folder, number in folders.most_common():
        yield f"{number:8.1f}  {folder}"
    yield f"the {SLOWEST} that took most:"
    for nodeid, number in collections.Counter(seconds).most_common(SLOWEST):
        yield f"{number:8.1f}  {nodeid}"
