"""Test-time augmentation: several fixed views of each image, whose predictions a plugin averages.

Legend: N examples in a batch, H W height and width, C channels.
"""

from __future__ import annotations

from typing import Any, Callable, List, Sequence, Tuple

import numpy as np

from ..compat import tf
from ..errors import UsageError
from .geometry import crop_padding


def list_views(options, height: int, width: int) -> List[Tuple[np.ndarray, np.ndarray]]:
    """The views of images that fit the training: of each change, a fixed part.

    The image itself, and if `shift` or `crop` is on four shifts by half of their largest distance
    (up, down, left, right), where the border repeats; all of these also mirrored if `flip` is on,
    and upside down if `flip_vertical` is. A view is the rows and the columns of the image that it
    shows, int [H] and [W].
    """
    rows, columns = np.arange(height), np.arange(width)
    views = [(rows, columns)]
    distances = [max(options.shift, crop_padding(n, options.crop)) for n in (height, width)]
    down, right = (min(-(-n // 2), size - 1) for n, size in zip(distances, (height, width)))
    for sign in (-1, 1):
        if down > 0:
            views.append((np.clip(rows + sign * down, 0, height - 1), columns))
        if right > 0:
            views.append((rows, np.clip(columns + sign * right, 0, width - 1)))
    if options.flip:
        views += [(rows, width - 1 - columns) for rows, columns in views]
    if options.flip_vertical:
        views += [(height - 1 - rows, columns) for rows, columns in views]
    return views


def check_views(options, shape: Sequence[int]) -> None:
    """Check that examples of a shape have views; a plugin calls it before the training, in `build`.

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
    for rows, columns in list_views(run.options, *shape[:2]):
        earlier = tf.nest.flatten(results[-1:])
        with tf.control_dependencies(earlier):
            view = tf.gather(tf.gather(images, rows, axis=1), columns, axis=2)  # [N, H, W, C]
            results.append(function(view))
    return results
