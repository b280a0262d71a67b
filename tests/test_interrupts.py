"""Ctrl-C where the training loop does not handle it: what the command says, and what is left."""

import os
import signal
from pathlib import Path

import process_fixtures
import pytest
from file_fixtures import read_json
from run_fixtures import forget, write_plugin

from toolkit.cli import cluster_run

INTERRUPTED_BUILD = """
    @hookimpl
    def build(self, run):
        raise KeyboardInterrupt
"""


def run_words(plugin, data):
    flags = ["--data", data, "--steps", "4", "--steps-per-call", "1", "--run-dir", "r"]
    return ["run", "--plugin", plugin, *flags]


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_run_that_is_interrupted_before_its_first_step_says_so(cli, data, signum):
    body = INTERRUPTED_BUILD.replace(
        "raise KeyboardInterrupt", f"import os; os.kill(os.getpid(), {int(signum)})"
    )
    result = cli(*run_words(write_plugin(body), data))
    assert result.code == 128 + signum
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
        os.kill(os.getpid(), signal.SIGTERM)

    are_dismissed = []  # the other processes of a cluster, by each resume
    with monkeypatch.context() as patch:
        patch.setattr(RunEvaluator, "test", interrupt)
        result = cli(*run_words(write_plugin(), data))
        patch.setattr(cluster_run, "open_peers", lambda *args: are_dismissed.append(args[-1]))
        assert cli("resume", "r", "--batch-size", 8, "--allow", "batch_size").code == 143
        assert cli("resume", "r").code == read_json("r", "manifest.json")["exit_code"] == 143
    assert result.code == 143 and are_dismissed == [False, True]
    assert result.err.endswith(
        "Interrupted; step 4 is saved in r.\nContinue with: toolkit resume r\n"
    )
    resumed = cli("resume", "r")
    assert resumed.code == 0 and "\ntest    " in resumed.out


def test_an_interrupt_while_a_plugin_is_loaded_ends_in_a_word(cli, data):
    Path("mine.py").write_text("raise KeyboardInterrupt")
    forget()
    assert cli(*run_words("./mine.py", data)) == (130, "", "Interrupted.\n")


# A command in whose import of one of some modules SIGINT arrives; they are the first argument.
DURING_IMPORT = """
import os, signal, sys

class Interrupter:
    def find_spec(self, name, path=None, target=None):
        if name in sys.argv[1].split(","):
            if "tensorflow" in name:
                os.write(2, b"a message of TensorFlow\\n")
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGINT)

# Python leaves it ignored where the process that started this one ignores it.
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.meta_path.insert(0, Interrupter())
from toolkit.cli import main
main(sys.argv[2:])
"""
TENSORFLOW = "tensorflow.python.client,tensorflow_core.python.client"
RUN = ["run", "--plugin", "classifier", "--run-dir", "r"]
EVALUATE = ["evaluate", "run", "--follow"]


@pytest.mark.parametrize(
    "modules, argv, text",
    [
        (TENSORFLOW, RUN, "Interrupted before the first step; nothing was trained."),
        ("click", EVALUATE, "Interrupted."),
        ("toolkit.cli.evaluate", EVALUATE, "Interrupted."),
        ("toolkit.inference.evaluation", EVALUATE, "Interrupted; 0 checkpoints were evaluated."),
    ],
)
def test_a_command_that_is_interrupted_early_says_so_in_one_line(trained, modules, argv, text):
    settings = {"cwd": str(trained), "env": dict(os.environ, TERM="dumb")}
    result = process_fixtures.run(modules, *argv, fresh=True, statements=DURING_IMPORT, **settings)
    assert result == (130, "", text + "\n")
    assert not os.path.exists(str(trained / "r"))
