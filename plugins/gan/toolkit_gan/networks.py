"""The networks of a GAN: a generator, a discriminator, and the generator's moving average."""

from __future__ import annotations

from typing import Any, NamedTuple

from .architecture import AVERAGE
from .checks import check_method, check_networks
from .discriminator import Discriminator
from .generator import Generator


class Gan(NamedTuple):
    """The networks that a mode needs; the others are None."""

    generator: Any
    discriminator: Any
    average: Any  # a generator with averaged weights, which samples come from


def build(run) -> Gan:
    """Create the networks and all their variables.

    With `ema`, predicting needs only the averaged generator. Without, `average` is the generator.
    """
    check_networks(run.options, run.data)
    check_method(run.options)
    generator = average = discriminator = None
    if run.options.ema:
        average = Generator(run, AVERAGE, trainable=False)
    if run.mode == "train" or average is None:
        generator = Generator(run)
    if run.mode != "predict":
        discriminator = Discriminator(run)
    return Gan(generator, discriminator, average or generator)
