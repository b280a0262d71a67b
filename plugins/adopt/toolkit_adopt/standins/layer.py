"""What the layers of `tf.contrib.layers` share: a variable scope, variables, and their ending."""

from __future__ import annotations

import functools
import inspect
from typing import Any, Dict, List, Sequence

from toolkit import tf

from .initializers import xavier_initializer
from .scopes import add_arg_scope, collect_named_outputs, get_variable_collections, model_variable

OPTIONS: Dict[str, Any] = {
    "activation_fn": tf.nn.relu,  # of the outputs; None for none
    "normalizer_fn": None,  # takes the place of the biases
    "normalizer_params": None,
    "weights_initializer": xavier_initializer(),
    "weights_regularizer": None,
    "biases_initializer": tf.zeros_initializer(),  # None for no biases
    "biases_regularizer": None,
    "reuse": None,  # whether the variables exist
    "variables_collections": None,  # a list for all variables, or a dictionary by their names
    "outputs_collections": None,
    "trainable": True,  # whether the variables are in TRAINABLE_VARIABLES
    "scope": None,  # of the variables; a name with a number by default
}
_STARTS = {
    "beta": tf.zeros_initializer(),
    "gamma": tf.ones_initializer(),
    "moving_mean": tf.zeros_initializer(),
    "moving_variance": tf.ones_initializer(),
}
OF_NORMALIZATIONS = {name: value for name, value in OPTIONS.items() if "izer" not in name}
# The last two are dictionaries by the names of variables.
OF_NORMALIZATIONS.update(activation_fn=None, param_initializers=None, param_regularizers=None)


class Layer:
    """The inputs and the variables of a layer, and what comes after its own ops."""

    def __init__(self, inputs: Any, options: Dict[str, Any], data_format: Any, scope: Any):
        self.inputs, self.options, self._scope = inputs, options, scope
        self.rank = len(inputs.shape)
        self._is_channels_first = str(data_format).startswith("NC")
        self.axis = 1 if self._is_channels_first else self.rank - 1  # of the channels

    @property
    def channels(self) -> int:
        """The static number of the inputs' channels."""
        return int(self.inputs.shape.as_list()[self.axis])

    def per_axis(self, values: Sequence[Any], channels: Any = 1, examples: Any = 1) -> List[Any]:
        """One value for each axis of a tensor."""
        if self._is_channels_first:
            return [examples, channels, *values]
        return [examples, *values, channels]

    def variable(
        self, name: str, shape: List[int], initializer: Any = None, dtype: Any = None
    ) -> Any:
        """A variable by the options of its kind, all weights being of one."""
        options, kind = self.options, "weights" if name.endswith("weights") else name
        starts = options.get("param_initializers") or {}
        penalties = options.get("param_regularizers") or {}
        initializer = initializer or options.get(f"{kind}_initializer") or starts.get(name)
        return model_variable(
            name,
            shape=shape,
            dtype=dtype or self.inputs.dtype.base_dtype,
            initializer=initializer or _STARTS.get(name),
            regularizer=options.get(f"{kind}_regularizer") or penalties.get(name),
            trainable=options["trainable"] and not name.startswith("moving"),
            collections=get_variable_collections(options["variables_collections"], kind),
        )

    def finish(self, outputs: Any) -> Any:
        """Normalize or add biases, activate, and collect."""
        options = self.options
        if options.get("normalizer_fn") is not None:
            outputs = options["normalizer_fn"](outputs, **(options["normalizer_params"] or {}))
        elif options.get("biases_initializer") is not None:
            axis = 1 if self._is_channels_first else -1
            biases = self.variable("biases", [outputs.shape.as_list()[axis]])
            outputs = tf.nn.bias_add(outputs, biases, "NCHW" if self._is_channels_first else None)
        if options["activation_fn"] is not None:
            outputs = options["activation_fn"](outputs)
        return collect_named_outputs(options["outputs_collections"], self._scope.name, outputs)


def as_layer(name: str, order: str = "", known: Dict[str, Any] = OPTIONS) -> Any:
    """Make a layer of a function (a decorator), in a variable scope that by default has this name.

    The function gets a `Layer` in place of the inputs, and the arguments that are no options; what
    it returns is finished. `order` has the arguments after the inputs that may be given by place,
    by default those of the function and all options; `known` the options with their defaults.
    """

    def decorate(function: Any) -> Any:
        places = order.split() or [*list(inspect.signature(function).parameters)[1:], *known]

        @functools.wraps(function)
        def layer(inputs: Any, *args: Any, **given: Any) -> Any:
            if len(args) > len(places):
                raise TypeError(f"{function.__name__} takes {len(places)} positional arguments.")
            given.update(zip(places, args))
            options = {option: given.pop(option, value) for option, value in known.items()}
            reuse = options["reuse"]
            with tf.variable_scope(options["scope"], name, [inputs], reuse=reuse) as scope:
                inputs = tf.convert_to_tensor(inputs)
                made = Layer(inputs, options, given.get("data_format"), scope)
                return made.finish(function(made, **given))

        return add_arg_scope(layer)

    return decorate
