"""The classifier's options: names, types, defaults, limits. This module imports no TensorFlow."""

from __future__ import annotations

from typing import Any, ClassVar, List, Mapping, Optional

import pydantic
from typing_extensions import Annotated, Literal

from toolkit import AugmentationOptions, option

HIDDEN = [128]


class ClassifierOptions(AugmentationOptions):
    """The defaults give the best result on the default data within a minute of training."""

    core_defaults: ClassVar[Mapping[str, Any]] = {
        "learning_rate": 0.008,
        "schedule": "cosine",
        "epochs": 20.0,
        "batch_size": 64,
    }

    network: Literal["auto", "mlp", "cnn", "resnet"] = option(
        "auto",
        "perceptron, small convolutional network, or residual network; auto: cnn for images",
        group="Network",
    )
    hidden: List[Annotated[int, pydantic.Field(ge=1)]] = option(
        HIDDEN,
        "sizes of the hidden layers of the mlp",
        unit="units",
        group="Network",
        used_if={"network": ("auto", "mlp")},
        min_length=1,
    )
    dropout: Optional[float] = option(
        None,
        "share of the units dropped in training; default 0.2 for the mlp, else 0",
        group="Network",
        ge=0,
        le=0.9,
    )

    label_smoothing: float = option(
        0.0, "share of each label spread over all classes", group="Loss", ge=0, lt=1
    )
    class_weights: str = option(
        "none", "weight of each class: none, balanced, or a list such as 1,0.5,2", group="Loss"
    )
    top_k: Optional[int] = option(
        None,
        "also report how often the label is among the k most likely classes; default: 3 from 10 "
        "classes on",
        group="Loss",
        ge=1,
    )

    mixup: float = option(
        0.0,
        "mix pairs of examples by a share drawn from Beta(a, a); 0 is off",
        group="Augmentation",
        ge=0,
        le=10,
    )
    cutmix: float = option(
        0.0,
        "paste a box of one image into another, of a share drawn from Beta(a, a); 0 is off",
        group="Augmentation",
        ge=0,
        le=10,
    )
    tta: bool = option(
        False,
        "evaluate and predict with the mean over several views of each image",
        group="Augmentation",
    )

    @pydantic.field_validator("class_weights")
    @classmethod
    def _check_class_weights(cls, value):
        if value in ("none", "balanced"):
            return value
        try:
            weights = [float(part) for part in value.split(",")]
        except ValueError:
            raise ValueError("write none, balanced, or one number per class: 1,0.5,2") from None
        if not all(0 <= weight < float("inf") for weight in weights) or sum(weights) == 0:
            raise ValueError("weights should be finite, not negative, and not all zero")
        return value
