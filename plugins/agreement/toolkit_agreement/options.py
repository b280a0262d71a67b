"""The options: how strongly the views of an image are changed."""

from __future__ import annotations

from typing import Any, ClassVar, Mapping, Tuple

from typing_extensions import Literal

from toolkit import AugmentationOptions, DataSpec, option

# Images are moved, turned, zoomed, bent and made brighter, none of which changes what a digit, a
# letter or an icon shows; none is mirrored. Only images in colour change theirs, and little: a red
# light is no green one.
MOVES = {"crop": 0.1, "rotate": 15.0, "zoom": 0.2, "elastic": 0.7}
GREY = dict(MOVES, brightness=0.2, contrast=0.2)
COLOUR = dict(GREY, saturation=0.3, hue=0.03)


class AgreementOptions(AugmentationOptions):
    core_defaults: ClassVar[Mapping[str, Any]] = {
        "learning_rate": 2e-3,
        "schedule": "cosine",
        "epochs": 20.0,
        "batch_size": 64,
    }
    presets: ClassVar[Mapping[str, Any]] = {"none": {}, "grey": GREY, "colour": COLOUR}

    augment: Literal["auto", "none", "grey", "colour"] = option(  # type: ignore[assignment]
        "auto",
        "how the two views of an image differ; sets the strengths of the options of this group; "
        "auto: as the images are",
        group="Augmentation",
    )

    @classmethod
    def choose_preset(cls, data: DataSpec, num_examples: int) -> Tuple[str, str]:
        is_colour = len(data.shape) == 3 and data.shape[2] == 3
        return ("colour", "colour images") if is_colour else ("grey", "no colour images")
