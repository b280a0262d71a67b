"""The plugin's options. This module imports no TensorFlow, so `toolkit run --help` is fast."""

from __future__ import annotations

from typing import Any, ClassVar, Mapping

from toolkit import Options, option

SCENES = "scenes"  # the value of --data for the plugin's own images


class SegmentationOptions(Options):
    """With the defaults, a run takes a minute."""

    core_defaults: ClassVar[Mapping[str, Any]] = {
        "data": SCENES,
        "batch_size": 16,
        "epochs": 20.0,
        "learning_rate": 0.005,
        "schedule": "cosine",
        "best_metric": "mean_iou",
    }

    filters: int = option(
        12, "channels of the first layers; each level below has twice as many", ge=1
    )
    levels: int = option(2, "how often the network halves the sides of an image", ge=1, le=6)
    report_images: int = option(
        10, "images in the report of an evaluation", unit="images", ge=0, affects_result=False
    )
