"""The GAN's presets: for which data and from which paper each is, and which one fits some data."""

from __future__ import annotations

import glob
import importlib
import os
from typing import Any, Dict, NamedTuple

from toolkit import DataSpec

from .checks import MIN_SIDE

FEW_IMAGES = 3000  # below, a discriminator learns the training images by heart
TOO_FEW_IMAGES = 90  # below, a tenth of the data is too few images for a validation by scores
FEW_PER_CLASS = 15  # images; below, a class or a cluster is an image and its copies


def _read_papers() -> Dict[str, Dict[str, Any]]:
    """The presets of papers: name -> options. Each is a configuration file in the folder papers."""
    try:
        toml = importlib.import_module("tomllib")
    except ImportError:  # before Python 3.11
        toml = importlib.import_module("tomli")
    presets = {}
    for path in sorted(glob.glob(os.path.join(os.path.dirname(__file__), "papers", "*.toml"))):
        with open(path, "rb") as file:
            presets[os.path.basename(path)[: -len(".toml")]] = toml.load(file)
    return presets


# Our own: sn-hinge with ten times the learning rate, falling to zero. Of the methods tried on
# MNIST, it reached the lowest Frechet distance in the same time.
QUICK = {
    "loss": "hinge",
    "spectral_norm": True,
    "learning_rate": 2e-3,
    "schedule": "cosine",
    "optimizer_args": {"beta1": 0.0, "beta2": 0.9},
}
# Our own, for images without labels. The clusters of a network that learned from the images agree
# better with what the images show than those of pixels.
UNLABELLED = {**QUICK, "steps": 5000, "conditional": "clusters", "cluster_features": "self"}
# Our own, for few images: augmentation for a discriminator that would learn them by heart, and
# small clusters, within the classes if there are any. More steps than that of many images.
SMALL_DATA = {**QUICK, "steps": 12_000, "diff_augment": ["auto"], "conditional": "clusters"}
# For so few that the last checkpoint has to do: no score of the validation can name the best one.
TINY_DATA = {**SMALL_DATA, "batch_size": 8, "best_metric": None}

# The options that each preset sets. Flags and configuration files take precedence.
PRESETS: Dict[str, Dict[str, Any]] = {
    "quick": QUICK,
    "unlabelled": UNLABELLED,
    "small-data": SMALL_DATA,
    "tiny-data": TINY_DATA,
    **_read_papers(),
}


class Choice(NamedTuple):
    """A preset, and why it fits some data; the reason completes "preset NAME, because ..."."""

    name: str
    reason: str


def choose(data: DataSpec, num_images: int) -> Choice:
    """Choose the preset that fits so many training images, of this spec."""
    images = f"the {num_images:,} images"
    if num_images == 1:
        return Choice("tiny-data", "there is one image")
    for name, limit in (("tiny-data", TOO_FEW_IMAGES), ("small-data", FEW_IMAGES)):
        if num_images < limit:
            few = f"{images} are fewer than {limit:,}"
            return Choice(name, few + describe_classes(data, num_images))
    if data.num_classes > 1:
        classes = f"{images} have labels of {data.num_classes} classes"
        return Choice("quick", classes + describe_classes(data, num_images))
    lack = f"{images} have {'one class' if data.num_classes else 'no labels'}"
    if not can_embed(data):
        return Choice("quick", f"{lack}, and no {MIN_SIDE} x {MIN_SIDE} pixels")
    return Choice("unlabelled", lack)


def describe_classes(data: DataSpec, num_images: int) -> str:
    """Return what the end of a reason says of labels that cannot be used as they are, else ""."""
    if data.num_classes < 2:
        return "; it sets clusters as labels"
    if num_images >= FEW_PER_CLASS * data.num_classes:
        return ""
    return (
        f"; their {data.num_classes:,} classes are too small to be learned: if they are not what "
        "the images show, one folder for all images, or --conditional none, leaves them out"
    )


def can_embed(data: DataSpec) -> bool:
    """Whether the network of `cluster_features=self` takes such examples."""
    return len(data.shape) == 3 and min(data.shape[:2]) >= MIN_SIDE
