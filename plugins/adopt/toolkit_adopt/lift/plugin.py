"""The hooks of what is lifted, and the plugin `lift`: a graph without its source, from a .meta."""

from __future__ import annotations

from toolkit import LazyModules, hookimpl

modules = LazyModules(__package__)


class Lifted:
    """The hooks of a `graph.LiftedModel`; a subclass has the hook `build`."""

    @hookimpl
    def call(self, model, features, labels, run):
        return model.build("outputs", features, labels, run)

    @hookimpl
    def loss(self, model, features, labels, run):
        return model.build("losses", features, labels, run)

    @hookimpl
    def optimize(self, model, losses, run):
        return run.adopt(model.parts["losses"].train_op, list(losses.values()))

    @hookimpl
    def predict(self, model, features, outputs, run):
        return model.predict(features, outputs, run)


class Lift(Lifted):
    """Trains ops of a graph that was built elsewhere."""

    @hookimpl
    def options(self):
        return modules.options.LiftOptions

    @hookimpl
    def inputs(self, run):
        return modules.graph.input_specs(run)

    @hookimpl
    def build(self, run):
        return modules.graph.build(run)

    @hookimpl
    def checkpoint_saved(self, run):
        modules.graph.keep_copy(run)
