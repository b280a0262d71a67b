"""Programs in `toolkit gan-league`: their processes, what they write, and their failures."""

import contextlib
import os
import sys
import types

import numpy as np
import pytest
from process_fixtures import is_gone, kill, start, wait_until
from score_fixtures import SHAPE, make_split
from toolkit_gan_league import programs, standings, training
from toolkit_gan_league.programs import Task
from toolkit_gan_league.rivals import Rival, parse_program

from toolkit import RetryError, Split, UsageError

SPLIT = make_split(40)
TASK = Task(cpu_secs=20.0, seeds=(1, 2), samples=6, shape=SHAPE, data_sha256="ab")
WRITE = """
import sys, numpy as np
flags = dict(zip(sys.argv[1::2], sys.argv[2::2]))
images = np.load(flags["--data"])["x_train"][: int(flags["--samples"])]
np.savez(flags["--out"], images=images + np.uint8(flags["--seed"]))
"""


def test_a_program_has_a_name_and_a_command_of_words():
    program = parse_program("my GAN = sh -c 'a=1; echo'")
    assert program == Rival("my GAN", "--program 'my GAN'", ["sh", "-c", "a=1; echo"])
    assert program.folder == "my-GAN"


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"program": "sh run.sh"}, "has no command"),
        ({"program": "..=sh"}, "has no name"),
        ({"program": "a=sh 'x"}, "No closing quotation"),
        ({"program": "a=./missing --x 3"}, "'a': there is no program './missing'"),
        ({"program": "quick=sh"}, "Two competitors are called 'quick'"),
        ({"minutes": 0.0}, "--cpu-minutes is 0, expected a positive number"),
        ({"minutes": float("inf")}, "--cpu-minutes is inf, expected a positive number"),
        ({"flags": ["--steps=3"]}, "A program trains for CPU time, and another budget is set"),
    ],
)
def test_what_names_no_program_of_its_own_or_no_budget_of_it_is_refused(changes, message):
    with pytest.raises(UsageError, match=message):
        plan(**changes)


def plan(minutes=2.0, flags=(), program="a=sh x"):
    return training.plan("cup", "quick", [], minutes, 1, flags, [program])


# Starts a child, which writes its pid. What follows is for the program alone.
ENDLESS = """
import os, signal, sys, time
if not os.fork():
    with open(sys.argv[1] + ".part", "w") as file: file.write(str(os.getpid()))
    os.rename(sys.argv[1] + ".part", sys.argv[1] + ".pid")
    while True: signal.pause()
while not os.path.exists(sys.argv[1] + ".pid"): time.sleep(0.01)
"""


def execute(code, tmp_path, limit=20.0):
    """Run a program in Python, whose argument is the beginning of a path."""
    command = [sys.executable, "-S", "-c", code, str(tmp_path / "child")]
    return programs.execute(command, str(tmp_path / "log.txt"), limit, 0)


def test_what_a_program_leaves_behind_is_killed_at_its_end(tmp_path):
    ending = execute(ENDLESS + "os._exit(3)", tmp_path)
    assert ending["code"] == 3 and not ending["stopped"]
    wait_until(lambda: is_gone(int((tmp_path / "child.pid").read_text())))


# Uses 0.2 CPU seconds in a child that it waits for, and itself.
BUSY = """
import os, time
def work():
    while time.process_time() < 0.2: pass
if not os.fork(): work(); os._exit(0)
os.wait()
work()
"""


def test_the_cpu_seconds_are_those_of_the_program_and_its_children(tmp_path):
    ending = execute(BUSY, tmp_path)
    assert ending["code"] == 0 and 0.4 <= ending["cpu_secs"] < 2.0


def test_a_program_gets_no_variable_that_this_process_has_set(tmp_path, monkeypatch):
    monkeypatch.setenv("NEW_HERE", "1")  # as TensorFlow 2 sets TF2_BEHAVIOR
    code = "import os, sys; sys.exit(7 if 'NEW_HERE' in os.environ else 'PATH' in os.environ)"
    assert execute(code, tmp_path)["code"] == 1


@pytest.mark.parametrize(
    "code, stopped, clock",
    [("while True: pass", "limit", 1000), ("import time; time.sleep(60)", "clock", 2)],
)
def test_a_program_over_its_limit_is_killed(tmp_path, monkeypatch, code, stopped, clock):
    monkeypatch.setattr(programs, "CLOCK", clock)
    ending = execute(code, tmp_path, limit=0.5)
    assert ending["stopped"] == stopped and ending["code"] > 128
    assert "it was killed after" in programs._find_failure(ending, str(tmp_path), TASK)


def test_a_program_whose_own_child_met_the_limit_is_over_it(tmp_path, monkeypatch):
    monkeypatch.setattr(programs, "CLOCK", 1000)
    child = [sys.executable, "-c", "while True: pass"]
    ending = execute(f"import subprocess; subprocess.run({child!r}, check=True)", tmp_path, 0.5)
    assert (ending["stopped"], ending["code"]) == ("limit", 1)


def test_a_program_ends_with_its_tournament(tmp_path):
    code = "import os, sys; open(sys.argv[1], 'w').write(str(os.getpid()) + ' ')\n"
    command = [sys.executable, "-c", code + "while True: pass", str(tmp_path / "pid")]
    arguments = (command, str(tmp_path / "log.txt"), 20.0, 0)
    statements = f"from toolkit_gan_league import programs; programs.execute(*{arguments!r})"
    process = start(statements=statements, fresh=True)
    wait_until(lambda: (tmp_path / "pid").exists(), among=[process])
    wait_until(lambda: (tmp_path / "pid").read_text().endswith(" "))
    kill(process)
    wait_until(lambda: is_gone(int((tmp_path / "pid").read_text())))


@pytest.fixture
def program(tmp_path):
    """A program that writes training images, each pixel plus the seed."""
    (tmp_path / "write.py").write_text(WRITE)
    return parse_program(f"writer={sys.executable} {tmp_path / 'write.py'}")


@pytest.fixture
def train(program, tmp_path):
    """`train()` -> the folders of the program's runs."""

    def call(program=program, **changes):
        return programs.train([program], str(tmp_path / "cup"), SPLIT, TASK._replace(**changes))[0]

    return call


def statuses(paths):
    return [programs.read_record(path)["status"] for path in paths]


def test_each_seed_gets_the_data_and_writes_its_images_once(train, tmp_path):
    paths = train()
    assert statuses(paths) == ["finished", "finished"]
    images = [programs.load_images(path) for path in paths]
    data = np.load(str(tmp_path / "cup" / "programs" / "data-ab.npz"))
    np.testing.assert_array_equal(images[0], SPLIT.take(np.arange(6))[0] + 1)
    np.testing.assert_array_equal(images[1], images[0] + 1)
    assert data["x_train"].shape == (40, *SHAPE) and data["y_train"].tolist() == [0, 1, 2, 3] * 10
    times = [os.stat(path).st_mtime_ns for path in paths]
    assert paths == train() and times == [os.stat(path).st_mtime_ns for path in paths]


def test_data_of_floats_are_written_as_bytes_and_labels_that_are_no_class_are_not(tmp_path):
    images = np.array([0, 0.2, 1.2], np.float32).reshape(3, 1, 1, 1)
    split = Split(images, {"price": np.zeros(3, np.float32), "kind": np.arange(3)})
    programs._write_data(split, str(tmp_path / "data.npz"))
    with np.load(str(tmp_path / "data.npz")) as arrays:
        assert arrays.files == ["x_train"] and arrays["x_train"].ravel().tolist() == [0, 51, 255]


def test_a_failure_has_its_last_line_and_is_run_again(train, tmp_path):
    (tmp_path / "fails").touch()
    line = f"os.path.exists({str(tmp_path / 'fails')!r}) and sys.exit('no module named gans')"
    (tmp_path / "write.py").write_text(f"import os, sys; print('step 1'); {line}\n{WRITE}")
    path = train(seeds=(1,))[0]
    record = programs.read_record(path)
    assert (record["status"], record["reason"]) == ("failed", "exit code 1: no module named gans")
    (tmp_path / "fails").unlink()
    assert train(seeds=(1,)) == [path] and statuses([path]) == ["finished"]


@pytest.mark.parametrize(
    "change, edited",
    [
        ({"cpu_secs": 5.0}, ""),
        ({"samples": 7}, ""),
        ({"data_sha256": "cd"}, ""),
        ({}, "write.py"),
        ({}, "network.py"),  # a module beside the script
    ],
)
def test_a_run_of_another_task_is_not_taken_for_this_one(train, tmp_path, change, edited):
    (tmp_path / "network.py").write_text("FILTERS = 64")
    former = train(seeds=(1,))
    if edited:
        (tmp_path / edited).write_text(WRITE + "# edited")
    present = train(seeds=(1,), **change)
    assert present != former and statuses(present + former) == ["finished", "finished"]


def test_a_file_that_a_program_writes_is_none_of_its_code(program, train, tmp_path):
    words = [*program.words, "--cache", str(tmp_path / "cache.bin")]
    (tmp_path / "cache.bin").write_text("1")
    (tmp_path / "write.py").write_text(WRITE + "open(flags['--cache'], 'a').write('2')")
    for _ in range(2):  # of which the second has nothing to do
        train(program._replace(words=words))
    assert (tmp_path / "cache.bin").read_text() == "122"


@pytest.mark.parametrize(
    "log, line",
    [
        (b"epoch 1\repoch 2\repoch 3\r", "epoch 3"),
        (b"x\nError:\tno GPU\n", "Error: no GPU"),
        (b"", ""),
    ],
)
def test_the_last_line_of_a_log_is_what_a_terminal_shows(tmp_path, log, line):
    (tmp_path / "log.txt").write_bytes(log)
    assert programs._last_line(str(tmp_path / "log.txt")) == line


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="Linux alone limits the cores.")
def test_a_program_has_as_many_cores_as_its_task_says(train, tmp_path):
    code = "import os, sys; sys.exit(f'{len(os.sched_getaffinity(0))} cores')"
    (tmp_path / "write.py").write_text(code)
    for cores, expected in ((1, 1), (0, len(os.sched_getaffinity(0)))):
        record = programs.read_record(train(cores=cores, seeds=(1,))[0])
        assert record["reason"] == f"exit code 1: {expected} cores"


def test_a_program_gets_a_core_for_each_thread_of_a_preset(tmp_path, monkeypatch):
    study = tmp_path / "searches" / "quick" / "study.json"
    study.parent.mkdir(parents=True)
    study.write_text('{"seeds": [1]}')
    options = types.SimpleNamespace(score_samples=5, intra_op_threads=3)
    data = types.SimpleNamespace(shape=SHAPE)
    trained = types.SimpleNamespace(options=options, data=data, split=lambda name: SPLIT)
    monkeypatch.setattr(standings, "open_trained", lambda path: contextlib.nullcontext(trained))
    monkeypatch.setattr(standings.programs, "train", lambda *arguments: arguments[-1])
    task = standings._train_programs(plan()._replace(folder=str(tmp_path)), "run")
    assert (task.cores, task.cpu_secs, task.samples) == (3, 120.0, 5)


def test_two_processes_do_not_run_the_same_programs(train, tmp_path):
    os.makedirs(str(tmp_path / "cup" / "programs"))
    refused = pytest.raises(RetryError, match="Another process runs the programs")
    with programs._lock(str(tmp_path / "cup" / "programs")), refused:
        train()


@pytest.mark.parametrize(
    "content, message",
    [
        (None, "it wrote no file"),
        ("text", "is not one of numpy.savez"),
        ({}, "has no array 'images'"),
        ({"images": np.zeros((6, 8, 8, 3), np.uint8)}, "uint8 [6, 8, 8, 3], expected"),
        ({"images": np.zeros((6, 8, 8, 1))}, "it wrote float64 [6, 8, 8, 1], expected uint8"),
        ({"images": np.array([None])}, "is not one of numpy.savez"),
        ({"images": np.zeros((6, 8, 8), np.uint8)}, ""),  # grey, without channels
    ],
)
def test_a_file_without_such_images_has_a_sentence(tmp_path, content, message):
    path = tmp_path / programs.IMAGES
    if isinstance(content, str):
        path.write_text(content)
    elif content is not None:
        np.savez_compressed(str(path), **content)
    failure = programs._find_failure({"code": 0, "stopped": ""}, str(tmp_path), TASK)
    assert message in failure and bool(message) == bool(failure)
