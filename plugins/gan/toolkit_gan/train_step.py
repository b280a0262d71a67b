"""One training step as one op: the order in which the two networks are updated.

    alternating    `discriminator_steps` updates of the discriminator, each on its own part of the
                   step's examples and its own noise; then one update of the generator
    simultaneous   one forward pass, the gradients of both networks, a barrier, both updates

An alternating step builds each forward pass under control dependencies on the update before it. The
pass therefore reads the variables after that update.
"""

from __future__ import annotations

from typing import Any, Dict

from toolkit import tf

from . import penalties
from .architecture import DISCRIMINATOR, GENERATOR
from .average import update_average
from .forward_pass import discriminator_pass, generator_pass, scale_images, update_batch
from .losses import named_losses


def optimize(model, features, labels, losses, run):
    """Build one op that makes every update of a step and then advances the global step.

    Args:
        model: the `networks.Gan`.
        features: float32 [N, H, W, C] in [0, 1], N = discriminator_steps * batch_size.
        labels: int32 [N], or None.
        losses: the named losses of the first pass.
        run: the `toolkit.Run`.
    """
    with penalties.derivative_errors():
        if run.options.update == "simultaneous":
            return update_both(model, losses, run)
        return update_in_turn(model, features, labels, losses, run)


def update_in_turn(model, features, labels, losses, run):
    """Update the discriminator several times, then the generator against the new discriminator."""
    update = update_discriminator(model, losses["d_loss"], run, None)
    for number in range(1, run.options.discriminator_steps):
        with tf.control_dependencies([update]):
            reals, classes = update_batch(model, scale_images(features), labels, number, run)
            outputs, state_updates = discriminator_pass(model, run, reals, classes, number)
            losses = named_losses(outputs, run)
            update = update_discriminator(model, losses["d_loss"], run, state_updates)
    log_last_update(losses, run)
    with tf.control_dependencies([update]):
        last = run.options.discriminator_steps - 1
        reals, classes = update_batch(model, scale_images(features), labels, last, run)
        loss = named_losses(generator_pass(model, run, reals, classes), run)["g_loss"]
        run.log("g_loss", loss)
        generator_update = run.minimize(loss, **generator_settings(model, run))
    return tf.group(update, generator_update)


def update_both(model, losses, run):
    """Compute the gradients of both networks from one pass, then update both."""
    discriminator = run.gradients(losses["d_loss"], **discriminator_settings(model, run, None))
    generator = run.gradients(losses["g_loss"], **generator_settings(model, run))
    return tf.group(run.apply([discriminator, generator]))


def update_discriminator(model, loss, run, state_updates):
    """Build one update of the discriminator; the global step does not advance."""
    settings = discriminator_settings(model, run, state_updates)
    return run.minimize(loss, advance_step=False, **settings)


def discriminator_settings(model, run, state_updates) -> Dict[str, Any]:
    """Arguments of `Run.gradients` and `Run.minimize` for the discriminator.

    Args:
        model: the `networks.Gan`.
        run: the `toolkit.Run`.
        state_updates: ops that store the pass's power iterations and average logits; None for
            those of the first pass, which the core has collected.
    """
    discriminator, limit = model.discriminator, run.options.weight_clip
    clip = penalties.clip_weights
    return {
        "variables": discriminator.variables,
        "name": DISCRIMINATOR,
        **optimizer_settings("discriminator", run),
        "updates": state_updates,
        "after": (lambda: clip(discriminator.slope_variables, limit)) if limit else None,
    }


def generator_settings(model, run) -> Dict[str, Any]:
    """Arguments of `Run.gradients` and `Run.minimize` for the generator."""
    return {
        "variables": model.generator.variables,
        "name": GENERATOR,
        **optimizer_settings("generator", run),
        "updates": [],
        "after": (lambda: update_average(model, run)) if run.options.has_average else None,
    }


def optimizer_settings(network: str, run) -> Dict[str, Any]:
    """The optimizer of a network, "generator" or "discriminator", as its options set it."""
    optimizer, arguments, rate, schedule = (
        getattr(run.options, f"{network}_{name}")
        for name in ("optimizer", "optimizer_args", "rate", "schedule")
    )
    return {
        "optimizer": optimizer,
        "optimizer_args": arguments or None,
        "learning_rate": rate,
        "schedule": schedule,
    }


def log_last_update(losses, run) -> None:
    """Log the last of several discriminator updates; the core logs the losses of the first."""
    if run.options.discriminator_steps > 1:
        for name, value in losses.items():
            if name != "g_loss":
                run.log(name, value)
