"""A network that learns features of images without labels: two views of an image shall agree.

This page is the plugin's table of contents: one function per hook. Each module is imported when a
hook first needs it.

Packages that depend on this one may import `train_once` and `MIN_IMAGES` of `training`, and
`network`, of which they use `embed`, `layer_widths` and `read_weights`.
"""

from __future__ import annotations

from toolkit import LazyModules, hookimpl

modules = LazyModules(__name__)


@hookimpl
def options():
    return modules.options.AgreementOptions


@hookimpl
def build(run):
    return modules.network.build(run)


@hookimpl
def call(model, features, run):
    return modules.network.forward(model, features, run)


@hookimpl
def loss(outputs, run):
    return modules.network.loss(outputs, run)


@hookimpl
def optimize(losses, run):
    return run.minimize(losses)


@hookimpl
def predict(outputs):
    return {"features": outputs["embedding"]}


@hookimpl
def example_metrics(outputs):
    return {"disagreement": modules.network.disagreement(outputs["first"], outputs["second"])}


@hookimpl
def metric_directions():
    return {"disagreement": "min"}
