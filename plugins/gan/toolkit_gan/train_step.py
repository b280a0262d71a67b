"""One training step as one op: the order in which the two networks are updated."""

from __future__ import annotations

import functools
from typing import Any, Dict

from toolkit import tf

from . import penalties, sampling
from .architecture import DISCRIMINATOR, GENERATOR
from .losses import named_losses
from .model import discriminator_pass, generator_pass


def optimize(model, features, labels, losses, run):
    """Update the discriminator several times, then the generator against the new discriminator.

    Each update of the discriminator has its own part of the step's examples, float32 [N, H, W, C]
    in [0, 1] with N = discriminator_steps * batch_size, and its own noise. Each pass is built under
    a control dependency on the update before it, so that it reads the variables after that update;
    `call` built the first, of which `losses` has the losses by name. With update=simultaneous, both
    networks are updated from that pass, when the gradients of both are known.
    """
    discriminator, generator = discriminator_settings(model, run), generator_settings(model, run)
    if run.options.update == "simultaneous":
        gradients = [
            run.gradients(losses["d_loss"], **discriminator),
            run.gradients(losses["g_loss"], **generator),
        ]
        return tf.group(run.apply(gradients))
    step = run.minimize(losses["d_loss"], advance_step=False, **discriminator)
    for number in range(1, run.options.discriminator_steps):
        with tf.control_dependencies([step]):
            losses = named_losses(discriminator_pass(model, features, labels, number, run), run)
            step = run.minimize(losses["d_loss"], advance_step=False, **discriminator)
    with tf.control_dependencies([step]):
        g_loss = named_losses(generator_pass(model, features, labels, run), run)["g_loss"]
        last = run.minimize(g_loss, **generator)
    for name, value in dict(losses, g_loss=g_loss).items():
        run.log(name, value)  # of the last updates; otherwise those of the first pass are recorded
    return tf.group(step, last)


def discriminator_settings(model, run) -> Dict[str, Any]:
    """What `Run.minimize` gets for the discriminator beside its loss."""
    network, limit = model.discriminator, run.options.weight_clip
    clip = functools.partial(penalties.clip_weights, network.slope_variables, limit)
    return _settings(DISCRIMINATOR, network, clip if limit else None, run.options)


def generator_settings(model, run) -> Dict[str, Any]:
    """What `Run.minimize` gets for the generator beside its loss."""
    average = functools.partial(sampling.update_average, model, run)
    after = average if run.options.has_average else None
    return _settings(GENERATOR, model.generator, after, run.options)


def _settings(name: str, network, after, options) -> Dict[str, Any]:
    return {
        "variables": network.variables,
        "name": name,
        "after": after,
        "optimizer": getattr(options, f"{name}_optimizer"),
        "optimizer_args": getattr(options, f"{name}_optimizer_args") or None,
        "learning_rate": getattr(options, f"{name}_rate"),
        "schedule": getattr(options, f"{name}_schedule"),
    }
