"""The workers of a search and the processes that they start: signals, failures and kills."""

import os
import signal

import fake_trials
import pytest
from fake_trials import open_study, rows_of, train_next, undisturbed_rows
from process_fixtures import PATIENCE, is_gone, start, wait_until
from search_fixtures import small_definition

from toolkit.errors import InterruptedRun, RetryError, ToolkitError
from toolkit.search.definition import Configuration, Trial
from toolkit.search.results import read_notes, write_notes
from toolkit.search.training import LOCK_SECS, Processes, find_due, train_all, train_trial
from toolkit.storage.folder_lock import FolderLock

TRIAL = Trial(Configuration(0, {"learning_rate": 0.001, "batch_size": 16}, 100), 1, 0)
DEFINITION = small_definition(trials=6)
# A process that waits; on SIGINT and SIGTERM it writes a file, like a run that commits, and ends.
WAIT = """
import os, signal, sys

def commit(signum, frame):
    open(sys.argv[1] + ".saved", "w").close()
    os._exit(128 + signum)

for signum in (signal.SIGINT, signal.SIGTERM):
    signal.signal(signum, commit)
open(sys.argv[1], "w").write(str(os.getpid()))
while True:
    signal.pause()
"""
SEARCH = """
import os, sys
from fake_trials import open_study
from test_search_workers import DEFINITION, WAIT
from toolkit.errors import InterruptedRun
from toolkit.search.training import train_all

folder = sys.argv[1]

def train(study, trial, log, processes):
    yield from processes.run([os.path.join(folder, trial.name)], log, os.environ, WAIT)

try:
    train_all(open_study(DEFINITION, folder), 2, lambda trial: None, train)
except InterruptedRun as error:
    sys.exit(error.exit_code)
"""


def has_text(path):
    return path.exists() and path.read_text()


@pytest.mark.parametrize("count", [1, 3])
def test_workers_train_all_trials(tmp_path, count):
    reports = []
    study = open_study(DEFINITION, tmp_path / "study")

    def train(study, trial, log, processes):
        yield
        fake_trials.train(study, trial)

    train_all(study, count, lambda trial: reports.append(trial.name), train)
    assert rows_of(study) == undisturbed_rows(DEFINITION, tmp_path / "alone")
    assert len(reports) == len(set(reports)) == 12


def test_the_times_of_a_trial_count_that_are_noted_after_its_result_was_read(tmp_path):
    def train(study, trial, log, processes):
        fake_trials.train(study, trial)
        find_due(study)  # as another worker does
        yield
        notes = read_notes(study.path(trial))
        write_notes(study.path(trial), notes._replace(cpu_secs=5.0))

    study = open_study(DEFINITION, tmp_path)
    train_all(study, 1, lambda trial: None, train)
    assert {row.cpu_secs for row in rows_of(study)} == {10.0}  # of two seeds


@pytest.mark.parametrize("error", [RetryError("no disk"), ToolkitError("no"), ValueError("bug")])
def test_a_failure_of_one_worker_ends_the_search_and_frees_its_trial(tmp_path, error):
    def train(study, trial, log, processes):
        yield
        if trial.name == "0001-s1":
            raise error
        fake_trials.train(study, trial)

    with pytest.raises(type(error), match=str(error)):
        train_all(open_study(DEFINITION, tmp_path), 2, lambda trial: None, train)
    assert claim_first(tmp_path) == "0001-s1"


def claim_first(folder):
    """The name of the first trial that can be claimed."""
    names = []
    train_next(open_study(DEFINITION, folder), lambda study, trial: names.append(trial.name))
    return names[0]


def test_a_failure_interrupts_the_processes_of_the_others(tmp_path):
    path = tmp_path / "process"

    def train(study, trial, log, processes):
        if trial.name == "0000-s1":
            yield from processes.run([str(path)], log, os.environ, WAIT)
        while not has_text(path):
            yield
        raise ToolkitError("no")

    with pytest.raises(ToolkitError, match="no"):
        train_all(open_study(DEFINITION, tmp_path), 2, lambda trial: None, train)
    assert (tmp_path / "process.saved").exists()


def test_a_signal_lets_all_trials_save_their_state(tmp_path):
    with open(str(tmp_path / "err"), "wb") as err:
        process = start(tmp_path, statements=SEARCH, fresh=True, stderr=err)
    paths = [tmp_path / "0000-s1", tmp_path / "0000-s2"]
    wait_until(lambda: all(map(has_text, paths)), among=[process])
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE) == 128 + signal.SIGTERM
    assert (tmp_path / "err").read_text() == ""
    assert all(is_gone(int(path.read_text())) for path in paths)
    assert (tmp_path / "0000-s1.saved").exists() and (tmp_path / "0000-s2.saved").exists()
    assert claim_first(tmp_path) == "0000-s1"  # at once: the claims have ended


def advance(worker, is_over):
    """Let a worker go on until something is true."""
    wait_until(lambda: is_over() or next(worker, None))


def test_a_second_signal_kills(tmp_path):
    processes = Processes()
    code = WAIT.replace("os._exit(128 + signum)", "pass")  # it hangs while it commits
    path = tmp_path / "process"
    with open(str(tmp_path / "log"), "wb") as log:
        worker = processes.run([str(path)], log.fileno(), os.environ, code)
        advance(worker, lambda: has_text(path))
        processes.interrupt(signal.SIGINT)
        advance(worker, (tmp_path / "process.saved").exists)
        processes.interrupt(signal.SIGINT)
        code, _ = run_to_end(worker)
    assert code == 128 + signal.SIGKILL
    with pytest.raises(InterruptedRun):  # and no process starts after it
        next(processes.run([], -1, os.environ, "pass"))


def run_to_end(worker):
    """What a worker returns."""
    while True:
        try:
            next(worker)
        except StopIteration as end:
            return end.value


def test_a_trial_waits_while_another_process_trains_in_its_folder(tmp_path):
    study = open_study(DEFINITION, tmp_path)
    os.makedirs(study.path(TRIAL))
    lock = FolderLock(study.path(TRIAL))
    lock.acquire()
    waits = []

    class Waiting(Processes):
        def wait(self, secs):
            waits.append(secs)
            yield

    worker = train_trial(study, TRIAL, -1, Waiting())  # it would write to its log
    for _ in range(3):
        next(worker)
    lock.release()
    assert waits == [LOCK_SECS] * 3


def run_child(folder, code):
    with open(str(folder / "log"), "ab") as log:
        return run_to_end(Processes().run([], log.fileno(), os.environ, code))[0]


def test_the_exit_code_of_a_process_is_that_of_a_shell(tmp_path):
    assert run_child(tmp_path, "print('text'); raise SystemExit(3)") == 3
    assert run_child(tmp_path, "import os; os.kill(os.getpid(), 9)") == 137
    assert "text" in (tmp_path / "log").read_text()


def test_what_a_process_leaves_behind_is_killed(tmp_path):
    code = (
        "import os, subprocess, sys; rest = 'import signal; signal.pause()'; "
        "p = subprocess.Popen([sys.executable, '-c', rest]); "
        "os.write(1, b'%d' % p.pid); os._exit(0)"
    )
    run_child(tmp_path, code)
    pid = int((tmp_path / "log").read_text())
    wait_until(lambda: is_gone(pid))
