"""Each faulty plugin gets a sentence with plugin, hook and line, the way out, and an exit code."""

import os
import re

import bad_extensions
import bad_graphs
import bad_hooks
import bad_modules
import bad_session_hooks
import pytest
from bad_plugin_fixtures import FLAGS, GOOD, Fault, read_faults
from linear_fixtures import write_bars

import toolkit
from toolkit.hookspecs import MODEL_HOOKS
from toolkit.plugins import HOOKS
from toolkit.plugins.failures import describe_failure
from toolkit.storage.run_folder import RunFolder

MODELS = (bad_modules, bad_hooks, bad_graphs, bad_session_hooks)
CORPUS = [fault for module in MODELS for fault in read_faults(module.FAULTS)]
CORPUS += read_faults(bad_extensions.FAULTS, kind="extension")


@pytest.fixture(autouse=True)
def single_steps(here, monkeypatch):
    """Make single steps where no flag says how many: the graph of a loop takes a third of a run."""
    monkeypatch.setenv("TOOLKIT_STEPS_PER_CALL", "1")


def run(cli, here, fault, *flags):
    """Run a command with the faulty plugin; return the result and what stderr should say."""
    message = fault.write(here)
    data = [] if "def data(" in fault.source else ["--data", write_bars(here / "d.npz", 16, 7, 13)]
    return cli(*fault.argv, *data, *flags), message


def pattern_of(message):
    """A pattern in which `...` stands for any text, and a space for any white space."""
    words = re.split(r"(\.\.\.|\s+)", message.strip())
    return "".join({"...": ".*?"}.get(w, r"\s+" if w.isspace() else re.escape(w)) for w in words)


@pytest.mark.parametrize("fault", CORPUS, ids=[fault.name for fault in CORPUS])
def test_a_fault_is_one_sentence_with_its_place_and_the_way_out(cli, here, fault):
    result, message = run(cli, here, fault)
    start = result.err.find("Error: ")
    assert re.fullmatch(pattern_of("Error: " + message), result.err[start:].strip(), re.DOTALL)
    assert result.code == fault.code
    assert "Traceback" not in result.err and " at 0x" not in result.err


CALLED_BY_RUN = [hook for hook in HOOKS if not hook.startswith("sample")]
FLAGS_OF_HOOK = {"metric_directions": ["--best-metric", "loss"]}
# The step that is committed before the fault.
LAST_STEP = {"checkpoint_saved": 2, "evaluated": 4, "run_finished": 4, "run_ended": 4}


@pytest.mark.parametrize("hook", CALLED_BY_RUN)
def test_a_hook_that_raises_ends_with_1_and_leaves_what_was_committed(cli, here, hook):
    source = f"@hookimpl\ndef {hook}():\n    raise KeyError('mine')\n"
    result, _ = run(cli, here, Fault(hook, source, ""), *FLAGS_OF_HOOK.get(hook, ()))
    place = f"{here / 'bad.py'}:4"
    message = f"Plugin 'bad' failed in its hook '{hook}': KeyError: 'mine' ({place})."
    assert f"Error: {message}\n" in result.err
    assert result.code == 1 and "Traceback" not in result.err
    if hook in LAST_STEP:
        assert RunFolder("run").checkpoints.newest(pytest.fail).step == LAST_STEP[hook]
        assert cli("verify", "run").code == 0
    else:
        assert not os.path.exists("run/commits.jsonl")


SESSION_HOOK = """
import toolkit


class Mine({base}):
    every = toolkit.Every(1)

    def {method}(self, *args):
        raise KeyError('mine')  # here


@hookimpl
def session_hooks():
    return [Mine()]
"""
# One call guards each method; these differ in what is named.
BASES = [
    ("tf.train.SessionRunHook", "before_run", "model"),
    ("toolkit.SessionHook", "fetches", "model"),
    ("toolkit.SessionHook", "begin", "model"),
    ("toolkit.SessionHook", "state", "model"),
    ("toolkit.SessionHook", "on_step", "extension"),
]


@pytest.mark.parametrize("base, method, kind", BASES)
def test_a_session_hook_that_raises_is_named_with_owner_method_and_line(
    cli, here, base, method, kind
):
    source = SESSION_HOOK.format(base=base, method=method)
    result, place = run(cli, here, Fault(method, source, "{here}", kind=kind))
    assert result.code == 1
    message = f"failed in {method}: KeyError: 'mine' ({place})."
    assert f"Error: Session hook Mine of plugin 'bad' {message}\n" in result.err


def test_the_hooks_of_a_model_are_those_without_which_it_is_refused(cli, here):
    for hook in MODEL_HOOKS:
        (here / "bad.py").write_text(GOOD.replace(f"@hookimpl\ndef {hook}(", f"def {hook}("))
        lacks = f"lacks the model hook {hook}.\n"
        result = cli.refuse(2, lacks, "run", "--plugin", "./bad.py", *FLAGS)
        assert f"Mark the function '{hook}' with @toolkit.hookimpl." in result.err


def test_a_name_that_the_plain_tensorflow_lacks_has_the_import_as_its_way_out():
    hints = []
    for module in ("tensorflow", "tensorflow._api.v2.train", "tensorflow._api.v2.compat.v1.train"):
        error = AttributeError(f"module '{module}' has no attribute 'get_variable'")
        hints.append("Write 'from toolkit import tf'" in describe_failure(error).hint)
    assert hints == [True, True, False]


def test_a_run_without_the_options_of_the_core_names_the_function_of_the_kit():
    class Mine(toolkit.Options):
        width: int = toolkit.option(3, "Units.")

    with pytest.raises(toolkit.ToolkitError, match=r"options Mine, .*\n.*testing\.make_run\("):
        toolkit.Run("eval", Mine(), None)


def write_and_run(cli, here, source, *flags, kind="model"):
    result, place = run(cli, here, Fault("", source, "{here}", kind=kind), *flags)
    assert result.code == 0, result.err
    return result, place


def test_what_a_stock_hook_logs_is_shown_and_nothing_else_of_tensorflow(cli, here):
    source = "@hookimpl\ndef session_hooks(losses):\n"
    source += "    return [tf.train.LoggingTensorHook(losses, every_n_iter=1)]\n"
    result, _ = write_and_run(cli, here, source)
    assert len(re.findall(r"(?m)^loss = \d", result.err)) == 4
    assert "INFO" not in result.err and "Graph was finalized" not in result.err


def test_a_session_hook_that_fetches_a_variable_by_its_resource_gets_the_value(cli, here):
    source = """
    import toolkit


    class Mine(toolkit.SessionHook):
        every = toolkit.Every(1)

        def fetches(self):
            return ["w:0", {"x": "w:0"}, tf.global_variables("w")[0].handle]

        def on_step(self, step, values, context):
            for value in tf.nest.flatten(values):
                assert value.shape == (36, 3) and value.dtype == "float32", value


    @hookimpl
    def session_hooks():
        return [Mine()]
    """
    write_and_run(cli, here, source, "--steps-per-call", "2")


def test_a_session_of_a_graph_of_its_own_may_run_in_a_hook(cli, here):
    source = """
    @hookimpl(wrapper=True)
    def build():
        with tf.Graph().as_default(), tf.Session() as session:
            assert session.run(tf.constant(3)) == 3
        return (yield)
    """
    write_and_run(cli, here, source, kind="extension")


DRAWS = """
import random


def noise():
    return {draw}


@hookimpl
def call(model, features):
    flat = tf.reshape(features, [-1, int(model.shape[0])])
    return {{"logits": tf.matmul(flat * {factor}, model)}}
"""


@pytest.mark.parametrize(
    "draw, factor", [("np.random.normal()", "noise()"), ("random.random()", "random.random()")]
)
def test_a_draw_of_numpy_or_python_in_a_step_is_noted(cli, here, draw, factor):
    result, _ = write_and_run(cli, here, DRAWS.format(draw=draw, factor=factor))
    start = "note   random numbers of numpy or Python in the hook 'call' of plugin 'bad'"
    assert f"{start} are drawn once" in result.err


def test_a_draw_at_graph_time_follows_the_seed_and_leaves_the_generators_alone(cli, here):
    import numpy as np

    source = DRAWS.format(draw="np.random.normal()", factor="noise()")
    np.random.seed(5)
    before = np.random.get_state()[1].tolist()
    lines = []
    for name in ("one", "two"):
        write_and_run(cli, here, source)
        lines.append((here / "run" / "metrics.jsonl").read_text())
        (here / "run").rename(here / name)
    assert lines[0] == lines[1] and "loss" in lines[0]
    assert np.random.get_state()[1].tolist() == before
