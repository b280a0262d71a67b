"""A variational autoencoder for images: codes of a few numbers, whose distribution is known.

This page lists the hooks. Each module is imported when a hook first needs it.
"""

from __future__ import annotations

from toolkit import LazyModules, hookimpl

modules = LazyModules(__name__)


@hookimpl
def options():
    return modules.options.VAEOptions


@hookimpl
def build(run):
    return modules.network.Autoencoder(run)


@hookimpl
def call(model, features, run):
    return modules.bound.encode_and_decode(model, features, run)


@hookimpl
def loss(outputs, run):
    return modules.bound.loss(outputs, run)


@hookimpl
def optimize(losses, run):
    return run.minimize(losses)


@hookimpl
def predict(outputs):
    return {"code": outputs["mean"], "reconstruction": outputs["reconstruction"]}


@hookimpl
def example_metrics(features, outputs):
    return modules.bound.example_metrics(features, outputs)


@hookimpl
def metric_directions():
    return {"nats": "min", "squared_error": "min"}


@hookimpl
def session_hooks(model, run, splits):
    return modules.pictures.create_grids(model, run, splits("train"))


@hookimpl
def evaluated(run, examples, folder):
    return modules.pictures.write_report(run, examples, folder)


@hookimpl
def sample(request, run):
    return modules.pictures.sample(request, run)
