"""Each hook: what it is told, when, and what the core does with the answer."""

from __future__ import annotations

import collections
import inspect
import json
import os
import re

import numpy as np
import pytest
from graph_fixtures import Constant, Spec, make_plugin, make_run, session
from linear_fixtures import LINEAR, Linear, bars, write_bars

from toolkit import DataError, DataSpec, Split, ToolkitError, hookimpl, hookspecs, tf
from toolkit.cli import run_command
from toolkit.graph.build import build_inference, build_training
from toolkit.hookspecs import MODEL_HOOKS
from toolkit.plugins import HOOKS, Plugins
from toolkit.run_data import open_run_data

# -------------------------------------------------------------------------------- the specification


@pytest.mark.parametrize("hook", HOOKS)
def test_each_hook_says_when_it_is_called(hook):
    text = inspect.getdoc(getattr(hookspecs, hook))
    assert re.match(r"(Called|Told) ", text)
    assert text.endswith(".")


@pytest.mark.parametrize("hook", HOOKS)
def test_each_hook_that_asks_says_what_to_return(hook):
    text = inspect.getdoc(getattr(hookspecs, hook))
    tells_only = text.startswith("Told") and hook != "evaluated"
    assert ("return" in text.lower()) != tells_only


def test_the_model_hooks_have_one_answer():
    for hook in MODEL_HOOKS + ("inputs",):
        assert getattr(hookspecs, hook).toolkit_spec["firstresult"]
    for hook in ("options", "metrics", "scorers", "session_hooks", "checkpoint_saved", "evaluated"):
        assert not getattr(hookspecs, hook).toolkit_spec["firstresult"]


# -------------------------------------------------------------------------------- a run from within


class Recorder(Linear):
    """Notes every call of a hook with what it was given."""

    seen = []

    def _note(self, hook, **given):
        self.seen.append((hook, given))

    @hookimpl
    def options(self):
        self._note("options")
        return Linear.options(self)

    @hookimpl
    def data(self, split, run):
        self._note("data", split=split, data=run.data)

    @hookimpl
    def filter(self, features, labels):
        self._note("filter", features=features, labels=labels)
        return labels != 2

    @hookimpl
    def convert(self, features, labels):
        self._note("convert", features=features, labels=labels)
        return 255 - features, labels

    @hookimpl
    def inputs(self, run):
        self._note("inputs", mode=run.mode)
        return None

    @hookimpl
    def scorers(self, run, splits):
        self._note("scorers", mode=run.mode)
        return []

    @hookimpl
    def build(self, run):
        self._note("build", mode=run.mode, data=run.data)
        return Linear.build(self, run)

    @hookimpl
    def call(self, model, features, labels, run):
        self._note("call", features=features, labels=labels, mode=run.mode)
        return Linear.call(self, model, features, run)

    @hookimpl
    def loss(self, model, features, labels, outputs, run):
        self._note("loss", outputs=outputs, mode=run.mode)
        return Linear.loss(self, labels, outputs)

    @hookimpl
    def optimize(self, model, features, labels, losses, run):
        self._note("optimize", losses=losses, total=run.total_steps)
        return run.minimize(losses)

    @hookimpl
    def predict(self, model, features, outputs, run):
        self._note("predict", mode=run.mode)
        return Linear.predict(self, outputs)

    @hookimpl
    def metrics(self, model, features, labels, outputs, run):
        self._note("metrics", mode=run.mode)
        return Linear.metrics(self, labels, outputs)

    @hookimpl
    def session_hooks(self, model, losses, run):
        self._note("session_hooks", losses=losses)
        return None

    @hookimpl
    def checkpoint_saved(self, run, step, path):
        self._note(
            "checkpoint_saved", step=step, files=os.listdir(os.path.dirname(path)), path=path
        )

    @hookimpl
    def evaluated(self, run, split, step, metrics, examples, folder):
        with open(os.path.join(folder, "report.txt"), "w") as file:
            file.write(split)
        self._note("evaluated", split=split, step=step, metrics=metrics, examples=examples)
        return {"recorder": {"seen": len(examples["label"])}}

    @hookimpl
    def run_finished(self, run, summary):
        self._note("run_finished", summary=summary, folder=run.folder)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """Every call of a hook in a run of 4 steps, saved every 2; and the run's folder."""
    del Recorder.seen[:]
    folder = tmp_path_factory.mktemp("recorded")
    data = write_bars(folder / "bars.npz", train=20, validation=6, test=10)
    argv = ["run", "--plugin", "test_hookspecs:Recorder", "--data", data, "--steps", "4"]
    assert run_command(argv + ["--run-dir", str(folder / "run"), "--reader", "resident"]) == 0
    return list(Recorder.seen), folder / "run"


def given(recorded, hook):
    return [facts for name, facts in recorded[0] if name == hook]


@pytest.mark.parametrize("hook", HOOKS)
def test_each_hook_is_called_in_a_run(recorded, hook):
    assert given(recorded, hook)


def test_the_hooks_are_called_in_the_order_of_the_specification(recorded):
    first = list(collections.OrderedDict.fromkeys(name for name, _ in recorded[0]))
    told = [name for name in first if name not in ("checkpoint_saved", "evaluated", "run_finished")]
    order = ["data", "filter", "convert", "build", "call", "loss", "optimize", "session_hooks"]
    assert told == order + ["predict", "metrics"]  # evaluation has a graph of its own, made later
    assert recorded[0][-1][0] == "run_finished"


def test_data_is_asked_for_each_split_before_the_data_is_known(recorded):
    assert [facts["split"] for facts in given(recorded, "data")] == ["train", "validation", "test"]
    assert {facts["data"] for facts in given(recorded, "data")} == {None}


def test_filter_and_convert_see_one_example_as_it_is_stored(recorded):
    for facts in given(recorded, "filter") + given(recorded, "convert"):
        assert facts["features"].shape == (6, 6, 1)
        assert facts["features"].dtype == np.uint8
        assert facts["labels"] in (0, 1, 2)


def test_what_the_filter_refuses_is_not_converted(recorded):
    assert 2 in {facts["labels"] for facts in given(recorded, "filter")}
    assert {facts["labels"] for facts in given(recorded, "convert")} == {0, 1}


def test_build_sees_the_data_as_the_model_does(recorded):
    assert [facts["mode"] for facts in given(recorded, "build")] == ["train", "eval"]
    for facts in given(recorded, "build"):
        assert facts["data"].shape == (6, 6, 1)


def test_call_sees_float32_features_and_int32_labels(recorded):
    train, evaluate = given(recorded, "call")
    assert train["features"].shape.as_list() == [8, 6, 6, 1]
    assert train["labels"].shape.as_list() == [8]
    assert evaluate["features"].shape.as_list() == [None, 6, 6, 1]
    for facts in (train, evaluate):
        assert (facts["features"].dtype, facts["labels"].dtype) == (tf.float32, tf.int32)


def test_optimize_gets_what_loss_returned_and_the_length_of_the_run(recorded):
    (facts,) = given(recorded, "optimize")
    assert facts["losses"].shape.ndims == 0
    assert facts["total"] == 4


def test_predict_and_metrics_are_not_asked_when_training(recorded):
    assert {facts["mode"] for facts in given(recorded, "predict")} == {"eval"}
    assert {facts["mode"] for facts in given(recorded, "metrics")} == {"eval"}


def test_checkpoint_saved_is_told_after_each_commit(recorded):
    told = given(recorded, "checkpoint_saved")
    assert [facts["step"] for facts in told] == [2, 4]
    for facts in told:
        assert os.path.basename(facts["path"]) + ".index" in facts["files"]


def test_evaluated_is_told_each_example_of_the_split_in_order(recorded):
    (facts,) = given(recorded, "evaluated")
    labels = [label for label in np.arange(10) * 7 % 3 if label != 2]  # as write_bars makes them
    assert (facts["split"], facts["step"]) == ("test", 4)
    assert facts["examples"]["labels"].tolist() == labels
    right = facts["examples"]["label"] == facts["examples"]["labels"]
    assert facts["metrics"]["accuracy"] == pytest.approx(right.mean())


def test_the_features_of_evaluated_are_those_that_the_model_saw(recorded):
    (facts,) = given(recorded, "evaluated")
    # The black border, converted to 255 - 0, and scaled to [0, 1].
    assert set(facts["examples"]["features"][:, 0, 0, 0].tolist()) == {1.0}


def test_what_evaluated_returns_and_writes_is_in_the_result(recorded):
    (facts,) = given(recorded, "run_finished")
    assert facts["summary"]["test"]["recorder"] == {"seen": 7}
    assert facts["summary"]["test"]["reports"] == "reports/test-4"
    assert (recorded[1] / "reports" / "test-4" / "report.txt").read_text() == "test"


def test_run_finished_is_told_once_with_the_summary_of_the_run(recorded):
    (facts,) = given(recorded, "run_finished")
    assert facts["summary"]["steps"] == 4
    assert facts["folder"] == str(recorded[1])


# ---------------------------------------------------------------------- answers that cannot be used


def broken(hook, function, base=Linear):
    """The linear plugin with another implementation of one hook."""
    made = type("Broken", (base,), {hook: hookimpl(function), "__module__": __name__})
    return Plugins(make_plugin(made, "broken"))


def train_graph(plugins, **options):
    with tf.Graph().as_default() as graph:
        run = make_run(data=Spec(), classes=plugins.options(), **options)
        reader = Constant([[1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0]], [0, 1])
        return build_training(plugins, run, reader, graph)


def extra_variable(self, model, features, run):
    tf.get_variable("late", [1])
    return Linear.call(self, model, features, run)


def unreduced(self, outputs):
    return tf.reduce_sum(outputs["logits"], axis=1)


@pytest.mark.parametrize(
    "hook, function, told",
    [
        (
            "call",
            lambda self: tf.zeros([2]),
            "Hook 'call' .* returned a .*Tensor.*, expected a dict",
        ),
        ("call", extra_variable, "Hook 'call' of plugin 'broken' created the variable 'late'"),
        ("loss", unreduced, "Hook 'loss' .* for 'loss', expected a scalar tensor"),
        ("loss", lambda self: 0.5, "Hook 'loss' .* returned 0.5 for 'loss', expected a scalar"),
        ("optimize", lambda self: tf.zeros([]), "Hook 'optimize' .* expected one tf.Operation"),
    ],
    ids=["call a tensor", "call a variable", "loss a vector", "loss a float", "optimize a tensor"],
)
def test_an_answer_of_another_kind_is_told_with_plugin_and_hook(hook, function, told):
    with pytest.raises(ToolkitError, match=told):
        train_graph(broken(hook, function))


@pytest.mark.parametrize("answer", [{}, [1]])
def test_predictions_are_a_dict_that_is_not_empty(answer):
    plugins = broken("predict", lambda self: answer)
    with pytest.raises(
        ToolkitError, match="Hook 'predict' of plugin 'broken' returned .*, expected"
    ):
        build_inference(plugins, make_run("predict", Spec(), plugins.options()))


def test_losses_may_be_named_and_optimize_gets_them_as_they_were():
    def two(self, outputs):
        total = tf.reduce_sum(outputs["logits"])
        return collections.OrderedDict([("first", total), ("second", 2 * total)])

    class Named(Linear):
        @hookimpl
        def optimize(self, losses, run):
            assert list(losses) == ["first", "second"]
            return run.minimize(losses["first"] + losses["second"])

    built = train_graph(broken("loss", two, Named))
    assert list(built.losses) == ["first", "second"]


def test_what_a_plugin_logs_is_fetched_with_the_metrics():
    def optimize(self, losses, run):
        run.log("margin", tf.constant(2.0))
        return run.minimize(losses)

    built = train_graph(broken("optimize", optimize))
    assert set(built.logged) == {"margin", "learning_rate", "gradient_norm"}


def test_a_vector_cannot_be_logged():
    with pytest.raises(ToolkitError, match="'margin' is logged but has the shape"):
        make_run().log("margin", tf.zeros([2]))


def test_there_are_no_labels_when_predicting():
    seen = []

    def call(self, model, features, labels, run):
        seen.append(labels)
        return Linear.call(self, model, features, run)

    plugins = broken("call", call)
    build_inference(plugins, make_run("predict", Spec(), plugins.options()))
    assert seen == [None]


@pytest.mark.parametrize("answer", [{}, ["z"], {"z": "float32"}, {"z": ("no type", [2])}], ids=str)
def test_inputs_are_a_dict_of_types_and_shapes(answer):
    plugins = broken("inputs", lambda self: answer)
    with pytest.raises(ToolkitError, match="Hook 'inputs' of plugin 'broken' returned") as caught:
        build_inference(plugins, make_run("predict", Spec(), plugins.options()))
    assert "(dtype, shape of one)" in caught.value.hint


def test_inputs_are_asked_when_predicting_alone_and_may_be_none():
    seen = []

    def inputs(self, run):
        seen.append(run.mode)

    plugins = broken("inputs", inputs)
    train_graph(plugins)
    for mode in ("eval", "predict"):
        built = build_inference(plugins, make_run(mode, Spec(), plugins.options()))
        assert built.takes_examples and built.input_specs == {"features": ("float32", (4,))}
    assert seen == ["predict"]


@pytest.mark.parametrize("answer", [[object()], [lambda: None]])
def test_session_hooks_are_a_list_of_session_run_hooks(cli, answer):
    SessionHooks.answer = answer
    data = write_bars("bars.npz")
    told = cli("run", "--plugin", "test_hookspecs:SessionHooks", "--data", data, "--steps", "2")
    assert told.code == 1
    assert "Hook 'session_hooks'" in told.err and "tf.train.SessionRunHooks" in told.err


class SessionHooks(Linear):
    answer = None

    @hookimpl
    def session_hooks(self):
        return self.answer


class Counting(tf.train.SessionRunHook):
    calls = 0

    def after_run(self, run_context, run_values):
        self.calls += 1


def test_a_plain_session_hook_is_called_on_every_step(cli):
    counting = Counting()
    SessionHooks.answer = [counting]
    data = write_bars("bars.npz")
    done = cli("run", "--plugin", "test_hookspecs:SessionHooks", "--data", data, "--steps", "5")
    assert done.code == 0, done.err
    assert counting.calls == 5
    note = "one step a call, which costs speed; called on every step: SessionHooks:Counting"
    assert "note   " + note in done.err


# ---------------------------------------------------------------------------- where data comes from


class Made(Linear):
    """Examples that the plugin makes itself: one class of light images, one of dark ones."""

    @hookimpl
    def data(self, split, run):
        if split == "validation":
            return None
        labels = np.arange(16) % 2
        return Split(np.repeat(labels.astype(np.uint8) * 255, 16).reshape(16, 4, 4, 1), labels)


def run_data_of(plugins, **options):
    from toolkit.options import resolve

    return open_run_data(plugins, resolve(plugins.options(), [("test", options)]).options)


def test_a_plugin_may_make_its_data():
    run_data = run_data_of(Plugins(make_plugin(Made, "made")))
    assert run_data.spec == DataSpec((4, 4, 1), "uint8", 2, ("0", "1"), (8, 8))
    assert sorted(run_data.splits) == ["test", "train"]
    assert run_data.dataset.name == "plugin made"


def test_a_plugin_trains_on_the_data_it_makes(cli):
    done = cli("run", "--plugin", "test_hookspecs:Made", "--steps", "3", "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["test"]["examples"] == 16


def test_data_of_another_type_is_told():
    with pytest.raises(
        ToolkitError, match="Hook 'data' of plugin 'broken' returned \\[1\\] for 'tr"
    ):
        run_data_of(broken("data", lambda self: [1]))


def test_data_without_a_training_split_is_told():
    def only_test(self, split):
        return Split(np.zeros([2, 4], np.float32)) if split == "test" else None

    with pytest.raises(DataError, match="The 'data' hook of plugin 'broken' gives no 'train'"):
        run_data_of(broken("data", only_test))


def test_convert_may_change_shape_and_type(here):
    def rows(self, features, labels):
        return features.astype(np.float32).mean(axis=(1, 2)), labels

    run_data = run_data_of(broken("convert", rows), data=write_bars("bars.npz"))
    assert (run_data.spec.shape, run_data.spec.dtype) == ((6,), "float32")
    features, labels = run_data.prepare_split("test").take(slice(None))
    assert features[0].tolist() == pytest.approx(bars([0], 2)[0].mean(axis=(1, 2)).tolist())


def test_filter_leaves_out_examples_of_every_split(here):
    run_data = run_data_of(
        broken("filter", lambda self, labels: labels == 1), data=write_bars("b.npz")
    )
    assert set(run_data.prepare_split("test").labels.tolist()) == {1}
    assert run_data.splits["test"].labels.tolist() == (np.arange(13) * 7 % 3).tolist()


# --------------------------------------------------------------------------------------- extensions


class Doubled:
    """Doubles the logits of any model; tells of it in the metrics."""

    @hookimpl(wrapper=True)
    def call(self, model, features, labels, run):
        outputs = yield
        return dict(outputs, logits=2 * outputs["logits"])

    @hookimpl
    def metrics(self):
        return {"doubled": tf.metrics.mean(tf.constant([1.0]))}


def test_an_extension_wraps_what_the_model_returns_and_adds_a_metric():
    spec = Spec()
    run = make_run("eval", spec, Plugins(make_plugin(Linear)).options())
    plain = build_inference(Plugins(make_plugin(Linear)), run)
    doubled = build_inference(
        Plugins(make_plugin(Linear), [make_plugin(Doubled, "doubled", "extension")]),
        make_run("eval", spec, Plugins(make_plugin(Linear)).options()),
    )
    values = []
    for built in (plain, doubled):
        with built.tf_graph.as_default(), session() as made:
            feed = {built.features: [[1.0, 2.0, 3.0, 4.0]]}
            values.append(made.run(built.predictions["logits"], feed))
    assert values[1].tolist() == (2 * values[0]).tolist()
    assert sorted(doubled.metrics) == ["accuracy", "doubled"]


def test_an_extension_is_switched_on_by_name_and_saved_with_the_run(cli, here):
    data = write_bars("bars.npz")
    done = cli(
        "run",
        "--plugin",
        LINEAR,
        "--with",
        "test_hookspecs:Doubled",
        "--data",
        data,
        "--steps",
        "2",
        "--run-dir",
        "r",
        "--json",
    )
    assert done.code == 0, done.err
    assert json.loads(done.out)["test"]["metrics"]["doubled"] == 1.0
    assert json.loads((here / "r" / "config.json").read_text())["with"] == [
        "test_hookspecs:Doubled"
    ]
    again = cli("evaluate", "r", "--json")
    assert json.loads(again.out)["metrics"]["doubled"] == 1.0
