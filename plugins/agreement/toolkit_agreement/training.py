"""The network of some images, trained once and cached: for scores, clusters and other work."""

from __future__ import annotations

from typing import Any

import toolkit

BATCH_SIZE = 64
MIN_IMAGES = 32  # of which batches differ enough
# The network trains for at least so many steps and so many epochs, ...
MIN_STEPS = 1600
MIN_EPOCHS = 3
MAX_EXAMPLES = 60000  # ... but on no more than three times so many examples. Larger images than ...
PIXELS_OF_ALL_STEPS = 40 * 40  # ... these get fewer steps, in inverse proportion, ...
MIN_SHARE_OF_STEPS = 0.25  # ... but at least this share.


def train_once(options: Any, data: Any, train: Any) -> toolkit.Trained:
    """Open the network that is trained on the training images of another run; `close` it.

    Args:
        options: of the other run.
        data: the `DataSpec` of its images.
        train: its `Split` of training images, `MIN_IMAGES` or more.
    """
    height, width = data.shape[:2]
    epochs = max(MIN_EPOCHS, MIN_STEPS * BATCH_SIZE / len(train))
    if len(train) > MAX_EXAMPLES:
        epochs = MIN_EPOCHS * MAX_EXAMPLES / len(train)
    epochs *= min(1.0, max(MIN_SHARE_OF_STEPS, PIXELS_OF_ALL_STEPS / (height * width)))
    values = {"epochs": round(epochs, 3), "batch_size": min(BATCH_SIZE, len(train)), "seed": 1}
    return toolkit.cached_run(
        "agreement",
        dict(toolkit.data_options(options), **values),
        key=train.sha256(),
        text=f"Training a network on {options.data} without labels (once, then cached)",
    )
