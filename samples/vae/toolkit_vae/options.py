"""The plugin's options. This module imports no TensorFlow, so `toolkit run --help` is fast."""

from __future__ import annotations

from typing import Any, ClassVar, List, Mapping

import pydantic
from typing_extensions import Annotated

from toolkit import Options, option


class VAEOptions(Options):
    """With the defaults, a run on the default data takes half a minute."""

    core_defaults: ClassVar[Mapping[str, Any]] = {
        "clip": "none",  # a loss of a hundred nats has large gradients, and Adam scales them
        "epochs": 60.0,
        "learning_rate": 0.002,
        "schedule": "cosine",
    }

    code: int = option(16, "length of the code", unit="values", ge=1)
    hidden: List[Annotated[int, pydantic.Field(ge=1)]] = option(
        [512, 256], "sizes of the encoder's hidden layers; the decoder mirrors them", unit="units"
    )
    beta: float = option(1.0, "weight of the divergence in the loss", ge=0)
    dump_steps: int = option(
        500, "draw reconstructions and samples every N steps", ge=1, affects_result=False
    )
    dump_images: int = option(
        12, "images in a row of a picture", unit="images", ge=1, affects_result=False
    )
