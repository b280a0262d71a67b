"""Models and extensions that each break one contract, derived from ones that keep all."""

import itertools
from types import SimpleNamespace

import numpy as np
from linear_fixtures import Linear, LinearOptions

from toolkit import Options, SessionHook, hookimpl, option, tf

_numbers = itertools.count()


def linear_with(**hooks):
    """A model: Linear with other hooks."""
    return type("Faulty", (Linear,), {name: hookimpl(hook) for name, hook in hooks.items()})


def linear_beside(create):
    """Linear, before whose variables a function of the run creates another one."""

    def build(self, run):
        create(run)
        return Linear.build(self, run)

    return linear_with(build=build)


def linear_of(change):
    """Linear of other features, which a function makes of the features."""

    def call(self, model, features, run):
        return Linear.call(self, model, change(features), run)

    return linear_with(call=call)


def linear_losing(more):
    """Linear with a larger loss, by a function of the labels."""

    def loss(self, labels, outputs):
        return Linear.loss(self, labels, outputs) + more(labels)

    return linear_with(loss=loss)


def linear_predicting(value):
    """Linear that predicts one value, a function of its logits."""
    return linear_with(predict=lambda self, outputs: {"value": value(outputs["logits"])})


def is_in_loop():
    return tf.get_default_graph()._get_control_flow_context() is not None


MoreInEvaluation = linear_beside(lambda run: run.mode == "eval" and tf.get_variable("extra", [2]))
OtherInALoop = linear_beside(
    lambda run: tf.get_variable(f"v{next(_numbers)}", [1], trainable=False)
)
Idle = linear_beside(lambda run: tf.get_variable("idle", [2]))
Stateful = linear_of(lambda features: features + tf.random_normal([]))
PythonCounter = linear_of(lambda features: features * float(1 + next(_numbers)))
RoundsInALoop = linear_of(lambda features: features * (1 + 1e-6 * is_in_loop()))
InfiniteLoss = linear_losing(lambda labels: np.float32(np.inf))
BatchMetric = linear_losing(lambda labels: 1.0 / tf.cast(tf.size(labels), tf.float32))
FlatPrediction = linear_predicting(lambda logits: tf.reshape(logits, [-1]))
DependsOnBatch = linear_predicting(lambda logits: logits - tf.reduce_mean(logits, 0, keepdims=True))
InfinitePrediction = linear_predicting(lambda logits: logits / 0.0)
NoMetric = linear_with(
    metrics=lambda self, outputs: {"ratio": tf.metrics.mean(np.nan * outputs["logits"])}
)
Forgotten = linear_with(optimize=lambda self, model, losses, run: run.minimize(losses, [model[0]]))
NoDirection = linear_with(metric_directions=lambda self: {})
# The values of its examples have another mean than the metric of their name.
OtherExamples = linear_with(example_metrics=lambda self, labels: {"accuracy": labels < -1})


class WithOptions(Linear):
    """Has the options of the class `Own`."""

    @hookimpl
    def options(self):
        return self.Own


class NoHelp(WithOptions):
    class Own(LinearOptions):
        size: int = option(1, " ")


class ForgetfulOption(WithOptions):
    class Own(LinearOptions):
        pairs: object = option((1, 2), "a pair that JSON returns as a list")


class VariableInHooks(Linear):
    @hookimpl
    def session_hooks(self):
        tf.get_variable("late", [1])
        return []


class NoUpdate(Linear):
    @hookimpl
    def optimize(self, losses, run):
        run.minimize(losses, advance_step=False)
        return run.global_step.assign_add(1).op


class WritesWhatIsNotTrained(Linear):
    @hookimpl
    def optimize(self, model, losses, run):
        return run.minimize(losses, [model[0]], after=lambda: model[1].assign_add([1.0] * 3).op)


class TwoSteps(Linear):
    @hookimpl
    def optimize(self, losses, run):
        with tf.control_dependencies([run.minimize(losses)]):
            return run.global_step.assign_add(1).op


def build_from(start, run):
    """The variables of Linear with another initializer of the weights."""
    return Linear().build(SimpleNamespace(data=run.data, initializer=lambda *_: start))


OneSeed = linear_with(
    build=lambda self, run: build_from(tf.ones_initializer(), run),
    loss=lambda self, labels, outputs: tf.reduce_sum(tf.square(outputs["logits"])) * 0,
)


class OwnLoss(Linear):
    """Minimizes what `loss` returned before extensions changed it."""

    @hookimpl
    def loss(self, labels, outputs):
        self._loss = Linear.loss(self, labels, outputs)
        return self._loss

    @hookimpl
    def optimize(self, run):
        return run.minimize(self._loss)


class LateHook(SessionHook):
    def on_step(self, *arguments):
        tf.constant(1.0)


LateOps = linear_with(session_hooks=lambda self: [LateHook()])


class CountsPredictions(Linear):
    @hookimpl
    def call(self, model, features, run):
        if run.mode == "predict":
            with tf.control_dependencies([model[1].assign_add([1.0, 0.0, 0.0])]):
                features = tf.identity(features)
        return Linear.call(self, model, features, run)


class UnseededWeights(Linear):
    @hookimpl
    def build(self, run):
        ops = len(tf.get_default_graph().get_operations())
        return build_from(tf.constant_initializer(0.001 * ops), run)


class ShiftedPrediction:
    class Shift(Options):
        zero_strength = {"shift": 1.0}

        shift: float = option(1.0, "what is added to each output of an evaluation")

    @hookimpl
    def options(self):
        return self.Shift

    @hookimpl(wrapper=True)
    def call(self, run):
        outputs = yield
        if run.mode == "train":
            return outputs
        return {name: value * (1 + run.options.shift) for name, value in outputs.items()}


class NewWeights:
    @hookimpl(wrapper=True)
    def build(self):
        model = yield
        for variable in tf.trainable_variables():
            variable._initializer_op = variable.assign(tf.ones_like(variable)).op
        return model
