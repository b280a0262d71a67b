"""Image classifiers: a perceptron, a small convolutional network and a residual network.

This page is the plugin's table of contents: one function per hook. Each module is imported when a
hook first needs it, so listing the plugin or its options imports no TensorFlow.
"""

from __future__ import annotations

from toolkit import LazyModules, hookimpl

modules = LazyModules(__name__)


@hookimpl
def options():
    return modules.options.ClassifierOptions


@hookimpl
def build(run):
    return modules.networks.build(run)


@hookimpl
def call(model, features, labels, run):
    return modules.networks.forward(model, features, labels, run)


@hookimpl
def loss(labels, outputs, run):
    return modules.losses.total(labels, outputs, run)


@hookimpl
def optimize(losses, run):
    return run.minimize(losses)


@hookimpl
def predict(outputs):
    return modules.networks.predict(outputs)


@hookimpl
def metrics(labels, outputs, run):
    return modules.metrics.build(labels, outputs, run)


@hookimpl
def example_metrics(labels, outputs, run):
    return modules.metrics.of_examples(labels, outputs, run)


@hookimpl
def metric_directions(run):
    return modules.metrics.directions(run)


@hookimpl
def evaluated(run, examples, folder):
    return modules.reports.write(examples, run.data, folder)
