"""A script runs as it would by itself, and leaves the process as it was."""

import json
import os
import random
import sys

import numpy as np
import pytest
from adopt_fixtures import SCRIPTS, START, adopt, adopted, commits, resume, write_script
from file_fixtures import flip_byte, read_json, read_text
from process_fixtures import run
from toolkit_adopt import order
from toolkit_adopt.observations import is_own
from toolkit_adopt.order import Order
from toolkit_adopt.script import own_folders

from toolkit import open_trained, tf
from toolkit.cli import run_command
from toolkit.errors import InterruptedRun, UsageError

WHERE = """
import json, os, sys
from helper import NAME

def main(_):
    flags = tf.flags.FLAGS
    seen = [__name__, sys.argv[1:], sys.path[0], os.getcwd(), NAME, flags.count, flags.log_dir]
    with open("seen.json", "w") as file:
        json.dump(seen, file)
    os.makedirs("else", exist_ok=True)
    os.chdir("else")

if __name__ == "__main__":
    import tensorflow as tf
    tf.app.flags.DEFINE_integer("count", 1, "of a test of adopted scripts")
    tf.app.flags.DEFINE_string("log_dir", "logs", "which absl has, too")
    tf.app.run()
"""


def test_the_script_is_main_with_its_arguments_folder_and_flags(tmp_path, capfd):
    path = write_script(tmp_path / "folder", WHERE)
    write_script(tmp_path / "folder", "NAME = 'a neighbour'", "helper.py")

    def state():
        streams, tensorflow = (sys.stdin, sys.stdout, sys.stderr), sys.modules["tensorflow"]
        process = os.getcwd(), list(sys.path), sys.argv, streams, tensorflow
        sessions = tf.Session.__init__, tf.Session.run, tf.Session._do_run, tf.gradients
        noise = tf.random_normal, np.random.seed, random.Random, tf.flags.FLAGS["log_dir"]
        return process, sessions, noise

    before, args, folder = state(), ["--count=3", "--log_dir=there"], str(path.parent)
    assert adopt(path, args=args) == 0
    expected = ["__main__", args, folder, folder, "a neighbour", 3, "there"]
    assert read_json(folder, "seen.json") == expected
    assert state() == before
    assert "helper" not in sys.modules
    assert "the script made no train call" in capfd.readouterr().err


def test_a_script_that_imports_relatively_is_run_as_a_module_of_its_package(tmp_path):
    text = "import sys\nfrom . import helper\nfrom .. import __name__ as parent\n"
    text += "assert (__name__, parent, helper.NAME) == ('__main__', 'outer', 'a neighbour')\n"
    folder = tmp_path / "outer" / "inner"
    write_script(folder.parent, "", "__init__.py")
    write_script(folder, "", "__init__.py")
    write_script(folder, "NAME = 'a neighbour'", "helper.py")
    assert adopt(write_script(folder, text)) == 0
    assert not {"outer", "outer.inner", "outer.inner.helper"} & set(sys.modules)


def test_the_code_of_a_script_is_in_its_package_and_the_working_directory(tmp_path):
    script = write_script(tmp_path / "package", "", "__init__.py").parent / "script.py"
    own = [str(script.parent)]
    for directory, more in (("/", []), (os.path.expanduser("~"), []), (tmp_path, [str(tmp_path)])):
        found = own_folders({"script": str(script), "directory": str(directory)})
        assert found == own + more
    assert is_own(str(tmp_path / "model.py"), found)
    assert not is_own(str(tmp_path / "site-packages" / "model.py"), found)
    assert not is_own(order.__file__, [os.path.dirname(os.path.dirname(order.__file__))])


def test_a_script_may_write_bytes_to_stdout(tmp_path, capfd):
    text = "import io, sys\nsys.stdout.buffer.write('one \u00fc\\n'.encode('utf-8'))\n"
    text += "assert sys.stdout.name and sys.stdout.mode\n"
    text += "sys.stdout = io.TextIOWrapper(sys.stdout.buffer, 'utf-8')\nprint('two', flush=True)\n"
    adopted(tmp_path, text)
    assert capfd.readouterr().out.startswith("one \u00fc\ntwo\n")


HOLDS = {
    "each op draws other numbers in each call": """
ops = [tf.random_normal([]), tf.random_normal([])]
assert len(set(sess.run(ops) + sess.run(ops))) == 4
""",
    "ops of one seed draw the same numbers": """
def draw():
    return [tf.random_uniform([], seed=5), tf.random_uniform([]), tf.random_uniform([])]

tf.set_random_seed(4)
with tf.name_scope("one"):
    ops = draw()
with tf.name_scope("other"):
    ops += draw()
one, *others, other = sess.run(ops[:3] + ops[4:] + ops[3:4])
assert one == other and len({one, *others}) == 5
""",
    "twin functions of tf.data draw other numbers": """
numbers = [tf.data.Dataset.range(1).map(lambda _: tf.random_uniform([])) for _ in range(2)]
one, other = sess.run([tf.data.make_one_shot_iterator(each).get_next() for each in numbers])
assert one != other
""",
    "a train call may have a function without state": """
w = tf.Variable(1.0)
twice = tf.py_func(lambda value: value + value, [w], tf.float32, stateful=False)
loss = (w - tf.stop_gradient(tf.reshape(twice, []))) ** 2
train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
sess.run(w.initializer)
sess.run(train)
assert abs(sess.run(w) - 1.2) < 1e-6
""",
    "a read that is newer than an update gets the value before it and does not make it": """
w = tf.get_variable("w", initializer=1.0, use_resource=True)
update, read = w.assign_add(1.0, read_value=False), w.read_value()
sess.run(w.initializer)
assert [sess.run(read), sess.run([update, read])[1], sess.run(read)] == [1.0, 1.0, 2.0]
""",
    "rows that a call gathers are those before its update, which needs them in no other call": """
w = tf.Variable([1.0, 2.0])
place = tf.placeholder(tf.int32, [])
slow = tf.while_loop(lambda i: i < 99, lambda i: i + 1, [place])
row, update = tf.gather(w, slow - 98), w.assign_add([1.0, 1.0])
sess.run(w.initializer)
assert [sess.run([row, update.op], {place: 0})[0] for _ in range(3)] == [2, 3, 4]
assert sess.run(update).tolist() == [5, 6]
""",
    "a seed may be given by its name": """
first = [random.seed(a=1), random.random(), np.random.seed(seed=1), np.random.rand()]
assert first == [random.seed(1), random.random(), np.random.seed(1), np.random.rand()]
assert np.random.default_rng(seed=1).random() == np.random.default_rng(1).random()
""",
    "a box without a seed gets one of the run": """
begin, _, _ = tf.image.sample_distorted_bounding_box(
    [9, 9, 3], tf.zeros([1, 1, 4]), use_image_if_no_bounding_boxes=True
)
ops = tf.get_default_graph().get_operations()
seeds = [op.get_attr("seed2") for op in ops if "BoundingBox" in op.type]
assert len(seeds) == 1 and seeds[0] != 0, seeds
""",
    "a variable is fed to all that read it and fetched by its name": """
w = tf.Variable(2.0)
assert sess.run([w * 1.0, w + 1.0], {w: 5.0}) == [5.0, 6.0]
sess.run(w.initializer)
assert sess.run("Variable:0") == 2.0
""",
    "a variable whose shape is not checked takes values of any": """
w = tf.Variable([], validate_shape=False)
sess.run(w.initializer)
sess.run(tf.assign(w, [[1.0, 2.0]], validate_shape=False))
assert sess.run(w).tolist() == [[1, 2]]
""",
    "an augmented assignment to a name of a variable makes a tensor": """
w = more = less = double = half = power = tf.Variable(3.0)
more += 1.0
less -= 1.0
double *= 2.0
half /= 2.0
power **= 2.0
assert sess.run([more, less, double, half, power], {w: 3.0}) == [4, 2, 6, 1.5, 9]
""",
    "scipy minimizes a loss within bounds and to constraints": """
make = tf.contrib.opt.ScipyOptimizerInterface
point, number = tf.Variable([7.0, 7.0]), tf.Variable(3.0)
loss, seen = tf.reduce_sum(point**2) + number**2, []
bounded = make(loss, var_to_bounds={point: ([1, 2], np.inf)})
held = make(loss, [point], [point[1] - 1], [point[0] - 3], method="SLSQP")
sess.run(tf.global_variables_initializer())
bounded.minimize(sess, fetches=[loss], loss_callback=seen.append)
assert sess.run(point).tolist() == [1, 2] and seen[0] == 107
with sess.as_default():
    held.minimize()
np.testing.assert_allclose([*sess.run(point), sess.run(number)], [3, 1, 0], atol=1e-5)
""",
}


@pytest.mark.parametrize("name", sorted(HOLDS))
def test_a_script_can_rely_on_it(name, tmp_path):
    text = "import random\nimport numpy as np\nimport tensorflow as tf\nsess = tf.Session()\n"
    adopted(tmp_path, text + HOLDS[name])


def test_steps_end_the_run_and_more_steps_continue_it(tmp_path):
    path = adopted(tmp_path, SCRIPTS["feeds"], "--steps", "4", "--log-steps", "1")
    assert list(commits(path)) == [1, 4]
    lines = read_text(path.parent, "run", "metrics.jsonl").splitlines()
    assert [json.loads(line)["step"] for line in lines] == [1, 2, 3, 4]
    assert resume(path) == 0  # nothing is left to do
    assert resume(path, "--steps", "6") == 0
    assert list(commits(path)) == [1, 4, 6]


def test_a_script_that_a_run_names_and_the_user_did_not_run_is_refused(tmp_path, monkeypatch, cli):
    path = adopted(tmp_path, SCRIPTS["feeds"], "--steps", "4")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "another-user"))
    words = ["resume", path.parent / "run", "--steps", "6"]
    cli.refuse(2, "script.py', code that you have not run before;", *words)
    cli.succeed(*words, "--trust")


def test_ctrl_c_is_committed_even_if_the_script_catches_it(tmp_path, capfd):
    text = """
try:
    for i in range(12):
        if i == 4 and "interrupted" not in os.listdir("."):
            open("interrupted", "w").close()
            os.kill(os.getpid(), 2)
        sess.run(train, batch())
except KeyboardInterrupt:
    print("saved", flush=True)
    sys.exit(1)  # as click does
"""
    path = adopted(tmp_path, START + text, code=130)
    assert "Interrupted: the next train call is the last" in capfd.readouterr().err
    assert list(commits(path)) == [1, 5]
    assert resume(path) == 0
    assert list(commits(path)) == [1, 5, 12]


CATCHING = """
while True:
    try:
        sess.run(train, batch())
    except:
        sys.stdout = open("log", "w")
"""


@pytest.mark.parametrize(
    "text, words, code, message, kept",
    [
        ("", ["--steps", "4"], 0, "reached step 4", 4),
        ("os.kill(os.getpid(), 15)", [], 143, "Continue with: toolkit resume run", 1),
        ("data /= 0", ["--commit-steps", "9"], 3, "Error: Training diverged in train call 1", None),
    ],
)
def test_a_script_that_catches_every_end_of_its_run_is_ended(
    text, words, code, message, kept, tmp_path
):
    path = write_script(tmp_path / "folder", START + text + CATCHING)
    ended = run("adopt", path.name, "--run-dir", "run", *words, cwd=str(path.parent))
    assert ended.code == code
    assert message in ended.err
    assert max(commits(path), default=None) == kept
    last = json.loads((path.parent / "run" / "commits.jsonl").read_text().splitlines()[-1])
    assert last["kind"] == ("end" if code else "seal")


def test_verify_doctor_and_runs_read_an_adopted_run(tmp_path, cli):
    path = adopted(tmp_path, SCRIPTS["feeds"], "--commit-steps", "5")
    folder = str(path.parent / "run")
    cli.succeed("verify", folder, "--replay", ":")
    cli.succeed("doctor", folder)
    assert "finished" in cli.succeed("runs", folder).out
    cli.refuse(2, "--chaos trains a copy by the core's loop", "verify", folder, "--chaos", "1")
    cli.refuse(2, "'evaluate' needs a command of the driver", "evaluate", folder)
    with pytest.raises(UsageError, match="the driver 'adopt' made its steps"):
        open_trained(folder)
    flip_byte(path.parent / "run" / "journal.bin")
    ended = cli("verify", folder)
    assert ended.code == 6 and "journal.bin is not what it was at step 12" in ended.out


def test_a_dry_run_lists_the_calls_of_a_period_and_begins_no_run(tmp_path, capsys):
    path = adopted(tmp_path, SCRIPTS["habits"].replace("[3, 4]", "[3, 40]"), "--dry-run")
    lines = capsys.readouterr().out.splitlines()
    assert {"period  2 train calls", "        1: Adam, add <- x"} < set(lines)
    assert [line for line in lines if line.startswith("journal ")]
    assert lines.count("loss    Sum") == 1  # of the same name in both graphs
    assert lines[-2] == "mode    drive: the script makes each call"
    assert lines[-1] == "no lift The script trains 2 graphs."
    assert not (path.parent / "run").exists()


def test_a_dry_run_goes_on_until_an_optimizer_is_reached(tmp_path, capsys):
    calls = "for op in [w.assign(w + 0.0)] * 15 + [train] * 25:\n    sess.run(op, batch())\n"
    adopted(tmp_path, START + calls, "--dry-run")
    assert {"period  1 train calls", "loss    loss"} < set(capsys.readouterr().out.splitlines())


def test_a_dry_run_says_that_the_checkpoints_of_the_script_stay(tmp_path, capsys):
    adopted(tmp_path, SCRIPTS["monitored"], "--dry-run")
    advice = "        its checkpoints stay: delete them if it would begin from them"
    assert {"writes  out/checkpoint", advice} < set(capsys.readouterr().out.splitlines())


def test_a_dry_run_lists_no_files_of_other_file_systems(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(os.path, "ismount", lambda path: path.endswith("out"))
    adopted(tmp_path, SCRIPTS["monitored"], "--dry-run")
    assert "writes" not in capsys.readouterr().out


def test_the_command_begins_again_with_the_order_of_hashes_of_the_run(tmp_path, monkeypatch):
    path = write_script(tmp_path / "folder", SCRIPTS["feeds"])
    begun = []

    def begin(program, words, environment):
        begun.append((words[1:], environment["PYTHONHASHSEED"]))
        raise InterruptedRun("", signum=2)

    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYTHONHASHSEED", raising=False)
    monkeypatch.setattr(os, "execve", begin)
    words = ["adopt", str(path), "--run-dir", str(tmp_path / "run")]
    monkeypatch.setattr(sys, "argv", ["/bin/toolkit", *words])
    run_command(words)
    assert begun == [(["/bin/toolkit", *words], "0")]
    assert not (tmp_path / "run").exists()
    monkeypatch.setenv("PYTHONHASHSEED", "0")
    assert run_command([*words, "--steps", "1"]) == 0  # not the words of this process
    monkeypatch.setenv("PYTHONHASHSEED", "5")
    words = ["resume", str(tmp_path / "run")]
    monkeypatch.setattr(sys, "argv", ["/x/toolkit/__main__.py", *words])
    run_command(words)
    assert begun[1:] == [(["-m", "toolkit", *words], "0")]


def test_assigns_that_a_loop_makes_are_ordered_by_few_gates_and_looks_at_the_graph(monkeypatch):
    looked, inputs_of = [], order._inputs_of
    monkeypatch.setattr(order, "_inputs_of", lambda op: looked.append(op) or inputs_of(op))
    with tf.Graph().as_default() as graph:
        variable, ordering = tf.get_variable("v", [], use_resource=True), Order()
        for value in range(100):
            variable.assign(float(value))
            gates = ordering.complete(graph)
    assert len(gates) == sum(range(10)) + 90 * 9  # behind the first one and the last eight
    assert len(looked) < 100**3
