"""The discriminator: from images, and a label where it is conditional, to logits; higher means real.

Legend: N batch, H W height and width, C channels, F features or filters, K classes.

Weights are read first (`weights`) and given to each pass, so that passes of one update share a
single reading, and a single power iteration of the spectral norm.
"""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Optional

from toolkit import tf

from . import sizes
from .blocks import Conv, Dense, Down, Norm, Variables
from .layers import leaky, power_iteration, shrink


class Weights(NamedTuple):
    """What the discriminator's variables held when they were read."""

    values: Dict[str, Any]  # name -> tensor; kernels are spectrally normalised where asked
    updates: List[Any]  # ops that store the power iterations' vectors, to run once


class Verdict(NamedTuple):
    """What the discriminator says of a batch."""

    logits: Any  # float32 [N]
    class_logits: Optional[Any]  # float32 [N, K] with conditional=acgan, else None
    features: Any  # float32 [N, F], what the logits are linear in


class Discriminator:
    """Variables under `scope`."""

    def __init__(self, run, scope="critic"):
        options = run.options
        self._conditional = sizes.condition(options, run.data)
        self._classes = run.data.num_classes
        self._shape = list(run.data.shape)
        self.mixes_examples = options.critic_norm == "batch"  # a verdict depends on its batch
        self._variables = Variables(run, scope, scope)
        kind = sizes.kernels(options, options.critic_norm, options.spectral_norm)
        channels = self._shape[-1] * (2 if self._conditional == "concat" else 1)
        shape = self._shape[:-1] + [channels]
        self._network = NETWORKS[options.network](options, shape, self._variables, kind)
        self._make_heads(kind)
        kernels = self._variables.kernels if options.spectral_norm else []
        # One vector per kernel: its estimate of the kernel's first singular vector.
        self._vectors = {name: self._variables.vector(name, "u") for name in kernels}

    def _make_heads(self, kind):
        variables, features = self._variables, self._network.features
        self._logits = Dense(variables, "logits", features, 1, kind.outer)
        if self._conditional == "concat":
            variables.inputs("label/images", self._classes * sizes.count(self._shape))
        elif self._conditional == "acgan":
            self._class_logits = Dense(variables, "classes", features, self._classes, kind.outer)
        elif self._conditional == "projection":
            variables.kernel("embedding/kernel", [self._classes, features], kind.outer)

    @property
    def variables(self):
        """Its trainable variables, in the order of making."""
        return self._variables.all

    def weights(self, iterate):
        """Read every variable once, under the control dependencies in force.

        iterate: make one power iteration per kernel, whose results `updates` store. Without, the
        stored vectors serve and `updates` is empty.
        """
        values, updates = self._variables.read(), []
        for name, vector in self._vectors.items():
            values[name], u = power_iteration(values[name], vector.read_value(), iterate)
            if iterate:
                updates.append(vector.assign(u, read_value=False))
        return Weights(values, updates)

    def __call__(self, images, labels, weights):
        """The verdict on images float32 [N, H, W, C] with labels int32 [N], or None."""
        values = weights.values
        if self._conditional == "concat":
            images = tf.concat([images, self._label_images(labels, values)], axis=-1)
        features = self._network(values, images)  # [N, F]
        logits, class_logits = tf.squeeze(self._logits(values, features), 1), None  # [N]
        if self._conditional == "acgan":
            class_logits = self._class_logits(values, features)
        elif self._conditional == "projection":
            rows = tf.matmul(self._one_hot(labels), values["embedding/kernel"])  # [N, F]
            logits += tf.reduce_sum(rows * features, axis=1)
        return Verdict(logits, class_logits, features)

    def pair(self, reals, real_labels, fakes, fake_labels, weights):
        """(verdict on reals, verdict on fakes); one pass, unless the examples of a batch mix."""
        if self.mixes_examples:
            return self(reals, real_labels, weights), self(fakes, fake_labels, weights)
        labels = None
        if self._conditional in ("concat", "projection"):
            labels = tf.concat([real_labels, fake_labels], axis=0)
        both = self(tf.concat([reals, fakes], axis=0), labels, weights)
        counts = [_count(reals), _count(fakes)]
        halves = [(None, None) if x is None else tf.split(x, counts) for x in both]
        real, fake = zip(*halves)
        return Verdict(*real), Verdict(*fake)

    def _label_images(self, labels, values):
        """[N, H, W, C]: for each label the image that its class has learned.

        A discriminator learns to tell classes by them sooner than by planes of ones and zeros.
        """
        rows = tf.reshape(values["label/images"], [self._classes, -1])  # [K, H * W * C]
        return tf.reshape(tf.matmul(self._one_hot(labels), rows), [-1] + self._shape)

    def _one_hot(self, labels):
        return tf.one_hot(labels, self._classes)  # [N, K]; its gradients are dense, tf.gather's not


def _count(x):
    """How many examples x has: a number where that is known, or else a tensor."""
    return x.shape.as_list()[0] or tf.shape(x)[0]


class Mlp:
    """Hidden layers of equal size; examples of any shape."""

    def __init__(self, options, shape, variables, kind):
        self.inputs, norm = sizes.count(shape), options.critic_norm
        self.features = units = sizes.units(options)
        self.input = Dense(variables, "dense1", self.inputs, units, kind.inner)
        self.hidden = []
        for number in range(2, sizes.HIDDEN + 1):
            name = f"dense{number}"
            dense = Dense(variables, name, units, units, kind.inner, norm == "none")
            self.hidden.append((dense, Norm(variables, f"norm{number}", norm, units)))

    def __call__(self, values, images):
        x = leaky(self.input(values, tf.reshape(images, [-1, self.inputs])))  # [N, units]
        for dense, norm in self.hidden:
            x = leaky(norm(values, dense(values, x), None))
        return x


class Dcgan:
    """A convolution per halving, the first without norm (Radford et al. 2016)."""

    def __init__(self, options, shape, variables, kind):
        stages, norm = sizes.stages(shape), options.critic_norm
        filters = sizes.filters(options, len(stages) - 1)
        self.features = sizes.count(stages[-1]) * filters[-1]
        self.input = Down(variables, "conv1", shape[2], filters[0], kind.inner)
        self.downs = []
        for number, (channels, wanted) in enumerate(zip(filters, filters[1:]), start=2):
            name = f"conv{number}"
            down = Down(variables, name, channels, wanted, kind.inner, norm == "none")
            self.downs.append((down, Norm(variables, f"norm{number}", norm, wanted)))

    def __call__(self, values, images):
        x = leaky(self.input(values, images))  # [N, H/2, W/2, F]
        for down, norm in self.downs:
            x = leaky(norm(values, down(values, x), None))  # [N, H/4, W/4, 2F] and so on
        return tf.reshape(x, [-1, self.features])


class Resnet:
    """A residual block per halving, one more, and the sum over positions (Miyato et al. 2018)."""

    def __init__(self, options, shape, variables, kind):
        halvings, norm = len(sizes.stages(shape)) - 1, options.critic_norm
        filters = sizes.filters(options, halvings + 1)
        self.features = filters[-1]
        self.input = FirstBlock(variables, "block1", shape[2], filters[0], kind)
        self.blocks = []
        for number, (channels, wanted) in enumerate(zip(filters, filters[1:]), start=2):
            halves = number <= halvings
            name = f"block{number}"
            self.blocks.append(Block(variables, name, channels, wanted, norm, kind, halves))
        self.norm = Norm(variables, "norm", norm, self.features)
        # Where kernels have norm one the mean would hold logits near zero.
        self.pool = tf.reduce_sum if options.spectral_norm else tf.reduce_mean

    def __call__(self, values, images):
        x = self.input(values, images)  # [N, H/2, W/2, F]
        for block in self.blocks:
            x = block(values, x)  # [N, H/4, W/4, 2F] and so on
        return self.pool(leaky(self.norm(values, x, None)), axis=[1, 2])  # [N, features]


class FirstBlock:
    """Convolve, ReLU, convolve, halve, plus a shortcut: the image itself wants no ReLU."""

    def __init__(self, variables, name, channels, filters, kind):
        self.conv1 = Conv(variables, name + "/conv1", channels, filters, kind.inner)
        self.conv2 = Conv(variables, name + "/conv2", filters, filters, kind.inner)
        self.shortcut = Conv(variables, name + "/shortcut", channels, filters, kind.outer, size=1)

    def __call__(self, values, x):
        y = leaky(self.conv1(values, x))
        return shrink(self.conv2(values, y)) + self.shortcut(values, shrink(x))


class Block:
    """Normalise, ReLU, convolve, twice, halve where wanted, plus a shortcut."""

    def __init__(self, variables, name, channels, filters, norm, kind, halves):
        bias, self.halves = norm == "none", halves
        self.norm1 = Norm(variables, name + "/norm1", norm, channels)
        self.conv1 = Conv(variables, name + "/conv1", channels, filters, kind.inner, bias)
        self.norm2 = Norm(variables, name + "/norm2", norm, filters)
        self.conv2 = Conv(variables, name + "/conv2", filters, filters, kind.inner)
        self.shortcut = Conv(variables, name + "/shortcut", channels, filters, kind.outer, size=1)

    def __call__(self, values, x):
        y = self.conv1(values, leaky(self.norm1(values, x, None)))
        y = self.conv2(values, leaky(self.norm2(values, y, None)))
        if self.halves:
            x, y = shrink(x), shrink(y)  # [N, H/2, W/2, ...]
        return y + self.shortcut(values, x)


NETWORKS = {"mlp": Mlp, "dcgan": Dcgan, "resnet": Resnet}
