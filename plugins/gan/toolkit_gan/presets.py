"""The GAN's presets: for which data and from which paper each is, and which one fits some data."""

from __future__ import annotations

from typing import Any, Dict, NamedTuple

from toolkit import DataSpec

from .checks import MIN_SIDE

FEW_IMAGES = 3000  # below, a discriminator learns the training images by heart
FEW_PER_CLASS = 15  # images; below, a class or a cluster is an image and its copies

# The options that each preset sets. Flags and configuration files take precedence.
PRESETS: Dict[str, Dict[str, Any]] = {
    # Our own: sn-hinge with ten times the learning rate, falling to zero. Of the methods tried on
    # MNIST, it reached the lowest Frechet distance in the same time.
    "quick": {
        "loss": "hinge",
        "spectral_norm": True,
        "learning_rate": 2e-3,
        "schedule": "cosine",
        "optimizer_args": {"beta1": 0.0, "beta2": 0.9},
    },
    # Our own, for images without labels. The clusters of a network that learned from the images
    # agree better with what the images show than those of pixels.
    "unlabelled": {
        "loss": "hinge",
        "spectral_norm": True,
        "learning_rate": 2e-3,
        "schedule": "cosine",
        "optimizer_args": {"beta1": 0.0, "beta2": 0.9},
        "steps": 5000,
        "conditional": "clusters",
        "cluster_features": "self",
    },
    # Our own, for few images: augmentation for a discriminator that would learn them by heart, and
    # small clusters, within the classes if there are any. More steps than that of many images.
    "small-data": {
        "loss": "hinge",
        "spectral_norm": True,
        "learning_rate": 2e-3,
        "schedule": "cosine",
        "optimizer_args": {"beta1": 0.0, "beta2": 0.9},
        "steps": 12_000,
        "diff_augment": ["auto"],
        "conditional": "clusters",
    },
    # Radford et al. 2016
    "dcgan": {
        "loss": "non-saturating",
        "learning_rate": 2e-4,
        "optimizer_args": {"beta1": 0.5, "beta2": 0.999},
        "discriminator_norm": "batch",
    },
    # Arjovsky et al. 2017. As in its authors' code, the clipping includes the scales of batch norm.
    "wgan": {
        "loss": "wasserstein",
        "optimizer": "rmsprop",
        "optimizer_args": {},
        "learning_rate": 5e-5,
        "weight_clip": 0.01,
        "discriminator_steps": 5,
        "discriminator_norm": "batch",
    },
    # Gulrajani et al. 2017
    "wgan-gp": {
        "loss": "wasserstein",
        "penalty": "wgan-gp",
        "learning_rate": 1e-4,
        "optimizer_args": {"beta1": 0.5, "beta2": 0.9},
        "discriminator_steps": 5,
    },
    # Loss and optimizer of Miyato et al. 2018, who make five updates of the discriminator per step;
    # this makes one.
    "sn-hinge": {
        "loss": "hinge",
        "spectral_norm": True,
        "learning_rate": 2e-4,
        "optimizer_args": {"beta1": 0.0, "beta2": 0.9},
    },
    # Mao et al. 2017
    "lsgan": {
        "loss": "least-squares",
        "learning_rate": 2e-4,
        "optimizer_args": {"beta1": 0.5, "beta2": 0.999},
        "discriminator_norm": "batch",
    },
    # Kodali et al. 2017
    "dragan": {
        "loss": "non-saturating",
        "penalty": "dragan",
        "learning_rate": 1e-4,
        "optimizer_args": {"beta1": 0.5, "beta2": 0.999},
    },
    # Huang et al. 2024 (R3GAN), its schedules over the length of the run: the weight of R1 and R2
    # falls to a tenth, the average's half-life grows with the images. The paper's rate falls to a
    # quarter, and its beta2 rises from 0.9 to 0.99; here the rate falls to zero, and the schedule
    # of beta2 is left out. The two images of a pair that the loss compares may be of two classes;
    # the paper's are of one.
    "r1r2": {
        "loss": "relativistic",
        "penalty": "r1r2",
        "penalty_decay": 0.1,
        "learning_rate": 2e-4,
        "schedule": "cosine",
        "optimizer_args": {"beta1": 0.0, "beta2": 0.99},
        "ema_images": 500_000,
        "network": "r3gan",
        "generator_norm": "none",
    },
}


class Choice(NamedTuple):
    """A preset, and why it fits some data; the reason completes "preset NAME, because ..."."""

    name: str
    reason: str


def choose(data: DataSpec, num_images: int) -> Choice:
    """Choose the preset that fits some training images.

    Args:
        data: their spec.
        num_images: how many there are.
    """
    images = f"the {num_images:,} images"
    if num_images == 1:
        return Choice("small-data", "there is one image")
    if num_images < FEW_IMAGES:
        few = f"{images} are fewer than {FEW_IMAGES:,}"
        return Choice("small-data", few + describe_classes(data, num_images))
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
        return "; clusters replace labels"
    if num_images >= FEW_PER_CLASS * data.num_classes:
        return ""
    return (
        f"; their {data.num_classes:,} classes are too small to be learned: if they are not what "
        "the images show, move all images into one folder, or set --conditional none"
    )


def can_embed(data: DataSpec) -> bool:
    """Whether the network of `cluster_features=self` takes such examples."""
    return len(data.shape) == 3 and min(data.shape[:2]) >= MIN_SIDE
