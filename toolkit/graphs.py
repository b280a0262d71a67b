"""Build a graph by asking the hooks in their order, and check what they return."""

from __future__ import annotations

from typing import Any, Dict, NamedTuple, Optional

from . import optimizing
from .compat import tf
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
    features: Any  # placeholder [N, ...] of the data's dtype
    labels: Any  # placeholder int32 [N], or None
    predictions: Dict[str, Any]
    inputs: Any  # float32 [N, ...]: the features as the model sees them
    losses: Dict[str, Any]
    metrics: Dict[str, Any]  # name -> (value, update_op)


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
    run.take_updates(updates)
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
        raw = tf.placeholder(run.data.dtype, [None] + list(run.data.shape), "features")
        labels: Optional[Any] = None
        if run.mode == "eval" and run.data.num_classes:
            labels = tf.placeholder(tf.int32, [None], "labels")
        inputs = scale(raw)
        model = plugins.ask("build", run=run)
        outputs, _ = _call(plugins, run, model, inputs, labels)
        predictions = _predictions(plugins, run, model, inputs, outputs)
        losses, metrics = {}, {}
        if run.mode == "eval":
            losses = _losses(plugins, run, model, inputs, labels, outputs)["named"]
            for answer in plugins.ask(
                "metrics", model=model, features=inputs, labels=labels, outputs=outputs, run=run
            ):
                metrics.update(answer or {})
        return InferenceGraph(graph, run, raw, labels, predictions, inputs, losses, metrics)


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
