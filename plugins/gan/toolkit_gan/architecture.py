"""The networks' sizes, initializers and form of conditioning, from options and data.

This module imports no TensorFlow. Legend: H W height and width.
"""

from __future__ import annotations

import functools
import math
import operator
from typing import Any, List, NamedTuple, Sequence, Tuple

# The networks' names in checkpoints, metrics and error messages. Older runs have them, too.
DISCRIMINATOR, GENERATOR, AVERAGE = "critic", "generator", "average"

MAX_INNERMOST_SIDE = 8  # pixels: the innermost layer's shorter side has at most so many
MAX_WIDENING = 8  # the innermost layer has at most so many times the filters of the outermost
# A residual network has layers at full size, where a filter costs most.
DEFAULT_WIDTH = {"mlp": 32, "dcgan": 32, "resnet": 16}
UNITS_PER_WIDTH = 8  # of a hidden layer of the mlp
HIDDEN_LAYERS = 3  # of the mlp


def conditioning(options: Any, data: Any) -> str:
    """How the class enters the networks: "none", "concat", "acgan" or "projection".

    This is the option `conditional`, with "auto" resolved: projection for data with classes.
    """
    if options.conditional != "auto":
        return options.conditional
    return "projection" if data.num_classes > 1 else "none"


def width(options: Any) -> int:
    """The number of filters at full size."""
    return options.width or DEFAULT_WIDTH[options.network]


def units(options: Any) -> int:
    """The number of units of a hidden layer of the mlp."""
    return UNITS_PER_WIDTH * width(options)


def num_values(shape: Sequence[int]) -> int:
    """The number of values in a tensor of this shape."""
    return functools.reduce(operator.mul, shape, 1)


def stages(shape: Sequence[int]) -> List[Tuple[int, ...]]:
    """(height, width) at full size and after each halving; there is at least one halving.

    28 pixels: 28, 14, 7. 32: 32, 16, 8. 64: 64, 32, 16, 8. Odd sides are rounded up: 13, 7.
    """
    sides = [tuple(shape[:2])]
    while len(sides) < 2 or min(sides[-1]) > MAX_INNERMOST_SIDE:
        sides.append(tuple(math.ceil(side / 2) for side in sides[-1]))
    return sides


def filters(options: Any, num_layers: int) -> List[int]:
    """The filters of each layer, one layer per halving: doubled up to 8 times the width."""
    return [width(options) * min(2**halving, MAX_WIDENING) for halving in range(num_layers)]


class KernelInit(NamedTuple):
    """Names of initializers for kernels."""

    inner: str  # of kernels that a ReLU follows
    outer: str  # of the others


def kernel_init(options: Any, norm: str, spectral_norm: bool = False) -> KernelInit:
    """The initializers of a network with this normalisation.

    N(0, 0.02) (Radford et al. 2016) suits networks whose normalisation sets the scale. Without
    normalisation, signals and first gradients would shrink from layer to layer; the scales of He
    et al. and of Glorot and Bengio preserve both. Residual blocks add to their inputs and always
    need these.
    """
    if options.network != "resnet" and (norm != "none" or spectral_norm):
        return KernelInit("small", "small")
    return KernelInit("he_normal", "glorot_uniform")
