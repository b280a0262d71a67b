"""A denoising autoencoder for images: it learns to restore an image from a short code.

This page lists the hooks. Each module is imported when a hook first needs it.
"""

from __future__ import annotations

from toolkit import LazyModules, hookimpl

modules = LazyModules(__name__)


@hookimpl
def options():
    return modules.options.AutoencoderOptions


@hookimpl
def build(run):
    return modules.network.Autoencoder(run)


@hookimpl
def call(model, features, run):
    return model(model.add_noise(features) if run.mode == "train" else features)


@hookimpl
def loss(features, outputs):
    return modules.losses.cross_entropy(outputs["logits"], features)


@hookimpl
def optimize(losses, run):
    return run.minimize(losses)


@hookimpl
def predict(outputs):
    return {"reconstruction": outputs["reconstruction"], "code": outputs["code"]}


@hookimpl
def metrics(features, outputs):
    return modules.metrics.build(features, outputs)


@hookimpl
def metric_directions():
    return {"squared_error": "min"}


@hookimpl
def session_hooks(model, features, run):
    return [modules.pictures.Pictures(model, features, run)]
