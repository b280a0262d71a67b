"""Test-time augmentation: several fixed views of each image, whose predictions a plugin averages.

Legend: N examples in a batch, H W height and width, C channels.
"""

from __future__ import annotations

from typing import Any, Callable, List, NamedTuple, Sequence

import numpy as np

from ..compat import tf
from ..errors import UsageError
from .geometry import crop_padding


class View(NamedTuple):
    """One view of an image: mirrored or not, then shifted by whole pixels.

    Attributes:
        is_mirrored: left to right.
        is_upside_down: mirrored top to bottom.
        down, right: pixels by which rows and columns are read further; the border repeats.
    """

    is_mirrored: bool = False
    is_upside_down: bool = False
    down: int = 0
    right: int = 0

    def apply(self, images):
        """The view of images [N, H, W, C]; the images themselves for the plain view."""
        height, width = images.shape.as_list()[1:3]
        if self.is_upside_down or self.down:
            images = tf.gather(images, _places(height, self.down, self.is_upside_down), axis=1)
        if self.is_mirrored or self.right:
            images = tf.gather(images, _places(width, self.right, self.is_mirrored), axis=2)
        return images


def _places(size: int, offset: int, is_mirrored: bool) -> np.ndarray:
    """int32 [size]: which pixel of a side each pixel of the view shows."""
    places = np.clip(np.arange(size) + offset, 0, size - 1)
    return (size - 1 - places if is_mirrored else places).astype(np.int32)


def list_views(options, height: int, width: int) -> List[View]:
    """The views of images that fit the training: of each change, a fixed part.

    The image itself, and if `shift` or `crop` is on four shifts by half of their largest distance
    (up, down, left, right); all of these also mirrored if `flip` is on, and upside down if
    `flip_vertical` is.

    Args:
        options: `AugmentationOptions` of the run.
        height, width: of the images, in pixels.
    """
    views = [View()]
    distances = [max(options.shift, crop_padding(n, options.crop)) for n in (height, width)]
    down, right = (min(-(-n // 2), size - 1) for n, size in zip(distances, (height, width)))
    for sign in (-1, 1):
        views += [View(down=sign * down)] * (down > 0) + [View(right=sign * right)] * (right > 0)
    if options.flip:
        views += [view._replace(is_mirrored=True) for view in views]
    if options.flip_vertical:
        views += [view._replace(is_upside_down=True) for view in views]
    return views


def check_views(options, shape: Sequence[int]) -> None:
    """Check that examples have views; a plugin calls it in `build`, before the training.

    Args:
        options: `AugmentationOptions` of the run.
        shape: of one example.

    Raises:
        UsageError: the examples are no images, or the options name no change that has views.
    """
    if len(shape) != 3:
        raise UsageError(
            "Test-time augmentation needs images [H, W, C], but an example of the data has shape "
            f"{list(shape)}.",
            hint="Leave out tta.",
        )
    if len(list_views(options, *shape[:2])) == 1:
        raise UsageError(
            "Test-time augmentation has no views: the model was trained without shift, crop and "
            "flips.",
            hint="Leave out tta.",
        )


def map_views(function: Callable[[Any], Any], images, run) -> List[Any]:
    """What a function returns for each view of a batch, the plain images first.

    Each view is computed after the one before, so that the memory of one is enough.

    Args:
        function: from images [N, H, W, C] to a structure of tensors.
        images: float32 [N, H, W, C].
        run: its options are `AugmentationOptions`.

    Raises:
        UsageError: as `check_views`.
    """
    shape = images.shape.as_list()[1:]
    check_views(run.options, shape)
    results: List[Any] = []
    for view in list_views(run.options, *shape[:2]):
        earlier = tf.nest.flatten(results[-1:])
        with tf.control_dependencies(earlier):
            results.append(function(view.apply(tf.identity(images))))
    return results
