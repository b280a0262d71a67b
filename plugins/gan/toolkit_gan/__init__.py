"""Generative adversarial networks: a generator makes images that a discriminator judges.

This page is the plugin's table of contents: one function per hook. Each module is imported when a
hook first needs it, so listing the plugin or its options imports no TensorFlow.

Packages that depend on this one may import `GanOptions` of `options`, and `PRESETS` of `presets`.
"""

from __future__ import annotations

from toolkit import LazyModules, hookimpl

modules = LazyModules(__name__)


@hookimpl
def options():
    return modules.options.GanOptions


@hookimpl
def default_extensions():
    return ["image-scores"]


@hookimpl
def build(run):
    return modules.model.build(run)


@hookimpl
def inputs(run):
    return modules.sampling.generator_inputs(run)


@hookimpl
def call(model, features, labels, run):
    return modules.model.call(model, features, labels, run)


@hookimpl
def loss(outputs, run):
    return modules.losses.named_losses(outputs, run)


@hookimpl
def optimize(model, features, labels, losses, run):
    return modules.train_step.optimize(model, features, labels, losses, run)


@hookimpl
def sample_options():
    return modules.options.GanSampleOptions


@hookimpl
def sample(request, run):
    return modules.sampling.draw(request, run)


@hookimpl
def predict(outputs, run):
    return modules.sampling.predict(outputs, run)


@hookimpl
def session_hooks(model, losses, run, splits):
    return modules.health.create_hooks(model, losses, run, splits)
