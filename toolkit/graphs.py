"""Build a graph by asking the hooks in their order, and check what they return."""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Optional

from . import optimizing
from .compat import tf
from .data.named import Wanted
from .data.resident import scale
from .errors import ToolkitError
from .plugins import Plugins
from .run import Run


class TrainingGraph(NamedTuple):
    """The graph of training and its ends. `losses`: name -> scalar; `logged`: name -> scalar."""

    graph: Any
    run: Run
    model: Any
    tensors: Dict[str, Any]  # features, labels, outputs of the step
    losses: Dict[str, Any]
    logged: Dict[str, Any]
    counters: Dict[str, Any]
    train_op: Any
    step_after: Any  # int64 scalar: the global step, read after the train op


class InferenceGraph(NamedTuple):
    """The graph of evaluation or prediction, fed through placeholders."""

    graph: Any
    run: Run
    fed: Dict[str, Any]  # name -> placeholder [N, ...]: "features", or what the hook `inputs` names
    labels: Any  # placeholder int32 [N], or None
    seen: Any  # what `call` got as features: float32 [N, ...], or the dict `fed`
    predictions: Dict[str, Any]
    losses: Dict[str, Any]
    metrics: Dict[str, Any]  # name -> (value, update_op)
    metric_variables: List[Any]  # what is to be reset before each evaluation

    @property
    def features(self) -> Any:
        """The placeholder [N, ...] of examples of the data's dtype."""
        return self.fed["features"]

    @property
    def takes_examples(self) -> bool:
        """Whether it is fed examples of the data, and not what the hook `inputs` names."""
        return not isinstance(self.seen, dict)

    @property
    def wanted(self) -> Wanted:
        """Name -> (dtype, shape of one) of what is fed."""
        return {n: (p.dtype.name, tuple(p.shape.as_list()[1:])) for n, p in self.fed.items()}


class Step(NamedTuple):
    """One training step: its op and the scalars that `loss` named."""

    train_op: Any
    losses: Dict[str, Any]
    tensors: Dict[str, Any]  # features, labels, outputs


def build_training(plugins: Plugins, run: Run, reader, graph) -> TrainingGraph:
    """build -> call -> loss -> optimize -> one train op, in the graph of the reader."""
    with graph.as_default():
        tf.set_random_seed(run.seed("graph"))
        counter = run.global_step
        model = plugins.ask("build", run=run)
        made = step(plugins, run, model, reader, counter)
        with tf.control_dependencies([made.train_op]):
            step_after = tf.identity(counter.read_value(), name="step_after")
        return TrainingGraph(
            graph,
            run,
            model,
            made.tensors,
            made.losses,
            run.logged,
            run.counters,
            made.train_op,
            step_after,
        )


def step(plugins: Plugins, run: Run, model, reader, counter) -> Step:
    """call -> loss -> optimize on the reader's next batch; may be made in the body of a loop.

    counter: the global step, an int64 variable.
    """
    features, labels = reader.batch(counter.read_value())
    outputs, updates = _call(plugins, run, model, features, labels)
    run.begin_step(updates)
    losses = _losses(plugins, run, model, features, labels, outputs)
    train_op = plugins.ask(
        "optimize",
        model=model,
        features=features,
        labels=labels,
        losses=losses["asked"],
        run=run,
    )
    if not isinstance(train_op, tf.Operation):
        raise ToolkitError(
            "Hook 'optimize' of plugin '{}' returned {!r}, expected one tf.Operation.".format(
                plugins.model.name, train_op
            ),
            hint="Return what run.minimize returns, or a tf.group.",
        )
    tensors = {"features": features, "labels": labels, "outputs": outputs}
    return Step(train_op, losses["named"], tensors)


def build_inference(plugins: Plugins, run: Run) -> InferenceGraph:
    """build -> call -> predict, and in mode "eval" also loss and metrics, in a new graph."""
    graph = tf.Graph()
    with graph.as_default():
        tf.set_random_seed(run.seed("graph"))
        tf.train.get_or_create_global_step()  # so that the step is restored here as well
        fed, seen = _fed(plugins, run)
        labels: Optional[Any] = None
        if run.mode == "eval" and run.data.num_classes:
            labels = tf.placeholder(tf.int32, [None], "labels")
        model = plugins.ask("build", run=run)
        outputs, _ = _call(plugins, run, model, seen, labels)
        predictions = _predictions(plugins, run, model, seen, outputs)
        losses: Dict[str, Any] = {}
        metrics: Dict[str, Any] = {}
        resettable: List[Any] = []
        if run.mode == "eval":
            losses = _losses(plugins, run, model, seen, labels, outputs)["named"]
            metrics, resettable = _metrics(plugins, run, model, seen, labels, outputs)
        return InferenceGraph(
            graph, run, fed, labels, seen, predictions, losses, metrics, resettable
        )


def _fed(plugins: Plugins, run: Run):
    """The placeholders by name, and what the model sees of them."""
    named = plugins.ask("inputs", run=run) if run.mode == "predict" else None
    if named is None:
        raw = tf.placeholder(run.data.dtype, [None] + list(run.data.shape), "features")
        return {"features": raw}, scale(raw)
    try:
        fed = {
            name: tf.placeholder(dtype, [None] + list(shape), "inputs/" + name)
            for name, (dtype, shape) in named.items()
        }
    except (AttributeError, TypeError, ValueError):
        fed = {}
    if not fed:
        raise ToolkitError(
            "Hook 'inputs' of plugin '{}' returned {!r}.".format(plugins.model.name, named),
            hint="It returns a dict from a name to a pair (dtype, shape of one), or None.",
        )
    return fed, dict(fed)


def _metrics(plugins, run, model, features, labels, outputs):
    """Name -> (value, update_op), and the local variables that these are kept in."""
    before = {v.op.name for v in tf.local_variables()}
    metrics: Dict[str, Any] = {}
    for answer in plugins.ask(
        "metrics", model=model, features=features, labels=labels, outputs=outputs, run=run
    ):
        metrics.update(answer or {})
    kept = {v.op.name: v for v in tf.get_collection(tf.GraphKeys.METRIC_VARIABLES)}
    kept.update((v.op.name, v) for v in tf.local_variables() if v.op.name not in before)
    return metrics, list(kept.values())


def _call(plugins, run, model, features, labels):
    """The outputs of `call`, and the state updates that it added to the graph."""
    graph = tf.get_default_graph()
    variables = {v.op.name for v in tf.global_variables()}
    before = set(graph.get_operations())
    outputs = plugins.ask("call", model=model, features=features, labels=labels, run=run)
    if not isinstance(outputs, dict):
        raise ToolkitError(
            "Hook 'call' of plugin '{}' returned a {}, expected a dict of tensors.".format(
                plugins.model.name, type(outputs).__name__
            )
        )
    added = [v.op.name for v in tf.global_variables() if v.op.name not in variables]
    if added:
        raise ToolkitError(
            "Hook 'call' of plugin '{}' created the variable '{}'.".format(
                plugins.model.name, added[0]
            ),
            hint="Create it in 'build': build each layer there with its input shape.",
        )
    new = [o for o in graph.get_operations() if o not in before]
    return outputs, optimizing.state_updates(new)


def _losses(plugins, run, model, features, labels, outputs):
    """What `loss` returned as it is ("asked") and as named scalars ("named")."""
    asked = plugins.ask(
        "loss", model=model, features=features, labels=labels, outputs=outputs, run=run
    )
    named = asked if isinstance(asked, dict) else {"loss": asked}
    for name, value in named.items():
        if not isinstance(value, tf.Tensor) or value.shape.ndims != 0:
            raise ToolkitError(
                "Hook 'loss' of plugin '{}' returned {} for '{}', expected a scalar tensor.".format(
                    plugins.model.name, value, name
                ),
                hint="Take the mean over the batch with tf.reduce_mean.",
            )
    return {"asked": asked, "named": dict(named)}


def _predictions(plugins, run, model, features, outputs):
    answer = plugins.ask("predict", model=model, features=features, outputs=outputs, run=run)
    if not isinstance(answer, dict) or not answer:
        raise ToolkitError(
            "Hook 'predict' of plugin '{}' returned {!r}, expected a dict of tensors.".format(
                plugins.model.name, answer
            )
        )
    return answer
