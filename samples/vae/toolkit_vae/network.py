"""The network: dense layers from an image to the distribution of its code, and from a code back.

Legend: N examples in a batch, H height, W width, C channels, F length of the code.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from toolkit import DataError, tf


class Normal(NamedTuple):
    """Independent normal distributions, of each code one: both float32 [N, F]."""

    mean: Any
    log_variance: Any


class Autoencoder:
    """Encoder and decoder. The constructor creates every variable; calling a method, none."""

    def __init__(self, run):
        check_data(run.data)
        shape, hidden, code = list(run.data.shape), list(run.options.hidden), run.options.code
        pixels = run.data.features.size
        layers = tf.keras.layers
        self._encoder = run.keras(
            tf.keras.Sequential(
                [
                    layers.InputLayer(shape),
                    layers.Flatten(),
                    *dense_layers("encoder", [*hidden, 2 * code]),
                ]
            )
        )
        self._decoder = run.keras(
            tf.keras.Sequential(
                [
                    layers.InputLayer([code]),
                    *dense_layers("decoder", [*hidden[::-1], pixels]),
                    layers.Reshape(shape),
                ]
            )
        )

    def encode(self, images) -> Normal:
        """The distribution of the codes of images, float32 [N, H, W, C] in [0, 1]."""
        return Normal(*tf.split(self._encoder(images), 2, axis=1))

    def decode(self, codes):
        """The logits of pixels, [N, H, W, C], from codes, [N, F]."""
        return self._decoder(codes)


def dense_layers(scope, sizes):
    """Dense layers of these sizes, all but the last with a ReLU."""
    last = len(sizes)
    return [
        tf.keras.layers.Dense(
            units, None if number == last else "relu", name=f"{scope}/dense{number}"
        )
        for number, units in enumerate(sizes, start=1)
    ]


def check_data(data) -> None:
    """Raise DataError if the examples are not images in [0, 255] that can be drawn."""
    is_image = not data.feature_names and len(data.shape) == 3 and data.dtype == "uint8"
    if not is_image or data.shape[2] not in (1, 3, 4):
        raise DataError(
            "The autoencoder needs images of bytes with 1, 3 or 4 channels, and the data has "
            f"{data.describe_features()}.",
            hint="Choose images with --data.",
        )
