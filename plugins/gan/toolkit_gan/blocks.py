"""Variables, made once, and the layers that find their own among the values they are given.

Legend: N batch, H W height and width, C channels in, F filters out.

A layer makes its variables in its constructor. It is called with `values`, name -> tensor, which
whoever runs the network has read (`Variables.read`), and so every pass says which weights it means:
those of this moment of the graph, or those divided by their spectral norm.
"""

from __future__ import annotations

from toolkit import tf

from . import convolutions, layers

SMALL = 0.02  # standard deviation of the initializer "small"


class Variables:
    """The variables of one network, by their names under `scope`.

    seed_scope: what the initial values are a function of, beside the layer's name and the run's
    seed; two networks with the same one start as equals.
    """

    def __init__(self, run, scope, seed_scope, trainable=True):
        self._run, self._scope, self._seed_scope = run, scope, seed_scope
        self._trainable = trainable
        self._made = {}
        self.kernels = []  # names of those that spectral normalisation divides

    def kernel(self, name, shape, kind, scale=None):
        self.kernels.append(name)
        made = self._initializer(name, kind)
        self._add(name, shape, made if scale is None else _scaled(made, scale))

    def inputs(self, name, size):
        """Learned inputs beside an example's, as large as those: N(0, 1) at first.

        They have one axis, and so neither weight decay nor weight clipping takes them for weights.
        """
        self._add(name, [size], self._initializer(name, "normal", 1.0))

    def zeros(self, name, shape):
        self._add(name, shape, tf.zeros_initializer())

    def ones(self, name, shape):
        self._add(name, shape, tf.ones_initializer())

    def vector(self, kernel, name):
        """A variable [F] beside a kernel [..., F], not trained and not in `read`; first N(0, 1)."""
        name = kernel.rsplit("/", 1)[0] + "/" + name
        size = self._made[kernel].shape[-1]
        return self._variable(name, [size], self._initializer(name, "normal", 1.0), False)

    def read(self):
        """Name -> value, read anew under the control dependencies in force."""
        return {name: variable.read_value() for name, variable in self._made.items()}

    @property
    def all(self):
        return list(self._made.values())

    def _initializer(self, name, kind, stddev=SMALL):
        kind = "normal" if kind == "small" else kind
        return self._run.initializer(kind, f"{self._seed_scope}/{name}", stddev)

    def _add(self, name, shape, initializer):
        self._made[name] = self._variable(name, shape, initializer, self._trainable)

    def _variable(self, name, shape, initializer, trainable):
        return tf.get_variable(
            f"{self._scope}/{name}",
            shape,
            initializer=initializer,
            trainable=trainable,
            use_resource=True,
        )


def _scaled(initializer, scale):
    """The initializer, giving the values it has for the shape `scale` in the shape asked for."""
    return lambda shape, *_, **__: tf.reshape(initializer(scale), shape)


class Layer:
    """A kernel, a bias [F] unless a normalisation follows, and a function of both.

    scale: the shape that the scale of the kernel's first values goes by, if not its own.
    """

    def __init__(self, variables, name, shape, kind, bias, outputs=None, scale=None):
        self.kernel, self.bias = name + "/kernel", name + "/bias" if bias else None
        variables.kernel(self.kernel, shape, kind, scale)
        if bias:
            variables.zeros(self.bias, [outputs or shape[-1]])

    def __call__(self, values, x, *sides):
        x = self.apply(x, values[self.kernel], *sides)
        return tf.nn.bias_add(x, values[self.bias]) if self.bias else x


class Dense(Layer):
    """[N, C] -> [N, F]"""

    apply = staticmethod(layers.dense)

    def __init__(self, variables, name, inputs, units, kind, bias=True):
        super().__init__(variables, name, [inputs, units], kind, bias)


class Conv(Layer):
    """[N, H, W, C] -> [N, H, W, F]"""

    apply = staticmethod(convolutions.convolve)

    def __init__(self, variables, name, channels, filters, kind, bias=True, size=3):
        super().__init__(variables, name, [size, size, channels, filters], kind, bias)


class Down(Layer):
    """[N, H, W, C] -> [N, H/2, W/2, F]"""

    apply = staticmethod(convolutions.down)

    def __init__(self, variables, name, channels, filters, kind, bias=True):
        super().__init__(variables, name, [4, 4, channels, filters], kind, bias)


class Up(Layer):
    """[N, H, W, C] -> [N, *sides, F]"""

    apply = staticmethod(convolutions.up)

    def __init__(self, variables, name, channels, filters, kind, bias=True):
        # A pixel of the output sees 2x2 pixels, and makes four of them: the scale is that of the
        # 2x2 convolution to four times the filters that this is.
        scale = [2, 2, channels, 4 * filters]
        shape = [4, 4, filters, channels]
        super().__init__(variables, name, shape, kind, bias, outputs=filters, scale=scale)


class Norm:
    """Batch norm, layer norm or nothing; gamma and beta per channel.

    It is called with `moments`, name -> (mean, variance). Batch norm takes its own from there, or
    else computes those of the batch and puts them there; with None it uses the batch's and keeps
    nothing, which is faster. Layer norm has no use for it.
    """

    def __init__(self, variables, name, kind, channels):
        self.name, self.kind, self.channels = name, kind, channels
        if kind != "none":
            variables.ones(name + "/gamma", [channels])
            variables.zeros(name + "/beta", [channels])

    def __call__(self, values, x, moments):
        if self.kind == "none":
            return x
        gamma, beta = values[self.name + "/gamma"], values[self.name + "/beta"]
        if self.kind == "batch" and moments is None:
            return layers.fused_batch_norm(x, gamma, beta)
        mean, variance = self._moments(x, moments)
        return layers.normalise(x, mean, variance, gamma, beta)

    def _moments(self, x, moments):
        if self.kind == "layer":
            return layers.example_moments(x)
        if self.name not in moments:
            moments[self.name] = layers.batch_moments(x)
        return moments[self.name]
