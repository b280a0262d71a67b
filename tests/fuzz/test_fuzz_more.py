"""The fuzz tests once more, with five times as many examples."""

import os
import subprocess
import sys

import pytest


@pytest.mark.slow
def test_five_times_as_many_examples_hold_as_well():
    argv = [sys.executable, "-m", "pytest", "-q", "-m", "not slow", "-p", "no:cacheprovider"]
    more = dict(os.environ, TOOLKIT_FUZZ_EXAMPLES="500")
    done = subprocess.run(argv + [os.path.dirname(__file__)], env=more, stdout=subprocess.PIPE)
    assert done.returncode == 0, done.stdout.decode()
