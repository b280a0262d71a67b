"""What the tests of the room share: an evaluator without a checkpoint, and pictures of classes."""

import os

import numpy as np
from file_fixtures import save_image
from graph_fixtures import Spec, make_plugin

from toolkit import tf
from toolkit.graph.build import build_inference
from toolkit.graph.run import Run
from toolkit.inference.evaluator import Evaluator
from toolkit.options import resolve
from toolkit.plugins import Plugins

CLASSES = ("ant", "bee", "cat")


def evaluator_of(plugin, mode="eval", spec=None, name="tiny", **more):
    """An evaluator with initial weights in place of a checkpoint's, of `Spec()` by default."""
    plugins = Plugins(make_plugin(plugin, name))
    run = Run(mode, resolve(plugins.options()).options, spec or Spec(), **more)
    evaluator = Evaluator(plugins, build_inference(plugins, run))
    with evaluator.graph.tf_graph.as_default():
        variables = tf.global_variables() + tf.local_variables()
        evaluator.session.run([variable.initializer for variable in variables])
    return evaluator


def bar(label, seed, size=6):
    """uint8 [size, size]: noise with a light bar whose place tells the label, one of three."""
    pixels = np.random.RandomState(seed).randint(0, 40, (size, size)).astype(np.uint8)
    pixels[:, 2 * label * size // 6] = 250
    return pixels


def write_images(folder, names=CLASSES, count=20, first=0, size=6):
    """Write a folder of pictures for each class; returns what names them as data."""
    for name in names:
        os.makedirs(os.path.join(folder, name))
        for number in range(first, first + count):
            path = os.path.join(folder, name, f"{number}.png")
            save_image(path, bar(CLASSES.index(name), number, size))
    return f"images:{folder}"
