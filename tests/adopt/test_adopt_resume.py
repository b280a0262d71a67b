"""A script that is killed and resumed ends with the bits of the undisturbed run."""

import pytest
from adopt_fixtures import (
    HEAD,
    SCRIPTS,
    adopt,
    commits,
    killed,
    metrics,
    resume,
    write_script,
)
from queue_scripts import QUEUES

PATTERNS = {**SCRIPTS, **QUEUES}
RESUMES = dict.fromkeys(["dataset", "keras"], [("--pause-at", "10"), ()])  # the words of each
NUM_STEPS = {"epochs": 28, "left": 13}
WORDS = ("--commit-steps", "5", "--log-steps", "2")


@pytest.mark.parametrize("pattern", sorted(PATTERNS))
def test_a_killed_script_ends_with_the_bits_of_the_undisturbed_run(pattern, tmp_path):
    whole = write_script(tmp_path / "whole", PATTERNS[pattern])
    assert adopt(whole, *WORDS) == 0
    parted = write_script(tmp_path / "parted", PATTERNS[pattern])
    killed(parted, 7, *WORDS)
    assert max(commits(parted)) == 5
    for words in RESUMES.get(pattern, [()]):
        assert resume(parted, *words) == 0
    assert max(commits(whole)) == NUM_STEPS.get(pattern, 12)
    assert commits(parted) == commits(whole)
    assert metrics(parted) == metrics(whole)


def test_a_script_may_take_from_a_queue_after_the_run_has_ended(tmp_path):
    path = write_script(tmp_path / "folder", QUEUES["branches"])
    assert adopt(path, "--steps", "3") == 0
    assert list(commits(path)) == [3]


def test_a_script_that_catches_the_end_trains_no_further(tmp_path):
    text = HEAD + "train = tf.train.AdamOptimizer(0.05).minimize(loss)\nmade = 0\n"
    text += "sess = tf.Session()\nsess.run(tf.global_variables_initializer())\n"
    text += "for i in range(9):\n    try:\n        sess.run(train, batch())\n"
    text += "        made += 1\n    except:\n        pass\nassert made == 2, made\n"
    path = write_script(tmp_path / "folder", text)
    assert adopt(path, "--steps", "3") == 0
    assert list(commits(path)) == [3]


def test_a_run_that_is_killed_after_its_last_commit_makes_no_further_call(tmp_path):
    path = write_script(tmp_path / "folder", SCRIPTS["monitored"])
    killed(path, 5, "--commit-steps", "5", "--steps", "9")
    assert resume(path, "--steps", "5") == 0
    assert list(commits(path)) == [5]


def test_a_clock_that_a_script_feeds_is_the_run_s_at_a_resume(tmp_path):
    text = HEAD + "import datetime, time\ntrain = tf.train.AdamOptimizer(0.05).minimize(loss)\n"
    text += "sess = tf.Session()\nsess.run(tf.global_variables_initializer())\n"
    text += "for i in range(6):\n    seconds = time.time() % 1 + datetime.datetime.now().second\n"
    text += "    seconds += int(time.asctime()[17:19]) + datetime.date.today().day\n"
    text += "    sess.run(train, {x: data[:2] + seconds, y: target[:2]})\n"
    path = write_script(tmp_path / "folder", text)
    killed(path, 5, "--commit-steps", "4")
    assert resume(path) == 0
    assert list(commits(path)) == [4, 6]
