"""Part of a lifted graph with the rules by which it is fed, and what is built of such parts."""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Sequence

from toolkit import UsageError, tf

from .feeds import Batch, batch_size, guess_rule, make_feed
from .nodes import SEED, Fed, cut, find_losses, find_train_ops, names_of_needed
from .order import order_state
from .rules import RULES, Rule, parse_rule, tensor_name


class Source(NamedTuple):
    """A graph whose variables are resources, and how it is fed."""

    graph_def: Any
    # The rule, a text, of placeholders, and of other tensors at which the graph is cut; one in the
    # form of the data needs none.
    feeds: Dict[str, str]
    data: Any  # the run's `DataSpec`

    def cuts(self) -> List[str]:
        """The names of the tensors that have a rule."""
        return list(map(tensor_name, self.feeds))


class Part:
    """Ops and tensors of a source. Targets are names of ops, or of tensors with their number.

    `given` names a tensor that is fed by itself. Raises UsageError if an op cannot be run here, or
    a tensor has no rule.
    """

    def __init__(self, source: Source, targets: Sequence[str], given: str = ""):
        graph_def, cuts = source.graph_def, [*source.cuts(), *([given] if given else [])]
        # fed: name of a tensor -> dtype and shape, None for unknown
        nodes, self.fed, self._seeds = cut(graph_def, targets, cuts)
        self.variables: Dict[str, Any] = {}  # name -> list of sizes, and dtype
        for node in (node for node in nodes if node.op == "VarHandleOp"):
            shape = tf.TensorShape(node.attr["shape"].shape)
            if not shape.is_fully_defined():
                raise UsageError(
                    f"The variable '{node.name}' has the shape {shape}, whose sizes are not all "
                    "known.",
                    hint="Give it a shape in the script.",
                )
            self.variables[node.name] = shape.as_list(), tf.as_dtype(node.attr["dtype"].type)
        dropped = {f"^{name}" for name in self.variables}
        nodes = order_state(nodes, set(self.variables))
        nodes = [node for node in nodes if node.name not in self.variables]
        for node in nodes:
            node.input[:] = [text for text in node.input if text not in dropped]
        self.graph_def = tf.GraphDef(
            node=nodes, library=graph_def.library, versions=graph_def.versions
        )
        self.targets = list(targets)
        self.rules = _choose_rules(self.fed, source, given)

    def make_feeds(self, batch: Batch) -> Dict[str, Any]:
        """What each tensor is fed in a step, by its name."""
        return {
            name: make_feed(name, rule, *self.fed[name], batch) for name, rule in self.rules.items()
        }

    def connect(
        self, variables: Any, feeds: Any, run: Any, label: str, after: Sequence[Any] = ()
    ) -> List[Any]:
        """Add it to the default graph, also within a loop; return the targets.

        Variables and fed tensors are given by their names in the graph. The run's seed and step
        give the noise, the label begins the names of ops, and the ops `after` come before all reads
        and writes of variables.
        """
        inputs = dict(feeds)
        with tf.control_dependencies(list(after)):
            for name in self.variables:
                inputs[f"{name}:0"] = tf.identity(variables[name].handle)
        for name in self._seeds:
            seed = tf.constant(run.seed(f"{label}/{name}"), tf.int64)
            inputs[f"{SEED}{name}:0"] = tf.stack([seed, run.step_index])
        definition = tf.GraphDef.FromString(self.graph_def.SerializeToString())
        for node in definition.node:
            if node.op == "Enter":  # two loops of one name would share their steps
                node.attr["frame_name"].s = f"{label}/".encode() + node.attr["frame_name"].s
        used = {text for node in definition.node for text in node.input} | set(self.targets)
        inputs = {name: x for name, x in inputs.items() if name in used or name[:-2] in used}
        return list(tf.import_graph_def(definition, inputs, self.targets, name=label))


def _choose_rules(fed: Fed, source: Source, given: str = "") -> Dict[str, Rule]:
    """The rule of each tensor that is fed: that of the user, or else what its form suggests."""
    texts = dict(zip(source.cuts(), source.feeds.values()))
    rules, missing, whole = {}, [], dict(source.feeds)
    for name, (dtype, shape) in sorted(fed.items()):
        op = name.rpartition(":0")[0] or name
        text = texts.get(name) or guess_rule(dtype, shape, source.data)
        if name == given or text:
            rules[name] = Rule("given") if name == given else parse_rule(op, text)
            continue
        missing.append(f"'{op}' ({'a tensor' if dtype is None else dtype.name} {shape})")
        has_sizes = shape.ndims and None not in shape.as_list()[1:]
        whole[op] = "uniform:-1:1" if has_sizes and dtype.is_floating else "RULE"
        if shape.ndims == 0:
            whole[op] = "true" if dtype == tf.bool else "NUMBER"
    if missing:
        words = ",".join(f"{name}={text}" for name, text in whole.items())
        raise UsageError(
            f"The graph is fed {', '.join(missing)}, for which there is no rule.",
            hint=f"Set --feed {words} or the like; a rule is {RULES}.",
        )
    return rules


class Period:
    """A step in mode "train": the calls of a period, one after the other.

    The train ops of a call are joined by "+". Each of the named losses, scalars, is reported by the
    first call that makes it; without names, they are those whose gradients the train ops take.
    """

    train_op: Any = None  # of the step that `build` added last

    def __init__(self, source: Source, train_ops: Sequence[str], losses: Sequence[str]):
        graph_def, cuts = source.graph_def, source.cuts()
        if not train_ops:
            found = ", ".join(find_train_ops(graph_def))
            hint = f"The graph has {found}." if found else "The graph has no optimizer."
            raise UsageError("No train op is named.", hint=f"Set --train-op NAME,... {hint}")
        self.losses: List[str] = []  # of all calls
        targets = []
        for number, text in enumerate(train_ops, 1):
            ops, is_last = text.split("+"), number == len(train_ops)
            if losses:
                needed, names = names_of_needed(graph_def, ops, cuts), losses
                names = [name for name in names if is_last or name.partition(":")[0] in needed]
            else:
                names = find_losses(graph_def, ops, cuts)
            names = list(dict.fromkeys(map(tensor_name, names)))
            own = [name for name in names if name not in self.losses]
            self.losses += own
            targets.append([*ops, *own])
        if not self.losses:
            raise UsageError(
                f"No loss of '{train_ops[0]}' was found.",
                hint="Name scalars of the graph: --losses NAME,...",
            )
        _, fed, _ = cut(graph_def, [name for names in targets for name in names], cuts)
        _choose_rules(fed, source)  # of all calls, for one message
        self._calls = [Part(source, names) for names in targets]
        self.variables = {name: x for call in self._calls for name, x in call.variables.items()}
        self.slots = set(self.variables) - names_of_needed(graph_def, self.losses, cuts)

    def build(self, variables: Dict[str, Any], features: Any, labels: Any, run: Any) -> Any:
        """Add a step to the default graph, with its `train_op`; return its losses by name."""
        after: List[Any] = []
        losses: Dict[str, Any] = {}
        for number, call in enumerate(self._calls, 1):
            sharing = {  # tensor -> the calls that divide the batch for it
                name: [k for k, other in enumerate(self._calls, 1) if name in other.rules]
                for name, rule in call.rules.items()
                if "part" in rule.words
            }
            batch = Batch(features, labels, run, run.options.batch_size, number, sharing)
            values = call.connect(variables, call.make_feeds(batch), run, f"call{number}", after)
            after = [getattr(value, "op", value) for value in values]
            for name, value in zip(call.targets, values):
                if name in self.losses:
                    losses[name[:-2]] = tf.cast(value, tf.float32)
        self.train_op = tf.group(*after)
        return losses


class Inference(Part):
    """Tensors of a graph as functions of the examples of an evaluation or a prediction, or of
    another tensor that is fed; `outputs` has their names by keys.
    """

    def __init__(self, source: Source, outputs: Dict[str, str], given: str = ""):
        super().__init__(source, list(map(tensor_name, outputs.values())), given)
        self._keys, self.fixed_size = list(outputs), 0  # the batch size that the graph fixes
        kinds = ("given", "features", "labels", "uniform", "normal")
        self._rows = [name for name, rule in self.rules.items() if rule.kind in kinds]
        for name in self._rows:
            dtype, shape = self.fed[name]
            if shape.ndims:
                self.fixed_size = max(self.fixed_size, shape.as_list()[0] or 0)
                self.fed[name] = dtype, tf.TensorShape([None]).concatenate(shape[1:])

    def build(self, variables: Dict[str, Any], features: Any, labels: Any, run: Any) -> Any:
        """Add the outputs to the default graph, by their keys: a row for each example."""
        size = batch_size(features)
        feeds = self.make_feeds(Batch(features, labels, run, size))

        def connected(*values: Any) -> List[Any]:
            return self.connect(variables, {**feeds, **dict(zip(self._rows, values))}, run, "infer")

        fixed, values = self.fixed_size, []
        if not fixed:
            values = connected()
            sizes = [value.shape.as_list()[0] for value in values if value.shape.ndims]
            fixed = max([each or 0 for each in sizes], default=0)  # within the graph
        if fixed:
            values = _in_batches(connected, [feeds[name] for name in self._rows], fixed, size)
        return {
            key: tf.placeholder_with_default(value, [None, *value.shape.as_list()[1:]])
            if value.shape.ndims
            else value
            for key, value in zip(self._keys, values)
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
