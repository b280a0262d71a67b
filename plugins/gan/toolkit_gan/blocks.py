"""The variables of a network, and layers that create theirs once and apply them to given values.

A layer creates its variables in its constructor. It is called with `values`, name -> tensor, read
by `Variables.read`. Each forward pass thus chooses its weights: those at this point of the graph,
or those divided by their spectral norm.
Legend: N batch, H W height and width, C channels in, F filters out.
"""

from __future__ import annotations

from toolkit import convolutions, tf

from . import architecture, layers

SMALL = 0.02  # standard deviation of the initializer "small"
# The channels of queries, keys and values are those of the map divided by these.
KEY_SHARE, VALUE_SHARE = 8, 2


class Variables:
    """The variables of one network, below `scope`. Initial values are a function of `seed_scope`,
    of the variable's name and of the run's seed: networks with the same one start equal.
    """

    def __init__(self, run, scope, seed_scope, trainable=True):
        self._run, self._scope, self._seed_scope = run, scope, seed_scope
        self._trainable = trainable
        self._variables = {}
        self._inputs = []  # names of learned inputs
        self.kernels = []  # names of those that spectral normalisation divides

    def add_kernel(self, name, shape, kind, fan_shape=None):
        """Add a kernel. `kind` is that of the initializer, "small", "he_normal" or
        "glorot_uniform", or the standard deviation of a normal one, where 0 gives zeros.
        `fan_shape` is a shape of the same size whose fans set the initial scale, if not `shape`.
        """
        self.kernels.append(name)
        initializer = self._initializer(name, kind)
        if fan_shape is not None:
            initializer = _with_fans_of(initializer, fan_shape)
        self._add(name, shape, initializer)

    def add_inputs(self, name, size):
        """Add learned inputs [size], initially N(0, 1), which are used beside an example's own.

        They have one axis, so weight decay does not apply to them; nor does weight clipping.
        """
        self._inputs.append(name)
        self._add(name, [size], self._initializer(name, "normal", 1.0))

    def add_zeros(self, name, shape):
        """Add a variable that is initially zero."""
        self._add(name, shape, tf.zeros_initializer())

    def add_ones(self, name, shape):
        """Add a variable that is initially one."""
        self._add(name, shape, tf.ones_initializer())

    def create_vector(self, kernel, name):
        """Create a variable [F] beside a kernel [..., F]: not trained, not read by `read`.

        It is initially N(0, 1).
        """
        name = kernel.rsplit("/", 1)[0] + "/" + name
        size = self._variables[kernel].shape[-1]
        return self._create(name, [size], self._initializer(name, "normal", 1.0), False)

    def read(self):
        """Name -> value, read under the control dependencies in force."""
        return {name: variable.read_value() for name, variable in self._variables.items()}

    @property
    def all(self):
        """The variables in order of creation, without those of `create_vector`."""
        return list(self._variables.values())

    @property
    def without_inputs(self):
        """The variables of `all`, without those of `add_inputs`."""
        return [v for name, v in self._variables.items() if name not in self._inputs]

    def _initializer(self, name, kind, stddev=SMALL):
        if kind == 0:
            return tf.zeros_initializer()
        if not isinstance(kind, str):
            kind, stddev = "normal", kind
        kind = "normal" if kind == "small" else kind
        return self._run.initializer(kind, f"{self._seed_scope}/{name}", stddev)

    def _add(self, name, shape, initializer):
        self._variables[name] = self._create(name, shape, initializer, self._trainable)

    def _create(self, name, shape, initializer, trainable):
        return tf.get_variable(
            f"{self._scope}/{name}",
            shape,
            initializer=initializer,
            trainable=trainable,
            use_resource=True,
        )


def _with_fans_of(initializer, fan_shape):
    """An initializer whose values are those for `fan_shape`, reshaped to the variable's shape."""
    return lambda shape, *_, **__: tf.reshape(initializer(fan_shape), shape)


class Layer:
    """A kernel, a bias [F] unless a normalisation follows, and a function of both. F is by default
    the kernel's last axis; `kind` and `fan_shape` are those of `Variables.add_kernel`.
    """

    def __init__(self, variables, name, shape, kind, bias, outputs=None, fan_shape=None):
        self.kernel, self.bias = name + "/kernel", name + "/bias" if bias else None
        variables.add_kernel(self.kernel, shape, kind, fan_shape)
        if bias:
            variables.add_zeros(self.bias, [outputs or shape[-1]])

    def __call__(self, values, x, *sides):
        x = self.apply(x, values[self.kernel], *sides)
        return tf.nn.bias_add(x, values[self.bias]) if self.bias else x

    def apply(self, x, kernel, *sides):
        """The function of the input and the kernel, without the bias."""
        raise NotImplementedError


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
        # Each output pixel sees 2x2 input pixels, and each of these makes four: this is a 2x2
        # convolution to four times the filters, whose scale it takes.
        fan_shape = [2, 2, channels, 4 * filters]
        shape = [4, 4, filters, channels]
        super().__init__(variables, name, shape, kind, bias, outputs=filters, fan_shape=fan_shape)


class Norm:
    """Batch norm, layer norm or no normalisation, with gamma and beta per channel.

    It is called with `moments`, name -> (mean, variance). Batch norm uses its entry there; without
    an entry, it computes the batch's moments and stores them there. If `moments` is None it uses
    the batch's moments without storing them, which is faster. Layer norm ignores `moments`.

    Conditional batch norm (de Vries et al. 2017, Modulating early visual processing by language)
    has a gamma and a beta for each of `num_labels`; the moments are those of all examples. It is
    called with `values` in which `rows` replaces all gammas and betas by those of the examples'
    labels.
    """

    def __init__(self, variables, name, kind, channels, num_labels=0):
        self.name, self.kind, self.channels = name, kind, channels
        self._num_labels = num_labels
        if kind != "none":
            # One axis, also for several labels: weight decay does not apply to vectors.
            size = channels * max(1, num_labels)
            variables.add_ones(name + "/gamma", [size])
            variables.add_zeros(name + "/beta", [size])

    def rows(self, values, one_hot):
        """Name -> [N, C], the gamma and the beta of each example; one_hot: float32 [N, K]."""
        names = [f"{self.name}/{name}" for name in ("gamma", "beta")] if self._num_labels else []
        shape = [self._num_labels, self.channels]
        return {name: tf.matmul(one_hot, tf.reshape(values[name], shape)) for name in names}

    def __call__(self, values, x, moments=None):
        if self.kind == "none":
            return x
        gamma, beta = (self._scale(values, name, x) for name in ("gamma", "beta"))
        if self.kind == "batch" and moments is None:
            return layers.fused_batch_norm(x, gamma, beta)
        mean, variance = self._moments(x, moments)
        return layers.normalise(x, mean, variance, gamma, beta)

    def _scale(self, values, name, x):
        """Gamma or beta: [C], or [N, 1, ..., C] of rows."""
        value = values[f"{self.name}/{name}"]
        if not self._num_labels:
            return value
        return tf.reshape(value, [-1] + [1] * (x.shape.ndims - 2) + [self.channels])

    def _moments(self, x, moments):
        if self.kind == "layer":
            return layers.example_moments(x)
        if self.name not in moments:
            moments[self.name] = layers.batch_moments(x)
        return moments[self.name]


class Attention:
    """x + scale * attention(x); the scale is learned and initially zero.

    Each position takes values from all positions (Zhang et al. 2019, Self-Attention Generative
    Adversarial Networks). As in their code, keys and values come from a map of half the height and
    width; here its pixels are means, not maxima.
    """

    def __init__(self, variables, channels, kernel_init):
        def add(name, num_in, num_out):
            name = "attention/" + name
            return Conv(variables, name, num_in, num_out, kernel_init, bias=False, size=1)

        self._keys, self._values = max(1, channels // KEY_SHARE), max(1, channels // VALUE_SHARE)
        self._query = add("query", channels, self._keys)
        self._key = add("key", channels, self._keys)
        self._value = add("value", channels, self._values)
        self._output = add("output", self._values, channels)
        variables.add_zeros("attention/scale", [1])

    def __call__(self, values, x):
        """[N, H, W, C] -> [N, H, W, C]; values: name -> tensor, of `Variables.read`."""
        sides, half = x.shape.as_list()[1:3], layers.shrink(x)
        queries = tf.reshape(self._query(values, x), [-1, sides[0] * sides[1], self._keys])
        num_keys = architecture.num_values(half.shape.as_list()[1:3])
        keys = tf.reshape(self._key(values, half), [-1, num_keys, self._keys])  # [N, M, Q]
        contents = tf.reshape(self._value(values, half), [-1, num_keys, self._values])
        result = tf.reshape(layers.attend(queries, keys, contents), [-1, *sides, self._values])
        return x + values["attention/scale"] * self._output(values, result)


class MapAttention:
    """Self-attention in the feature map that the options name; other maps pass unchanged. The
    channels are those of each feature map, by its sides.
    """

    def __init__(self, variables, options, shape, channels, kernel_init):
        self._sides = architecture.attention_sides(options, shape)
        if self._sides:
            self._attention = Attention(variables, channels[self._sides], kernel_init)

    def __call__(self, values, x):
        if self._sides != tuple(x.shape.as_list()[1:3]):
            return x
        return self._attention(values, x)
