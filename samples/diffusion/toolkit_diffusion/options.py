"""The plugin's options. This module imports no TensorFlow, so `toolkit run --help` is fast."""

from __future__ import annotations

from typing import Any, ClassVar, Mapping

from typing_extensions import Literal

from toolkit import Options, option


class DiffusionOptions(Options):
    """With the defaults, a run on the default data takes two to three minutes."""

    core_defaults: ClassVar[Mapping[str, Any]] = {
        "batch_size": 64,
        "steps": 2000,
        "learning_rate": 0.003,
        "schedule": "cosine",
    }

    filters: int = option(32, "channels of the network at its finest resolution", ge=1)
    noise_schedule: Literal["cosine", "linear"] = option(
        "cosine", "how the share of noise grows with the time"
    )
    sampler_steps: int = option(50, "steps from noise to an image", unit="steps", ge=1)
    eta: float = option(
        1.0, "new noise in each step of the sampler: 0 (none, DDIM) to 1 (DDPM)", ge=0, le=1
    )
    dump_steps: int = option(
        250, "draw samples every N steps", unit="steps", ge=1, affects_result=False
    )
    dump_images: int = option(
        36, "samples in each picture", unit="images", ge=1, affects_result=False
    )
