"""`AugmentationOptions`: how strongly training images are changed, and presets for kinds of images.

A plugin inherits them for its options class and calls `toolkit.augmentation.augment(images, run)`.
"""

from __future__ import annotations

import functools
from typing import Any, ClassVar, Dict, Mapping, Tuple

from typing_extensions import Literal

from .declaration import AUTO, Options, option

AUGMENTATION_GROUP = "Augmentation"  # their heading in `--help`
_augmentation = functools.partial(option, group=AUGMENTATION_GROUP)
_share = functools.partial(_augmentation, 0.0, ge=0, le=1)  # of images, or of a range
_GEOMETRY = ("crop", "flip", "flip_vertical", "rotate", "zoom", "elastic")
_COLOUR = ("brightness", "contrast", "saturation", "hue", "grey", "cutout")
OFF: Dict[str, Any] = {  # the strengths, and the filling
    **{"shift": 0, **dict.fromkeys(_GEOMETRY, 0.0)},
    **{"fill": "edge", **dict.fromkeys(_COLOUR, 0.0)},
    "rand_augment": 0,
}
PICTURES: Dict[str, Any] = dict(
    OFF, crop=0.125, fill="reflect", brightness=0.2, contrast=0.2, saturation=0.2, hue=0.02
)
PRESETS: Dict[str, Dict[str, Any]] = {
    "none": OFF,
    # No flip: a mirrored 2 is no digit, and a 6 upside down is a 9.
    "digits": dict(OFF, shift=2, rotate=10.0, zoom=0.1, elastic=0.7),
    "photos": dict(PICTURES, flip=0.5),
    # For what is not known: a mirrored text or arrow would have another meaning.
    "pictures": PICTURES,
    # No flip and little hue: an arrow to the left and a red light have a meaning of their own.
    "icons": dict(
        OFF, crop=0.08, rotate=5.0, zoom=0.1, brightness=0.1, contrast=0.1, saturation=0.2, hue=0.02
    ),
}
SMALL = 40  # pixels: up to this, grey images are taken for digits, letters or the like
_MOVES = ("shift", "crop", "rotate", "zoom", "elastic", "rand_augment")  # beyond the border


class AugmentationOptions(Options):
    """The strength of each random change of training images; 0 is off."""

    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = PRESETS
    preset_option: ClassVar[str] = "augment"

    augment: Literal["auto", "none", "digits", "photos", "pictures", "icons"] = _augmentation(
        AUTO,
        "what the images show; sets the strengths of the options of this group; auto: digits for "
        "small grey images, else pictures",
    )
    shift: int = _augmentation(
        0, "shift images by up to this distance in each direction", unit="pixels", ge=0, le=64
    )
    crop: float = _share(
        "pad each side of images by this share of it, and crop them at a random place", le=0.5
    )
    flip: float = _share("share of the images that are mirrored left to right")
    flip_vertical: float = _share("share of the images that are turned upside down by mirroring")
    rotate: float = _augmentation(
        0.0, "rotate images by up to this angle, left or right", unit="degrees", ge=0, le=180
    )
    zoom: float = _share("enlarge or shrink images by up to this share", le=0.5)
    elastic: float = _augmentation(
        0.0,
        "bend images by smooth random displacements of this standard deviation",
        unit="pixels",
        ge=0,
        le=16,
    )
    fill: Literal["edge", "reflect"] = _augmentation(
        "edge", "what lies beyond the border of an image: its nearest pixel, or its mirror image"
    )
    brightness: float = _share("change the brightness by up to this share")
    contrast: float = _share("change the contrast by up to this share")
    saturation: float = _share("change the saturation of colour images by up to this share")
    hue: float = _share(
        "turn the hues of colour images by up to this share of the colour circle", le=0.5
    )
    grey: float = _share("share of the colour images that become grey")
    cutout: float = _share(
        "cover a box in each image with its mean colour; side as a share of the image's"
    )
    rand_augment: int = _augmentation(
        0, "RandAugment: random operations per image; 0 is off", unit="operations", ge=0, le=8
    )
    rand_magnitude: float = _augmentation(
        5.0, "strength of RandAugment's operations, up to 10", ge=0, le=10
    )

    @classmethod
    def choose_preset(cls, data: Any, num_examples: int) -> Tuple[str, str]:
        shape: Tuple[int, ...] = () if data.feature_names else tuple(data.shape)
        if len(shape) != 3:
            return "none", "the examples are no images"
        height, width, channels = shape
        if channels == 1 and max(height, width) <= SMALL:
            return "digits", f"the images are grey and at most {SMALL} pixels wide and high"
        kind = "in colour" if channels > 1 else f"larger than {SMALL} pixels"
        return "pictures", f"the images are {kind}; --augment photos mirrors them, too"

    def idle_options(self) -> Dict[str, str]:
        reasons = super().idle_options()
        if not self.rand_augment:
            reasons["rand_magnitude"] = "rand_augment is 0"
        if not any(getattr(self, name) for name in _MOVES):
            reasons["fill"] = "nothing moves images beyond their border"
        return reasons
