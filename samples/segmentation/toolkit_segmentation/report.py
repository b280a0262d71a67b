"""The report of an evaluation: a picture of the worst images, and the IoU of each class.

Legend: N examples of a split, H height, W width, C channels, K classes.
"""

from __future__ import annotations

import colorsys
import os
from typing import Dict

import numpy as np

from toolkit import save_grid

PICTURE = {
    "file": "worst.png",
    "title": "The images with the fewest correct pixels",
    "alt": "Above the images, in the middle their masks, below the predicted masks",
}
NO_CLASS = 128  # the grey of pixels without a class


def write(run, examples, folder):
    """Write `worst.png`: images, masks and predictions in three rows, the worst on the left.

    Args:
        run: gives options and classes.
        examples: "features" [N, H, W, C], "labels" and the predicted "mask" [N, H, W].
        folder: of the report.

    Returns:
        The IoU of each class by its name, and what the page of the run shows.
    """
    component = run.data.labels
    names = component.class_names or [str(number) for number in range(component.num_classes)]
    labels, masks = examples["labels"], examples["mask"]
    worst = np.argsort(pixel_accuracies(labels, masks, len(names)))[: run.options.report_images]
    if len(worst):
        images = examples["features"][worst]
        rows = [images[..., :3] if images.shape[-1] >= 3 else np.repeat(images[..., :1], 3, -1)]
        rows += [paint(array[worst], len(names)) for array in (labels, masks)]
        path = os.path.join(folder, PICTURE["file"])
        save_grid(path, np.concatenate(rows), columns=len(worst))
    ious = class_ious(labels, masks, names)
    table = {
        "title": "Per class",
        "columns": ["class", "IoU"],
        "rows": list(map(list, ious.items())),
    }
    return {"iou": ious, "page": {"pictures": [PICTURE] if len(worst) else [], "tables": [table]}}


def pixel_accuracies(labels, masks, num_classes):
    """The share of correct pixels of each image, among those that have a class, [N]."""
    has_class = labels < num_classes
    correct = (labels == masks) & has_class
    return correct.sum(axis=(1, 2)) / np.maximum(has_class.sum(axis=(1, 2)), 1)


def class_ious(labels, masks, names) -> Dict[str, float]:
    """Name -> intersection over union, of the classes that occur."""
    has_class = labels < len(names)
    ious = {}
    for number, name in enumerate(names):
        is_label, is_mask = labels == number, (masks == number) & has_class
        union = np.sum(is_label | is_mask)
        if union:
            ious[name] = float(np.sum(is_label & is_mask) / union)
    return ious


def paint(masks, num_classes):
    """Masks [n, H, W] as colours, float [n, H, W, 3]: class 0 is black, no class is grey."""
    hues = [colorsys.hsv_to_rgb(k / (num_classes - 1), 0.7, 1) for k in range(num_classes - 1)]
    palette = np.full([256, 3], NO_CLASS / 255)
    palette[:num_classes] = [(0, 0, 0), *hues]
    return palette[np.minimum(masks, 255)]
