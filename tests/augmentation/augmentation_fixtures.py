"""Helpers for tests of augmentation: a run with its options alone, sessions, small images."""

from __future__ import annotations

import numpy as np

from toolkit import AugmentationOptions, DataSpec, Run, tf
from toolkit.graph.step_strategy import PLAIN
from toolkit.options import resolve

RAMP = np.arange(2 * 4 * 5 * 3, dtype=np.float32).reshape(2, 4, 5, 3)


def make_run(mode="train", strategy=PLAIN, **values):
    """A run without augmentation unless `values` set some."""
    values = dict({"augment": "none"}, **values)
    options = resolve([("test", AugmentationOptions)], flags=values).options
    return Run(mode, options, DataSpec((8, 8, 1), "uint8", 2), total_steps=100, strategy=strategy)


def random_images(count=4, height=12, width=12, channels=1, seed=0):
    """float32 [N, H, W, C] in [0, 1]."""
    return np.random.RandomState(seed).rand(count, height, width, channels).astype(np.float32)


def evaluate(*tensors):
    """The values of tensors in a new session: a list, or one array."""
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        values = session.run(list(tensors))
    return values[0] if len(values) == 1 else values
