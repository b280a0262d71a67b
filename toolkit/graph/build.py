"""Build a graph by asking the hooks in their order, and check what they return."""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Optional, Sequence

from ..compat import tf
from ..data.named_arrays import ArraySpecs
from ..data.normalization import is_normalized
from ..data.readers.batches import BatchForm, convert_stored
from ..data.structure import FEATURES, LABELS, flatten, pack, pack_role
from ..errors import ToolkitError, UsageError
from ..plugins import Plugins
from .guard import GuardValues
from .omitted_losses import count_omitted_losses
from .run import Run, step_builder_of
from .updates import state_updates
from .while_loop import StepLoop, StepOps, build_compiled_loop, build_loop, make_num_steps, specs_of


class Batch(NamedTuple):
    """The examples of one step as hooks get them: structures of tensors [B, ...].

    Attributes:
        features: a tensor, or a dict of tensors by name.
        labels: likewise, or None.
    """

    features: Any
    labels: Any


class Scalars(NamedTuple):
    """The scalar tensors of one step by name: of `run.log`, and of the hook `loss`."""

    logged: Dict[str, Any]
    losses: Dict[str, Any]


class StepOutputs(NamedTuple):
    """What hooks may fetch of one step. Fetching one tensor of a field computes the whole field."""

    batch: Optional[Batch]
    guard_values: Sequence[GuardValues]
    outputs: Dict[str, Any]  # what the hook `call` returned
    scalars: Scalars
    summaries: Sequence[Any]  # that the step adds to TensorFlow's collection


class LoopInfo(NamedTuple):
    """The loop of steps in a graph.

    Attributes:
        num_steps: int32 scalar placeholder, how many steps a call makes, 1 by default.
        max_steps: the largest number of steps of a call, or None.
        all_finite: bool scalar of a loop compiled by XLA, False where it refused a step; else None.
    """

    num_steps: Any
    max_steps: Optional[int] = None
    all_finite: Any = None


class TrainingGraph(NamedTuple):
    """The graph of training.

    Attributes:
        tf_graph: the `tf.Graph`.
        run: what its plugins use.
        model: what the hook `build` returned.
        step: what can be fetched, in a call that makes one step.
        counters: name -> int64 scalar, read after the train op.
        train_op: makes one step, or in a loop as many as are fed.
        step_after: int64 scalar, the global step, read after the train op.
        loop: None where the train op makes a single step.
        step_specs: of the step's tensors without batch and summaries, in their order; a compiled
            loop needs them before its step is built.
    """

    tf_graph: Any
    run: Run
    model: Any
    step: StepOutputs
    counters: Dict[str, Any]
    train_op: Any
    step_after: Any
    loop: Optional[LoopInfo]
    step_specs: List[tf.TensorSpec]

    @property
    def batch(self) -> Batch:
        """The examples of the step."""
        assert self.step.batch is not None  # only a step inside a compiled loop has none
        return self.step.batch

    @property
    def losses(self) -> Dict[str, Any]:
        """Name -> float32 scalar of the step."""
        return self.step.scalars.losses

    @property
    def logged(self) -> Dict[str, Any]:
        """Name -> scalar of the step that `run.log` got."""
        return self.step.scalars.logged


class InferenceGraph(NamedTuple):
    """The graph of evaluation or prediction, fed through placeholders."""

    tf_graph: Any
    run: Run
    # name -> [N, ...]: "features", the names of the features, or those of the hook `inputs`
    placeholders: Dict[str, Any]
    label_placeholders: Dict[str, Any]  # flat key -> [N, ...]; empty without labels
    takes_examples: bool  # whether it is fed examples, and not what the hook `inputs` names
    predictions: Dict[str, Any]
    losses: Dict[str, Any]
    metrics: Dict[str, Any]  # name -> (value, update_op)
    metric_variables: List[Any]  # what is to be reset before each evaluation
    position: Any = None  # int64 scalar placeholder of `Run.position`, in mode "eval" only

    @property
    def example_placeholders(self) -> Dict[str, Any]:
        """Flat key -> [N, ...] of an example's features and labels."""
        is_named = bool(self.run.data.feature_names)
        features = self.placeholders if is_named else self.placeholders[FEATURES]
        return {**flatten(features), **self.label_placeholders}

    @property
    def input_specs(self) -> ArraySpecs:
        """Name -> (dtype, shape of one) of what is fed."""
        return {
            name: (placeholder.dtype.name, tuple(placeholder.shape.as_list()[1:]))
            for name, placeholder in self.placeholders.items()
        }


def build_training(
    plugins: Plugins, run: Run, reader, tf_graph, in_loop: bool = False
) -> TrainingGraph:
    """build -> call -> loss -> optimize -> one train op.

    Args:
        plugins: their hooks build the model and the step.
        run: in mode "train".
        reader: built in `tf_graph`.
        tf_graph: the `tf.Graph` to build in.
        in_loop: builds the step as the body of a loop, so that a call can make several steps.
    """
    with tf_graph.as_default():
        global_step, model = _begin(plugins, run)
        if not in_loop:
            step = _build_step(plugins, run, model, reader)
            loop = StepLoop(step.train_op, None, step.outputs)
            return _training_graph(tf_graph, run, model, loop)
        num_steps = make_num_steps()
        if not reader.in_memory:
            return _training_graph(
                tf_graph,
                run,
                model,
                _build_loop(lambda count: _build_step(plugins, run, model, reader), num_steps),
            )
        # Gathering the batches of a call at once costs less than one by one.
        chunk = _Chunk(reader.chunk(global_step.read_value(), num_steps), reader.form)
        loop = _build_loop(lambda i: _build_step(plugins, run, model, chunk.at(i)), num_steps)
        return _training_graph(tf_graph, run, model, loop, reader.max_chunk_steps)


def build_compiled(
    plugins: Plugins,
    run: Run,
    reader,
    tf_graph,
    step_specs: Sequence[tf.TensorSpec],
    max_steps: int,
) -> TrainingGraph:
    """Build the loop of `build_training` as one op that XLA compiles.

    Args:
        run: with the strategy `XLA`.
        step_specs: of the same step in a loop that is not compiled.
        max_steps: how many steps a call may make; their batches are gathered before the first.
    """
    with tf_graph.as_default():
        global_step, model = _begin(plugins, run)
        num_steps = make_num_steps()
        chunk = _Chunk(reader.chunk(global_step.read_value(), max_steps, num_steps), reader.form)
        keys = sorted(chunk.flat)

        def make_step(count, *tensors):
            batch = chunk._replace(flat=dict(zip(keys, tensors))).at(count)
            step = _build_step(plugins, run, model, batch)
            return step._replace(outputs=step.outputs._replace(batch=None, summaries=()))

        inputs = [chunk.flat[key] for key in keys]
        builder = step_builder_of(run)
        loop = build_compiled_loop(
            make_step, num_steps, inputs, list(step_specs), lambda: builder.all_finite
        )
        batch = chunk.at(0).batch(None)
        loop = loop._replace(outputs=loop.outputs._replace(batch=batch))
        return _training_graph(tf_graph, run, model, loop, max_steps)


def _begin(plugins: Plugins, run: Run):
    """The global step and the model, the first things of a graph."""
    tf.set_random_seed(run.seed("graph"))
    return run.global_step, plugins.call_hook("build", run=run)


class _Chunk(NamedTuple):
    """Batches that were read ahead: flat key -> as they are stored, [K, B, ...]."""

    flat: Dict[str, Any]
    form: BatchForm

    def at(self, number):
        """A reader of one of them."""
        flat = {key: tensor[number] for key, tensor in self.flat.items()}
        return _OneBatch(Batch(*pack(self.form.finish(flat))))


class _OneBatch(NamedTuple):
    """The reader of a single batch."""

    examples: Batch

    def batch(self, step):
        return self.examples


def _build_loop(make_step, num_steps) -> StepLoop:
    """The loop; outside of it, TensorFlow's collection has the summaries that the step adds."""
    collection = tf.get_collection_ref(tf.GraphKeys.SUMMARIES)
    before = list(collection)

    def make_step_with_summaries(count):
        step = make_step(count)
        added = [summary for summary in collection if summary not in before]
        return step._replace(outputs=step.outputs._replace(summaries=added))

    loop = build_loop(make_step_with_summaries, num_steps)
    collection[:] = before + list(loop.outputs.summaries)
    return loop


def _training_graph(
    tf_graph, run: Run, model, loop: StepLoop, max_steps: Optional[int] = None
) -> TrainingGraph:
    builder = step_builder_of(run)
    with tf.control_dependencies([loop.op]):
        step_after = tf.identity(run.global_step.read_value(), name="step_after")
        counters = {name: tf.identity(v.read_value()) for name, v in builder.counters.items()}
    outputs = loop.outputs
    builder.end_step(outputs.scalars.logged)
    info = LoopInfo(loop.num_steps, max_steps, loop.all_finite)
    specs = specs_of([outputs.guard_values, outputs.outputs, outputs.scalars])
    return TrainingGraph(
        tf_graph,
        run,
        model,
        outputs,
        counters,
        loop.op,
        step_after,
        info if loop.num_steps is not None else None,
        specs,
    )


def _build_step(plugins: Plugins, run: Run, model, reader) -> StepOps:
    """call -> loss -> optimize on the reader's next batch; possibly in the body of a loop."""
    builder = step_builder_of(run)
    builder.begin_step()
    features, labels = reader.batch(run.step_index)
    outputs, updates = _call(plugins, run, model, features, labels)
    builder.keep_state_updates(updates)
    loss = _ask_loss(plugins, run, model, features, labels, outputs)
    losses = _name_losses(plugins, loss)
    train_op = plugins.call_hook(
        "optimize", model=model, features=features, labels=labels, losses=loss, run=run
    )
    if not isinstance(train_op, tf.Operation):
        raise ToolkitError(
            f"Hook 'optimize' of plugin '{plugins.model.name}' returned {train_op!r}, "
            "expected one tf.Operation.",
            hint="Return what run.minimize returns, or a tf.group.",
        )
    _check_normalized(plugins, run)
    builder.omitted_losses = count_omitted_losses(model, [v.loss for v in builder.guard_values])
    batch, scalars = Batch(features, labels), Scalars(run.logged, losses)
    step = StepOutputs(batch, builder.guard_values, outputs, scalars, ())
    return StepOps(train_op, step)


def _check_normalized(plugins: Plugins, run: Run) -> None:
    """Refuse the option `normalize` for a plugin that does not follow it."""
    if run.data.mean and not run.compiled and not is_normalized():
        raise UsageError(
            f"--normalize is on, but the plugin '{plugins.model.name}' does not normalize its "
            "features.",
            hint="Leave it out; in a plugin of your own, call toolkit.normalize(features, "
            "run.data) in the hook 'call'.",
        )


def build_inference(plugins: Plugins, run: Run) -> InferenceGraph:
    """build -> call -> predict, and in mode "eval" also loss and metrics, in a new graph."""
    graph = tf.Graph()
    with graph.as_default():
        tf.set_random_seed(run.seed("graph"))
        tf.train.get_or_create_global_step()  # the step is restored here as well
        placeholders, features = _make_placeholders(plugins, run)
        takes_examples = features is not None
        features = dict(placeholders) if features is None else features
        label_placeholders = _example_placeholders(run, LABELS) if run.mode == "eval" else {}
        labels = pack_role(_as_model_gets(label_placeholders, run), LABELS)
        model = plugins.call_hook("build", run=run)
        outputs, _ = _call(plugins, run, model, features, labels)
        predictions = _predictions(plugins, run, model, features, outputs)
        losses: Dict[str, Any] = {}
        metrics: Dict[str, Any] = {}
        resettable: List[Any] = []
        position: Optional[Any] = None
        if run.mode == "eval":
            position = run.position
            loss = _ask_loss(plugins, run, model, features, labels, outputs)
            losses = _name_losses(plugins, loss)
            metrics, resettable = _metrics(plugins, run, model, features, labels, outputs)
        return InferenceGraph(
            graph,
            run,
            placeholders,
            label_placeholders,
            takes_examples,
            predictions,
            losses,
            metrics,
            resettable,
            position,
        )


def _example_placeholders(run: Run, role: str) -> Dict[str, Any]:
    """Flat key -> placeholder [N, ...] as stored, of the components of a role."""
    return {
        key: tf.placeholder(component.dtype, [None, *component.shape], key)
        for key, component in run.data.flat.items()
        if key.partition("/")[0] == role
    }


def _as_model_gets(flat: Dict[str, Any], run: Run) -> Dict[str, Any]:
    """The components as hooks get them; what is fed cannot be fetched, so each is a new tensor."""
    kinds = {key: component.kind for key, component in run.data.flat.items()}
    return {key: tf.identity(convert_stored(x, kinds[key])) for key, x in flat.items()}


def _make_placeholders(plugins: Plugins, run: Run):
    """The placeholders by name, and the features that `call` gets.

    The features are None if the hook `inputs` names the placeholders.
    """
    specs = plugins.call_hook("inputs", run=run) if run.mode == "predict" else None
    if specs is None:
        flat = _example_placeholders(run, FEATURES)
        packed, features = pack_role(flat, FEATURES), _as_model_gets(flat, run)
        placeholders = packed if isinstance(packed, dict) else {FEATURES: packed}
        return placeholders, pack_role(features, FEATURES)
    try:
        placeholders = {
            name: tf.placeholder(dtype, [None] + list(shape), "inputs/" + name)
            for name, (dtype, shape) in specs.items()
        }
    except (AttributeError, TypeError, ValueError):
        placeholders = {}
    if not placeholders:
        raise ToolkitError(
            f"Hook 'inputs' of plugin '{plugins.model.name}' returned {specs!r}.",
            hint="It returns a dict from a name to a pair (dtype, shape of one), or None.",
        )
    return placeholders, None


def _metrics(plugins, run, model, features, labels, outputs):
    """Name -> (value, update_op), and the local variables that hold the metrics' state."""
    before = {v.op.name for v in tf.local_variables()}
    metrics: Dict[str, Any] = {}
    for answer in plugins.call_hook(
        "metrics", model=model, features=features, labels=labels, outputs=outputs, run=run
    ):
        metrics.update(answer or {})
    variables = {v.op.name: v for v in tf.get_collection(tf.GraphKeys.METRIC_VARIABLES)}
    variables.update((v.op.name, v) for v in tf.local_variables() if v.op.name not in before)
    return metrics, list(variables.values())


def _call(plugins, run, model, features, labels):
    """The outputs of `call`, and the state updates that it adds to the graph."""
    graph = tf.get_default_graph()
    variables = {v.op.name for v in tf.global_variables()}
    before = set(graph.get_operations())
    outputs = plugins.call_hook("call", model=model, features=features, labels=labels, run=run)
    if not isinstance(outputs, dict):
        raise ToolkitError(
            f"Hook 'call' of plugin '{plugins.model.name}' returned a "
            f"{type(outputs).__name__}, expected a dict of tensors."
        )
    new_variables = [v.op.name for v in tf.global_variables() if v.op.name not in variables]
    if new_variables:
        raise ToolkitError(
            f"Hook 'call' of plugin '{plugins.model.name}' created the variable "
            f"'{new_variables[0]}'.",
            hint="Create it in 'build': build each layer there with its input shape.",
        )
    new_ops = [op for op in graph.get_operations() if op not in before]
    return outputs, state_updates(new_ops)


def _ask_loss(plugins, run, model, features, labels, outputs):
    """What the hook `loss` returns: a scalar, or a dict of named scalars."""
    return plugins.call_hook(
        "loss", model=model, features=features, labels=labels, outputs=outputs, run=run
    )


def _name_losses(plugins, loss) -> Dict[str, Any]:
    """Name -> scalar tensor of what the hook `loss` returned."""
    losses = loss if isinstance(loss, dict) else {"loss": loss}
    for name, value in losses.items():
        if not isinstance(value, tf.Tensor) or value.shape.ndims != 0:
            raise ToolkitError(
                f"Hook 'loss' of plugin '{plugins.model.name}' returned {value} for "
                f"'{name}', expected a scalar tensor.",
                hint="Take the mean over the batch with tf.reduce_mean.",
            )
    return dict(losses)


def _predictions(plugins, run, model, features, outputs):
    answer = plugins.call_hook("predict", model=model, features=features, outputs=outputs, run=run)
    if not isinstance(answer, dict) or not answer:
        raise ToolkitError(
            f"Hook 'predict' of plugin '{plugins.model.name}' returned {answer!r}, expected "
            "a dict of tensors."
        )
    return {name: tf.identity(tensor) for name, tensor in answer.items()}
