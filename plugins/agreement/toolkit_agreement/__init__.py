"""A network that learns features of images without labels: two views of an image shall agree.

This page is the plugin's table of contents: one function per hook. Each module is imported when a
hook first needs it.

Packages that depend on this one may import `train_once`, `MIN_IMAGES` and `MAX_FILTERS`.
"""

from __future__ import annotations

from typing import Any

import toolkit
from toolkit import LazyModules, hookimpl

MAX_FILTERS = 64  # of a convolution
NUM_STEPS, BATCH_SIZE = 400, 64  # of `train_once`: less than a fifth of the time of a GAN's
MIN_IMAGES = 32  # of which batches differ enough

modules = LazyModules(__name__)


@hookimpl
def options():
    return modules.options.AgreementOptions


@hookimpl
def build(run):
    return modules.network.Encoder(run)


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


def train_once(options: Any, train: Any) -> toolkit.Trained:
    """Open the network that is trained on the training images of another run of these options,
    `MIN_IMAGES` or more, once; `close` it.
    """
    values = {"steps": NUM_STEPS, "batch_size": min(BATCH_SIZE, len(train)), "seed": 1}
    return toolkit.cached_run(
        "agreement",
        dict(toolkit.data_options(options), **values),
        key=train.sha256(),
        text=f"Training a network on {options.data} without labels (once, then cached)",
    )
