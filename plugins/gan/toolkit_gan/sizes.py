"""Sizes of the networks from data and options, and what cannot be built. Imports no TensorFlow.

Legend: H W height and width, C channels, K classes.
"""

from __future__ import annotations

import functools
import math
import operator
from typing import NamedTuple

from toolkit import DataError, UsageError

SMALLEST = 8  # pixels a side that a convolutional network takes
LAST_SIDE = 8  # pixels of the shorter side that the innermost layer has at most
WIDEST = 8  # times the width
# A residual network has layers at full size, where a filter costs most.
DEFAULT_WIDTH = {"mlp": 32, "dcgan": 32, "resnet": 16}
UNITS = 8  # times the width
HIDDEN = 3  # hidden layers of the mlp


def check_networks(run) -> None:
    """Raise UsageError or DataError where the options or the data make no working networks."""
    options = run.options
    if options.critic_norm == "batch" and options.penalty != "none":
        raise UsageError(
            "Batch norm in the discriminator (critic_norm=batch) mixes the examples of a batch, and "
            f"penalty={options.penalty} takes the gradient of each by itself.",
            hint="Set critic_norm=layer, or critic_norm=none with spectral_norm=true.",
        )
    if condition(options, run.data) != "none" and run.data.num_classes < 2:
        found = "one class" if run.data.num_classes else "no labels"
        raise DataError(
            f"conditional={options.conditional} needs two classes or more, and the data has "
            f"{found}.",
            hint="Set conditional=none, or choose labelled data with --data.",
        )
    if options.network != "mlp":
        _check_images(options.network, list(run.data.shape))


def condition(options, data) -> str:
    """How the class enters: `conditional`; auto is projection where the data has classes."""
    if options.conditional != "auto":
        return options.conditional
    return "projection" if data.num_classes > 1 else "none"


def _check_images(network, shape) -> None:
    if len(shape) != 3:
        raise UsageError(
            f"Network '{network}' makes images [H, W, C], but an example of the data has "
            f"shape {shape}.",
            hint="Set network=mlp for data that are not images.",
        )
    if min(shape[:2]) < SMALLEST:
        raise UsageError(
            "Network '{}' makes images of {} x {} pixels or more, but the data has {} x {}.".format(
                network, SMALLEST, SMALLEST, *shape[:2]
            ),
            hint="Set network=mlp, or a larger image_size.",
        )


def width(options) -> int:
    """Filters at full size."""
    return options.width or DEFAULT_WIDTH[options.network]


def units(options) -> int:
    """Units of a hidden layer of the mlp."""
    return UNITS * width(options)


def count(shape) -> int:
    """The product of the sizes."""
    return functools.reduce(operator.mul, shape, 1)


def stages(shape):
    """(height, width) at full size and after each halving, one at least.

    28 pixels: 28, 14, 7. 32: 32, 16, 8. 64: 64, 32, 16, 8. An odd side is halved upwards: 13, 7.
    """
    sides = [tuple(shape[:2])]
    while len(sides) < 2 or min(sides[-1]) > LAST_SIDE:
        sides.append(tuple(math.ceil(side / 2) for side in sides[-1]))
    return sides


def filters(options, number):
    """Filters of `number` layers, one per halving: doubled each time, up to 8 times the width."""
    return [width(options) * min(2**halving, WIDEST) for halving in range(number)]


class Kernels(NamedTuple):
    """Names of the initializers of kernels that a ReLU follows, and of the others."""

    inner: str
    outer: str


def kernels(options, norm: str, spectral_norm: bool = False) -> Kernels:
    """The initializers of a network with this normalisation.

    N(0, 0.02) (Radford et al. 2016) is right where normalisation sets the scale. Without any, a
    signal would shrink from layer to layer and so would the first gradients; the scales of He et
    al. and Glorot and Bengio keep both. Residual blocks add to their inputs and want them always.
    """
    if options.network != "resnet" and (norm != "none" or spectral_norm):
        return Kernels("small", "small")
    return Kernels("he_normal", "glorot_uniform")
