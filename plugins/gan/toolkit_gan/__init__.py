"""Generative adversarial networks: images out of noise, judged by a discriminator that learns beside.

This module is the plugin's table of contents: one function per hook. It imports no TensorFlow.
No module beside it has a hook's name: importing an `.options` would put that in the hook's place.
"""

from __future__ import annotations

from toolkit import hookimpl


@hookimpl
def options():
    from .settings import GanOptions

    return GanOptions


@hookimpl
def build(run):
    from . import steps

    return steps.build(run)


@hookimpl
def inputs(run):
    from . import sampling

    return sampling.inputs_of(run)


@hookimpl
def call(model, features, labels, run):
    from . import steps

    return steps.call(model, features, labels, run)


@hookimpl
def loss(outputs, run):
    from . import steps

    return steps.objective(outputs, run)


@hookimpl
def optimize(model, features, labels, losses, run):
    from . import steps

    return steps.optimize(model, features, labels, losses, run)


@hookimpl
def predict(outputs, run):
    from . import sampling

    return sampling.prediction(outputs, run)


@hookimpl
def session_hooks(model, losses, run, splits):
    from . import watching

    return watching.hooks(model, losses, run, splits)


@hookimpl
def scorers(run, splits):
    from .scores.scoring import GanScorer

    return [GanScorer(run, splits)]
