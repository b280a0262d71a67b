"""Each hook: when it is called, with which arguments, and what becomes of its return value."""

from __future__ import annotations

import collections
import glob
import inspect
import os
import re
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Tuple

import numpy as np
import pytest
from file_fixtures import read_text
from graph_fixtures import Spec, make_plugin, make_run
from linear_fixtures import Linear, bars, spoiled, write_bars

from toolkit import SampleOptions, ToolkitError, hookimpl, hookspecs, open_trained, tf
from toolkit.cli import run_command
from toolkit.graph.build import build_inference
from toolkit.graph.hook_values import check_example_metrics, check_metrics
from toolkit.plugins import HOOKS, Plugins

# -------------------------------------------------------------------------------- the specification


@pytest.mark.parametrize("hook", HOOKS)
def test_each_hook_says_when_it_is_called_with_what_and_what_it_returns(hook):
    function = getattr(hookspecs, hook)
    text, _, returns = inspect.getdoc(function).partition("\nReturns:\n")
    arguments = re.findall(r"(?m)^    (\w+): ", text.partition("Args:")[2])
    assert text.startswith("Called ")
    assert arguments == list(inspect.signature(function).parameters)
    assert bool(returns) == (hook not in ("checkpoint_saved", "run_finished", "run_ended"))


# --------------------------------------------------------------------------- the calls during a run


def write_report(split, examples, folder):
    Path(folder, "report.txt").write_text(split)
    return {"recorder": {"examples": len(examples["label"])}}


def is_right(labels, outputs):
    right = tf.equal(tf.argmax(outputs["logits"], 1), tf.cast(labels, tf.int64))
    return {"accuracy": right}


class Counting(tf.train.SessionRunHook):
    calls = 0

    def after_run(self, run_context, run_values):
        Counting.calls += 1


# What the hooks return where Linear has none; others return None.
ANSWERS = {
    "filter": lambda labels: labels != 2,
    "convert": lambda features, labels: (255 - features, labels),
    "scorers": lambda: [],
    "augment": lambda features, labels: (features, labels),
    "sample_options": lambda: SampleOptions,
    "sample": lambda request: {"images": np.zeros([request.count, 6, 6, 1])},
    "example_metrics": is_right,
    "session_hooks": lambda: [Counting()],
    "evaluated": write_report,
}


RESOLVING = ("default_extensions", "options")
CALLS: List[Tuple[str, Dict[str, Any]]] = []


def record(hook, arguments):
    """Keep the name of a hook with its arguments and facts about the run, and answer."""
    facts = dict(arguments)
    if "run" in arguments:
        run = arguments["run"]
        files = glob.glob(os.path.join(run.folder or "", "**"), recursive=True)
        facts.update(mode=run.mode, data=run.data, total=run.total_steps, files=files)
    CALLS.append((hook, facts))
    answer = ANSWERS.get(hook) or getattr(Linear(), hook, lambda: None)
    return answer(**{name: arguments[name] for name in inspect.signature(answer).parameters})


def recorded(hook):
    """A hook that takes all its arguments, for `record`."""
    names = ", ".join(["self", *inspect.signature(getattr(hookspecs, hook)).parameters])
    return hookimpl(eval(f"lambda {names}: record({hook!r}, locals())", {"record": record}))


Recorder = type("Recorder", (), {hook: recorded(hook) for hook in HOOKS})


class Recording(NamedTuple):
    """The calls of hooks in a run of 4 steps, with a checkpoint every 2, and in what follows it."""

    run: List[Tuple[str, Dict[str, Any]]]
    prediction: List[Tuple[str, Dict[str, Any]]]
    folder: Any

    def facts(self, hook):
        """The facts of each call of a hook during the run."""
        return [facts for name, facts in self.run if name == hook]


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    folder = tmp_path_factory.mktemp("recording")
    data = write_bars(folder / "bars.npz", train=20, validation=6, test=10)
    argv = ["run", "--plugin", "test_hookspecs:Recorder", "--data", data, "--steps", "4"]
    argv += ["--best-metric", "loss"]  # which falls: step 4 is the best
    del CALLS[:]
    assert run_command(argv + ["--run-dir", str(folder / "run"), "--reader", "resident"]) == 0
    run = list(CALLS)
    del CALLS[:]
    with open_trained(str(folder / "run")) as trained:
        trained.predict(bars([0], 2))
        trained.sample(2)
    return Recording(run, list(CALLS), folder / "run")


def test_the_hooks_are_called_in_the_order_of_the_specification(recording):
    names = list(collections.OrderedDict.fromkeys(name for name, _ in recording.run))
    training = [*RESOLVING, "data", "filter", "convert", "build", "augment", "call", "loss"]
    training.append("optimize")
    # A prediction and an evaluation build graphs of their own, later.
    evaluation = ["inputs", "predict", "metrics", "example_metrics", "scorers", "metric_directions"]
    notifications = ("checkpoint_saved", "evaluated", "run_finished", "run_ended")
    requests = [name for name in names if name not in notifications]
    assert requests == training + ["session_hooks"] + evaluation
    assert {facts["mode"] for facts in recording.facts("inputs")} == {"predict"}
    assert [name for name, _ in recording.run[-2:]] == ["run_finished", "run_ended"]


def test_a_prediction_calls_inputs_before_the_model(recording):
    names = [name for name, _ in recording.prediction if name not in RESOLVING]
    assert names == ["inputs", "build", "call", "predict", "sample_options", "sample"]


def test_data_is_called_for_each_split_before_the_data_is_known(recording):
    assert [facts["split"] for facts in recording.facts("data")] == ["train", "validation", "test"]
    assert {facts["data"] for facts in recording.facts("data")} == {None}


def test_filter_and_convert_get_one_example_as_it_is_stored_and_convert_only_those_kept(recording):
    for facts in recording.facts("filter") + recording.facts("convert"):
        assert facts["features"].shape == (6, 6, 1)
        assert facts["features"].dtype == np.uint8
    assert {facts["labels"] for facts in recording.facts("filter")} == {0, 1, 2}
    assert {facts["labels"] for facts in recording.facts("convert")} == {0, 1}


def test_build_gets_the_description_of_the_data(recording):
    assert [facts["mode"] for facts in recording.facts("build")] == ["train", "predict", "eval"]
    for facts in recording.facts("build"):
        assert facts["data"].shape == (6, 6, 1)


def test_call_gets_float32_features_and_int32_labels_but_none_in_a_prediction(recording):
    train, predict, evaluate = recording.facts("call")
    assert predict["labels"] is None
    assert train["features"].shape.as_list() == [8, 6, 6, 1]
    assert evaluate["features"].shape.as_list() == [None, 6, 6, 1]
    for facts in (train, evaluate):
        assert (facts["features"].dtype, facts["labels"].dtype) == (tf.float32, tf.int32)


def test_optimize_gets_what_loss_returned_and_the_length_of_the_run(recording):
    (facts,) = recording.facts("optimize")
    assert facts["losses"].shape.ndims == 0
    assert facts["total"] == 4


def test_checkpoint_saved_is_called_after_each_commit(recording):
    calls = recording.facts("checkpoint_saved")
    assert [facts["step"] for facts in calls] == [2, 4]
    for facts in calls:
        assert facts["path"] + ".index" in facts["files"]


def test_evaluated_gets_each_example_of_the_split_in_order(recording):
    (facts,) = recording.facts("evaluated")
    labels = [label for label in np.arange(10) * 7 % 3 if label != 2]  # as write_bars writes them
    assert (facts["split"], facts["step"]) == ("test", 4)
    assert facts["examples"]["labels"].tolist() == labels
    # The black border, converted to 255 - 0, and scaled to [0, 1], as the model was fed.
    assert set(facts["examples"]["features"][:, 0, 0, 0].tolist()) == {1.0}
    right = facts["examples"]["label"] == facts["examples"]["labels"]
    assert facts["metrics"]["accuracy"] == pytest.approx(right.mean())


def test_the_return_value_and_the_files_of_evaluated_are_in_the_result(recording):
    (facts,) = recording.facts("run_finished")
    assert facts["summary"]["test"]["recorder"] == {"examples": 7}
    assert facts["summary"]["test"]["reports"] == "reports/test-4"
    assert (recording.folder / "reports" / "test-4" / "report.txt").read_text() == "test"


def test_a_plain_session_hook_is_called_on_every_step(recording):
    assert Counting.calls == 4
    note = "one step per call, which is slower; called on every step: Recorder:Counting"
    assert "note   " + note in read_text(recording.folder, "console.log")


def test_run_finished_is_called_once_and_then_run_ended_when_the_page_is_written(recording):
    (finished,), (ended,) = recording.facts("run_finished"), recording.facts("run_ended")
    assert (finished["summary"]["steps"], finished["run"].folder) == (4, str(recording.folder))
    assert (ended["status"], ended["reason"]) == ("finished", "reached step 4")
    assert str(recording.folder / "report.html") in ended["files"]


class Diverging(spoiled("inf", 3)):
    """Its loss is infinite in step 3; its notifications fail."""

    endings: List[Tuple[str, str]] = []

    @hookimpl
    def run_ended(self, run, status, reason):
        self.endings.append((status, reason))
        raise KeyError("a second failure")


def test_run_ended_is_called_after_a_failure_which_stays_the_error(cli, here):
    data = write_bars(here / "bars.npz")
    argv = ["run", "--plugin", "test_hookspecs:Diverging", "--data", data, "--run-dir", "run"]
    result = cli(*argv, "--steps", 4)
    assert result.code == 3 and "warning: Plugin" in result.err and "run_ended" in result.err
    ((status, reason),) = Diverging.endings
    assert status == "diverged" and "step 3" in reason


# -------------------------------------------------------------------- return values of a wrong kind


def test_a_vector_cannot_be_logged():
    with pytest.raises(ToolkitError, match="'margin' is logged but has the shape"):
        make_run().log("margin", tf.zeros([2]))


@pytest.mark.parametrize("name", ["step", "kind", "split"])
def test_fields_of_records_are_no_names_of_values(name):
    with pytest.raises(ToolkitError, match=f"'{name}' is logged, and each record has a field"):
        make_run().log(name, tf.constant(2.0))
    values = tf.placeholder(tf.float32, [None])
    assert check_example_metrics({name: values}) and not check_example_metrics({"other": values})
    pair = (tf.constant(1.0), tf.no_op())
    assert check_metrics({name: pair}) and not check_metrics({"other": pair})


@pytest.mark.parametrize("value", [{}, ["z"], {"z": "float32"}, {"z": ("no type", [2])}], ids=str)
def test_inputs_must_return_a_dict_of_dtypes_and_shapes(value):
    broken = type("Broken", (Linear,), {"inputs": hookimpl(lambda self: value)})
    plugins = Plugins(make_plugin(broken, "broken"))
    with pytest.raises(ToolkitError, match="Hook 'inputs' of plugin 'broken' returned") as caught:
        build_inference(plugins, make_run("predict", Spec(), plugins.options()))
    assert "(dtype, shape of one)" in caught.value.hint
