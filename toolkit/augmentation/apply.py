"""Everything that the options name, applied to a batch: moves, colours, RandAugment, cutout."""

from __future__ import annotations

from ..compat import tf
from ..errors import UsageError
from . import rand_augment
from .colour import adjust_colour
from .geometry import draw_move
from .mixing import cut_out

# Options that are off in the default preset. Setting one is an error unless examples are images.
_REQUESTS = (
    *("crop", "flip", "flip_vertical", "brightness", "contrast", "saturation", "hue", "grey"),
    *("cutout", "rand_augment"),
)


def augment(images, run, always=False):
    """Change training images as the options say; in other modes return them unchanged.

    The random numbers are a function of the seed, the step and the name of each change: a second
    call in the same step changes other images of the same shape in the same way.

    Args:
        images: float32 [N, H, W, C] in [0, 1]. Examples that are no images are returned unchanged
            with the default preset.
        run: its options are `AugmentationOptions`.
        always: change them in other modes, too.

    Raises:
        UsageError: an option that the data cannot follow was set.
    """
    return augment_with_masks(images, None, run, always)[0]


def augment_with_masks(images, masks, run, always=False):
    """Change training images as the options say, and move their masks with them.

    Args:
        images: float32 [N, H, W, C] in [0, 1].
        masks: [N, H, W] or [N, H, W, D] of any dtype, class numbers for example, or None. They are
            moved by whole pixels, so no class is mixed with another. Changes of colour do not
            change them, and `cutout` covers a box of the image, not of its mask.
        run: its options are `AugmentationOptions`.
        always: change them in other modes than "train", too.

    Returns:
        Images and masks, in the shapes that they had.
    """
    if run.mode != "train" and not always:
        return images, masks
    if images.shape.ndims != 4:
        for name in _REQUESTS:
            if getattr(run.options, name):
                raise UsageError(
                    f"Option {name} changes images [H, W, C], but an example of the data has shape "
                    f"{images.shape.as_list()[1:]}.",
                    hint=f"Set augment=none, and leave {name} out.",
                )
        return images, masks
    height, width = images.shape.as_list()[1:3]
    magnitude, layers = run.options.rand_magnitude, rand_augment.draw_layers(images, run)
    further = rand_augment.geometric_map(layers, magnitude, height, width)
    move = draw_move(images, run, further)
    if move is not None:
        images = move.read(images)
        if masks is not None and masks.shape.ndims == 4:
            masks = move.read_nearest(masks)
        elif masks is not None:
            masks = tf.squeeze(move.read_nearest(masks[..., None]), -1)
    images = adjust_colour(images, run)
    images = rand_augment.change_values(images, layers, magnitude)
    if run.options.cutout:
        images = cut_out(images, run, run.options.cutout)
    return images, masks
