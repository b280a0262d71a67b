"""The regressor's options: names, types, defaults, limits. This module imports no TensorFlow."""

from __future__ import annotations

from typing import Any, ClassVar, List, Mapping

import pydantic
from typing_extensions import Annotated, Literal

from toolkit import AugmentationOptions, option

HOUSES = "houses"  # the value of --data for the plugin's own houses


class RegressorOptions(AugmentationOptions):
    core_defaults: ClassVar[Mapping[str, Any]] = {
        "data": HOUSES,
        "label_kind": "value",
        "learning_rate": 0.005,
        "schedule": "cosine",
        "epochs": 100.0,
        "best_metric": "loss",
    }

    # Declared anew, without "auto": to move or recolour an image may change its number.
    augment: Literal["none", "digits", "photos", "pictures", "icons"] = option(
        "none",
        "what the images show; sets the strengths of the options of this group",
        group="Augmentation",
    )
    hidden: List[Annotated[int, pydantic.Field(ge=1)]] = option(
        [64, 64], "sizes of the hidden layers", unit="units", group="Network", min_length=1
    )
    dropout: float = option(
        0.0, "share of the hidden units dropped in training", group="Network", ge=0, le=0.9
    )
    loss: Literal["squared", "huber", "absolute"] = option(
        "squared",
        "what an error costs: its square, its size, or huber: the square up to one standard "
        "deviation of the label, the size beyond it",
        group="Loss",
    )
