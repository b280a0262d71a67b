"""The generator: it maps latent numbers, and labels if it is conditional, to images.

No forward pass changes a variable. Batch norm has no moving averages: it uses the mean and variance
of the batch itself, or those of another batch, which `statistics` computes.
Legend: N batch, Z latent, K classes, H W height and width, C channels, F filters.
"""

from __future__ import annotations

from typing import Any, Callable, Dict

from toolkit import tf

from . import architecture
from .blocks import Conv, Dense, MapAttention, Norm, Up, Variables
from .layers import enlarge
from .r3gan import R3ganGenerator


class Generator:
    """A network of the kind that the options name, whose variables' names begin with `scope`. All
    start equal, whatever their scope. The clusters are its labels, if these are clusters.
    """

    def __init__(self, run, scope=architecture.GENERATOR, trainable=True, clusters=None):
        self.clusters = clusters
        self._classes = architecture.num_labels(run.options, run.data)
        self._variables = Variables(run, scope, architecture.GENERATOR, trainable)
        by_norm = run.options.generator_conditional == "batch-norm"
        self._num_inputs = 0 if by_norm else self._classes  # of labels beside the latent numbers
        inputs = run.options.latent_size + self._num_inputs
        self._network = NETWORKS[run.options.network](run, self._variables, inputs)
        self._batch_norms = [norm for norm in self._network.norms if norm.kind == "batch"]

    @property
    def variables(self):
        """All its variables, in order of creation."""
        return self._variables.all

    def __call__(self, z, labels=None, statistics=None):
        """Generate images, float32 [N, H, W, C] in [-1, 1], from z, float32 [N, Z], and labels,
        int32 [N], if it has classes. Without `statistics`, batch norm uses those of the batch.
        """
        moments = None
        if statistics is not None:
            pairs = zip(statistics[::2], statistics[1::2])
            moments = {norm.name: pair for norm, pair in zip(self._batch_norms, pairs)}
        return self._forward(z, labels, moments)

    def statistics(self, z, labels=None):
        """Mean [F] and variance [F] of each batch norm over this batch, as one flat list."""
        moments: Dict[str, Any] = {}
        self._forward(z, labels, moments)
        return [tensor for norm in self._batch_norms for tensor in moments[norm.name]]

    def _forward(self, z, labels, moments):
        values = self._variables.read()
        if self._classes:
            one_hot = tf.one_hot(labels, self._classes)  # [N, K]
            if self._num_inputs:
                z = tf.concat([z, one_hot], axis=1)  # [N, Z + K]
            for norm in self._network.norms:
                values.update(norm.rows(values, one_hot))
        return tf.tanh(self._network(values, z, moments))


class Norms:
    """Creates the normalisations of a generator: conditional ones if the options say so."""

    def __init__(self, run, variables):
        self.kind, self._variables = run.options.generator_norm, variables
        self._num_labels = architecture.num_norm_labels(run.options, run.data)

    def add(self, name, channels):
        """Create a `Norm`."""
        return Norm(self._variables, name, self.kind, channels, self._num_labels)


class Mlp:
    """Hidden layers of equal size; examples of any shape."""

    def __init__(self, run, variables, inputs):
        options, self.shape = run.options, list(run.data.shape)
        norms, units = Norms(run, variables), architecture.units(options)
        init, bias = architecture.kernel_init(options, norms.kind), norms.kind == "none"
        self.hidden, self.norms = [], []
        for number in range(1, architecture.HIDDEN_LAYERS + 1):
            self.hidden.append(Dense(variables, f"dense{number}", inputs, units, init.inner, bias))
            self.norms.append(norms.add(f"norm{number}", units))
            inputs = units
        size = architecture.num_values(self.shape)
        self.output = Dense(variables, "output", units, size, init.outer)

    def __call__(self, values, x, moments):
        for dense, norm in zip(self.hidden, self.norms):
            x = tf.nn.relu(norm(values, dense(values, x), moments))  # [N, units]
        return tf.reshape(self.output(values, x), [-1] + self.shape)


class Stem:
    """A dense layer to the smallest image: [N, Z] -> [N, h, w, F]."""

    def __init__(self, variables, inputs, sides, filters, kernel_init, bias):
        self.shape = [-1, sides[0], sides[1], filters]
        units = sides[0] * sides[1] * filters
        self.dense = Dense(variables, "dense", inputs, units, kernel_init, bias)

    def __call__(self, values, x):
        return tf.reshape(self.dense(values, x), self.shape)


class Dcgan:
    """The stem, then a transposed convolution per doubling (Radford et al. 2016)."""

    def __init__(self, run, variables, inputs):
        options, norms = run.options, Norms(run, variables)
        init, bias = architecture.kernel_init(options, norms.kind), norms.kind == "none"
        self.stages = architecture.stages(run.data.shape)[::-1]  # from the smallest
        filters = architecture.filters(options, len(self.stages) - 1)[::-1]
        self.stem = Stem(variables, inputs, self.stages[0], filters[0], init.inner, bias)
        self.norms, self.ups = [norms.add("norm1", filters[0])], []
        for number, (num_in, num_out) in enumerate(zip(filters, filters[1:]), start=2):
            name = f"conv{number}"
            self.ups.append(Up(variables, name, num_in, num_out, init.inner, bias))
            self.norms.append(norms.add(f"norm{number}", num_out))
        self.output = Up(variables, "output", filters[-1], run.data.shape[2], init.outer)
        maps = dict(zip(self.stages, filters))
        self.attend = MapAttention(variables, options, run.data.shape, maps, init.outer)

    def __call__(self, values, x, moments):
        x = tf.nn.relu(self.norms[0](values, self.stem(values, x), moments))  # [N, h, w, F]
        x = self.attend(values, x)
        for up, norm, sides in zip(self.ups, self.norms[1:], self.stages[1:]):
            x = tf.nn.relu(norm(values, up(values, x, sides), moments))  # [N, 2h, 2w, F/2]
            x = self.attend(values, x)
        return self.output(values, x, self.stages[-1])  # [N, H, W, C]


class Resnet:
    """The stem, then a residual block per doubling and a convolution (Gulrajani et al. 2017)."""

    def __init__(self, run, variables, inputs):
        options, norms = run.options, Norms(run, variables)
        init = architecture.kernel_init(options, norms.kind)
        self.stages = architecture.stages(run.data.shape)[::-1]  # from the smallest
        filters = architecture.filters(options, len(self.stages))[::-1]
        self.stem = Stem(variables, inputs, self.stages[0], filters[0], init.outer, bias=True)
        self.blocks = [
            Block(variables, f"block{number}", num_in, num_out, norms, init)
            for number, (num_in, num_out) in enumerate(zip(filters, filters[1:]), start=1)
        ]
        self.norm = norms.add("norm", filters[-1])
        self.norms = [norm_layer for block in self.blocks for norm_layer in block.norms] + [
            self.norm
        ]
        self.output = Conv(variables, "output", filters[-1], run.data.shape[2], init.outer)
        maps = dict(zip(self.stages, filters))
        self.attend = MapAttention(variables, options, run.data.shape, maps, init.outer)

    def __call__(self, values, x, moments):
        x = self.attend(values, self.stem(values, x))  # [N, h, w, F]
        for block, sides in zip(self.blocks, self.stages[1:]):
            x = self.attend(values, block(values, x, sides, moments))  # [N, 2h, 2w, F/2]
        return self.output(values, tf.nn.relu(self.norm(values, x, moments)))  # [N, H, W, C]


class Block:
    """Normalise, ReLU, enlarge, convolve; again without enlarging; plus a shortcut."""

    def __init__(self, variables, name, channels, filters, norms, init):
        self.norms = [norms.add(name + "/norm1", channels), norms.add(name + "/norm2", filters)]
        bias = norms.kind == "none"
        self.conv1 = Conv(variables, name + "/conv1", channels, filters, init.inner, bias)
        self.conv2 = Conv(variables, name + "/conv2", filters, filters, init.inner)
        self.shortcut = Conv(variables, name + "/shortcut", channels, filters, init.outer, size=1)

    def __call__(self, values, x, sides, moments):
        y = tf.nn.relu(self.norms[0](values, x, moments))
        y = self.conv1(values, enlarge(y, sides))  # [N, 2H, 2W, F]
        y = self.conv2(values, tf.nn.relu(self.norms[1](values, y, moments)))
        # A 1x1 convolution commutes with enlarging; before it, it takes a quarter of the work.
        return y + enlarge(self.shortcut(values, x), sides)


NETWORKS: Dict[str, Callable[..., Any]] = {
    "mlp": Mlp,
    "dcgan": Dcgan,
    "resnet": Resnet,
    "r3gan": R3ganGenerator,
}
