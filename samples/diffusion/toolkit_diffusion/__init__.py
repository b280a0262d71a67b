"""A diffusion model: a network that finds the noise in images turns noise into images.

This page lists the hooks. Each module is imported when a hook first needs it.
"""

from __future__ import annotations

from toolkit import LazyModules, hookimpl

modules = LazyModules(__name__)


@hookimpl
def options():
    return modules.options.DiffusionOptions


@hookimpl
def inputs(run):
    return {"noise": ("float32", modules.sampler.noise_shape(run))}


@hookimpl
def build(run):
    return modules.unet.UNet(run)


@hookimpl
def call(model, features, run):
    if run.mode == "predict":
        return {"image": modules.sampler.generate(model, features["noise"], run)}
    return modules.diffusion.add_and_find_noise(model, features, run)


@hookimpl
def loss(outputs):
    return modules.diffusion.loss(outputs)


@hookimpl
def optimize(losses, run):
    return run.minimize(losses)


@hookimpl
def predict(outputs, run):
    return {"image": outputs["image" if run.mode == "predict" else "denoised"]}


@hookimpl
def example_metrics(outputs):
    return modules.diffusion.example_metrics(outputs)


@hookimpl
def metric_directions():
    return {"noise_error": "min"}


@hookimpl
def session_hooks(model, run):
    return modules.sampler.create_grids(model, run)


@hookimpl
def sample(request, run):
    return modules.sampler.sample(request, run)
