"""From images, numbers and classes to one number or several: prices, ages, angles.

One function per hook. Each module is imported when a hook first needs it.
"""

from __future__ import annotations

from toolkit import LazyModules, hookimpl

modules = LazyModules(__name__)


@hookimpl
def options():
    return modules.options.RegressorOptions


@hookimpl
def data(split, run):
    return modules.houses.open_split(split, run.options)


@hookimpl
def build(run):
    return modules.network.Regressor(run)


@hookimpl
def call(model, features, run):
    return model(features, run)


@hookimpl
def loss(model, labels, outputs, run):
    return model.targets.loss(labels, outputs, run.options.loss)


@hookimpl
def optimize(losses, run):
    return run.minimize(losses)


@hookimpl
def predict(model, outputs):
    return {name: outputs["values"][:, i] for i, name in enumerate(model.targets.names)}


@hookimpl
def metrics(model, labels, outputs):
    return model.targets.metrics(labels, outputs)


@hookimpl
def example_metrics(model, labels, outputs):
    return {"mean_absolute_error": model.targets.absolute_errors(labels, outputs)}


@hookimpl
def metric_directions():
    return {"mean_absolute_error": "min", "rmse": "min", "explained": "max", "loss": "min"}


@hookimpl
def evaluated(run, examples, folder):
    return modules.reports.write(examples, run.data, folder)
