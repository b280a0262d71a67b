"""What a script cannot do in a run: one sentence each, with the line where there is one."""

import json

import pytest
from adopt_fixtures import HEAD, INIT, TRAIN, adopted, commits, killed, resume, write_script
from file_fixtures import flip_byte, read_text

LOOP = TRAIN + INIT + "for i in range(12):\n    sess.run(train, batch())\n"
QUEUE = INIT + "queue = tf.FIFOQueue(9, tf.float32, [[]], name='rows')\n"
REFUSED = {  # {at} is the last line, {before} the one before it
    "python function": (
        "loss *= tf.py_func(lambda: np.float32(1), [], tf.float32)\n" + LOOP,
        "trains by 'PyFunc' (PyFunc), whose state no resume knows; write stateful=False if it "
        "keeps none (script.py:",
    ),
    "queue that nobody fills": (
        QUEUE + "row = queue.dequeue()\nsess.run(row)\n",
        "takes from the queue 'rows', which no queue runner fills {before}.",
    ),
    "queue in a loop": (
        QUEUE + "body = lambda i: i + queue.dequeue()\n"
        "sess.run(tf.while_loop(lambda i: i < 1.0, body, [0.0]))\n",
        "takes from the queue 'rows' in a loop {before}.",
    ),
    "queue of what is trained": (
        QUEUE + "sess.run(queue.enqueue(loss), batch())\n",
        "fills a queue by what depends on the variable 'w', which a resume has only at a commit "
        "{at}.",
    ),
    "rows of a variable that is fed": (
        "rows = tf.gather(w, [0])\n" + INIT + "sess.run(rows, {w: w.eval(session=sess)})\n",
        "feeds the variable 'w', and gathers rows of it (script.py:",
    ),
    "loop by a clock": (
        "sv = tf.train.Supervisor(logdir='out')\n"
        "sv.managed_session().__enter__()\nsv.loop(60, batch)\n",
        "calls a function by a clock (Supervisor.loop) {at}.",
    ),
    "thread": (
        TRAIN + INIT + "import threading\nwait = threading.Event().wait  # which never comes\n"
        "def lose():  # an interrupt, as a destructor\n    try: wait()\n    except: wait()\n"
        "one = threading.Thread(target=lambda: sess.run(train, batch()))\none.start(); lose()\n",
        "calls a session from a thread or a process of its own {before}.",
    ),
    "thread beside a call": (
        LOOP + "import threading\ndef beside():\n"
        "    thread = threading.Thread(target=call)\n"
        "    thread.start(); thread.join()\n    return np.float32(0)\n"
        "call = lambda: sess.run(train, batch())\n"
        "sess.run(tf.py_func(beside, [], tf.float32))\n",
        "calls a session from a thread or a process of its own {before}.",
    ),
    "server": (
        "tf.train.Server({'worker': ['localhost:0']}, job_name='worker', task_index=0)\n",
        "trains in several processes (tf.train.Server) {at}.",
    ),
    "eager": (
        "tf.enable_eager_execution()\n",
        "trains eagerly, without a graph and a session {at}.",
    ),
    "ops of its own": (
        "tf.load_op_library('./fast.so')\n",
        "loads ops of its own from ./fast.so, whose state no resume knows {at}.",
    ),
    "input": (LOOP + "input()\n", "asks for input, and a resume has nobody to answer {at}."),
    "exception": (LOOP + "1 / 0\n", "failed: ZeroDivisionError: division by zero (line {line})."),
    "error in a call": (
        INIT + "sess.run(tf.gather([1.0], tf.placeholder_with_default(5, [])))\n",
        "failed: InvalidArgumentError: indices = 5 is not in [0, 1) (line {line}).",
    ),
    "exit code": (LOOP + "sys.exit(3)\n", "ended with exit code 3."),
}
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_what_a_run_cannot_have_is_refused_in_one_sentence(name, tmp_path, capfd):
    text, message = REFUSED[name]
    adopted(tmp_path, HEAD + text, code=1)
    line = len((HEAD + text).splitlines())
    places = {"at": f"(script.py:{line})", "before": f"(script.py:{line - 1})"}
    assert "script.py " + message.format(line=line, **places) in capfd.readouterr().err


def test_a_dry_run_refuses_a_thread_for_which_the_script_waits(tmp_path, capfd):
    adopted(tmp_path, HEAD + REFUSED["thread"][0], "--dry-run", code=1)
    assert "refused script.py calls a session from a thread" in capfd.readouterr().out


def test_a_dry_run_tells_the_first_line_of_an_error(tmp_path, capfd):
    adopted(tmp_path, HEAD + REFUSED["error in a call"][0], "--dry-run", code=1)
    message = "script.py failed: InvalidArgumentError: indices = 5 is not in [0, 1).\nSee that"
    assert message in capfd.readouterr().err


def test_a_journal_over_its_limit_is_refused_and_goes_on_with_a_larger_one(tmp_path, capfd):
    text = HEAD + LOOP + "sess.run(tf.zeros([150000]))\nsess.run(tf.zeros([300000]))\n"
    path = adopted(tmp_path, text, "--commit-steps", "1", "--journal-limit", "1", code=1)
    err = capfd.readouterr().err
    assert "the journal has half of its limit" in err and "and its limit is 1 MB" in err
    assert resume(path) == 1
    assert "resume RUN --journal-limit N" in capfd.readouterr().err
    assert resume(path, "--journal-limit", "2") == 0


def test_entropy_that_reaches_a_feed_is_named_by_call_and_feed_at_the_resume(tmp_path, cli):
    text = HEAD + TRAIN + INIT
    text += "for i in range(12):\n    noise = open('/dev/urandom', 'rb').read(4)\n"
    text += "    sess.run(train, {x: data + int.from_bytes(noise, 'big') / 1e9, y: target})\n"
    path = killed(write_script(tmp_path / "folder", text), 3, "--commit-steps", "2")
    cli.refuse(1, "Call 2 (Adam <- x, y) differs", "resume", path.parent / "run")


def test_a_script_or_a_module_of_it_that_has_changed_is_refused_and_may_be_allowed(tmp_path, cli):
    text = "import sys\nsys.path.append('../lib')\nimport helper\n" + HEAD
    text += "np.random.rand(int(1e6 * helper.NOW) % 99)\n" + LOOP
    known = "import os, time\nimport numpy as np\nNOW = time.time()\nnp.random.seed(os.getpid())\n"
    helper = write_script(tmp_path / "lib", known, "helper.py")
    path = killed(write_script(tmp_path / "folder", text), 3, "--commit-steps", "2")
    run = path.parent / "run"  # not in the working directory, from which `../lib` begins
    for changed, before in ((helper, known), (path, text)):
        changed.write_text(before + "# more\n")
        cli.refuse(2, f"{changed.name} has changed since the run began", "resume", run)
        helper.write_text(known)
    cli.succeed("resume", run, "--allow", "script")


def test_what_a_script_wrote_before_may_be_in_its_way_and_is_moved(tmp_path, cli):
    text = HEAD + "assert not os.path.isdir('out'), 'aborting'\n"
    text += LOOP.replace("    sess", "    if i == 1: os.mkdir('out')\n    sess")
    path = killed(write_script(tmp_path / "folder", text), 5, "--commit-steps", "4")
    code, _, err = cli("resume", path.parent / "run")
    assert code == 1 and "AssertionError: aborting" in err
    assert "Correct the cause; go on from train call 4 with: toolkit resume " in err
    assert "What it wrote into files before may be in its way here: move that." in err
    (path.parent / "out").rmdir()
    cli.succeed("resume", path.parent / "run")


@pytest.mark.parametrize(
    "before, within, message",
    [
        ("", "feed[y] *= [1.0, np.inf][i > 4]", "loss is inf."),
        ("spoil = w.assign(w / 0.0); loss *= 0.0", "if i == 5: sess.run(spoil)", "'w' is not fin"),
    ],
    ids=["loss", "weights"],
)
def test_what_is_not_finite_is_never_committed(before, within, message, tmp_path, capfd):
    text = f"{HEAD}{before}\n{TRAIN}{INIT}for i in range(9):\n    feed = batch()\n"
    text += f"    {within}\n    sess.run(train, feed)\n"
    path = adopted(tmp_path, text, "--commit-steps", "2", code=3)
    err = capfd.readouterr().err
    assert f"Training diverged in train call 6: {message}" in err
    assert "run --steps 5' trains up to the call before" in err
    assert max(commits(path)) == 4
    assert resume(path, "--steps", "5") == 0
    assert max(commits(path)) == 5


def test_a_metric_that_is_not_finite_is_left_out_of_a_record(tmp_path):
    text = HEAD + TRAIN + "precision = tf.divide(loss * 0.0, 0.0, name='precision')\n" + INIT
    text += "for i in range(3):\n    sess.run([train, precision], batch())\n"
    path = adopted(tmp_path, text, "--log-steps", "1")
    rows = read_text(path.parent, "run", "metrics.jsonl").splitlines()
    assert [sorted(json.loads(row)) for row in rows] == 3 * [["kind", "loss", "step"]]


def test_a_damaged_journal_is_no_fault_of_the_script(tmp_path, cli):
    path = killed(write_script(tmp_path / "folder", HEAD + LOOP), 3, "--commit-steps", "2")
    flip_byte(path.parent / "run" / "journal.bin")
    cli.refuse(5, "journal.bin is not what it was when", "resume", path.parent / "run")


def test_a_cluster_is_refused_before_the_script_runs(tmp_path, monkeypatch):
    monkeypatch.setenv("TF_CONFIG", '{"cluster": {}}')
    assert resume(adopted(tmp_path, HEAD, code=2)) == 2


def test_a_path_that_is_no_script_is_told_by_its_near_name_or_as_a_graph(here, cli):
    write_script(here / "folder", HEAD, "train.py")
    text = "There is no script folder/trian.py.\nDid you mean 'folder/train.py'?"
    cli.refuse(2, text, "adopt", "folder/trian.py")
    cli.refuse(2, "SCRIPT -- --epochs", "adopt", "folder/train.py", "--epochs", "3")
    cli.refuse(2, "Name a Python file.", "adopt", "folder/zzz")
    write_script(here / "folder", "", "graph.meta")
    cli.refuse(2, "toolkit run lift --meta folder/graph.meta", "adopt", "folder/graph.meta")


def test_a_name_that_no_tensorflow_has_is_refused_before_the_script_runs(tmp_path, capfd):
    text = "print('began')\n" + HEAD + "tf.no_such_function(x)\n"
    path = adopted(tmp_path, text, code=2)
    out, err = capfd.readouterr()
    place = f"script.py:{len(text.splitlines())}"
    assert f"lacks and that have no stand-in: tf.no_such_function ({place}).\nTensorF" in err
    assert "began" not in out
    assert not (path.parent / "run").exists()
