"""Classify texts of any length: each word votes for the classes, and its neighbours have a say.

This page lists the hooks. Each module is imported when a hook first needs it.
"""

from __future__ import annotations

from toolkit import LazyModules, hookimpl

modules = LazyModules(__name__)


@hookimpl
def options():
    return modules.options.TextClassifierOptions


@hookimpl
def data(split, run):
    if run.options.data != modules.options.REVIEWS:
        return None  # the core opens what --data names
    return modules.reviews.make_split(split)


@hookimpl
def build(run):
    return modules.network.Network(run)


@hookimpl
def call(model, features, run):
    return model(modules.words.only_text(features), run)


@hookimpl
def loss(labels, outputs):
    return modules.heads.cross_entropy(labels, outputs["logits"])


@hookimpl
def optimize(losses, run):
    return run.minimize(losses)


@hookimpl
def predict(outputs, run):
    return modules.heads.predict(outputs, run)


@hookimpl
def example_metrics(labels, outputs):
    return modules.heads.example_metrics(labels, outputs["logits"])


@hookimpl
def metric_directions():
    return {"accuracy": "max"}


@hookimpl
def evaluated(run, examples, folder):
    return modules.report.write(run, examples, folder)
