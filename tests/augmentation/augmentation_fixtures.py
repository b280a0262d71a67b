"""Helpers for tests of augmentation: a run with its options alone, and small images."""

import numpy as np
from graph_fixtures import evaluate

from toolkit import AugmentationOptions, DataSpec, Run, augmentation, tf
from toolkit.graph.step_strategy import PLAIN
from toolkit.options import resolve

RAMP = np.arange(2 * 4 * 5 * 3, dtype=np.float32).reshape(2, 4, 5, 3)


def make_run(mode="train", strategy=PLAIN, **values):
    """A run without augmentation unless `values` set some."""
    values = dict({"augment": "none"}, **values)
    options = resolve([("test", AugmentationOptions)], flags=values).options
    return Run(mode, options, DataSpec((8, 8, 1), "uint8", 2), total_steps=100, strategy=strategy)


def change(images, **options):
    """The images of a batch as a training step with these options changes them."""
    return evaluate(augmentation.augment(tf.constant(images), make_run(**options)))


def random_images(count=4, height=12, width=12, channels=1, seed=0):
    """float32 [N, H, W, C] in [0, 1]."""
    return np.random.RandomState(seed).rand(count, height, width, channels).astype(np.float32)
