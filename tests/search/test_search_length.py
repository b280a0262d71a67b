"""The length of a trial, above all by a probe of the processor time of steps."""

import os

import pytest
from search_fixtures import small_definition

from toolkit.errors import RetryError, UsageError
from toolkit.search import length
from toolkit.search.definition import CPU_SECS, Budget, Configuration
from toolkit.search.graph_check import Answer, Request, check_configurations

CONFIGURATION = Configuration(3, {"learning_rate": 0.001, "batch_size": 16})
CPU = small_definition(budget=Budget(CPU_SECS, 30))


@pytest.fixture
def find(monkeypatch):
    def call(*answers):
        left = list(answers)

        def check(request, folder, name, children):
            call.probes.append(request.probe_secs)
            return [left.pop(0)]

        call.probes = []
        monkeypatch.setattr(length, "check_configurations", check)
        return length.find_length(CPU, CONFIGURATION, "folder")

    return call


def test_a_probe_of_the_time_of_a_step_gives_the_length(find):
    assert find(Answer(cpu_secs_per_step=0.1)) == 300
    assert find(Answer(cpu_secs_per_step=100.0)) == 1


def test_steps_that_are_too_slow_for_a_short_probe_are_timed_by_a_longer_one(find):
    assert find(Answer(), Answer(cpu_secs_per_step=10.0)) == 3
    first, second = find.probes
    assert second >= 5 * first
    with pytest.raises(UsageError, match="Configuration 3 makes fewer than two steps in 60"):
        find(Answer(), Answer())


def test_a_fault_of_the_machine_is_no_length(find):
    with pytest.raises(RetryError, match="disk is full"):
        find(Answer(error="The disk is full.", exit_code=138))
    assert find(Answer(error="It cannot be built.", exit_code=1)) == 1  # its run says so


class DeadChildren:
    """Ends each process with an exit code after it has written to its log."""

    def run(self, arguments, log_path, environment, statements):
        with open(log_path, "w") as log:
            log.write("first\nlast words\n")
        return 1


def test_the_log_of_a_check_that_died_outlives_its_folder(tmp_path, monkeypatch):
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    request = Request.of(CPU, [CONFIGURATION.values])
    with pytest.raises(RetryError, match="exit code 1: last words") as error:
        check_configurations(request, str(tmp_path / "search"), "first", DeadChildren())
    path = error.value.hint[len("See ") : -1]
    assert os.path.dirname(path) == str(tmp_path / "temporary")
    with open(path) as log:
        assert log.read() == "first\nlast words\n"
