"""The network of some images, trained once and cached: for scores, clusters and other work."""

from __future__ import annotations

from typing import Any

import toolkit

NUM_STEPS, BATCH_SIZE = 400, 64  # of the training: less than a fifth of the time of a GAN's
MIN_IMAGES = 32  # of which batches differ enough


def train_once(options: Any, train: Any) -> toolkit.Trained:
    """Open the network that is trained on the training images of another run; `close` it.

    Args:
        options: of the other run.
        train: its `Split` of training images, `MIN_IMAGES` or more.
    """
    values = {"steps": NUM_STEPS, "batch_size": min(BATCH_SIZE, len(train)), "seed": 1}
    return toolkit.cached_run(
        "agreement",
        dict(toolkit.data_options(options), **values),
        key=train.sha256(),
        text=f"Training a network on {options.data} without labels (once, then cached)",
    )
