"""What a script cannot do in a run: one sentence each, with the line where there is one."""

import json

import pytest
from adopt_fixtures import HEAD, INIT, TRAIN, adopt, commits, killed, metrics, resume, write_script
from file_fixtures import flip_byte

LOOP = TRAIN + INIT + "for i in range(12):\n    sess.run(train, batch())\n"
QUEUE = "queue = tf.FIFOQueue(9, tf.float32, [[]], name='rows')\n"
REFUSED = {
    "python function": (
        "def f(a):\n    return a\n"
        "z = tf.py_func(f, [x], tf.float32)\nz.set_shape([None, 4])\n"
        "loss = tf.reduce_mean(tf.square(tf.matmul(z, w) - y))\n" + LOOP,
        "script.py trains by 'PyFunc' (PyFunc), whose state no resume knows; write "
        "stateful=False if it keeps none (script.py:",
    ),
    "queue that nobody fills": (
        INIT + QUEUE + "row = queue.dequeue()\nsess.run(row)\n",
        "script.py takes from the queue 'rows', which no queue runner fills (script.py:{before}).",
    ),
    "queue in a loop": (
        INIT + QUEUE + "body = lambda i: i + queue.dequeue()\n"
        "sess.run(tf.while_loop(lambda i: i < 1.0, body, [0.0]))\n",
        "script.py takes from the queue 'rows' in a loop (script.py:{before}).",
    ),
    "queue of what is trained": (
        INIT + QUEUE + "sess.run(queue.enqueue(loss), batch())\n",
        "script.py fills a queue by what depends on the variable 'w', which a resume has only at a "
        "commit (script.py:{line}).",
    ),
    "loop by a clock": (
        TRAIN + "sv = tf.train.Supervisor(logdir='out')\n"
        "sv.managed_session().__enter__()\nsv.loop(60, batch)\n",
        "script.py calls a function by a clock (Supervisor.loop) (script.py:{line}).",
    ),
    "thread": (
        TRAIN + INIT + "import threading\nwait = threading.Event()  # which never comes\n"
        "thread = threading.Thread(target=lambda: sess.run(train, batch()))\n"
        "thread.start(); wait.wait()\n",
        "script.py calls a session from a thread or a process of its own (script.py:{before}).",
    ),
    "thread beside a call": (
        TRAIN + INIT + "import threading\ndef beside():\n"
        "    thread = threading.Thread(target=call)\n"
        "    thread.start(); thread.join()\n    return np.float32(0)\n"
        "sess.run(train, batch())\ncall = lambda: sess.run(train, batch())\n"
        "sess.run(tf.py_func(beside, [], tf.float32))\n",
        "script.py calls a session from a thread or a process of its own (script.py:{before}).",
    ),
    "server": (
        "tf.train.Server({'worker': ['localhost:0']}, job_name='worker', task_index=0)\n",
        "script.py trains in several processes (tf.train.Server) (script.py:{line}).",
    ),
    "eager": (
        "tf.enable_eager_execution()\n",
        "script.py trains eagerly, without a graph and a session (script.py:{line}).",
    ),
    "ops of its own": (
        "tf.load_op_library('./fast.so')\n",
        "script.py loads ops of its own from ./fast.so, whose state no resume knows "
        "(script.py:{line}).",
    ),
    "input": (
        LOOP + "input('more?')\n",
        "script.py asks for input, and a resume has nobody to answer (script.py:{line}).",
    ),
    "exception": (
        LOOP + "1 / 0\n",
        "script.py failed: ZeroDivisionError: division by zero (line {line}).",
    ),
    "error in a call": (
        LOOP + "sess.run(tf.gather([1.0], tf.placeholder_with_default(5, [])))\n",
        "script.py failed: InvalidArgumentError: indices = 5 is not in [0, 1) (line {line}).",
    ),
    "exit code": (LOOP + "sys.exit(3)\n", "script.py ended with exit code 3."),
}


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("name", sorted(REFUSED))
def test_what_a_run_cannot_have_is_refused_in_one_sentence(name, tmp_path, capfd):
    text, message = REFUSED[name]
    path = write_script(tmp_path / "folder", HEAD + text)
    assert adopt(path) == 1
    line = len((HEAD + text).splitlines())  # the last one
    assert message.format(line=line, before=line - 1) in capfd.readouterr().err


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_dry_run_refuses_a_thread_for_which_the_script_waits(tmp_path, capfd):
    path = write_script(tmp_path / "folder", HEAD + REFUSED["thread"][0])
    assert adopt(path, "--dry-run") == 1
    assert "refused script.py calls a session from a thread" in capfd.readouterr().out


def test_a_journal_over_its_limit_is_refused_and_goes_on_with_a_larger_one(tmp_path, capfd):
    big = "sess.run(tf.zeros([150000]))\nsess.run(tf.zeros([300000]))\n"
    path = write_script(tmp_path / "folder", HEAD + LOOP + big)
    assert adopt(path, "--commit-steps", "1", "--journal-limit", "1") == 1
    err = capfd.readouterr().err
    assert "the journal has half of its limit" in err and "and its limit is 1 MB" in err
    assert resume(path) == 1
    assert "resume RUN --journal-limit N" in capfd.readouterr().err
    assert resume(path, "--journal-limit", "2") == 0


def test_entropy_that_reaches_a_feed_is_named_by_call_and_feed_at_the_resume(tmp_path, cli):
    text = HEAD + TRAIN + INIT + "for i in range(12):\n"
    text += "    noise = open('/dev/urandom', 'rb').read(4)\n"
    text += "    feed = {x: data[:2] + int.from_bytes(noise, 'big') / 1e9, y: target[:2]}\n"
    text += "    sess.run(train, feed)\n"
    path = write_script(tmp_path / "folder", text)
    killed(path, 3, "--commit-steps", "2")
    cli.refuse(1, "Call 2 (Adam <- x, y) differs", "resume", path.parent / "run")


def test_a_script_or_a_module_of_it_that_has_changed_is_refused_and_may_be_allowed(tmp_path, cli):
    text = "import sys\nsys.path.append('../lib')\nimport helper\n" + HEAD
    text += "np.random.rand(int(1e6 * helper.NOW) % 99)\n" + LOOP
    path = write_script(tmp_path / "folder", text)
    known = "import os, time\nimport numpy as np\nNOW = time.time()\nnp.random.seed(os.getpid())\n"
    helper = write_script(tmp_path / "lib", known, "helper.py")
    killed(path, 3, "--commit-steps", "2")
    helper.write_text(known + "# more\n")
    run = path.parent / "run"  # not in the working directory, from which `../lib` begins
    cli.refuse(2, "helper.py has changed since the run began", "resume", run)
    helper.write_text(known)
    path.write_text(text + "# more\n")
    cli.refuse(2, "script.py has changed since the run began", "resume", run)
    cli.succeed("resume", run, "--allow", "script")


def test_what_a_script_wrote_before_may_be_in_its_way_and_is_moved(tmp_path, cli):
    text = HEAD + "assert not os.path.isdir('out'), 'aborting'\n"
    text += LOOP.replace("    sess", "    if i == 1: os.mkdir('out')\n    sess")
    path = write_script(tmp_path / "folder", text)
    killed(path, 5, "--commit-steps", "4")
    code, _, err = cli("resume", path.parent / "run")
    assert code == 1 and "AssertionError: aborting" in err
    assert "Correct the cause; go on from train call 4 with: toolkit resume " in err
    assert "What it wrote into files before may be in its way here: move that." in err
    (path.parent / "out").rmdir()
    cli.succeed("resume", path.parent / "run")


def test_a_loss_that_is_not_finite_ends_the_run(tmp_path, capfd):
    text = HEAD + "scale = tf.placeholder(tf.float32, [], name='scale')\nloss *= scale\n" + TRAIN
    text += INIT + "for i in range(9):\n"
    text += "    feed = batch()\n    feed[scale] = 1.0 if i < 5 else np.inf\n"
    text += "    sess.run(train, feed)\n"
    path = write_script(tmp_path / "folder", text)
    assert adopt(path, "--commit-steps", "2") == 3
    err = capfd.readouterr().err
    assert "Training diverged in train call 6: mul is inf." in err
    assert max(commits(path)) == 4
    assert "run --steps 5' trains up to the call before" in err
    assert resume(path, "--steps", "5") == 0
    assert max(commits(path)) == 5


def test_a_metric_that_is_not_finite_is_left_out_of_a_record(tmp_path):
    text = HEAD + TRAIN + "precision = tf.divide(loss * 0.0, 0.0, name='precision')\n" + INIT
    text += "for i in range(3):\n    sess.run([train, precision], batch())\n"
    path = write_script(tmp_path / "folder", text)
    assert adopt(path, "--log-steps", "1") == 0
    assert [sorted(json.loads(row)) for row in metrics(path)] == 3 * [["kind", "loss", "step"]]


def test_weights_that_are_not_finite_are_never_committed(tmp_path, capfd):
    text = HEAD + LOOP.replace("range(12):\n", "range(12):\n    if i == 5: sess.run(spoil)\n")
    text = text.replace(TRAIN, "loss *= 0.0\n" + TRAIN + "spoil = w.assign(w / 0.0)\n")
    path = write_script(tmp_path / "folder", text)
    assert adopt(path, "--commit-steps", "2") == 3
    assert "Training diverged in train call 6: 'w' is not finite" in capfd.readouterr().err
    assert max(commits(path)) == 4


def test_a_damaged_journal_is_no_fault_of_the_script(tmp_path, cli):
    path = write_script(tmp_path / "folder", HEAD + LOOP)
    killed(path, 3, "--commit-steps", "2")
    flip_byte(path.parent / "run" / "journal.bin")
    cli.refuse(5, "journal.bin is not what it was when", "resume", path.parent / "run")


def test_a_cluster_is_refused_before_the_script_runs(tmp_path, monkeypatch):
    monkeypatch.setenv("TF_CONFIG", '{"cluster": {}}')
    path = write_script(tmp_path / "folder", HEAD)
    assert (adopt(path), resume(path)) == (2, 2)


def test_a_script_that_is_not_there_is_told_by_its_near_name(here, cli):
    write_script(here / "folder", HEAD, "train.py")
    text = "There is no script folder/trian.py.\nDid you mean 'folder/train.py'?"
    cli.refuse(2, text, "adopt", "folder/trian.py")
    cli.refuse(2, "Name a Python file.", "adopt", "folder/zzz")


def test_a_name_that_no_tensorflow_has_is_refused_before_the_script_runs(tmp_path, capfd):
    text = "print('began')\n" + HEAD + "tf.no_such_function(x)\n"
    path = write_script(tmp_path / "folder", text)
    assert adopt(path) == 2
    out, err = capfd.readouterr()
    place = f"script.py:{len(text.splitlines())}"
    assert f"lacks and that have no stand-in: tf.no_such_function ({place}).\nTensorF" in err
    assert "began" not in out
    assert not (path.parent / "run").exists()
