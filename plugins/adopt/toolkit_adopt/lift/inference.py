"""Tensors of a lifted graph as functions of the examples of an evaluation or a prediction."""

from __future__ import annotations

from typing import Any, Dict, List

from toolkit import UsageError, tf

from .feeds import Batch, make_feed
from .fragment import connect, make_fragment
from .period import complete_rules
from .rules import rules_of, tensor_name


class Inference:
    """Tensors of a graph as functions of examples, or of another tensor that is fed.

    Args:
        graph_def: whose variables are resources.
        outputs: key -> name of a tensor.
        feeds: the texts of rules.
        given: the name of a tensor that is fed by itself; "" for none.
        data: the `DataSpec` of the run.
    """

    def __init__(
        self, graph_def: Any, outputs: Dict[str, str], feeds: Dict[str, str], given: str, data: Any
    ):
        rules = rules_of(feeds, 1)
        self._outputs, self._given = outputs, given and tensor_name(given)
        names = [*rules, self._given] if given else list(rules)
        self._fragment = make_fragment(graph_def, list(map(tensor_name, outputs.values())), names)
        own = {name: x for name, x in self._fragment.fed.items() if name != self._given}
        self._rules = complete_rules(own, rules, data)

    @property
    def variables(self) -> Dict[str, Any]:
        return self._fragment.variables

    @property
    def input_spec(self) -> Any:
        """dtype name and shape of a row of the tensor that is fed by itself."""
        dtype, shape = self._fragment.fed.get(self._given, (None, None))
        if dtype is None or shape is None or shape.ndims is None:
            raise UsageError(
                f"'{self._given}' is no input of the outputs with a known shape.",
                hint="Set --graph-input to a placeholder that --graph-output depends on.",
            )
        return dtype.name, shape.as_list()[1:]

    @property
    def fixed_size(self) -> int:
        """The batch size that the graph fixes; 0 for none."""
        sizes = [
            shape.as_list()[0]
            for name, (_, shape) in self._fragment.fed.items()
            if self._is_row(name) and shape is not None and shape.ndims
        ]
        return max([size or 0 for size in sizes], default=0)

    def _is_row(self, name: str) -> bool:
        kinds = ("features", "labels", "uniform", "normal")
        return name == self._given or self._rules[name].kind in kinds

    def build(self, variables: Dict[str, Any], features: Any, labels: Any, run: Any) -> Any:
        """Add the outputs to the default graph, by their keys: a row for each example."""
        first = next(iter(features.values())) if isinstance(features, dict) else features
        size = batch_size(features)
        batch = Batch(features, labels, run, size)
        rows, others = {}, {}
        for name, (dtype, shape) in self._fragment.fed.items():
            if name == self._given:
                rows[name] = first
            elif self._is_row(name):
                rows[name] = make_feed(name, self._rules[name], dtype, _any_size(shape), batch)
            else:
                others[name] = make_feed(name, self._rules[name], dtype, shape, batch)

        def connected(*values: Any) -> List[Any]:
            feeds = dict(others, **dict(zip(rows, values)))
            return connect(self._fragment, variables, feeds, run, "infer")

        fixed, values = self.fixed_size, []
        if not fixed:
            values = connected(*rows.values())
            sizes = [value.shape.as_list()[0] for value in values if value.shape.ndims]
            fixed = max([each or 0 for each in sizes], default=0)  # within the graph
        if fixed:
            values = _in_batches(connected, list(rows.values()), fixed, size)
        return {
            key: tf.placeholder_with_default(value, [None, *value.shape.as_list()[1:]])
            if value.shape.ndims
            else value
            for key, value in zip(self._outputs, values)
        }


def _any_size(shape: Any) -> Any:
    """A shape with an unknown first size."""
    if shape is None or not shape.ndims:
        return shape
    return tf.TensorShape([None]).concatenate(shape[1:])


def _in_batches(function: Any, rows: List[Any], count: int, size: Any) -> List[Any]:
    """Apply a function of `count` rows to any number of them, the last ones padded."""
    num_batches = (size + count - 1) // count
    batches, one = [], []
    for x in rows:
        sizes = x.shape.as_list()[1:]
        padding = [[0, num_batches * count - size]] + [[0, 0]] * len(sizes)
        batches.append(tf.reshape(tf.pad(x, padding), [num_batches, count, *sizes]))
        one.append(tf.placeholder(x.dtype, [count, *sizes]))
    like = function(*one)  # of which nothing runs: it shows dtypes and shapes
    values = tf.map_fn(lambda parts: function(*parts), batches, [value.dtype for value in like])
    return [
        tf.reshape(value, [-1, *form.shape.as_list()[1:]])[:size]
        for value, form in zip(values, like)
    ]


def batch_size(features: Any) -> Any:
    """int32 scalar: the number of examples of a batch."""
    first = next(iter(features.values())) if isinstance(features, dict) else features
    return tf.shape(first)[0]
