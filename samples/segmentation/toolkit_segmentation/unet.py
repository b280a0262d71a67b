"""The U-net (Ronneberger, Fischer, Brox, 2015), as a Keras model.

Each level on the way down has half the width and height of the one above. On the way up, a level
gets the features of the way down beside its own, and so the places of edges.

Legend: N examples in a batch, H height, W width, C channels, K classes.
"""

from __future__ import annotations

from toolkit import DataError, UsageError, tf


def build(run):
    """A model from images float32 [N, H, W, C] to logits [N, H, W, K]."""
    check_data(run.data)
    check_sides(run.data.shape, run.options.levels)
    filters = [run.options.filters * 2**level for level in range(run.options.levels + 1)]
    x = image = tf.keras.Input(run.data.shape)
    levels = []
    for level, count in enumerate(filters[:-1]):
        x = convolve_twice(x, count, f"down{level}")
        levels.append(x)
        x = tf.keras.layers.MaxPool2D()(x)
    x = convolve_twice(x, filters[-1], "bottom")
    for level, count in reversed(list(enumerate(filters[:-1]))):
        x = tf.keras.layers.Conv2DTranspose(count, 2, strides=2, name=f"up{level}/grow")(x)
        x = tf.keras.layers.Concatenate()([x, levels[level]])
        x = convolve_twice(x, count, f"up{level}")
    logits = tf.keras.layers.Conv2D(run.data.labels.num_classes, 1, name="logits")(x)
    return run.keras(tf.keras.Model(image, logits))


def convolve_twice(x, filters, name):
    """Two convolutions of 3 x 3 pixels, each with batch norm and ReLU."""
    for number in (1, 2):
        convolution = tf.keras.layers.Conv2D(
            filters, 3, padding="same", use_bias=False, name=f"{name}/conv{number}"
        )
        norm = tf.keras.layers.BatchNormalization(momentum=0.9, name=f"{name}/norm{number}")
        x = tf.keras.layers.ReLU()(norm(convolution(x)))
    return x


def check_data(data) -> None:
    """Raise DataError if the examples are not images with a class for each pixel."""
    if data.feature_names or data.features.kind != "image" or len(data.shape) != 3:
        raise DataError(
            f"The segmentation needs images, and the data has {data.describe_features()}.",
            hint="Choose --data pairs:DIR, with the folders images and masks.",
        )
    labels = data.labels
    if labels is None or isinstance(labels, dict) or labels.shape != data.shape[:2]:
        raise DataError(
            "The segmentation needs a class for each pixel as labels.",
            hint="Choose --data pairs:DIR, with the folders images and masks.",
        )


def check_sides(shape, levels) -> None:
    """Raise UsageError if the sides of an image cannot be halved so often."""
    height, width = shape[:2]
    if height % 2**levels or width % 2**levels:
        raise UsageError(
            f"The network halves the sides of an image {levels} times, and they have {height} x "
            f"{width} pixels.",
            hint=f"Scale images to a multiple of {2**levels} with --image-size, or set fewer "
            "--levels.",
        )
