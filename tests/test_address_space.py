"""A limited address space: one sentence instead of TensorFlow's crash or hang."""

import os

import process_fixtures
import pytest
from linear_fixtures import LINEAR, write_bars

LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, ({0}, {0}))
from toolkit.cli import main
main(sys.argv[1:])
"""


def run_limited(limit, *argv):
    """A command in a process that may have so many bytes of address space.

    numpy's library would give each core of the machine a thread, and each thread a stack.
    """
    environment = dict(os.environ, OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1")
    code = LIMITED.format(limit)
    return process_fixtures.run(*argv, fresh=True, statements=code, env=environment)


@pytest.mark.parametrize("limit", [600 * 10**6, 1100 * 10**6])
def test_a_run_in_too_small_an_address_space_ends_with_one_sentence(here, limit):
    argv = ["run", "--plugin", LINEAR, "--data", write_bars("bars.npz"), "--run-dir", "run"]
    process = run_limited(limit, *argv, "--steps", "2")
    assert process.code == 138
    sentence, hint = process.err.splitlines()
    assert f"address space of this process is limited to {limit / 1e9:.2f} GB; Tens" in sentence
    assert hint == "Raise the limit with 'ulimit -v'."
    assert process.out == "" and not os.path.exists("run")


def test_commands_that_need_no_tensorflow_work_in_it(here):
    assert run_limited(600 * 10**6, "--help").code == 0
