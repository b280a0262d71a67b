"""Programs in `toolkit gan tournament`: their processes, what they write, and their failures."""

from __future__ import annotations

import os
import signal
import sys
import types
import zipfile

import numpy as np
import pytest
from process_fixtures import PATIENCE, is_gone, kill, start, wait_for_file, wait_until
from score_fixtures import SHAPE, make_split
from toolkit_gan.commands import programs, standings, supervisor, training
from toolkit_gan.commands.programs import Program, Task

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


def test_each_budget_has_a_folder_and_the_same_programs():
    plans = training.plans("cup", "quick", [], "5, 0.2", 2, ["--width", "4"], ["a=sh x"])
    assert [(os.path.basename(each.folder), each.minutes) for each in plans] == [
        ("0.2-minutes", 0.2),
        ("5-minutes", 5.0),
    ]
    assert {each.programs[0].name for each in plans} == {"a"}
    words = plans[0].searches[0]
    assert words[words.index("--cpu-secs") + 1] == "12"
    assert words[1] == os.path.join("cup", "0.2-minutes")
    (plan,) = training.plans("cup", "auto", [], "2", 1, [], ["a=sh x"])
    assert plan.folder == os.path.abspath("cup") and plan.presets == ["auto"]


@pytest.mark.parametrize(
    "budgets, flags, message",
    [
        ("0", [], "--cpu-minutes is '0', expected positive numbers"),
        ("2,", [], "expected positive numbers, separated by commas"),
        ("2;5", [], "expected positive numbers"),
        ("nan", [], "expected positive numbers"),
        ("2,inf", [], "expected positive numbers"),
        ("2,5", ["--steps", "3"], "another budget is set"),
        ("2", ["--steps=3"], "A program trains for CPU time, and another budget is set"),
        ("2", ["--preset", "quick"], "--preset is what the tournament sets itself"),
    ],
)
def test_budgets_that_programs_cannot_have_are_refused(budgets, flags, message):
    with pytest.raises(UsageError, match=message):
        training.plans("cup", "quick", [], budgets, 1, flags, ["a=sh x"])


# ---------------------------------------------------------------------------------- the supervisor


def request_of(code, tmp_path, **changes):
    """A request of a program in Python."""
    values = {"limit": 20.0, "drawing_limit": 20.0, "idle_secs": PATIENCE}
    paths = {"log": str(tmp_path / "log.txt"), "mark": str(tmp_path / "mark")}
    command = [sys.executable, "-S", "-c", code, paths["mark"]]
    return dict(values, **paths, command=command, **changes)


# The program's child ends at once, so that the grandchild gets another parent, and burns 0.4 CPU
# seconds; the program waits for its end.
ORPHAN = """
import os, time
read, write = os.pipe()
if os.fork():
    os.close(write)
    os.read(read, 1)
    os._exit(5)
if os.fork(): os._exit(0)
os.setsid()
while time.process_time() < 0.4: pass
"""


def test_the_cpu_time_of_an_orphan_counts(tmp_path):
    ending = programs.supervise(request_of(ORPHAN, tmp_path))
    assert ending["code"] == 5 and ending["cpu_secs"] > 0.35


def test_an_orphan_is_killed_at_the_end_of_its_program(tmp_path):
    code = ENDLESS.replace('os.write(write, b"x")', "os._exit(3)")
    ending = programs.supervise(request_of(code, tmp_path))
    assert ending["code"] == 3 and not ending["stopped"]
    assert is_gone(int((tmp_path / "mark.pid").read_text()))


def test_the_time_of_a_child_that_nobody_waits_for_counts_as_it_was_last_seen():
    meter = supervisor.Meter()
    assert meter.add({1: (1.0, 0.0), 2: (5.0, 2.0)}, 0.0) == 8.0
    assert meter.add({1: (1.5, 0.0)}, 0.0) == 8.5  # 2 has vanished, and nobody got its 7 seconds
    assert meter.add({1: (1.5, 0.0), 3: (4.0, 0.0)}, 0.0) == 12.5
    assert meter.add({1: (1.5, 0.0)}, 0.0) == 12.5


def test_the_time_of_a_child_that_was_waited_for_counts_once():
    meter = supervisor.Meter()
    assert meter.add({1: (1.0, 0.0), 2: (5.0, 2.0)}, 0.0) == 8.0
    # The parent of 2 has its 5.5 and its child's 2.
    assert meter.add({1: (1.0, 7.5)}, 0.0) == 8.5
    assert meter.add({}, 9.0) == 9.0


def test_a_program_gets_no_variable_that_this_process_has_set(tmp_path, monkeypatch):
    monkeypatch.setenv("NEW_HERE", "1")  # as TensorFlow 2 sets TF2_BEHAVIOR
    code = "import os, sys; sys.exit(7 if 'NEW_HERE' in os.environ else 'PATH' in os.environ)"
    assert programs.supervise(request_of(code, tmp_path))["code"] == 1


# Writes the pid of a child in another session, which begins after that. What follows is for both.
ENDLESS = """
import os, signal, sys
read, write = os.pipe()
child = os.fork()
if child:
    with open(sys.argv[1] + ".part", "w") as file: file.write(str(child))
    os.rename(sys.argv[1] + ".part", sys.argv[1] + ".pid")
    os.write(write, b"x")
else:
    os.setsid()
    os.read(read, 1)
"""


def test_a_program_over_its_limit_is_killed_with_all_that_it_started(tmp_path):
    ending = programs.supervise(request_of(ENDLESS + "while True: pass", tmp_path, limit=1.0))
    assert ending["stopped"] == "training" and ending["cpu_secs"] > 1
    assert is_gone(int((tmp_path / "mark.pid").read_text()))


def test_what_follows_the_mark_is_drawing_with_a_limit_of_its_own(tmp_path):
    code = "import sys, time\nwhile time.process_time() < 0.3: pass\n"
    code += "open(sys.argv[1], 'w').close()\nwhile True: pass"
    ending = programs.supervise(request_of(code, tmp_path, drawing_limit=0.4))
    assert ending["stopped"] == "drawing"
    assert 0.25 < ending["training_cpu_secs"] < ending["cpu_secs"] - 0.4


def test_a_program_that_uses_no_cpu_time_is_killed(tmp_path):
    request = request_of("import signal; signal.pause()", tmp_path, idle_secs=1.5)
    ending = programs.supervise(request)
    assert ending["stopped"] == "idle" and ending["code"] == 128 + signal.SIGKILL


def test_a_program_ends_with_its_tournament(tmp_path):
    request = request_of(ENDLESS + "signal.pause()", tmp_path)
    statements = f"from toolkit_gan.commands import programs; programs.supervise({request!r})"
    process = start(statements=statements, fresh=True)
    wait_for_file(tmp_path / "mark.pid", among=[process])
    kill(process)
    child = int((tmp_path / "mark.pid").read_text())
    wait_until(lambda: is_gone(child))


# ----------------------------------------------------------------------------------------- the runs


@pytest.fixture
def program(tmp_path):
    """A program that writes training images, each pixel plus the seed."""
    (tmp_path / "write.py").write_text(WRITE)
    return Program("writer", [sys.executable, str(tmp_path / "write.py")])


def train(program, folder, **changes):
    programs.train([program], str(folder), SPLIT, TASK._replace(**changes))
    return programs.read_runs(program, str(folder), TASK.seeds)


def test_each_seed_gets_the_data_and_writes_its_images_once(program, tmp_path):
    runs = train(program, tmp_path / "cup")
    assert [run.status for run in runs] == ["finished", "finished"]
    images = [programs.open_images(run.images_path, 6, SHAPE) for run in runs]
    data = np.load(str(tmp_path / "cup" / "programs" / "data-ab.npz"))
    np.testing.assert_array_equal(images[0], SPLIT.take(np.arange(6))[0] + 1)
    np.testing.assert_array_equal(images[1], images[0] + 1)
    assert data["x_train"].shape == (40, *SHAPE) and data["y_train"].tolist() == [0, 1, 2, 3] * 10
    times = [os.stat(run.images_path).st_mtime_ns for run in runs]
    train(program, tmp_path / "cup")
    assert times == [os.stat(run.images_path).st_mtime_ns for run in runs]


def test_a_failure_has_its_last_line_and_is_run_again(program, tmp_path):
    script = tmp_path / "write.py"
    script.write_text("import sys; print('step 1'); sys.exit('no module named gans')")
    (run, _) = train(program, tmp_path / "cup")
    assert (run.status, run.reason) == ("failed", "exit code 1: no module named gans")
    script.write_text(WRITE)
    assert [run.status for run in train(program, tmp_path / "cup")] == ["finished", "finished"]


@pytest.mark.parametrize(
    "change, message",
    [
        ({"cpu_secs": 5.0}, "the budget has changed since"),
        ({"samples": 7}, "the number of samples has changed"),
        ({"data_sha256": "cd"}, "the data has changed"),
        (None, "its command or its script has changed"),
    ],
)
def test_a_run_of_another_task_is_not_taken_for_this_one(program, tmp_path, change, message):
    train(program, tmp_path / "cup", seeds=(1,))
    if change is None:
        (tmp_path / "write.py").write_text(WRITE + "# edited")
    with pytest.raises(UsageError, match=message):
        train(program, tmp_path / "cup", **(change or {}))


def test_an_edited_module_beside_the_script_is_noticed(program, tmp_path):
    (tmp_path / "network.py").write_text("FILTERS = 64")
    train(program, tmp_path / "cup", seeds=(1,))
    (tmp_path / "network.py").write_text("FILTERS = 32")
    with pytest.raises(UsageError, match="its command or its script has changed"):
        train(program, tmp_path / "cup", seeds=(1,))


def test_a_file_that_a_program_writes_is_none_of_its_code(program, tmp_path):
    words = [*program.words, "--cache", str(tmp_path / "cache.bin")]
    (tmp_path / "cache.bin").write_text("1")
    (tmp_path / "write.py").write_text(WRITE + "open(flags['--cache'], 'a').write('2')")
    train(program._replace(words=words), tmp_path / "cup")
    train(program._replace(words=words), tmp_path / "cup")  # and is not refused
    assert (tmp_path / "cache.bin").read_text() == "122"


def test_a_script_that_is_edited_while_it_runs_is_recorded_as_it_was_before(program, tmp_path):
    (tmp_path / "write.py").write_text(WRITE + "open(__file__, 'a').write('# edited')")
    before = program.sha256()
    train(program, tmp_path / "cup")
    paths = [programs.run_folder(str(tmp_path / "cup"), program, seed) for seed in TASK.seeds]
    assert [programs._read_record(path)["request"]["program"] for path in paths] == [before] * 2


def test_other_data_is_written_for_programs_that_have_not_finished(program, tmp_path):
    (tmp_path / "write.py").write_text("exit(1)")
    train(program, tmp_path / "cup", data_sha256="0123456789abcdef01")
    (tmp_path / "write.py").write_text(WRITE)
    other, task = make_split(20), TASK._replace(data_sha256="ff")
    programs.train([program], str(tmp_path / "cup"), other, task)
    names = sorted(
        name for name in os.listdir(str(tmp_path / "cup" / "programs")) if "data" in name
    )
    assert names == ["data-0123456789abcdef.npz", "data-ff.npz"]
    with np.load(str(tmp_path / "cup" / "programs" / "data-ff.npz")) as arrays:
        assert len(arrays["x_train"]) == 20


@pytest.mark.parametrize("damage", ["half", "gone"])
def test_a_run_whose_images_are_damaged_is_run_again(program, tmp_path, damage):
    first, second = train(program, tmp_path / "cup")
    time_ns = os.stat(second.images_path).st_mtime_ns
    if damage == "gone":
        os.remove(first.images_path)
    else:
        os.truncate(first.images_path, os.path.getsize(first.images_path) // 2)
    train(program, tmp_path / "cup")
    assert programs.open_images(first.images_path, 6, SHAPE).shape == (6, *SHAPE)
    assert os.stat(second.images_path).st_mtime_ns == time_ns


def test_the_images_are_on_the_disk_before_the_result_is_written(program, tmp_path, monkeypatch):
    flushed, flush = [], os.fsync

    def fsync(descriptor):
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        folder = path if os.path.isdir(path) else os.path.dirname(path)
        flushed.append((os.path.basename(path), "result.json" in os.listdir(folder)))
        flush(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    train(program, tmp_path / "cup", seeds=(1,))
    assert ("images.npz", False) in flushed


@pytest.mark.parametrize(
    "log, line",
    [
        (b"a\nlast\n\n", "last"),
        (b"epoch 1\repoch 2\repoch 3\r", "epoch 3"),
        (b"x\n\x1b[1;31mError:\x1b[0m\tno \x1b]0;title\x07GPU\x08\x00\n\x1b[K\n", "Error: no GPU"),
        (b"", ""),
    ],
)
def test_the_last_line_of_a_log_is_what_a_terminal_shows(tmp_path, log, line):
    (tmp_path / "log.txt").write_bytes(log)
    assert programs._last_line(str(tmp_path / "log.txt")) == line


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="Linux alone limits the cores.")
def test_a_program_has_as_many_cores_as_its_task_says(program, tmp_path):
    code = "import os, sys; sys.exit(f'{len(os.sched_getaffinity(0))} cores')"
    (tmp_path / "write.py").write_text(code)
    run, _ = train(program, tmp_path / "cup", cores=1)
    assert run.reason == "exit code 1: 1 cores"
    run, _ = train(program, tmp_path / "cup", cores=0)
    assert run.reason == f"exit code 1: {len(os.sched_getaffinity(0))} cores"


def test_a_program_gets_a_core_for_each_thread_of_a_preset(tmp_path):
    (tmp_path / "study.json").write_text('{"seeds": [1]}')
    options = types.SimpleNamespace(score_samples=5, score_seeds=2, intra_op_threads=3)
    data = types.SimpleNamespace(shape=SHAPE)
    trained = types.SimpleNamespace(options=options, data=data)
    plan = training.Plan(str(tmp_path), [], [], [], [], 2.0)
    assert standings._task(plan, trained, SPLIT).cores == 3


def test_two_processes_do_not_run_the_same_programs(program, tmp_path):
    os.makedirs(str(tmp_path / "cup" / "programs"))
    refused = pytest.raises(RetryError, match="Another process runs the programs")
    with programs._lock(str(tmp_path / "cup" / "programs")), refused:
        train(program, tmp_path / "cup")


@pytest.mark.parametrize(
    "arrays, message",
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
def test_a_file_without_such_images_has_a_sentence(tmp_path, arrays, message):
    path = tmp_path / "images.npz"
    if isinstance(arrays, str):
        path.write_text(arrays)
    elif arrays is not None:
        np.savez(str(path), **arrays)
    with pytest.raises(DataError, match=message):
        programs.open_images(str(path), 6, SHAPE)


@pytest.mark.parametrize("damage", ["a text", "a half", "other bits", "too large"])
def test_a_damaged_file_of_images_has_a_sentence(tmp_path, damage, monkeypatch):
    path = tmp_path / "images.npz"
    random = np.random.RandomState(0)
    np.savez_compressed(str(path), images=random.randint(0, 4, (6, *SHAPE)).astype(np.uint8))
    data = bytearray(path.read_bytes())
    message = "is not one of numpy.savez"
    if damage == "a text":
        with zipfile.ZipFile(str(path), "w") as file:
            file.writestr("images", "none")
    elif damage == "too large":
        monkeypatch.setattr(programs, "_MAX_TIMES", 1)  # the header of the array is larger, too
        message = "it wrote arrays of 512 bytes, expected 384 at most"
    else:
        start = len(data) // 2
        data[start : start + 40] = b"" if damage == "a half" else bytes([255]) * 40
        path.write_bytes(bytes(data))
    with pytest.raises(DataError, match=message):
        programs.open_images(str(path), 6, SHAPE)


def test_the_only_array_of_a_file_and_grey_images_without_channels_are_read(tmp_path):
    np.savez(str(tmp_path / "a.npz"), np.full((6, 8, 8), 7, np.uint8))
    assert programs.open_images(str(tmp_path / "a.npz"), 6, SHAPE).shape == (6, *SHAPE)


def test_each_set_of_samples_is_a_part_of_the_images():
    draw = programs.draw_images(np.arange(6), 3)
    assert draw(3, 2).tolist() == [3, 4, 5] and draw(1, 1).tolist() == [0]
    with pytest.raises(DataError, match="too few for set 3"):
        draw(1, 3)
