"""The networks' sizes, initializers and form of conditioning, from options and data.

This module imports no TensorFlow. Legend: H W height and width.
"""

from __future__ import annotations

import functools
import math
import operator
from typing import Any, List, NamedTuple, Optional, Sequence, Tuple

# The networks' names in checkpoints, metrics and error messages.
DISCRIMINATOR, GENERATOR, AVERAGE = "discriminator", "generator", "average"
# What the names of the discriminator's random numbers begin with; those of 0.1.0 are the same.
DISCRIMINATOR_SEEDS = "critic"

MAX_INNERMOST_SIDE = 8  # pixels: the innermost layer's shorter side has at most so many
MAX_WIDENING = 8  # the innermost layer has at most so many times the filters of the outermost
# A residual network has layers at full size, where a filter costs most.
DEFAULT_WIDTH = {"mlp": 32, "dcgan": 32, "resnet": 16, "r3gan": 8}
UNITS_PER_WIDTH = 8  # of a hidden layer of the mlp
HIDDEN_LAYERS = 3  # of the mlp
ATTENTIVE = ("dcgan", "resnet")  # the networks that may have self-attention
MAX_CLUSTERS = 100  # where their number follows from data and run

AUGMENTATIONS = ("flip", "colour", "translation", "cutout")  # in the order in which they are made


def conditioning(options: Any, data: Any) -> str:
    """How the class enters the networks: "none", "concat", "acgan" or "projection".

    This is the option `conditional`, with "auto" resolved: projection for data with classes. Labels
    from clusters are used by projection, too.
    """
    if options.conditional == "clusters":
        return "projection"
    if options.conditional != "auto":
        return options.conditional
    return "projection" if data.num_classes > 1 else "none"


def label_kind(options: Any, data: Any) -> str:
    """What the networks are conditioned on: "class" of the data, "cluster", or "none"."""
    if options.conditional == "clusters":
        return "cluster"
    return "none" if conditioning(options, data) == "none" else "class"


def has_classes(options: Any, data: Any) -> bool:
    """Whether the networks know the classes of the data, as their labels or as those of clusters.

    Clusters of data with classes are within one class each.
    """
    kind = label_kind(options, data)
    return kind == "class" or (kind == "cluster" and data.num_classes > 1)


def num_labels(options: Any, data: Any) -> int:
    """K: the labels that the networks know; 0 without conditioning."""
    clusters = options.clusters or max(MAX_CLUSTERS, data.num_classes)
    kinds = {"none": 0, "class": data.num_classes, "cluster": clusters}
    return kinds[label_kind(options, data)]


def num_norm_labels(options: Any, data: Any) -> int:
    """Labels with a gamma and a beta of their own in each batch norm of the generator; 0: none."""
    return num_labels(options, data) if options.generator_conditional == "batch-norm" else 0


def augmentations(options: Any, data: Any) -> Tuple[str, ...]:
    """The names of the changes that `diff_augment` sets, in the order in which they are made.

    "auto" stands for those that do not change what an image shows: a mirrored digit is none. It has
    colour for images with three channels, and nothing for examples that are no images.
    """
    names = set(options.diff_augment)
    if "auto" in names and len(data.shape) == 3:
        names.update({"translation", "cutout"}, {"colour"} if data.shape[-1] == 3 else ())
    return tuple(name for name in AUGMENTATIONS if name in names)


def width(options: Any) -> int:
    """The number of filters at full size."""
    return options.width or DEFAULT_WIDTH[options.network]


def units(options: Any) -> int:
    """The number of units of a hidden layer of the mlp."""
    return UNITS_PER_WIDTH * width(options)


def num_values(shape: Sequence[int]) -> int:
    """The number of values in a tensor of this shape."""
    return functools.reduce(operator.mul, shape, 1)


def stages(shape: Sequence[int], innermost: int = MAX_INNERMOST_SIDE) -> List[Tuple[int, ...]]:
    """(height, width) at full size and after each halving; there is at least one halving.

    The shorter side of the last is at most `innermost`. With 8:
    28 pixels: 28, 14, 7. 32: 32, 16, 8. 64: 64, 32, 16, 8. Odd sides are rounded up: 13, 7.
    """
    sides = [tuple(shape[:2])]
    while len(sides) < 2 or min(sides[-1]) > innermost:
        sides.append(tuple(math.ceil(side / 2) for side in sides[-1]))
    return sides


def attention_sides(options: Any, shape: Sequence[int]) -> Optional[Tuple[int, ...]]:
    """(height, width) of the feature map with self-attention; None without.

    It is the largest one whose shorter side has at most `attention` pixels. The feature maps are
    smaller than the image.
    """
    if not options.attention or options.network not in ATTENTIVE:
        return None
    return next((s for s in stages(shape)[1:] if min(s) <= options.attention), None)


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
