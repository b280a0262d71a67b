"""Segmentation: a U-net finds the class of each pixel of an image.

This page lists the hooks. Each module is imported when a hook first needs it.
"""

from __future__ import annotations

from toolkit import LazyModules, hookimpl

modules = LazyModules(__name__)


@hookimpl
def options():
    return modules.options.SegmentationOptions


@hookimpl
def data(split, run):
    if run.options.data != modules.options.SCENES:
        return None  # the core opens what --data names
    return modules.scenes.make_split(split)


@hookimpl
def build(run):
    return modules.unet.build(run)


@hookimpl
def call(model, features):
    return {"logits": model(features)}


@hookimpl
def loss(labels, outputs, run):
    return modules.pixels.cross_entropy(labels, outputs["logits"], run.data.labels.num_classes)


@hookimpl
def optimize(losses, run):
    return run.minimize(losses)


@hookimpl
def predict(outputs):
    return {"mask": modules.pixels.classify(outputs["logits"])}


@hookimpl
def metrics(labels, outputs, run):
    return modules.pixels.metrics(labels, outputs["logits"], run.data.labels.num_classes)


@hookimpl
def metric_directions():
    return {"mean_iou": "max", "pixel_accuracy": "max"}


@hookimpl
def evaluated(run, examples, folder):
    return modules.report.write(run, examples, folder)
