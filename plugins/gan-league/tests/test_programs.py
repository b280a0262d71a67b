"""Programs in `toolkit gan-league`: their processes, what they write, and their failures."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import types
import zipfile

import numpy as np
import pytest
from process_fixtures import PATIENCE, is_gone, kill, run, start, wait_for_file, wait_until
from score_fixtures import SHAPE, make_split
from toolkit_gan_league import programs, standings, supervisor, training
from toolkit_gan_league.programs import Program, Task

from toolkit import DataError, RetryError, UsageError

SPLIT = make_split(40)
TASK = Task(cpu_secs=20.0, seeds=(1, 2), samples=6, shape=SHAPE, data_sha256="ab")
WRITE = """
import sys, numpy as np
flags = dict(zip(sys.argv[1::2], sys.argv[2::2]))
images = np.load(flags["--data"])["x_train"][: int(flags["--samples"])]
np.savez(flags["--out"], images=images + np.uint8(flags["--seed"]))
"""


# ------------------------------------------------------------------------------------- the options


def test_a_program_has_a_name_and_a_command_of_words():
    (program,) = programs.parse_programs(["my GAN = sh -c 'a=1; echo'"])
    assert program == Program("my GAN", ["sh", "-c", "a=1; echo"]) and program.folder == "my-GAN"


@pytest.mark.parametrize(
    "texts, message",
    [
        (["sh run.sh"], "has no command"),
        (["=sh"], "has no name"),
        (["a="], "has no command"),
        (["..=sh"], "has no name"),
        (["a=sh 'x"], "No closing quotation"),
        (["a=./missing --x 3"], "'a': there is no program './missing'"),
        (["a=sh x", "a = sh y"], "Two values of --program are called 'a'"),
        (["a b=sh", "a/b=sh"], "Two values of --program"),
    ],
)
def test_what_names_no_program_is_refused(texts, message):
    with pytest.raises(UsageError, match=message):
        programs.parse_programs(texts)


def test_a_program_with_the_name_of_a_preset_is_refused():
    with pytest.raises(UsageError, match="'quick' has the name of a preset"):
        programs.check_names([Program("quick", ["sh"])], ["quick", "vae"])


def plan(minutes, flags, presets="quick"):
    return training.plan("cup", presets, [], minutes, 1, flags, ["a=sh x"])


def test_a_program_competes_with_one_preset_also_with_the_one_that_the_data_chooses():
    auto = plan(2.0, [], "auto")
    assert [each.name for each in (*auto.rivals, *auto.programs)] == ["auto", "a"]


@pytest.mark.parametrize(
    "minutes, flags, message",
    [
        (0.0, [], "--cpu-minutes is 0, expected a positive number"),
        (float("nan"), [], "--cpu-minutes is nan, expected a positive number"),
        (float("inf"), [], "--cpu-minutes is inf, expected a positive number"),
        (2.0, ["--steps=3"], "A program trains for CPU time, and another budget is set"),
        (2.0, ["--preset", "quick"], "--preset is what the tournament sets itself"),
    ],
)
def test_budgets_that_programs_cannot_have_are_refused(minutes, flags, message):
    with pytest.raises(UsageError, match=message):
        plan(minutes, flags)


# ---------------------------------------------------------------------------------- the supervisor


# Starts a child in another session, which writes its pid. What follows is for the program alone.
ENDLESS = """
import os, signal, sys, time
if not os.fork():
    os.setsid()
    with open(sys.argv[1] + ".part", "w") as file: file.write(str(os.getpid()))
    os.rename(sys.argv[1] + ".part", sys.argv[1] + ".pid")
    while True: signal.pause()
while not os.path.exists(sys.argv[1] + ".pid"): time.sleep(0.01)
"""


def request_of(code, tmp_path, **changes):
    """A request of a program in Python."""
    values = {"limit": 20.0, "drawing_limit": 20.0, "idle_secs": PATIENCE}
    paths = {"log": str(tmp_path / "log.txt"), "mark": str(tmp_path / "mark")}
    command = [sys.executable, "-S", "-c", code, paths["mark"]]
    return dict(values, **paths, command=command, **changes)


def is_child_gone(tmp_path):
    return is_gone(int((tmp_path / "mark.pid").read_text()))


def test_an_orphan_is_killed_at_the_end_of_its_program(tmp_path):
    ending = programs.supervise(request_of(ENDLESS + "os._exit(3)", tmp_path))
    assert ending["code"] == 3 and not ending["stopped"] and ending["cpu_secs"] > 0
    assert is_child_gone(tmp_path)


def test_the_time_of_all_processes_below_the_supervisor_counts():
    table = {7: (1, 9.0, 9.0), 8: (7, 1.0, 0.5), 9: (8, 2.0, 0.0), 10: (7, 4.0, 0.0)}
    table[11] = (1, 8.0, 0.0)  # of others; 10 is an orphan, which the supervisor has adopted
    living = supervisor.descendants(7, table)
    assert living == {8: (1.0, 0.5), 9: (2.0, 0.0), 10: (4.0, 0.0)}


def test_the_table_of_the_system_has_the_parent_and_the_time_of_this_process():
    before = time.process_time()
    parent, own, _ = supervisor.read_processes()[os.getpid()]
    assert parent == os.getppid()
    assert before - 0.05 < own < time.process_time() + 0.05  # it counts in hundredths


def test_a_program_gets_no_variable_that_this_process_has_set(tmp_path, monkeypatch):
    monkeypatch.setenv("NEW_HERE", "1")  # as TensorFlow 2 sets TF2_BEHAVIOR
    code = "import os, sys; sys.exit(7 if 'NEW_HERE' in os.environ else 'PATH' in os.environ)"
    assert programs.supervise(request_of(code, tmp_path))["code"] == 1


# A supervisor that reads the CPU seconds of a table, once the program has started its child.
FED = """
import json, os, sys, time
from toolkit_gan_league import supervisor
request, seconds = json.loads(sys.argv[1]), iter(json.loads(sys.argv[2]))
class Fed(supervisor.Supervisor):
    def _cpu_secs(self):
        while not os.path.exists(request["mark"] + ".pid"): time.sleep(0.01)
        return next(seconds)
    def _has_parent_ended(self): return False
supervisor._MEASURE_SECS = 0
print(json.dumps(Fed(request).run()))
"""


@pytest.mark.parametrize(
    "stopped, seconds, training_secs",
    [("training", [0.5, 1.0, 1.5, 2.0], None), ("drawing", [9.0, 9.5, 10.0, 11.5, 12.0], 9.0)],
)
def test_a_program_over_a_limit_is_killed_with_all_that_it_started(
    tmp_path, stopped, seconds, training_secs
):
    if stopped == "drawing":
        (tmp_path / "mark").touch()  # the training has ended, and drawing has its own limit
    request = request_of(ENDLESS + "signal.pause()", tmp_path, limit=1.0, drawing_limit=2.0)
    ended = run(json.dumps(request), json.dumps(seconds), statements=FED)
    killed = {"code": 137, "stopped": stopped, "cpu_secs": seconds[-1]}
    assert json.loads(ended.out) == dict(killed, training_cpu_secs=training_secs)
    assert is_child_gone(tmp_path)


def test_a_program_that_uses_no_cpu_time_is_killed(tmp_path):
    request = request_of("import signal; signal.pause()", tmp_path, idle_secs=0.1)
    ending = programs.supervise(request)
    assert ending["stopped"] == "idle" and ending["code"] == 128 + signal.SIGKILL


def test_a_program_ends_with_its_tournament(tmp_path):
    request = request_of(ENDLESS + "signal.pause()", tmp_path)
    statements = f"from toolkit_gan_league import programs; programs.supervise({request!r})"
    process = start(statements=statements, fresh=True)
    wait_for_file(tmp_path / "mark.pid", among=[process])
    kill(process)
    wait_until(lambda: is_child_gone(tmp_path))


# ----------------------------------------------------------------------------------------- the runs


@pytest.fixture
def program(tmp_path):
    """A program that writes training images, each pixel plus the seed."""
    (tmp_path / "write.py").write_text(WRITE)
    return Program("writer", [sys.executable, str(tmp_path / "write.py")])


@pytest.fixture
def train(program, tmp_path):
    """`train()` -> the runs of the program."""
    cup = str(tmp_path / "cup")

    def call(program=program, **changes):
        task = TASK._replace(**changes)
        programs.train([program], cup, SPLIT, task)
        return programs.read_runs(program, cup, task.seeds)

    return call


def test_each_seed_gets_the_data_and_writes_its_images_once(train, tmp_path):
    runs = train()
    assert [run.status for run in runs] == ["finished", "finished"]
    images = [programs.open_images(run.images_path, 6, SHAPE) for run in runs]
    data = np.load(str(tmp_path / "cup" / "programs" / "data-ab.npz"))
    np.testing.assert_array_equal(images[0], SPLIT.take(np.arange(6))[0] + 1)
    np.testing.assert_array_equal(images[1], images[0] + 1)
    assert data["x_train"].shape == (40, *SHAPE) and data["y_train"].tolist() == [0, 1, 2, 3] * 10
    times = [os.stat(run.images_path).st_mtime_ns for run in runs]
    assert times == [os.stat(run.images_path).st_mtime_ns for run in train()]


def test_a_failure_has_its_last_line_and_is_run_again(train, tmp_path):
    script = tmp_path / "write.py"
    script.write_text("import sys; print('step 1'); sys.exit('no module named gans')")
    (run, _) = train()
    assert (run.status, run.reason) == ("failed", "exit code 1: no module named gans")
    script.write_text(WRITE)
    assert [run.status for run in train()] == ["finished", "finished"]


CODE = "its command or its script has changed"


@pytest.mark.parametrize(
    "change, edited, message",
    [
        ({"cpu_secs": 5.0}, "", "the budget has changed since"),
        ({"samples": 7}, "", "the number of samples has changed"),
        ({"data_sha256": "cd"}, "", "the data has changed"),
        ({}, "write.py", CODE),
        ({}, "network.py", CODE),  # a module beside the script
    ],
)
def test_a_run_of_another_task_is_not_taken_for_this_one(train, tmp_path, change, edited, message):
    (tmp_path / "network.py").write_text("FILTERS = 64")
    train(seeds=(1,))
    if edited:
        (tmp_path / edited).write_text(WRITE + "# edited")
    with pytest.raises(UsageError, match=message):
        train(**change)


def test_a_file_that_a_program_writes_is_none_of_its_code(program, train, tmp_path):
    words = [*program.words, "--cache", str(tmp_path / "cache.bin")]
    (tmp_path / "cache.bin").write_text("1")
    (tmp_path / "write.py").write_text(WRITE + "open(flags['--cache'], 'a').write('2')")
    train(program._replace(words=words))
    train(program._replace(words=words))  # and is not refused
    assert (tmp_path / "cache.bin").read_text() == "122"


def test_a_script_that_is_edited_while_it_runs_is_recorded_as_it_was_before(train, tmp_path):
    (tmp_path / "write.py").write_text(WRITE + "open(__file__, 'a').write('# edited')")
    train(seeds=(1,))
    with pytest.raises(UsageError, match=CODE):
        train(seeds=(1,))


@pytest.mark.parametrize("damage", ["half", "gone"])
def test_a_run_whose_images_are_damaged_is_run_again(train, damage):
    first, second = train()
    time_ns = os.stat(second.images_path).st_mtime_ns
    if damage == "gone":
        os.remove(first.images_path)
    else:
        os.truncate(first.images_path, os.path.getsize(first.images_path) // 2)
    train()
    assert programs.open_images(first.images_path, 6, SHAPE).shape == (6, *SHAPE)
    assert os.stat(second.images_path).st_mtime_ns == time_ns


@pytest.mark.parametrize(
    "log, line",
    [
        (b"a\nlast\n\n", "last"),
        (b"epoch 1\repoch 2\repoch 3\r", "epoch 3"),
        (b"x\nError:\tno \x07GPU\x08\x00\n", "Error: no GPU"),
        (b"x\n\x1b[1;31mError:\x1b[0m no GPU\x1b[K\n", "Error: no GPU"),
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
        assert train(cores=cores)[0].reason == f"exit code 1: {expected} cores"


def test_a_program_gets_a_core_for_each_thread_of_a_preset(tmp_path):
    study = tmp_path / "searches" / "quick" / "study.json"
    study.parent.mkdir(parents=True)
    study.write_text('{"seeds": [1]}')
    options = types.SimpleNamespace(score_samples=5, intra_op_threads=3)
    trained = types.SimpleNamespace(options=options, data=types.SimpleNamespace(shape=SHAPE))
    assert standings._task(plan(2.0, [])._replace(folder=str(tmp_path)), trained, SPLIT).cores == 3


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
        ({}, "has no 'images', but nothing"),
        ({"a": np.zeros(3), "b": np.zeros(3)}, "has no 'images', but a, b"),
        ({"images": np.zeros((6, 8, 8, 3), np.uint8)}, r"uint8 \[6, 8, 8, 3\], expected"),
        ({"images": np.zeros((5, 8, 8, 1), np.uint8)}, r"uint8 \[5, 8, 8, 1\], expected"),
        ({"images": np.zeros((6, 8, 8, 1))}, r"it wrote float64 \[6, 8, 8, 1\], expected uint8"),
        ({"images": np.array([None])}, "is not one of numpy.savez"),
    ],
)
def test_a_file_without_such_images_has_a_sentence(tmp_path, content, message):
    path = tmp_path / "images.npz"
    if isinstance(content, str):
        path.write_text(content)
    elif content is not None:
        np.savez_compressed(str(path), **content)
    with pytest.raises(DataError, match=message):
        programs.open_images(str(path), 6, SHAPE)


@pytest.mark.parametrize("damage", ["a text", "other bits"])
def test_a_damaged_file_of_images_has_a_sentence(tmp_path, damage):
    path = tmp_path / "images.npz"
    random = np.random.RandomState(0)
    np.savez_compressed(str(path), images=random.randint(0, 4, (6, *SHAPE)).astype(np.uint8))
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2] + bytes([255]) * 40 + data[len(data) // 2 + 40 :])
    if damage == "a text":
        with zipfile.ZipFile(str(path), "w") as file:
            file.writestr("images", "none")
    with pytest.raises(DataError, match="is not one of numpy.savez"):
        programs.open_images(str(path), 6, SHAPE)


def test_the_only_array_of_a_file_and_grey_images_without_channels_are_read(tmp_path):
    np.savez(str(tmp_path / "a.npz"), np.full((6, 8, 8), 7, np.uint8))
    assert programs.open_images(str(tmp_path / "a.npz"), 6, SHAPE).shape == (6, *SHAPE)
