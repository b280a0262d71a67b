"""Build a graph by asking the hooks in their order, and check what they return."""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Optional, Sequence

from ..compat import tf
from ..data.named import Wanted
from ..data.resident import scale
from ..errors import ToolkitError
from ..plugins import Plugins
from . import optimizer
from .run import Judged, Run
from .while_loop import Looped, Made, compiled_loop, likes, looped, make_budget


class TrainingGraph(NamedTuple):
    """The graph of training and its ends. `losses`: name -> scalar; `logged`: name -> scalar.

    With a budget, `train_op` makes so many steps, one by default, and all that can be fetched is of
    a call that makes one.
    """

    graph: Any
    run: Run
    model: Any
    tensors: Dict[str, Any]  # features, labels, outputs of the step
    losses: Dict[str, Any]
    logged: Dict[str, Any]
    counters: Dict[str, Any]  # name -> int64 scalar, read after the train op
    train_op: Any
    step_after: Any  # int64 scalar: the global step, read after the train op
    budget: Any = None  # int32 scalar to be fed, or None: the train op is one step
    most: Optional[int] = None  # the largest budget, or None
    judged: Sequence[Judged] = ()
    going: Any = None  # bool scalar of a compiled loop: False where a step was refused
    summaries: int = 0  # how many the step itself adds to TensorFlow's collection
    shapes: Any = None  # what a compiled loop has to know of the step beforehand


class InferenceGraph(NamedTuple):
    """The graph of evaluation or prediction, fed through placeholders."""

    graph: Any
    run: Run
    placeholders: Dict[str, Any]  # name -> [N, ...]: "features", or the names of the hook `inputs`
    labels: Any  # placeholder int32 [N], or None
    model_features: Any  # the features that `call` gets: float32 [N, ...], or `placeholders`
    predictions: Dict[str, Any]
    losses: Dict[str, Any]
    metrics: Dict[str, Any]  # name -> (value, update_op)
    metric_variables: List[Any]  # what is to be reset before each evaluation

    @property
    def features(self) -> Any:
        """The placeholder [N, ...] of examples of the data's dtype."""
        return self.placeholders["features"]

    @property
    def takes_examples(self) -> bool:
        """Whether it is fed examples of the data, and not what the hook `inputs` names."""
        return not isinstance(self.model_features, dict)

    @property
    def input_specs(self) -> Wanted:
        """Name -> (dtype, shape of one) of what is fed."""
        return {
            name: (placeholder.dtype.name, tuple(placeholder.shape.as_list()[1:]))
            for name, placeholder in self.placeholders.items()
        }


class Step(NamedTuple):
    """One training step: its op and the scalars that `loss` named."""

    train_op: Any
    losses: Dict[str, Any]
    tensors: Dict[str, Any]  # features, labels, outputs


def build_training(
    plugins: Plugins, run: Run, reader, graph, in_loop: bool = False
) -> TrainingGraph:
    """build -> call -> loss -> optimize -> one train op, in the graph of the reader.

    in_loop: as the body of a loop, so that a call can make several steps.
    """
    with graph.as_default():
        tf.set_random_seed(run.seed("graph"))
        counter = run.global_step
        model = plugins.ask("build", run=run)

        def make_step(source):
            return _made(run, step(plugins, run, model, source))

        if not in_loop:
            made = make_step(reader)
            return _training_graph(graph, run, model, Looped(made.train_op, None, made.groups))
        budget = make_budget()
        source, most = (lambda count: reader), None
        if reader.in_memory:  # gathering the batches of a call at once costs less than one by one
            chunk, most = reader.chunk(counter.read_value(), budget), reader.most_in_chunk
            source = _Chunk(*chunk).at
        loop = _in_loop(lambda count: make_step(source(count)), budget)
        return _training_graph(graph, run, model, loop)._replace(most=most)


def build_compiled(
    plugins: Plugins, run: Run, reader, graph, like: TrainingGraph, most: int
) -> TrainingGraph:
    """The loop of `build_training` as one op that XLA compiles.

    run: with `compiled`. like: the same step in a loop that is not compiled, in a graph of its own.
    most: how many steps a call may make; their batches are gathered before the first.
    """
    with graph.as_default():
        tf.set_random_seed(run.seed("graph"))
        counter = run.global_step
        model = plugins.ask("build", run=run)
        budget = make_budget()
        chunk = _Chunk(*reader.chunk(counter.read_value(), most, budget))

        def make_step(count, *chunk):
            made = _made(run, step(plugins, run, model, _Chunk(*chunk).at(count)))
            return made._replace(groups={name: made.groups[name] for name in like.shapes})

        given = [x for x in chunk if x is not None]
        loop = compiled_loop(make_step, budget, given, like.shapes, lambda: run.going)
        features, labels = chunk.at(0)
        loop.groups["batch"] = {"features": features, "labels": labels}
        return _training_graph(graph, run, model, loop)._replace(most=most)


class _Chunk(NamedTuple):
    """Batches that were read ahead: as they are stored [K, B, ...], and labels [K, B] or None."""

    features: Any
    labels: Any = None

    def at(self, number):
        """A reader of one of them."""
        labels = None if self.labels is None else self.labels[number]
        return _Batch(scale(self.features[number]), labels)


class _Batch(NamedTuple):
    """The reader of the only batch there is."""

    features: Any
    labels: Any

    def batch(self, step):
        return self


def _made(run: Run, made: Step) -> Made:
    """The step with what hooks may fetch of it, in groups that are computed together."""
    tensors = dict(made.tensors)
    groups = {
        "scalars": {"losses": made.losses, "logged": run.logged},
        "judged": [list(judged) for judged in run.judged],
        "outputs": tensors.pop("outputs"),
        "batch": tensors,
    }
    return Made(made.train_op, groups)


def _in_loop(make_step, budget) -> Looped:
    """The loop; behind it stand the summaries that the step adds to TensorFlow's collection."""
    collected = tf.get_collection_ref(tf.GraphKeys.SUMMARIES)
    before = list(collected)

    def with_summaries(count):
        made = make_step(count)
        added = [summary for summary in collected if summary not in before]
        return made._replace(groups=dict(made.groups, summaries=added))

    loop = looped(with_summaries, budget)
    collected[:] = before + loop.groups["summaries"]
    return loop


def _training_graph(graph, run: Run, model, loop: Looped) -> TrainingGraph:
    with tf.control_dependencies([loop.op]):
        step_after = tf.identity(run.global_step.read_value(), name="step_after")
        counted = {name: tf.identity(v.read_value()) for name, v in run.counters.items()}
    groups = loop.groups
    run.end_step(groups["scalars"]["logged"])
    shapes = {name: likes(groups[name]) for name in ("scalars", "judged", "outputs")}
    return TrainingGraph(
        graph,
        run,
        model,
        dict(groups["batch"], outputs=groups["outputs"]),
        groups["scalars"]["losses"],
        groups["scalars"]["logged"],
        counted,
        loop.op,
        step_after,
        loop.budget,
        judged=[Judged(*judged) for judged in groups["judged"]],
        going=loop.going,
        summaries=len(groups.get("summaries", ())),
        shapes=shapes,
    )


def step(plugins: Plugins, run: Run, model, reader) -> Step:
    """call -> loss -> optimize on the reader's next batch; may be made in the body of a loop."""
    run.begin_step(optimizer.values_now() if run.compiled else None)
    features, labels = reader.batch(run.steps_made)
    outputs, updates = _call(plugins, run, model, features, labels)
    run.hold(updates)
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
            f"Hook 'optimize' of plugin '{plugins.model.name}' returned {train_op!r}, "
            "expected one tf.Operation.",
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
        return {"features": raw}, tf.identity(scale(raw))  # what is fed cannot be fetched
    try:
        fed = {
            name: tf.placeholder(dtype, [None] + list(shape), "inputs/" + name)
            for name, (dtype, shape) in named.items()
        }
    except (AttributeError, TypeError, ValueError):
        fed = {}
    if not fed:
        raise ToolkitError(
            f"Hook 'inputs' of plugin '{plugins.model.name}' returned {named!r}.",
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
            f"Hook 'call' of plugin '{plugins.model.name}' returned a "
            f"{type(outputs).__name__}, expected a dict of tensors."
        )
    added = [v.op.name for v in tf.global_variables() if v.op.name not in variables]
    if added:
        raise ToolkitError(
            f"Hook 'call' of plugin '{plugins.model.name}' created the variable '{added[0]}'.",
            hint="Create it in 'build': build each layer there with its input shape.",
        )
    new = [o for o in graph.get_operations() if o not in before]
    return outputs, optimizer.state_updates(new)


def _losses(plugins, run, model, features, labels, outputs):
    """What `loss` returned as it is ("asked") and as named scalars ("named")."""
    asked = plugins.ask(
        "loss", model=model, features=features, labels=labels, outputs=outputs, run=run
    )
    named = asked if isinstance(asked, dict) else {"loss": asked}
    for name, value in named.items():
        if not isinstance(value, tf.Tensor) or value.shape.ndims != 0:
            raise ToolkitError(
                f"Hook 'loss' of plugin '{plugins.model.name}' returned {value} for "
                f"'{name}', expected a scalar tensor.",
                hint="Take the mean over the batch with tf.reduce_mean.",
            )
    return {"asked": asked, "named": dict(named)}


def _predictions(plugins, run, model, features, outputs):
    answer = plugins.ask("predict", model=model, features=features, outputs=outputs, run=run)
    if not isinstance(answer, dict) or not answer:
        raise ToolkitError(
            f"Hook 'predict' of plugin '{plugins.model.name}' returned {answer!r}, expected "
            "a dict of tensors."
        )
    return {name: tf.identity(tensor) for name, tensor in answer.items()}
