"""The plugin's options. This module imports no TensorFlow, so `toolkit run --help` is fast."""

from __future__ import annotations

from typing import Any, ClassVar, List, Mapping

from toolkit import Options, option


class AutoencoderOptions(Options):
    """With the defaults, a run on the default data takes less than 20 seconds."""

    core_defaults: ClassVar[Mapping[str, Any]] = {
        "learning_rate": 0.003,
        "schedule": "cosine",
        "epochs": 40.0,
    }

    code: int = option(32, "length of the code", unit="units", ge=1)
    hidden: List[int] = option(
        [256], "sizes of the encoder's hidden layers; the decoder mirrors them", unit="units"
    )
    noise: float = option(
        0.2, "standard deviation of the noise on the encoder's inputs in training", ge=0
    )
    dump_steps: int = option(500, "draw reconstructions every N steps", unit="steps", ge=1)
    dump_images: int = option(12, "images in each picture", unit="images", ge=1)
