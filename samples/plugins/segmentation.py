"""Segmentation: find the class of each pixel of an image.

    toolkit run --plugin samples/plugins/segmentation.py
    toolkit run --plugin samples/plugins/segmentation.py --data pairs:DIR --image-size 64

`pairs:DIR` reads two folders, `DIR/images` and `DIR/masks`, with files of equal names. Without
`--data`, the plugin draws noisy images of a disc and a bar. A label is an image of classes: integer
labels of any shape are of the kind "class" and reach the hooks as int32, here [N, H, W]. Pixels
with the value 255 in a mask are of no class; loss and metric leave them out.

Legend: N examples in a batch, H height, W width, C channels, K classes.
"""

from __future__ import annotations

from typing import Any, ClassVar, Mapping

import numpy as np

from toolkit import DataError, Options, Split, hookimpl, option, tf

GENERATED = "generated"  # the value of --data for the plugin's own drawings
DRAWINGS = {"train": 120, "validation": 20, "test": 40}
SIDE = 24  # pixels


class SegmentationOptions(Options):
    core_defaults: ClassVar[Mapping[str, Any]] = {
        "data": GENERATED,
        "batch_size": 12,
        "epochs": 12.0,
        "learning_rate": 0.01,
        "eval_batch_size": 50,
        "best_metric": "mean_iou",
    }

    filters: int = option(16, "channels of the hidden layers", unit="channels", ge=1)


def draw_shapes(count: int, seed: int):
    """Images uint8 [count, SIDE, SIDE, 1] and classes [count, SIDE, SIDE]: 0, 1 disc, 2 bar."""
    random = np.random.RandomState(seed)
    y, x = np.mgrid[:SIDE, :SIDE]
    masks = np.zeros([count, SIDE, SIDE], np.uint8)
    for mask in masks:
        row, column = random.randint(6, SIDE - 6, 2)
        mask[random.randint(SIDE - 2) :][:2] = 2
        mask[(y - row) ** 2 + (x - column) ** 2 < 25] = 1
    images = random.randint(0, 100, masks.shape) + 70 * (masks > 0)
    return images.astype(np.uint8)[..., np.newaxis], masks


@hookimpl
def options():
    return SegmentationOptions


@hookimpl
def data(split, run):
    if run.options.data != GENERATED:
        return None  # the core opens what --data names
    return Split(*draw_shapes(DRAWINGS[split], seed=list(DRAWINGS).index(split)))


@hookimpl
def build(run):
    features, labels = run.data.features, run.data.labels  # a `Component` each, or a dict of them
    if isinstance(features, dict) or features.kind != "image":
        raise DataError("The plugin 'segmentation' needs images.")
    if labels is None or isinstance(labels, dict) or labels.shape != features.shape[:2]:
        raise DataError("The plugin 'segmentation' needs a class for each pixel as labels.")
    filters = run.options.filters
    sizes = [features.shape[2], filters, filters, filters, labels.num_classes]
    layers = []
    for number, (inputs, outputs) in enumerate(zip(sizes, sizes[1:])):
        name = f"conv{number + 1}"
        layer = tf.keras.layers.Conv2D(
            outputs,
            3 if number < 3 else 1,
            padding="same",
            dilation_rate=(1, 2, 4, 1)[number],  # a pixel's class depends on 15 x 15 pixels
            kernel_initializer=run.initializer("he_normal", name),
        )
        with tf.name_scope(name + "/"):  # the final slash: the same name in every graph
            layer.build(tf.TensorShape([None, None, None, inputs]))
        layers.append(layer)
    return layers


@hookimpl
def call(model, features):
    x = features  # [N, H, W, C], in [0, 1]
    for layer in model[:-1]:
        x = tf.nn.relu(layer(x))
    return {"logits": model[-1](x)}  # [N, H, W, K]


@hookimpl
def loss(labels, outputs, run):
    has_class = labels < run.data.labels.num_classes  # [N, H, W]
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
        labels=tf.where(has_class, labels, tf.zeros_like(labels)), logits=outputs["logits"]
    )
    weights = tf.cast(has_class, tf.float32)
    return tf.reduce_sum(losses * weights) / tf.maximum(tf.reduce_sum(weights), 1.0)


@hookimpl
def optimize(losses, run):
    return run.minimize(losses)


@hookimpl
def predict(outputs):
    return {"mask": tf.argmax(outputs["logits"], axis=-1, output_type=tf.int32)}


@hookimpl
def metrics(labels, outputs, run):
    num_classes = run.data.labels.num_classes
    has_class = labels < num_classes
    predicted = tf.argmax(outputs["logits"], axis=-1, output_type=tf.int32)
    labels = tf.where(has_class, labels, tf.zeros_like(labels))
    return {"mean_iou": tf.metrics.mean_iou(labels, predicted, num_classes, has_class)}


@hookimpl
def metric_directions():
    return {"mean_iou": "max"}
