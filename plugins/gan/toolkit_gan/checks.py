"""Refuse options and data of which no working GAN can be built. Imports no TensorFlow."""

from __future__ import annotations

from typing import Any

from toolkit import DataError, UsageError, check_features, check_image_size

from .architecture import conditioning

MIN_SIDE = 8  # pixels: the smallest side of an image that a convolutional network makes


def check_networks(options: Any, data: Any) -> None:
    """Check that the options' networks can be built for the data.

    Raises:
        UsageError: options contradict one another, or the network does not fit the data's shape.
        DataError: the examples are not one array of images or floats; a conditional network needs
            classes that the data does not have, or images have values that the generator cannot
            reach.
    """
    check_features(data, "A GAN")
    if options.discriminator_norm == "batch" and options.penalty != "none":
        raise UsageError(
            "Batch norm in the discriminator (discriminator_norm=batch) mixes the examples of a "
            f"batch, and penalty={options.penalty} needs the gradient of each example by itself.",
            hint="Set discriminator_norm=layer, or discriminator_norm=none and spectral_norm=true.",
        )
    if conditioning(options, data) != "none" and data.num_classes < 2:
        count = "one class" if data.num_classes else "no labels"
        raise DataError(
            f"conditional={options.conditional} needs two classes or more, and the data has "
            f"{count}.",
            hint="Set conditional=none, or choose labelled data with --data.",
        )
    if options.network != "mlp":
        subject = f"Network '{options.network}'"
        check_image_size(data.shape, MIN_SIDE, subject, "Set network=mlp")


def check_method(options: Any) -> None:
    """Check that the options of the training method agree. Raises UsageError."""
    if options.accumulate > 1 and options.n_critic > 1:
        raise UsageError(
            f"accumulate is {options.accumulate} and n_critic is {options.n_critic}: gradients "
            "would accumulate over the discriminator's updates within one step.",
            hint="Set one of them to 1.",
        )
