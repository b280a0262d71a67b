"""A study whose records are in a PostgreSQL server, which the tests start."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import machine
import pytest
from fake_trials import undisturbed_results
from postgresql_server import Server, require_server

from toolkit.errors import RetryError, UsageError
from toolkit.search.study import Study

SCRIPT = os.path.join(os.path.dirname(__file__), "machine.py")


@pytest.fixture(scope="module")
def server():
    require_server()
    server = Server()
    yield server
    server.remove()


@pytest.fixture
def database(server, request):
    """The URL of an empty database."""
    name = f"test_{abs(hash(request.node.name))}"
    server.execute(f"CREATE DATABASE {name}")
    return server.url(name)


def start_machine(folder, storage, secs=0.05, go=""):
    """Start a process of a study with a folder of its own; its trials await the file `go`."""
    folder.mkdir(parents=True, exist_ok=True)
    return subprocess.Popen(
        [sys.executable, SCRIPT, str(folder), storage, str(secs), str(go)],
        stderr=subprocess.PIPE,
        text=True,
    )


def end(process):
    return process.communicate(timeout=200)[1]


def trainings(*folders):
    lines = []
    for folder in folders:
        if (folder / "trainings").exists():
            lines += (folder / "trainings").read_text().splitlines()
    return lines


def results(folder, storage):
    study = Study(machine.DEFINITION, str(folder), storage)
    values = study.results()
    study.close()
    return values


def test_two_machines_train_each_trial_once(database, tmp_path):
    folders = [tmp_path / machine / "study" for machine in "ab"]
    go = tmp_path / "go"
    processes = [start_machine(folder, database, go=go) for folder in folders]
    while not all(trainings(folder) for folder in folders):
        assert all(process.poll() is None for process in processes)
        time.sleep(0.05)
    go.touch()
    assert [end(process) for process in processes] == ["", ""]
    lines = trainings(*folders)
    assert len(lines) == len(set(lines)) == 2 * (15 + 2 + 2 + 2)
    (tmp_path / "alone").mkdir()
    expected = undisturbed_results(machine.DEFINITION, tmp_path / "alone")
    assert results(folders[0], database) == results(folders[1], database) == expected


@pytest.mark.slow
def test_a_killed_machine_leaves_its_trials_to_the_other(database, tmp_path):
    folders = [tmp_path / machine / "study" for machine in "ab"]
    victim = start_machine(folders[0], database, secs=600)
    while len(trainings(folders[0])) < 2:
        time.sleep(0.05)
    other = start_machine(folders[1], database)
    victim.send_signal(signal.SIGKILL)
    end(victim)
    assert "has lost its process; it continues" in end(other)
    (tmp_path / "alone").mkdir()
    expected = undisturbed_results(machine.DEFINITION, tmp_path / "alone")
    assert results(folders[1], database) == expected


@pytest.mark.slow
def test_a_restart_of_the_server_is_waited_for(server, database, tmp_path):
    folder = tmp_path / "study"
    process = start_machine(folder, database, secs=0.3)
    while not trainings(folder):
        time.sleep(0.05)
    server.stop()
    first_line = process.stderr.readline()  # the process has met the stopped server
    server.start()
    text = first_line + end(process)
    assert process.returncode == 0, text
    assert "does not answer" in text and "answers again" in text
    assert "Traceback" not in text and "hu@sh" not in text and "hu%40sh" not in text
    lines = trainings(folder)
    assert len(lines) == len(set(lines))


@pytest.mark.parametrize(
    "user, password, database, text",
    [
        ("me", "wrong", "postgres", "password authentication failed"),
        ("nobody_known", "x", "postgres", "password authentication failed"),
        ("me", None, "not_there", 'database "not_there" does not exist'),
        ("guest", "guest", "closed", "permission denied"),
    ],
)
def test_a_server_that_refuses_is_one_sentence(server, tmp_path, user, password, database, text):
    if database == "closed":
        server.execute("CREATE USER guest PASSWORD 'guest'", "CREATE DATABASE closed")
    url = server.url(database, user, *([password] if password else []))
    with pytest.raises(UsageError) as error:
        Study(machine.DEFINITION, str(tmp_path), url)
    assert text in error.value.message
    assert "\n" not in error.value.message and "hu" not in error.value.message
    assert error.value.hint
    assert not os.listdir(str(tmp_path))


def test_a_server_that_does_not_run_may_run_later(tmp_path):
    pytest.importorskip("psycopg2")
    with pytest.raises(RetryError, match="does not answer: .*refused"):
        Study(machine.DEFINITION, str(tmp_path), "postgresql://me:hush@127.0.0.1:1/x")


def test_two_studies_share_a_database(database, tmp_path):
    for name, trials in (("rates", 4), ("sizes", 5)):
        (tmp_path / name).mkdir()
        definition = machine.DEFINITION._replace(trials=trials)
        Study(definition, str(tmp_path / name), database).close()
    (tmp_path / "other" / "rates").mkdir(parents=True)
    with pytest.raises(UsageError, match="trials was 4, now 9"):
        definition = machine.DEFINITION._replace(trials=9)
        Study(definition, str(tmp_path / "other" / "rates"), database)
