"""A step of a lifted graph: the calls of a period, one after the other."""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Sequence

from toolkit import UsageError, tf

from .feeds import Batch, guess_rule, make_feed
from .fragment import Fragment, connect, make_fragment
from .nodes import find_losses, find_train_ops
from .rules import Rule, parse_rule, rules_of, tensor_name


class Call(NamedTuple):
    """One call of a period: what it runs, and how it is fed."""

    fragment: Fragment
    num_ops: int  # of its targets, the ops to run; losses follow
    losses: List[str]
    rules: Dict[str, Rule]


def complete_rules(fed: Dict[str, Any], rules: Dict[str, Rule], data: Any) -> Dict[str, Rule]:
    """The rules of all tensors that are fed: given, or suggested by their form.

    Raises:
        UsageError: a tensor has no rule.
    """
    rules = dict(rules)
    for name, (dtype, shape) in sorted(fed.items()):
        if name in rules:
            continue
        text, op = guess_rule(dtype, shape, data), name[:-2] if name.endswith(":0") else name
        if not text:
            kind = "a tensor" if dtype is None else dtype.name
            raise UsageError(
                f"The graph is fed '{op}' ({kind} {shape}), for which there is no rule.",
                hint=f"Set --feed {op}=RULE, for example features, uniform:-1:1 or 0.5.",
            )
        rules[name] = parse_rule(op, text)
    return rules


class Period:
    """The calls of a step in mode "train".

    Args:
        graph_def: whose variables are resources.
        train_ops: of each call, joined by "+".
        losses: names of scalars.
        feeds: the name of a placeholder, or of another tensor at which the graph is cut, to the
            text of its rule; `NAME@2` is for the second call alone.
        data: the `DataSpec` of the run.
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
        self.calls: List[Call] = []
        left = [tensor_name(name) for name in losses]
        for number, text in enumerate(train_ops, 1):
            ops, rules = text.split("+"), rules_of(feeds, number)
            inside = make_fragment(graph_def, ops, list(rules))
            names = {node.name for node in inside.graph_def.node}
            if losses:
                is_last = number == len(train_ops)
                own = [name for name in left if is_last or name.partition(":")[0] in names]
                left = [name for name in left if name not in own]
            else:
                own = list(map(tensor_name, find_losses(graph_def, ops, list(rules))))
                own = [name for name in own if all(name not in call.losses for call in self.calls)]
            fragment = make_fragment(graph_def, [*ops, *own], list(rules))
            rules = complete_rules(fragment.fed, rules, data)
            self.calls.append(Call(fragment, len(ops), own, rules))
        if not any(call.losses for call in self.calls):
            raise UsageError(
                f"No loss of '{train_ops[0]}' was found.",
                hint="Name scalars of the graph: --losses NAME,...",
            )

    @property
    def variables(self) -> Dict[str, Any]:
        """The variables of all calls."""
        return {name: x for call in self.calls for name, x in call.fragment.variables.items()}

    def build(self, variables: Dict[str, Any], features: Any, labels: Any, run: Any) -> Any:
        """Add a step to the default graph; return its losses by name, and its op."""
        after: List[Any] = []
        losses: Dict[str, Any] = {}
        for number, call in enumerate(self.calls, 1):
            feeds = {}
            for name, (dtype, shape) in call.fragment.fed.items():
                rule = call.rules[name]
                parts = [
                    k
                    for k, each in enumerate(self.calls, 1)
                    if name in each.fragment.fed and "part" in each.rules[name].words
                ]
                size = run.options.batch_size // max(len(parts), 1)
                batch = Batch(features, labels, run, size, number, parts or (1,))
                feeds[name] = make_feed(name, rule, dtype, shape, batch)
            values = connect(call.fragment, variables, feeds, run, f"call{number}", after)
            after = [getattr(value, "op", value) for value in values]
            for name, value in zip(call.losses, values[call.num_ops :]):
                losses[name[:-2]] = tf.cast(value, tf.float32)
        return losses, tf.group(*after)
