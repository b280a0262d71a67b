"""A denoising autoencoder for images: learns to draw an image again from a short code.

One function per hook. TensorFlow is imported by the modules beside this one, when a graph is built.
"""

from __future__ import annotations

from toolkit import hookimpl


@hookimpl
def options():
    from .settings import AutoencoderOptions

    return AutoencoderOptions


@hookimpl
def build(run):
    from .network import Autoencoder

    return Autoencoder(run)


@hookimpl
def call(model, features, run):
    return model(model.disturbed(features) if run.mode == "train" else features)


@hookimpl
def loss(features, outputs):
    from .measures import cross_entropy

    return cross_entropy(outputs["logits"], features)


@hookimpl
def optimize(losses, run):
    return run.minimize(losses)


@hookimpl
def predict(outputs):
    return {"reconstruction": outputs["reconstruction"], "code": outputs["code"]}


@hookimpl
def metrics(features, outputs):
    from .measures import squared_error

    return {"squared_error": squared_error(outputs["reconstruction"], features)}


@hookimpl
def session_hooks(model, features, run):
    from .pictures import Pictures

    return [Pictures(model, features, run)] if run.is_chief else []
