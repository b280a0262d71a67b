"""Models and extensions that each break one contract, derived from ones that keep all."""

from __future__ import annotations

import itertools

import numpy as np
from linear_fixtures import Linear, LinearOptions

from toolkit import Options, SessionHook, hookimpl, option, tf

_numbers = itertools.count()


class NoHelp(Linear):
    class Silent(LinearOptions):
        size: int = option(1, " ")

    @hookimpl
    def options(self):
        return self.Silent


class ForgetfulOption(Linear):
    class Choice(LinearOptions):
        pairs: object = option((1, 2), "a pair that JSON returns as a list")

    @hookimpl
    def options(self):
        return self.Choice


class MoreInEvaluation(Linear):
    @hookimpl
    def build(self, run):
        if run.mode == "eval":
            tf.get_variable("extra", [2])
        return Linear.build(self, run)


class OtherInALoop(Linear):
    @hookimpl
    def build(self, run):
        tf.get_variable(f"v{next(_numbers)}", [1], trainable=False)
        return Linear.build(self, run)


class InfiniteLoss(Linear):
    @hookimpl
    def loss(self, labels, outputs):
        return Linear.loss(self, labels, outputs) + np.float32(np.inf)


class Idle(Linear):
    @hookimpl
    def build(self, run):
        tf.get_variable("idle", [2])
        return Linear.build(self, run)


class Stateful(Linear):
    @hookimpl
    def call(self, model, features, run):
        return Linear.call(self, model, features + tf.random_normal([]), run)


class VariableInHooks(Linear):
    @hookimpl
    def session_hooks(self):
        tf.get_variable("late", [1])
        return []


class Forgotten(Linear):
    @hookimpl
    def optimize(self, model, losses, run):
        return run.minimize(losses, [model[0]])


class NoUpdate(Linear):
    @hookimpl
    def optimize(self, losses, run):
        run.minimize(losses, advance_step=False)
        return run.global_step.assign_add(1).op


class WritesWhatIsNotTrained(Forgotten):
    @hookimpl
    def optimize(self, model, losses, run):
        return run.minimize(losses, [model[0]], after=lambda: model[1].assign_add([1.0] * 3).op)


class TwoSteps(Linear):
    @hookimpl
    def optimize(self, losses, run):
        with tf.control_dependencies([run.minimize(losses)]):
            return run.global_step.assign_add(1).op


class PythonCounter(Linear):
    @hookimpl
    def call(self, model, features, run):
        return Linear.call(self, model, features * float(1 + next(_numbers)), run)


class RoundsInALoop(Linear):
    @hookimpl
    def call(self, model, features, run):
        is_in_loop = tf.get_default_graph()._get_control_flow_context() is not None
        return Linear.call(self, model, features * (1 + 1e-6 * is_in_loop), run)


class OneSeed(Linear):
    @hookimpl
    def build(self, run):
        shape = [int(np.prod(run.data.shape)), run.data.num_classes]
        return (
            tf.get_variable("linear/w", shape, initializer=tf.ones_initializer()),
            tf.get_variable("linear/b", shape[1:], initializer=tf.zeros_initializer()),
        )

    @hookimpl
    def loss(self, labels, outputs):
        return tf.reduce_sum(tf.square(outputs["logits"])) * 0


class OwnLoss(Linear):
    """Minimizes what `loss` returned before extensions changed it."""

    @hookimpl
    def loss(self, labels, outputs):
        self._loss = Linear.loss(self, labels, outputs)
        return self._loss

    @hookimpl
    def optimize(self, run):
        return run.minimize(self._loss)


class LateOps(Linear):
    class Hook(SessionHook):
        def on_step(self, *arguments):
            tf.constant(1.0)

    @hookimpl
    def session_hooks(self):
        return [self.Hook()]


class DependsOnBatch(Linear):
    @hookimpl
    def predict(self, outputs):
        logits = outputs["logits"]
        return {"relative": logits - tf.reduce_mean(logits, axis=0, keepdims=True)}


class FlatPrediction(Linear):
    @hookimpl
    def predict(self, outputs):
        return {"logits": tf.reshape(outputs["logits"], [-1])}


class NoMetric(Linear):
    @hookimpl
    def metrics(self, outputs):
        return {"ratio": tf.metrics.mean(outputs["logits"] / 0.0 - outputs["logits"] / 0.0)}


class BatchMetric(Linear):
    @hookimpl
    def loss(self, labels, outputs):
        return Linear.loss(self, labels, outputs) + 1.0 / tf.cast(tf.size(labels), tf.float32)


class OtherExamples(Linear):
    """The values of its examples have another mean than the metric of their name."""

    @hookimpl
    def example_metrics(self, labels):
        return {"accuracy": labels < -1}


class NoDirection(Linear):
    @hookimpl
    def metric_directions(self):
        return {}


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
        shape = [int(np.prod(run.data.shape)), run.data.num_classes]
        ops = len(tf.get_default_graph().get_operations())
        return (
            tf.get_variable("linear/w", shape, initializer=tf.constant_initializer(0.001 * ops)),
            tf.get_variable("linear/b", shape[1:], initializer=tf.zeros_initializer()),
        )


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
