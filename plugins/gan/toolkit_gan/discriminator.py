"""The discriminator: it maps images, and labels if it is conditional, to logits; high means real.

The weights are read first (`read`) and passed to each forward pass. The passes of one update thus
share one read of the variables and one power iteration of the spectral norm.
Legend: N batch, H W height and width, C channels, F features or filters, K classes.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, NamedTuple, Optional

from toolkit import tf

from . import architecture
from .blocks import Conv, Dense, Down, MapAttention, Norm, Variables
from .layers import batch_size, group_stddev, leaky_relu, power_iteration, shrink
from .r3gan import R3ganDiscriminator


class DiscriminatorOutputs(NamedTuple):
    """What the discriminator computes for a batch."""

    logits: Any  # float32 [N]
    class_logits: Optional[Any]  # float32 [N, K] with conditional=acgan, else None


class Discriminator:
    """A network of the kind that the options name, whose variables' names begin with `scope`. If it
    `mixes_examples`, an example's logit depends on the other examples of its batch.
    """

    def __init__(self, run, scope=architecture.DISCRIMINATOR):
        options = run.options
        self._conditional = architecture.conditioning(options, run.data)
        self._classes = architecture.num_labels(options, run.data)
        self._shape = list(run.data.shape)
        self._group_size = options.minibatch_stddev
        has_batch_norm = options.discriminator_norm == "batch" and options.network != "r3gan"
        self.mixes_examples = has_batch_norm or self._group_size > 0
        self._variables = Variables(run, scope, architecture.DISCRIMINATOR_SEEDS)
        init = architecture.kernel_init(options, options.discriminator_norm, options.spectral_norm)
        channels = self._shape[-1] * (2 if self._conditional == "concat" else 1)
        shape = self._shape[:-1] + [channels]
        self._network = NETWORKS[options.network](options, shape, self._variables, init)
        has_norms = options.network != "dcgan" or self._network.downs
        if options.discriminator_norm != "none" and not has_norms:
            run.note(
                f"discriminator_norm normalises nothing: for {shape[0]} x {shape[1]} pixels, "
                "network dcgan has one convolution, and the first has no norm"
            )
        self._add_heads(init)
        kernels = self._variables.kernels if options.spectral_norm else []
        # One vector per kernel: its estimate of the kernel's first singular vector.
        self._vectors = {name: self._variables.create_vector(name, "u") for name in kernels}

    def _add_heads(self, init):
        variables, features = self._variables, self._network.features + (self._group_size > 0)
        self._logits = Dense(variables, "logits", features, 1, init.outer)
        if self._conditional == "concat":
            variables.add_inputs(
                "label/images", self._classes * architecture.num_values(self._shape)
            )
        elif self._conditional == "acgan":
            self._class_logits = Dense(variables, "classes", features, self._classes, init.outer)
        elif self._conditional == "projection":
            variables.add_kernel("embedding/kernel", [self._classes, features], init.outer)

    @property
    def variables(self):
        """Its trainable variables, in order of creation."""
        return self._variables.all

    @property
    def slope_variables(self):
        """The variables that its slope follows from: all that are trained but learned inputs."""
        return self._variables.without_inputs

    def read(self, iterate=False):
        """Name -> value of each variable, read once under the control dependencies in force.

        With spectral_norm, kernels are divided by their norms; `iterate` makes one power iteration
        per kernel, which the next update stores. Otherwise the stored vectors are used.
        """
        values = self._variables.read()
        for name, vector in self._vectors.items():
            values[name], u = power_iteration(values[name], vector.read_value(), iterate)
            if iterate:
                store = vector.assign(u, read_value=False)
                tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, store)
        return values

    def __call__(self, images, labels, values):
        """Compute the outputs for images float32 [N, H, W, C] in [-1, 1] and labels int32 [N], or
        None where they are not used, with the values of `read`.
        """
        if self._conditional == "concat":
            images = tf.concat([images, self._label_images(labels, values)], axis=-1)
        features = self._network(values, images)  # [N, F]
        if self._group_size:
            stddev = group_stddev(features, self._group_size)
            features = tf.concat([features, stddev], axis=1)  # F includes it
        logits, class_logits = tf.squeeze(self._logits(values, features), 1), None  # [N]
        if self._conditional == "acgan":
            class_logits = self._class_logits(values, features)
        elif self._conditional == "projection":
            rows = tf.matmul(self._one_hot(labels), values["embedding/kernel"])  # [N, F]
            logits += tf.reduce_sum(rows * features, axis=1)
        return DiscriminatorOutputs(logits, class_logits)

    def pair(self, reals, real_labels, fakes, fake_labels, values):
        """The outputs for reals and for fakes, in one pass unless it mixes the examples. Images are
        float32 [N, H, W, C] and [M, H, W, C] in [-1, 1], labels int32 or None, values of `read`.
        """
        if self.mixes_examples:
            return self(reals, real_labels, values), self(fakes, fake_labels, values)
        labels = None
        if self._conditional in ("concat", "projection"):
            labels = tf.concat([real_labels, fake_labels], axis=0)
        both = self(tf.concat([reals, fakes], axis=0), labels, values)
        counts = [batch_size(reals), batch_size(fakes)]
        halves = [(None, None) if x is None else tf.split(x, counts) for x in both]
        real, fake = zip(*halves)
        return DiscriminatorOutputs(*real), DiscriminatorOutputs(*fake)

    def _label_images(self, labels, values):
        """[N, H, W, C]: for each label, the learned input image of its class.

        The discriminator learns to distinguish classes sooner with these than with constant planes.
        """
        rows = tf.reshape(values["label/images"], [self._classes, -1])  # [K, H * W * C]
        return tf.reshape(tf.matmul(self._one_hot(labels), rows), [-1] + self._shape)

    def _one_hot(self, labels):
        return tf.one_hot(
            labels, self._classes
        )  # [N, K]; unlike tf.gather's, its gradients are dense


class Mlp:
    """Hidden layers of equal size; examples of any shape."""

    def __init__(self, options, shape, variables, init):
        self.inputs, norm = architecture.num_values(shape), options.discriminator_norm
        self.features = units = architecture.units(options)
        self.input = Dense(variables, "dense1", self.inputs, units, init.inner)
        self.hidden = []
        for number in range(2, architecture.HIDDEN_LAYERS + 1):
            name = f"dense{number}"
            dense = Dense(variables, name, units, units, init.inner, norm == "none")
            self.hidden.append((dense, Norm(variables, f"norm{number}", norm, units)))

    def __call__(self, values, images):
        x = leaky_relu(self.input(values, tf.reshape(images, [-1, self.inputs])))  # [N, units]
        for dense, norm in self.hidden:
            x = leaky_relu(norm(values, dense(values, x)))
        return x


class Dcgan:
    """One convolution per halving, the first without norm (Radford et al. 2016)."""

    def __init__(self, options, shape, variables, init):
        stages, norm = architecture.stages(shape), options.discriminator_norm
        filters = architecture.filters(options, len(stages) - 1)
        self.features = architecture.num_values(stages[-1]) * filters[-1]
        self.input = Down(variables, "conv1", shape[2], filters[0], init.inner)
        self.downs = []
        for number, (num_in, num_out) in enumerate(zip(filters, filters[1:]), start=2):
            name = f"conv{number}"
            down = Down(variables, name, num_in, num_out, init.inner, norm == "none")
            self.downs.append((down, Norm(variables, f"norm{number}", norm, num_out)))
        maps = dict(zip(stages[1:], filters))
        self.attend = MapAttention(variables, options, shape, maps, init.outer)

    def __call__(self, values, images):
        x = self.attend(values, leaky_relu(self.input(values, images)))  # [N, H/2, W/2, F]
        for down, norm in self.downs:
            x = leaky_relu(norm(values, down(values, x)))  # [N, H/4, W/4, 2F] and so on
            x = self.attend(values, x)
        return tf.reshape(x, [-1, self.features])


class Resnet:
    """One residual block per halving, one more, and a sum over positions (Miyato et al. 2018)."""

    def __init__(self, options, shape, variables, init):
        stages, norm = architecture.stages(shape), options.discriminator_norm
        halvings = len(stages) - 1
        filters = architecture.filters(options, halvings + 1)
        self.features = filters[-1]
        self.input = FirstBlock(variables, "block1", shape[2], filters[0], init)
        self.blocks = []
        for number, (num_in, num_out) in enumerate(zip(filters, filters[1:]), start=2):
            halves = number <= halvings
            name = f"block{number}"
            self.blocks.append(Block(variables, name, num_in, num_out, norm, init, halves))
        self.norm = Norm(variables, "norm", norm, self.features)
        maps = dict(zip(stages[1:], filters))
        self.attend = MapAttention(variables, options, shape, maps, init.outer)
        # If kernels have norm one, the mean would bind the logits to values near zero.
        self.pool = tf.reduce_sum if options.spectral_norm else tf.reduce_mean

    def __call__(self, values, images):
        x = self.attend(values, self.input(values, images))  # [N, H/2, W/2, F]
        for block in self.blocks:
            x = block(values, x)  # [N, H/4, W/4, 2F] and so on
            x = self.attend(values, x) if block.halves else x
        return self.pool(leaky_relu(self.norm(values, x)), axis=[1, 2])  # [N, features]


class FirstBlock:
    """Convolve, ReLU, convolve, halve, plus a shortcut; no ReLU is applied to the image itself."""

    def __init__(self, variables, name, channels, filters, init):
        self.conv1 = Conv(variables, name + "/conv1", channels, filters, init.inner)
        self.conv2 = Conv(variables, name + "/conv2", filters, filters, init.inner)
        self.shortcut = Conv(variables, name + "/shortcut", channels, filters, init.outer, size=1)

    def __call__(self, values, x):
        y = leaky_relu(self.conv1(values, x))
        return shrink(self.conv2(values, y)) + self.shortcut(values, shrink(x))


class Block:
    """Normalise, ReLU, convolve, twice; halve if `halves`; plus a shortcut."""

    def __init__(self, variables, name, channels, filters, norm, init, halves):
        bias, self.halves = norm == "none", halves
        self.norm1 = Norm(variables, name + "/norm1", norm, channels)
        self.conv1 = Conv(variables, name + "/conv1", channels, filters, init.inner, bias)
        self.norm2 = Norm(variables, name + "/norm2", norm, filters)
        self.conv2 = Conv(variables, name + "/conv2", filters, filters, init.inner)
        self.shortcut = Conv(variables, name + "/shortcut", channels, filters, init.outer, size=1)

    def __call__(self, values, x):
        y = self.conv1(values, leaky_relu(self.norm1(values, x)))
        y = self.conv2(values, leaky_relu(self.norm2(values, y)))
        if self.halves:
            x, y = shrink(x), shrink(y)  # [N, H/2, W/2, ...]
        return y + self.shortcut(values, x)


NETWORKS: Dict[str, Callable[..., Any]] = {
    "mlp": Mlp,
    "dcgan": Dcgan,
    "resnet": Resnet,
    "r3gan": R3ganDiscriminator,
}
