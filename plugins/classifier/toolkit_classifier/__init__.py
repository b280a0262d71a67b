"""Image classifiers: a perceptron, a small convolutional network and a residual one.

This module is the plugin's table of contents: one function per hook. It imports no TensorFlow.
No module beside it has a hook's name: importing an `.options` would put that in the hook's place.
"""

from __future__ import annotations

from toolkit import hookimpl


@hookimpl
def options():
    from .settings import ClassifierOptions

    return ClassifierOptions


@hookimpl
def build(run):
    from .networks import build_network

    return build_network(run)


@hookimpl
def call(model, features, labels, run):
    from .networks import forward

    return forward(model, features, labels, run)


@hookimpl
def loss(labels, outputs, run):
    from .losses import objective

    return objective(labels, outputs, run)


@hookimpl
def optimize(losses, run):
    return run.minimize(losses)


@hookimpl
def predict(outputs):
    from .measures import prediction

    return prediction(outputs)


@hookimpl
def metrics(labels, outputs, run):
    from .measures import streamed

    return streamed(labels, outputs, run)


@hookimpl
def evaluated(run, examples, folder):
    from .reports import write_reports

    return write_reports(examples, run.data, folder)
