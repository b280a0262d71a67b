"""Training steps, summaries, lists of variables and options, as layers, slim and training of
`tf.contrib` have them.
"""

from __future__ import annotations

import functools
import json
import re
from typing import Any, Dict, Iterable, List, Tuple

from toolkit import tf

OPTIMIZER_CLS_NAMES = {
    "Adagrad": tf.train.AdagradOptimizer,
    "Adam": tf.train.AdamOptimizer,
    "Ftrl": tf.train.FtrlOptimizer,
    "Momentum": lambda learning_rate: tf.train.MomentumOptimizer(learning_rate, momentum=0.9),
    "RMSProp": tf.train.RMSPropOptimizer,
    "SGD": tf.train.GradientDescentOptimizer,
}
OPTIMIZER_SUMMARIES = ["learning_rate", "loss", "gradients"]
OPTIMIZER_SUMMARIES += ["gradient_norm", "global_gradient_norm"]
_OF_GRAPH = object()
_CLAUSE = re.compile(r"([a-zA-Z][\w.]*)\s*=\s*(?:\[([^\]]*)\]|([^,\[]*))(?:$|,\s*)")
Pairs = List[Tuple[Any, Any]]  # (gradient, variable)


def clip_gradient_norms(gradients_to_variables, max_norm) -> Pairs:
    """(gradient, variable) pairs whose gradients are each clipped to a norm."""
    clip = tf.clip_by_norm
    return [(None if g is None else clip(g, max_norm), v) for g, v in gradients_to_variables]


def multiply_gradients(grads_and_vars, gradient_multipliers) -> Pairs:
    """(gradient, variable) pairs; those of variables or names in a dictionary are multiplied."""
    factors = {getattr(key, "name", key): value for key, value in gradient_multipliers.items()}

    def scale(gradient: Any, variable: Any) -> Any:
        by = factors.get(variable.name, factors.get(variable.op.name))
        if gradient is None or by is None:
            return gradient
        if isinstance(gradient, tf.IndexedSlices):
            return tf.IndexedSlices(gradient.values * by, gradient.indices, gradient.dense_shape)
        return gradient * by

    return [(scale(gradient, variable), variable) for gradient, variable in grads_and_vars]


def _after_updates(loss: Any, update_ops: Any) -> Any:
    """The loss behind updates, by default those of UPDATE_OPS."""
    updates = tf.get_collection(tf.GraphKeys.UPDATE_OPS) if update_ops is None else update_ops
    with tf.control_dependencies(list(updates)):
        return tf.identity(loss)


def create_train_op(
    total_loss,
    optimizer,
    global_step=_OF_GRAPH,
    update_ops=None,
    variables_to_train=None,
    *,
    clip_gradient_norm=0,
    summarize_gradients=False,
    gradient_multipliers=None,
    check_numerics=True,
    transform_grads_fn=None,
    **options,
):
    """The loss, whose evaluation makes a training step.

    `transform_grads_fn`, of `tf.contrib.training`, gets and gives (gradient, variable) pairs; the
    options are those of `compute_gradients`.
    """
    step = tf.train.get_or_create_global_step() if global_step is _OF_GRAPH else global_step
    total_loss = _after_updates(total_loss, update_ops)
    variables = variables_to_train or tf.trainable_variables()
    pairs = optimizer.compute_gradients(total_loss, variables, **options)
    if transform_grads_fn:
        pairs = transform_grads_fn(pairs)
    if gradient_multipliers:
        pairs = multiply_gradients(pairs, gradient_multipliers)
    if clip_gradient_norm > 0:
        pairs = clip_gradient_norms(pairs, clip_gradient_norm)
    for gradient, var in pairs if summarize_gradients else ():
        if gradient is not None:
            tf.summary.histogram(var.op.name + "/gradient", gradient)
    applied = optimizer.apply_gradients(pairs, global_step=step)
    with tf.name_scope("train_op"):
        if check_numerics:
            total_loss = tf.check_numerics(total_loss, "LossTensor is inf or nan")
        with tf.control_dependencies([applied]):
            train_op = tf.identity(total_loss)
    tf.get_default_graph().add_to_collections(tf.GraphKeys.TRAIN_OP, train_op)
    return train_op


def optimize_loss(
    loss,
    global_step,
    learning_rate,
    optimizer,
    gradient_noise_scale=None,
    gradient_multipliers=None,
    clip_gradients=None,
    learning_rate_decay_fn=None,
    update_ops=None,
    variables=None,
    name=None,
    summaries=("loss", "learning_rate"),
    colocate_gradients_with_ops=False,
    increment_global_step=True,
):
    """The loss, whose evaluation makes a training step.

    Of the summaries those of the loss and of a rate that decays are written, none of gradients.
    """
    if gradient_noise_scale is not None:
        raise ValueError("gradient_noise_scale has no stand-in")
    shown = ("loss", "learning_rate") if summaries is None else summaries
    step = tf.train.get_global_step() if global_step is None else global_step
    with tf.variable_scope(name, "OptimizeLoss", [loss, step]):
        loss = _after_updates(loss, update_ops)
        rate = learning_rate
        if isinstance(rate, float):
            start = tf.constant_initializer(rate)
            rate = tf.get_variable("learning_rate", [], trainable=False, initializer=start)
        if rate is not None and learning_rate_decay_fn is not None:
            rate = learning_rate_decay_fn(rate, step)
            if "learning_rate" in shown:
                tf.summary.scalar("learning_rate", rate)
        optimizer = OPTIMIZER_CLS_NAMES[optimizer] if isinstance(optimizer, str) else optimizer
        if not isinstance(optimizer, tf.train.Optimizer):
            optimizer = optimizer() if rate is None else optimizer(rate)
        trained = tf.trainable_variables() if variables is None else variables
        colocated = {"colocate_gradients_with_ops": colocate_gradients_with_ops}
        pairs = optimizer.compute_gradients(loss, trained, **colocated)
        if gradient_multipliers is not None:  # here a name has its ":0", or is nobody's
            named = {getattr(key, "name", key): each for key, each in gradient_multipliers.items()}
            pairs = multiply_gradients(pairs, {k: each for k, each in named.items() if ":" in k})
        if callable(clip_gradients):
            pairs = clip_gradients(pairs)
        elif clip_gradients is not None:
            gradients, clipped = zip(*pairs)
            pairs = list(zip(tf.clip_by_global_norm(gradients, clip_gradients)[0], clipped))
        if "loss" in shown:
            tf.summary.scalar("loss", loss)
        advanced = step if increment_global_step else None
        with tf.control_dependencies([optimizer.apply_gradients(pairs, advanced, name="train")]):
            return tf.identity(loss)


def summarize_tensor(tensor: Any, tag=None) -> Any:
    """A scalar's value, else a histogram; None for texts and booleans."""
    if tensor.dtype.base_dtype in (tf.string, tf.bool):
        return None
    summary = tf.summary.scalar if tensor.shape.ndims == 0 else tf.summary.histogram
    return summary(tag or f"{tensor.op.name}_summary", tensor)


summarize_activation = summarize_tensor


def summarize_tensors(tensors: Iterable[Any], summarizer=summarize_tensor) -> List[Any]:
    """A summary of each."""
    return [summarizer(tensor) for tensor in tensors]


def summarize_collection(collection, name_filter=None, summarizer=summarize_tensor) -> List[Any]:
    """A summary of each tensor of a collection whose name begins as a regular expression says."""
    tensors = tf.get_collection(collection)
    chosen = [each for each in tensors if not name_filter or re.match(name_filter, each.op.name)]
    return summarize_tensors(chosen, summarizer)


@functools.wraps(summarize_collection)
def summarize_activations(name_filter=None, summarizer=summarize_activation) -> List[Any]:
    return summarize_collection(tf.GraphKeys.ACTIVATIONS, name_filter, summarizer)


def analyze_vars(variables: Iterable[Any], print_info: bool = False) -> Tuple[int, int]:
    """How many values and bytes some variables have; their list, if it is asked for, on stdout."""
    total = total_bytes = 0
    lines = ["---------", "Variables: name (type shape) [size]", "---------"]
    for each in variables:
        dtype, size = each.dtype.base_dtype, each.shape.num_elements() or 0
        total, total_bytes = total + size, total_bytes + size * dtype.size
        form = f"{dtype.name} {'x'.join(map(str, each.shape.as_list()))}"
        lines.append(f"{each.name} ({form}) [{size}, bytes: {size * dtype.size}]")
    if print_info:
        print(*lines, f"Total size of variables: {total}", sep="\n")
        print(f"Total bytes of variables: {total_bytes}")
    return total, total_bytes


class HParams:
    """Options by name, a number, text, boolean or list each; what else is set as an attribute is
    none.
    """

    def __init__(self, **values: Any):
        self._kinds: Dict[str, Tuple[Any, bool]] = {}  # name -> type of each value, if in a list
        for name, value in values.items():
            self.add_hparam(name, value)

    def add_hparam(self, name: str, value: Any) -> None:
        """Add an option, whose type is that of its value, or of the first one of a list."""
        is_list = isinstance(value, (list, tuple))
        self._kinds[name] = type(value[0] if is_list else value), is_list
        setattr(self, name, value)

    def set_hparam(self, name: str, value: Any) -> None:
        """Change an option; an equal value of its type replaces the given one.

        Raises KeyError if there is none of this name, and ValueError if the value is not of its
        type.
        """
        if name not in self:
            raise KeyError(f"HParams has no {name!r}, but {', '.join(self._kinds)}.")
        kind, is_list = self._kinds[name]
        if isinstance(value, list) != is_list:
            raise ValueError(f"{name!r} of HParams is {'a' if is_list else 'no'} list.")
        values = value if is_list else [value]
        cast = [x if kind in (type(x), type(None)) else kind(x) for x in values]
        if cast != list(values):
            raise ValueError(f"{name!r} of HParams is of type {kind.__name__}, not {value!r}.")
        setattr(self, name, cast if is_list else cast[0])

    def override_from_dict(self, values_dict: Dict[str, Any]) -> HParams:
        """`set_hparam` of several."""
        for name, value in values_dict.items():
            self.set_hparam(name, value)
        return self

    def parse(self, values: str) -> HParams:
        """Change options by a text such as "rate=0.1,layers=[1,2],name=a", read by their types.

        Raises ValueError if the text has another form, or a name twice or without an option.
        """
        parsed: Dict[str, Any] = {}
        rest = values.strip()
        while rest:
            clause = _CLAUSE.match(rest)
            if clause is None or clause[1] not in self or clause[1] in parsed:
                names = ", ".join(self._kinds)
                raise ValueError(f"HParams parses name=value,... of {names} once; not {rest!r}.")
            name, items, text = clause.groups()
            kind, rest = self._kinds[name][0], rest[clause.end() :]
            try:
                texts = [text] if items is None else re.findall("[^ ,]+", items)
                if kind is bool:
                    texts = [int({"true": 1, "false": 0}.get(x.lower(), x)) for x in texts]
                found = list(map(kind, texts))
            except (TypeError, ValueError):
                message = f"{name!r} of HParams is of type {kind.__name__}, not {clause[0]!r}."
                raise ValueError(message) from None
            parsed[name] = found[0] if items is None else found
        return self.override_from_dict(parsed)

    def get(self, key: str, default: Any = None) -> Any:
        """The value of an option, or a default."""
        return getattr(self, key) if key in self else default

    def values(self) -> Dict[str, Any]:
        """Name -> value."""
        return {name: getattr(self, name) for name in self._kinds}

    def to_json(self, **options) -> str:
        """The values as JSON."""
        return json.dumps(self.values(), **options)

    def parse_json(self, values_json: str) -> HParams:
        """`override_from_dict` of JSON."""
        return self.override_from_dict(json.loads(values_json))

    def __contains__(self, key: str) -> bool:
        return key in self._kinds

    def __repr__(self) -> str:
        return f"HParams({self.values()})"
