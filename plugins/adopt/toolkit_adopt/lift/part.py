"""Part of a lifted graph with the rules by which it is fed, and what is built of such parts."""

from __future__ import annotations

from typing import Any, Dict, List, Sequence

from toolkit import UsageError, tf

from .feeds import Batch, guess_rule, make_feed
from .fragment import connect, make_fragment
from .nodes import find_losses, find_train_ops
from .rules import Rule, parse_rule, rules_of, tensor_name


class Part:
    """Ops and tensors of a graph.

    Args:
        graph_def: whose variables are resources.
        targets: names of ops, or of tensors with their number.
        feeds: the name of a placeholder, or of another tensor at which the graph is cut, to the
            text of its rule; `NAME@2` is for the second call of a period alone.
        data: the `DataSpec` of the run.
        call: the number of the call in its period, from 1.
        given: the name of a tensor that is fed by itself; "" for none.

    Raises:
        UsageError: it cannot be run here, or a tensor has no rule.
    """

    def __init__(
        self,
        graph_def: Any,
        targets: Sequence[str],
        feeds: Dict[str, str],
        data: Any,
        call: int = 1,
        given: str = "",
    ):
        rules = rules_of(feeds, call)
        cuts = [*rules, given] if given else list(rules)
        self.given, self.fragment = given, make_fragment(graph_def, targets, cuts)
        self.variables, self.fed = self.fragment.variables, self.fragment.fed
        self.rules: Dict[str, Rule] = {
            name: rules.get(name) or _guess(name, *form, data)
            for name, form in sorted(self.fed.items())
            if name != given
        }

    def is_row(self, name: str) -> bool:
        """Whether what a tensor is fed has a row for each example."""
        rows = ("features", "labels", "uniform", "normal")
        return name == self.given or self.rules[name].kind in rows

    def make_feeds(self, batch: Batch, any_size: bool = False) -> Dict[str, Any]:
        """What each tensor is fed, by its name, without the given one.

        Args:
            batch: of the step.
            any_size: whether rows may be as many as the batch has, whatever the graph fixes.
        """
        feeds = {}
        for name, rule in self.rules.items():
            dtype, shape = self.fed[name]
            if any_size and self.is_row(name) and shape is not None and shape.ndims:
                shape = tf.TensorShape([None]).concatenate(shape[1:])
            feeds[name] = make_feed(name, rule, dtype, shape, batch)
        return feeds

    def connect(
        self,
        variables: Dict[str, Any],
        feeds: Dict[str, Any],
        run: Any,
        label: str,
        after: Sequence[Any] = (),
    ) -> List[Any]:
        """Add it to the default graph, see `fragment.connect`."""
        return connect(self.fragment, variables, feeds, run, label, after)


def _guess(name: str, dtype: Any, shape: Any, data: Any) -> Rule:
    """The rule that the form of a tensor suggests."""
    op = name[:-2] if name.endswith(":0") else name
    text = guess_rule(dtype, shape, data)
    if not text:
        kind = "a tensor" if dtype is None else dtype.name
        raise UsageError(
            f"The graph is fed '{op}' ({kind} {shape}), for which there is no rule.",
            hint=f"Set --feed {op}=RULE, for example features, uniform:-1:1 or 0.5.",
        )
    return parse_rule(op, text)


class Period:
    """A step in mode "train": the calls of a period, one after the other.

    Args:
        graph_def: whose variables are resources.
        train_ops: of each call, joined by "+".
        losses: names of scalars.
        feeds, data: as of `Part`.
    """

    def __init__(
        self,
        graph_def: Any,
        train_ops: Sequence[str],
        losses: Sequence[str],
        feeds: Dict[str, str],
        data: Any,
    ):
        if not train_ops:
            found = ", ".join(find_train_ops(graph_def))
            hint = f"The graph has {found}." if found else "The graph has no optimizer."
            raise UsageError("No train op is named.", hint=f"Set --train-op NAME,... {hint}")
        self._calls: List[Part] = []
        self._losses: List[List[str]] = []  # of each call
        left = [tensor_name(name) for name in losses]
        for number, text in enumerate(train_ops, 1):
            ops = text.split("+")
            inside = make_fragment(graph_def, ops, list(rules_of(feeds, number)))
            if losses:
                names = {node.name for node in inside.graph_def.node}
                is_last = number == len(train_ops)
                own = [name for name in left if is_last or name.partition(":")[0] in names]
                left = [name for name in left if name not in own]
            else:
                found_losses = find_losses(graph_def, ops, list(rules_of(feeds, number)))
                own = [n for n in map(tensor_name, found_losses) if n not in self.losses]
            self._calls.append(Part(graph_def, [*ops, *own], feeds, data, number))
            self._losses.append(own)
        if not self.losses:
            raise UsageError(
                f"No loss of '{train_ops[0]}' was found.",
                hint="Name scalars of the graph: --losses NAME,...",
            )

    @property
    def losses(self) -> List[str]:
        """The names of the losses of all calls."""
        return [name for own in self._losses for name in own]

    @property
    def variables(self) -> Dict[str, Any]:
        """The variables of all calls."""
        return {name: x for call in self._calls for name, x in call.variables.items()}

    def build(self, variables: Dict[str, Any], features: Any, labels: Any, run: Any) -> Any:
        """Add a step to the default graph; return its losses by name, and its op."""
        after: List[Any] = []
        losses: Dict[str, Any] = {}
        sharing: Dict[str, List[int]] = {}  # tensor -> the calls that divide the batch for it
        for number, call in enumerate(self._calls, 1):
            for name, rule in call.rules.items():
                if "part" in rule.words:
                    sharing.setdefault(name, []).append(number)
        for number, (call, own) in enumerate(zip(self._calls, self._losses), 1):
            batch = Batch(features, labels, run, run.options.batch_size, number, sharing)
            feeds = call.make_feeds(batch)
            values = call.connect(variables, feeds, run, f"call{number}", after)
            after = [getattr(value, "op", value) for value in values]
            for name, value in zip(own, values[len(values) - len(own) :]):
                losses[name[:-2]] = tf.cast(value, tf.float32)
        return losses, tf.group(*after)


class Inference:
    """Tensors of a graph as functions of the examples of an evaluation or a prediction, or of
    another tensor that is fed.

    Args:
        graph_def: whose variables are resources.
        outputs: key -> name of a tensor.
        feeds, data: as of `Part`.
        given: the name of a tensor that is fed by itself; "" for none.
    """

    def __init__(
        self, graph_def: Any, outputs: Dict[str, str], feeds: Dict[str, str], given: str, data: Any
    ):
        self._outputs = list(outputs)
        targets, given = list(map(tensor_name, outputs.values())), given and tensor_name(given)
        self._part = Part(graph_def, targets, feeds, data, given=given)
        self.variables = self._part.variables

    @property
    def input_spec(self) -> Any:
        """dtype name and shape of a row of the tensor that is fed by itself."""
        dtype, shape = self._part.fed.get(self._part.given, (None, None))
        if dtype is None or shape is None or shape.ndims is None:
            raise UsageError(
                f"'{self._part.given}' is no input of the outputs with a known shape.",
                hint="Set --graph-input to a placeholder that --graph-output depends on.",
            )
        return dtype.name, shape.as_list()[1:]

    @property
    def fixed_size(self) -> int:
        """The batch size that the graph fixes; 0 for none."""
        shapes = [shape for name, (_, shape) in self._part.fed.items() if self._part.is_row(name)]
        sizes = [shape.as_list()[0] for shape in shapes if shape is not None and shape.ndims]
        return max([size or 0 for size in sizes], default=0)

    def build(self, variables: Dict[str, Any], features: Any, labels: Any, run: Any) -> Any:
        """Add the outputs to the default graph, by their keys: a row for each example."""
        part, size = self._part, batch_size(features)
        feeds = part.make_feeds(Batch(features, labels, run, size), any_size=True)
        if part.given in part.fed:
            feeds[part.given] = _first(features)
        rows = [name for name in feeds if part.is_row(name)]

        def connected(*values: Any) -> List[Any]:
            return part.connect(variables, {**feeds, **dict(zip(rows, values))}, run, "infer")

        fixed, values = self.fixed_size, []
        if not fixed:
            values = connected()
            sizes = [value.shape.as_list()[0] for value in values if value.shape.ndims]
            fixed = max([each or 0 for each in sizes], default=0)  # within the graph
        if fixed:
            values = _in_batches(connected, [feeds[name] for name in rows], fixed, size)
        return {
            key: tf.placeholder_with_default(value, [None, *value.shape.as_list()[1:]])
            if value.shape.ndims
            else value
            for key, value in zip(self._outputs, values)
        }


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
    return tf.shape(_first(features))[0]


def _first(features: Any) -> Any:
    return next(iter(features.values())) if isinstance(features, dict) else features
