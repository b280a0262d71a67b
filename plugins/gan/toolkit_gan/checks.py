"""Refuse options and data of which no working GAN can be built. Imports no TensorFlow."""

from __future__ import annotations

from typing import Any, Optional

from toolkit import DataError, UsageError, check_features, check_image_size

from .architecture import (
    ATTENTIVE,
    attention_sides,
    augmentations,
    label_kind,
    num_norm_labels,
    stages,
)

MIN_SIDE = 8  # pixels: the smallest side of an image that a convolutional network makes


def check_networks(options: Any, data: Any) -> None:
    """Check that the options' networks can be built for the data. Raises UsageError if options
    contradict one another, or the network does not fit the data's shape; DataError if the examples
    are not one array of images or floats, a conditional network needs classes that the data does
    not have, or images have values that the generator cannot reach.
    """
    check_features(data, "A GAN")
    has_batch_norm = options.discriminator_norm == "batch" and options.network != "r3gan"
    if has_batch_norm and options.penalty != "none":
        raise UsageError(
            "Batch norm in the discriminator (discriminator_norm=batch) mixes the examples of a "
            f"batch, and penalty={options.penalty} needs the gradient of each example by itself.",
            hint="Set discriminator_norm=layer, or discriminator_norm=none and spectral_norm=true.",
        )
    if label_kind(options, data) == "class" and data.num_classes < 2:
        count = "one class" if data.num_classes else "no labels"
        raise DataError(
            f"conditional={options.conditional} needs two classes or more, and the data has "
            f"{count}.",
            hint="Set conditional=clusters or none, or choose labelled data with --data.",
        )
    if options.network == "r3gan":
        _check_r3gan(options, data)
    has_labels = label_kind(options, data) != "none" or options.conditional == "none"
    if options.generator_conditional == "batch-norm" and not has_labels:
        raise DataError(
            "generator_conditional=batch-norm needs labels of two classes or more, and the data "
            "has none.",
            hint="Set conditional=clusters, or generator_conditional=concat.",
        )
    if num_norm_labels(options, data) and options.generator_norm != "batch":
        raise UsageError(
            "generator_conditional=batch-norm needs batch norm in the generator, and "
            f"generator_norm is {options.generator_norm}.",
            hint="Set generator_norm=batch, or generator_conditional=concat.",
        )
    changes = augmentations(options, data)
    if changes and len(data.shape) != 3:
        raise UsageError(
            f"diff_augment={','.join(changes)} changes images, and an example of the data has the "
            f"shape {list(data.shape)}.",
            hint="Set diff_augment=none.",
        )
    if label_kind(options, data) == "cluster":
        _check_clusters(options, data)
    if options.network != "mlp":
        subject = f"Network '{options.network}'"
        check_image_size(data.shape, MIN_SIDE, subject, "Set network=mlp")
        _check_attention(options, data)


def check_values(examples: Any) -> None:
    """Check that some training examples, an array of floats, have numbers that the generator makes.

    Raises:
        DataError: a number is not in [0, 1].
    """
    low, high = examples.min(), examples.max()
    if not 0 <= low <= high <= 1:  # as NaN is not
        raise DataError(
            "The generator makes numbers from 0 to 1, and the training examples have numbers from "
            f"{low:g} to {high:g}.",
            hint="Scale them to 0 to 1 before you save them.",
        )


def _check_clusters(options: Any, data: Any) -> None:
    if options.cluster_features == "self":
        check_image_size(
            data.shape, MIN_SIDE, "cluster_features=self", "Set cluster_features=pixels"
        )
    if 0 < options.clusters < data.num_classes:
        raise UsageError(
            f"clusters is {options.clusters}, and each of the {data.num_classes} classes of the "
            "data needs one.",
            hint=f"Set clusters={data.num_classes} or more, or 0 for a number that fits the data.",
        )


def _check_r3gan(options: Any, data: Any) -> None:
    """Refuse what the r3gan network, which has no normalisation, does not support."""
    if options.spectral_norm:
        raise UsageError(
            "spectral_norm divides kernels by their norms, and some kernels of network=r3gan start "
            "at zero.",
            hint="Set spectral_norm=false and a penalty, as --preset r1r2 does.",
        )
    if num_norm_labels(options, data):
        raise UsageError(
            "generator_conditional=batch-norm needs batch norm in the generator, and network=r3gan "
            "has none.",
            hint="Set generator_conditional=concat, or network=resnet.",
        )


def _check_attention(options: Any, data: Any) -> None:
    is_on = options.attention and options.network in ATTENTIVE
    if is_on and attention_sides(options, data.shape) is None:
        maps = stages(data.shape)[1:]
        raise UsageError(
            f"attention is {options.attention}, and the smallest feature map of "
            f"{data.shape[0]} x {data.shape[1]} pixels has {maps[-1][0]} x {maps[-1][1]}.",
            hint=f"Set attention={min(maps[-1])} or more; 0 is off.",
        )


def check_method(
    options: Any, batch_size: int, num_replicas: int = 1, total_steps: Optional[int] = None
) -> None:
    """Check that the options of the training method agree with each other and with the run, by a
    UsageError. The batch size is that of a whole batch, which the replicas share, in other
    processes or on other devices; `total_steps` is None where the training has no length.
    """
    if options.accumulate > 1 and options.discriminator_steps > 1:
        raise UsageError(
            f"accumulate is {options.accumulate} and discriminator_steps is "
            f"{options.discriminator_steps}: gradients would accumulate over the discriminator's "
            "updates within one step.",
            hint="Set one of them to 1.",
        )
    _check_groups(options.minibatch_stddev, batch_size, num_replicas)
    if total_steps is not None:
        _check_first_steps(options, total_steps)


def _check_groups(group_size: int, batch_size: int, num_replicas: int) -> None:
    """Refuse groups of minibatch_stddev that do not fill each replica's part of a batch."""
    if not group_size or (group_size > 1 and batch_size % (num_replicas * group_size) == 0):
        return
    parts, what, multiple = "", "a batch", "a multiple"
    if num_replicas > 1:
        parts, what = f" for {num_replicas} replicas", "the part of each"
        multiple = f"a multiple of {num_replicas} x 4"
    raise UsageError(
        f"minibatch_stddev is {group_size} and batch_size is {batch_size}{parts}, but {what} "
        "consists of whole groups of two images or more.",
        hint=f"Set minibatch_stddev=4 and {multiple} as batch_size, or minibatch_stddev=0.",
    )


def _check_first_steps(options: Any, total_steps: int) -> None:
    """Refuse a penalty that begins after the last step of the training."""
    if options.penalty != "none" and options.penalty_steps > total_steps:
        raise UsageError(
            f"penalty_steps is {options.penalty_steps} and the training has {total_steps} steps, "
            f"so none of them has the penalty {options.penalty}.",
            hint=f"Set penalty_steps={total_steps} or fewer, or penalty=none.",
        )
    if options.lecam > 0 and options.lecam_start >= total_steps:
        raise UsageError(
            f"lecam_start is {options.lecam_start} and the training has {total_steps} steps, so "
            "none of them has the penalty of lecam.",
            hint=f"Set lecam_start to less than {total_steps}, or lecam=0.",
        )
