"""A script that is killed and resumed ends with the bits of the undisturbed run."""

import pytest
from adopt_fixtures import NUM_STEPS, SCRIPTS, adopt, commits, killed, metrics, resume, write_script

WORDS = ("--commit-steps", "5", "--log-steps", "2")


@pytest.mark.parametrize("pattern", sorted(SCRIPTS))
def test_a_killed_script_ends_with_the_bits_of_the_undisturbed_run(pattern, tmp_path):
    whole = write_script(tmp_path / "whole", SCRIPTS[pattern])
    assert adopt(whole, *WORDS) == 0
    parted = write_script(tmp_path / "parted", SCRIPTS[pattern])
    killed(parted, 7, *WORDS)
    assert max(commits(parted)) == 5
    assert resume(parted) == 0
    assert max(commits(whole)) == NUM_STEPS
    assert commits(parted) == commits(whole)
    assert metrics(parted) == metrics(whole)
