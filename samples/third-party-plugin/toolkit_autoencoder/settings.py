"""The plugin's options. Imports no TensorFlow, so `toolkit run --help` stays quick."""

from __future__ import annotations

from typing import Any, ClassVar, List, Mapping

from toolkit import Options, option


class AutoencoderOptions(Options):
    """Chosen so that the default data is learnt within 20 seconds."""

    core_defaults: ClassVar[Mapping[str, Any]] = {
        "learning_rate": 0.003,
        "schedule": "cosine",
        "epochs": 40.0,
    }

    code: int = option(32, "length of the code", unit="units", ge=1)
    hidden: List[int] = option(
        [256], "hidden layers of the encoder; the decoder mirrors them", unit="units"
    )
    noise: float = option(
        0.2, "standard deviation of the noise on what the encoder sees in training", ge=0
    )
    dump_steps: int = option(500, "draw reconstructions every N steps", unit="steps", ge=1)
    dump_images: int = option(12, "images in each drawing", unit="images", ge=1)
