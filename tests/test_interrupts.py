"""Ctrl-C where the training loop does not handle it: what the command says, and what is left."""

from __future__ import annotations

import os

import process_fixtures
import pytest
from linear_fixtures import write_bars
from run_fixtures import forget, write_plugin

INTERRUPTED_BUILD = """
    @hookimpl
    def build(self, run):
        raise KeyboardInterrupt
"""

# A command in whose import of TensorFlow SIGINT arrives.
DURING_IMPORT = """
import os, signal, sys

class Interrupter:
    def find_spec(self, name, path=None, target=None):
        if name in ("tensorflow.python.client", "tensorflow_core.python.client"):
            os.write(2, b"a message of TensorFlow\\n")
            os.kill(os.getpid(), signal.SIGINT)

# Python leaves it ignored where the process that started this one ignores it.
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.meta_path.insert(0, Interrupter())
from toolkit.cli import main
main(sys.argv[1:])
"""


def run_words(plugin, data):
    return ["run", "--plugin", plugin, "--data", data, "--steps", "4", "--run-dir", "r"]


@pytest.fixture
def data(here):
    return write_bars(here / "bars.npz")


def test_a_run_that_is_interrupted_before_its_first_step_says_so(cli, data):
    result = cli(*run_words(write_plugin(INTERRUPTED_BUILD), data))
    assert result.code == 130
    assert result.err == "Interrupted before the first step; nothing was trained.\n"
    assert not os.path.exists("r")


def test_a_resume_that_is_interrupted_before_a_step_names_the_saved_step(cli, data):
    assert cli(*run_words(write_plugin(), data), "--pause-at", "2").code == 0
    write_plugin(INTERRUPTED_BUILD)
    result = cli("resume", "r", "--trust")
    assert result.code == 130
    assert result.err == ("Interrupted; step 2 is saved in r.\nContinue with: toolkit resume r\n")
    write_plugin()
    assert cli("resume", "r").code == 0


def test_a_run_that_is_interrupted_in_its_test_names_the_saved_step(cli, data, monkeypatch):
    from toolkit.training.run_evaluator import RunEvaluator

    def interrupt(self):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(RunEvaluator, "test", interrupt)
        result = cli(*run_words(write_plugin(), data))
    assert result.code == 130
    assert result.err.endswith(
        "Interrupted; step 4 is saved in r.\nContinue with: toolkit resume r\n"
    )
    resumed = cli("resume", "r")
    assert resumed.code == 0 and "\ntest    " in resumed.out


def test_an_interrupt_while_a_plugin_is_loaded_says_that_nothing_was_written(cli, data):
    with open("mine.py", "w") as file:
        file.write("raise KeyboardInterrupt")
    forget()
    result = cli(*run_words("./mine.py", data))
    assert (result.code, result.err) == (
        130,
        "Interrupted while the plugins were loading; nothing was written.\n",
    )


def test_an_interrupt_during_the_import_of_tensorflow_shows_none_of_its_messages(here):
    argv = ["run", "--plugin", "classifier", "--run-dir", "r"]
    environment = dict(os.environ, TERM="dumb")
    result = process_fixtures.run(*argv, fresh=True, statements=DURING_IMPORT, env=environment)
    assert result.code == 130
    assert result.err == "Interrupted before the first step; nothing was trained.\n"
    assert not os.path.exists("r")


# A command in whose import of a module SIGINT arrives; its name is the first argument.
DURING_IMPORT_OF = """
import os, signal, sys

class Interrupter:
    def find_spec(self, name, path=None, target=None):
        if name == sys.argv[1]:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupter())
from toolkit.cli import main
main(sys.argv[2:])
"""


@pytest.mark.parametrize(
    "module, text",
    [
        ("click", "Interrupted."),
        ("toolkit.cli.evaluate", "Interrupted."),
        ("toolkit.inference.report", "Interrupted; 0 checkpoints were evaluated."),
    ],
)
def test_an_evaluation_that_is_interrupted_early_says_so_in_one_line(trained, module, text):
    settings = {"cwd": str(trained), "env": dict(os.environ, TERM="dumb")}
    argv = [module, "evaluate", "run", "--follow"]
    result = process_fixtures.run(*argv, fresh=True, statements=DURING_IMPORT_OF, **settings)
    assert result == (130, "", text + "\n")
