"""A script that is killed and resumed ends with the bits of the undisturbed run."""

import pytest
from adopt_fixtures import SCRIPTS, START, adopted, commits, killed, metrics, resume, write_script
from queue_scripts import QUEUES

PATTERNS = {**SCRIPTS, **QUEUES}
RESUMES = dict.fromkeys(["dataset", "keras"], [("--pause-at", "10"), ()])  # the words of each
NUM_STEPS = {"epochs": 28, "left": 13}
WORDS = ("--commit-steps", "5", "--log-steps", "2")


@pytest.mark.parametrize(
    ("pattern", "place", "committed"), [*((p, 7, 5) for p in sorted(PATTERNS)), ("estimator", 3, 1)]
)
def test_a_killed_script_ends_with_the_bits_of_the_undisturbed_run(
    pattern, place, committed, tmp_path
):
    whole = adopted(tmp_path, PATTERNS[pattern], *WORDS)
    parted = killed(write_script(tmp_path / "parted", PATTERNS[pattern]), place, *WORDS)
    assert max(commits(parted)) == committed
    for words in RESUMES.get(pattern, [()]):
        assert resume(parted, *words) == 0
    assert max(commits(whole)) == NUM_STEPS.get(pattern, 12)
    assert commits(parted) == commits(whole)
    assert metrics(parted) == metrics(whole)


def test_a_script_may_take_from_a_queue_after_the_run_has_ended(tmp_path):
    path = adopted(tmp_path, QUEUES["branches"], "--steps", "3")
    assert list(commits(path)) == [1, 3]


def test_a_script_that_catches_the_end_trains_no_further(tmp_path):
    text = START + "made = 0\nfor i in range(9):\n    try:\n        sess.run(train, batch())\n"
    text += "        made += 1\n    except:\n        pass\nassert made == 2, made\n"
    path = adopted(tmp_path, text, "--steps", "3")
    assert list(commits(path)) == [1, 3]


def test_a_run_that_is_killed_after_its_last_commit_makes_no_further_call(tmp_path):
    path = write_script(tmp_path / "folder", SCRIPTS["monitored"])
    killed(path, 5, "--commit-steps", "5", "--steps", "9")
    assert resume(path, "--steps", "5") == 0
    assert list(commits(path)) == [1, 5]
