"""The network: each image through convolutions, then all inputs together through hidden layers.

Legend: N examples in a batch, H W height and width, C channels, L numbers to predict.
"""

from __future__ import annotations

import numpy as np

from toolkit import DataError, augmentation, check_features, check_value_range, tf

from .targets import Targets, new_moments

LAST_SIDE = 4  # pixels, at most, of what the convolutions leave of an image
MAX_FILTERS = 128
CLIPPING = ("brightness", "contrast", "saturation", "hue", "grey", "rand_augment")  # to [0, 1]
NORM_MOMENTUM = 0.95  # runs of a thousand steps are common: the averages follow within fifty


class Regressor:
    """From images, numbers and classes, with names or without, to numbers."""

    def __init__(self, run):
        self.targets = Targets(run)
        self.inputs = by_name(run.data.features)
        check_inputs(self.inputs, run.data, run.options)
        self.classes = [name for name, each in self.inputs.items() if each.kind == "class"]
        others = [name for name in self.inputs if name not in self.classes]
        self.images = [name for name in others if len(self.inputs[name].shape) == 3]
        self.numbers = [name for name in others if name not in self.images]
        count = sum(self.inputs[name].size for name in self.numbers)
        if count:
            self.mean, self.deviation = moments = new_moments("inputs", count)
            run.fit_initial_values(moments, self._measure)
        for each in map(self.inputs.get, self.classes):
            count += each.size * each.num_classes
        shapes = [self.inputs[name].shape for name in self.images]
        self.network = run.keras(make_network(shapes, count, len(self.targets.names), run.options))

    def __call__(self, features, run):
        """The numbers as "values", float32 [N, L], and as "deviations" from their mean."""
        features = by_name(features)
        # Without images, an option that changes some is refused.
        names = self.images or [*self.inputs][:1]
        changed = [augmentation.augment(features[name], run) for name in names]
        tensors, rows = changed[: len(self.images)], []
        if self.numbers:
            numbers = tf.concat([flatten(features[name]) for name in self.numbers], 1)
            rows.append((numbers - self.mean.read_value()) / self.deviation.read_value())
        for name in self.classes:
            rows.append(flatten(tf.one_hot(features[name], self.inputs[name].num_classes)))
        if rows:
            tensors.append(tf.concat(rows, 1))
        deviations = self.network(tensors if len(tensors) > 1 else tensors[0])
        return {"deviations": deviations, "values": self.targets.restore(deviations)}

    def _measure(self, split):
        """Mean and deviation of each number in the training split; 1 in place of a deviation 0."""
        keys = [f"features/{name}" if name else "features" for name in self.numbers]
        arrays = split.read(slice(None), keys)
        values = np.concatenate([array.reshape(len(split), -1) for array in arrays.values()], 1)
        deviation = values.std(axis=0, dtype=np.float64)
        return [values.mean(axis=0, dtype=np.float64), np.where(deviation > 0, deviation, 1)]


def by_name(features):
    """Features by their name; "" is that of a single array."""
    return features if isinstance(features, dict) else {"": features}


def check_inputs(inputs, data, options):
    """Refuse texts, sequences, images that are none, and such as a change of colour would clip.
    Raises a DataError.
    """
    found = ", ".join(
        f"{name} {each.describe()}".strip()
        for name, each in inputs.items()
        if each.kind == "text" or each.is_sequence or (each.kind, len(each.shape)) == ("image", 1)
    )
    if found:
        raise DataError(
            f"The data has {found}, and a regressor takes images, numbers and classes.",
            hint="Leave out such columns with --ignore-columns, or choose another plugin.",
        )
    if any(len(each.shape) == 3 for each in inputs.values()):
        if not any(getattr(options, name) for name in CLIPPING):
            data = data._replace(value_range=())
        check = check_features if "" in inputs else check_value_range
        check(data, "A regressor")


def flatten(tensor):
    """[N, ...] -> float32 [N, F]."""
    size = np.prod(tensor.shape.as_list()[1:], dtype=int)
    return tf.reshape(tf.cast(tensor, tf.float32), [-1, size])


def make_network(shapes, width, num_outputs, options):
    """A Keras model from images of these shapes, and numbers unless width is 0, to [N, L]."""
    layers = tf.keras.layers
    inputs = [tf.keras.Input(shape) for shape in shapes]
    parts = [convolve(x, f"image{i}_" if i else "") for i, x in enumerate(inputs)]
    if width:
        inputs.append(tf.keras.Input([width]))
        parts.append(inputs[-1])
    x = layers.Concatenate()(parts) if len(parts) > 1 else parts[0]
    for number, units in enumerate(options.hidden, start=1):
        x = layers.Dense(units, "relu", name=f"hidden{number}")(x)
        x = layers.Dropout(options.dropout)(x)
    return tf.keras.Model(inputs, layers.Dense(num_outputs, name="output")(x))


def convolve(x, prefix):
    """Images [N, H, W, C] -> float32 [N, E], which keeps where in an image something is.

    Two 3x3 convolutions in each stage; a stage halves the sides until they are LAST_SIDE at most.
    """
    layers = tf.keras.layers
    filters, number = 16, 1
    while True:
        for _ in range(2):
            conv, norm = f"{prefix}conv{number}", f"{prefix}norm{number}"
            x = layers.Conv2D(filters, 3, padding="same", use_bias=False, name=conv)(x)
            x = layers.BatchNormalization(momentum=NORM_MOMENTUM, name=norm)(x)
            x, number = layers.Activation("relu")(x), number + 1
        if max(x.shape.as_list()[1:3]) <= LAST_SIDE:
            return layers.Flatten()(x)
        x = layers.MaxPooling2D(padding="same")(x)  # [N, H/2, W/2, filters]
        filters = min(2 * filters, MAX_FILTERS)
