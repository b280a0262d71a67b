"""Extensions around a model: other arguments, several calls, changed batches, state, one order."""

import numpy as np
import pytest
from graph_fixtures import make_plugin
from linear_fixtures import Linear, spoiled, write_bars

from toolkit import ToolkitError, hookimpl, testing, tf
from toolkit.compat import HAS_XLA
from toolkit.plugins import Plugins

pytestmark = pytest.mark.usefixtures("graph")
ME = "test_wrappers.py:"


class Plain(Linear):
    """Its model, outputs and losses are texts."""

    @hookimpl
    def build(self):
        return "model"

    @hookimpl
    def call(self, features, labels):
        return f"call({features}, {labels})"

    @hookimpl
    def loss(self, labels):
        return f"loss({labels})"


def extension(name, **hooks):
    """An extension with wrappers by the name of their hook."""
    functions = {hook: hookimpl(wrapper=True)(f) for hook, f in hooks.items()}
    return make_plugin(type(name, (), functions), name, "extension")


def call(plugins, hook="call"):
    arguments = {"model": None, "features": "x", "labels": "y", "outputs": None, "run": None}
    arguments = {name: v for name, v in arguments.items() if hook == "loss" or name != "outputs"}
    return plugins.call_hook(hook, **arguments)


def replace_features(self):
    return (yield {"features": "noisy"})


def test_arguments_of_several_wrappers_add_up_and_the_inner_one_has_the_last_word():
    def replace_both(self, labels):
        return (yield {"features": "outer", "labels": labels + "!"})

    inner, outer = extension("noise", call=replace_features), extension("both", call=replace_both)
    plugins = Plugins(make_plugin(Plain), [inner, outer])
    assert call(plugins) == "call(noisy, y!)"
    plugins = Plugins(make_plugin(Plain), [outer, inner])
    assert call(plugins) == "call(outer, y!)"


def test_each_yield_calls_what_is_wrapped_again():
    def mix(self, labels):
        first = yield
        second = yield {"labels": labels[::-1] + "2"}
        return f"{first} + {second}"

    plugins = Plugins(make_plugin(Plain), [extension("mixup", loss=mix)])
    assert call(plugins, "loss") == "loss(y) + loss(y2)"


def twice(self):
    yield
    return (yield)


def nothing(self):
    yield


UNKNOWN = "yielded the unknown argument"


@pytest.mark.parametrize(
    "hook, wrapper, message, hint",
    [
        ("build", twice, "yielded twice", "Only call, loss, predict may be called several times."),
        ("call", nothing, "returned None", "'result = yield', then 'return result'"),
        ("call", lambda self: (yield 3), "yielded 3", "a dict of arguments to replace: model"),
        ("call", lambda self: (yield {"label": 1}), UNKNOWN + " 'label'", "Did you mean 'labels'?"),
        ("call", lambda self: (yield {"run": 1}), UNKNOWN + " 'run'", ""),
    ],
    ids=["twice", "no return", "number", "unknown", "run"],
)
def test_a_wrapper_that_breaks_the_rules_is_named_with_its_line(hook, wrapper, message, hint):
    plugins = Plugins(make_plugin(Plain), [extension("wrong", **{hook: wrapper})])
    with pytest.raises(ToolkitError) as caught:
        plugins.call_hook(hook, model=None, features="x", labels="y", run=None)
    line = wrapper.__code__.co_firstlineno
    start = f"The wrapper of hook '{hook}' of extension 'wrong' {message} ("
    assert caught.value.message.startswith(start)
    assert caught.value.message.endswith(f"{ME}{line}).")
    assert hint in caught.value.hint


class Failing(Plain):
    @hookimpl
    def call(self):
        raise ValueError("mine")


def leave_early(self, labels):
    if labels == "y":
        return
    yield


def call_through(wrapper, model):
    return call(Plugins(make_plugin(model, "model"), [extension("wrong", call=wrapper)]))


@pytest.mark.parametrize(
    "wrapper, model, message",
    [
        (leave_early, Failing, "of extension 'wrong' returned None"),
        (replace_features, Failing, "Plugin 'model' failed in its hook 'call': ValueError"),
    ],
)
def test_the_wrapper_or_the_model_is_to_blame(wrapper, model, message):
    with pytest.raises(ToolkitError, match=message):
        call_through(wrapper, model)


def test_a_wrapper_may_catch_the_exception_of_what_it_wraps():
    def catch(self):
        try:
            return (yield)
        except ValueError as error:
            return f"caught {error}"

    assert call_through(catch, Failing) == "caught mine"


def test_the_order_is_described_from_outside_to_inside():
    wrappers = [extension(name, loss=replace_features) for name in ("inner", "outer")]
    plugins = Plugins(make_plugin(Plain, "model"), wrappers)
    assert plugins.describe_order() == "loss: outer > inner > model"
    assert Plugins(make_plugin(Plain)).describe_order() == ""


class LabelNoise:
    """Gives every example of a batch the class 0."""

    @hookimpl
    def augment(self, features, labels):
        return features, tf.zeros_like(labels)


class Darkness:
    @hookimpl
    def augment(self, features, labels):
        return features * 0.0, labels


def run_steps(folder, extensions=(), plugin=Linear, **options):
    """The tensors after two steps on bars."""
    data = write_bars(folder.parent / "bars.npz")
    values = {"steps": 2, "evaluate": "no", "xla": "off", "steps_per_call": 1}
    testing.train(plugin, str(folder), extensions, data=data, **dict(values, **options))
    return testing.tensors(str(folder))


def test_augment_changes_the_batch_for_the_whole_step(tmp_path):
    tensors = run_steps(tmp_path / "run", [LabelNoise, Darkness], learning_rate=0.1)
    assert tensors["linear/b"][0] > 0 > tensors["linear/b"][1]
    # The weights of features that are 0 have no gradient.
    assert tensors["linear/b/Adam"].all() and not tensors["linear/w/Adam"].any()


class Count:
    """Counts the steps that changed the weights, and sums the bias after each."""

    @hookimpl(wrapper=True)
    def build(self, run):
        model = yield
        count, total = run.state("count/steps", 0), run.state("count/bias", lambda: tf.zeros([3]))

        def update():
            counted = count.assign_add(1, read_value=False)
            return tf.group(counted, total.assign_add(model[1].read_value(), read_value=False))

        if run.mode == "train":  # here; averages of weights do so in `optimize`
            run.update_state(update)
        return model


def test_state_is_updated_after_each_step_with_its_variables(tmp_path):
    one = run_steps(tmp_path / "one", [Count], steps=1)
    two = run_steps(tmp_path / "two", [Count], steps=2)
    assert (one["state/count/steps"], two["state/count/steps"]) == (1, 2)
    np.testing.assert_array_equal(one["state/count/bias"], one["linear/b"])
    expected = one["linear/b"] + two["linear/b"]
    np.testing.assert_array_equal(two["state/count/bias"], expected)


@pytest.mark.parametrize("xla", ["off", "on"] if HAS_XLA else ["off"])
def test_state_is_not_updated_in_a_step_that_the_guard_refuses(tmp_path, xla):
    options = {"steps": 6, "on_nonfinite": "skip", "xla": xla}
    tensors = run_steps(tmp_path / "run", [Count], spoiled("inf", 2, 4, 6), **options)
    assert tensors["state/count/steps"] == 3
    assert tensors["toolkit/skipped_steps"] == 3


def test_state_is_not_updated_in_a_step_that_only_accumulates(tmp_path):
    options = {"steps": 6, "accumulate": 3, "steps_per_call": None}
    tensors = run_steps(tmp_path / "run", [Count], **options)
    assert tensors["state/count/steps"] == 2


def updating(function):
    """An extension that hands over a function to update its state."""

    class Updating:
        @hookimpl(wrapper=True)
        def optimize(self, run):
            run.update_state(function)
            return (yield)

    return Updating


class WithSpace:
    @hookimpl(wrapper=True)
    def build(self, run):
        run.state("my state: x", 0.0)
        return (yield)


class InAugment:
    @hookimpl
    def augment(self, features, labels):
        tf.get_variable("late", [])
        return features, labels


@pytest.mark.parametrize(
    "wrong, message",
    [
        (updating(lambda: None), r"returned None, expected an op \(.*test_wrappers.py:\d+\)"),
        (updating("an op"), "run.update_state got 'an op', expected a function"),
        (updating(lambda: tf.zeros([2]) + tf.zeros([3])), "run.update_state: ValueError"),
        (WithSpace, "'my state: x' is no name of a state"),
        (InAugment, "created the variable 'late'"),
        (type("Other", (Count,), {}), "create the state 'count/steps'"),
    ],
)
def test_a_wrong_extension_is_refused_with_its_mistake(tmp_path, wrong, message):
    with pytest.raises(ToolkitError, match=message):
        run_steps(tmp_path / "run", [Count, wrong])


def test_a_state_without_an_update_of_the_step_is_refused():
    run = testing.make_run(Linear, "eval", None)
    with pytest.raises(ToolkitError, match="update_state was called in mode 'eval'"):
        run.update_state(tf.no_op)
