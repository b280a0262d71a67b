"""Build a graph by asking the hooks in their order, and check what they return."""

from __future__ import annotations

import contextlib
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from ..compat import tf, under_construction
from ..data.named_arrays import ArraySpecs
from ..data.normalization import is_normalized
from ..data.structure import FEATURES, LABELS, pack, pack_role
from ..errors import ToolkitError, UsageError
from ..plugins import Plugins, Problem
from .guard import GuardValues
from .hook_values import (
    check_example_metrics,
    check_inputs,
    check_loss,
    check_metrics,
    check_outputs,
    check_predictions,
    check_train_op,
)
from .initial_values import noted_draws, seed_initial_values, seeded_generators
from .networks import example_placeholders
from .ops import state_updates, upstream
from .run import STATE, Run, step_builder_of
from .step_sums import StepSums, read_sums
from .while_loop import Step, StepLoop, build_compiled_loop, build_loop, make_num_steps, specs_of


class StepOutputs(NamedTuple):
    """What hooks may fetch of one step. Fetching one tensor of a field computes the whole field."""

    batch: Any  # the pair of features and labels that hooks get; None in a compiled loop
    guard_values: Sequence[GuardValues]
    outputs: Dict[str, Any]  # what the hook `call` returned
    logged: Dict[str, Any]  # name -> scalar that `run.log` got
    losses: Dict[str, Any]  # name -> float32 scalar of the hook `loss`
    summaries: Sequence[Any]  # that the step adds to TensorFlow's collection


class TrainingGraph(NamedTuple):
    """The graph of training."""

    tf_graph: Any
    run: Run  # what its plugins use
    model: Any  # what the hook `build` returned
    step: StepOutputs  # what can be fetched, in a call that makes one step
    skipped_steps: Any  # int64 scalar, read after the train op; None where none is skipped
    train_op: Any  # makes one step, or in a loop as many as are fed
    step_after: Any  # int64 scalar, the global step, read after the train op
    loop: Optional[StepLoop]  # None where the train op makes a single step
    # Of the step's tensors without batch and summaries, in their order; a compiled loop needs them
    # before its step is built.
    step_specs: List[tf.TensorSpec]
    sums: StepSums  # of scalars of the steps, for their means
    # Of scalars of the step over all replicas, and the sums of each. A call that fetches them needs
    # the others' part, so all replicas fetch them in the same calls.
    averages: Sequence[Any] = ()


class InferenceGraph(NamedTuple):
    """The graph of evaluation or prediction, fed through placeholders."""

    tf_graph: Any
    run: Run
    # name -> [N, ...]: "features", the names of the features, or those of the hook `inputs`
    placeholders: Dict[str, Any]
    example_placeholders: Dict[str, Any]  # flat key -> [N, ...] of what is fed of examples
    takes_examples: bool  # whether it is fed examples, and not what the hook `inputs` names
    predictions: Dict[str, Any]
    losses: Dict[str, Any]
    metrics: Dict[str, Any]  # name -> (value, update_op)
    example_metrics: Dict[str, Any]  # name -> the value of each example [N]
    metric_variables: List[Any]  # what is to be reset before each evaluation
    position: Any = None  # int64 scalar placeholder of `Run.position`; None if nothing reads it
    outputs: Dict[str, Any] = {}  # of the hook `call`
    after_restore: Any = None  # op that runs after the variables are restored; see `Run`

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
    """build -> call -> loss -> optimize -> one train op, for a run in mode "train" whose reader is
    in `tf_graph`; `in_loop` as the body of a loop, so that a call can make several steps.
    """
    with _construction(tf_graph, run):
        model = _build_model(plugins, run)
        if not in_loop:
            op, outputs = _build_step(plugins, run, model, reader.batch)
            return _training_graph(tf_graph, run, model, StepLoop(op, None, outputs))
        num_steps = make_num_steps()
        if reader.in_memory:  # to gather the batches of a call at once costs less than one by one
            chunk = reader.chunk(run.global_step.read_value(), num_steps)
        collection = tf.get_collection_ref(tf.GraphKeys.SUMMARIES)
        before = list(collection)

        def make_step(i):
            read = (lambda step: _take(reader, chunk, i)) if reader.in_memory else reader.batch
            op, outputs = _build_step(plugins, run, model, read)
            added = [summary for summary in collection if summary not in before]
            return op, outputs._replace(summaries=added)

        loop = build_loop(make_step, num_steps)
        # Outside of the loop, TensorFlow's collection has the summaries that the step adds.
        collection[:] = before + list(loop.outputs.summaries)
        max_steps = reader.max_chunk_steps if reader.in_memory else None
        loop = loop._replace(max_steps=max_steps)
        return _training_graph(tf_graph, run, model, loop)


def build_compiled(
    plugins: Plugins,
    run: Run,
    reader,
    tf_graph,
    step_specs: Sequence[tf.TensorSpec],
    max_steps: int,
) -> TrainingGraph:
    """Build the loop of `build_training` as one op that XLA compiles, for a run of the strategy
    `XLA`. `step_specs` are of the same step in a loop that is not compiled; the batches of the at
    most `max_steps` steps of a call are gathered before the first.
    """
    with _construction(tf_graph, run):
        model = _build_model(plugins, run)
        num_steps = make_num_steps()
        chunk = reader.chunk(run.global_step.read_value(), max_steps, num_steps)
        keys = sorted(chunk)

        def make_step(count, *tensors):
            own = dict(zip(keys, tensors))
            op, outputs = _build_step(plugins, run, model, lambda step: _take(reader, own, count))
            return op, outputs._replace(batch=None, summaries=())

        inputs = [chunk[key] for key in keys]
        builder = step_builder_of(run)
        loop = build_compiled_loop(
            make_step, num_steps, inputs, list(step_specs), lambda: builder.all_finite
        )
        outputs = loop.outputs._replace(batch=_take(reader, chunk, 0))
        loop = loop._replace(outputs=outputs, max_steps=max_steps)
        return _training_graph(tf_graph, run, model, loop)


@contextlib.contextmanager
def _construction(graph: tf.Graph, run: Run) -> Iterator[None]:
    """Build a graph in the block: no session can run it, and Python's generators are seeded."""
    generators = seeded_generators(run.seed("numpy"))
    device = step_builder_of(run).strategy.model_device()
    with graph.as_default(), under_construction(graph), generators, tf.device(device):
        tf.set_random_seed(run.seed("graph"))
        tf.train.get_or_create_global_step()  # in inference as well, where the step is restored
        yield


def _build_model(plugins: Plugins, run: Run) -> Any:
    """What the hook `build` returns, with initial values that depend on names alone."""

    def create_resource(next_creator, **kwargs):
        # A loop of steps would read a cached value (dynamic_rnn's) only once, and the guard puts
        # back the values of resources alone.
        return next_creator(**dict(kwargs, caching_device=None, use_resource=True))

    builder = step_builder_of(run)
    with seed_initial_values(run.options.seed), tf.variable_creator_scope(create_resource):
        model = plugins.call_hook("build", run=run)
    builder.model_variables = [v for v in tf.global_variables() if v is not run.global_step]
    return model


def _take(reader: Any, chunk: Dict[str, Any], number: Any) -> Tuple[Any, Any]:
    """One of the batches that were read ahead: flat key -> as they are stored, [K, B, ...]."""
    return pack(reader.form.finish({key: x[number] for key, x in chunk.items()}))


def _training_graph(tf_graph, run: Run, model, loop: StepLoop) -> TrainingGraph:
    """Build what is read behind the train op."""
    builder, count = step_builder_of(run), run.replica.count
    builder.strategy.finish(loop.op, run.global_step)
    with tf.control_dependencies([loop.op]):
        step_after = tf.identity(run.global_step.read_value(), name="step_after")
        counter = builder.counter
        skipped_steps = None if counter is None else tf.identity(counter.read_value())
    outputs, averages = loop.outputs, []
    if count > 1:
        # Behind the train op: where the guards refuse a step, no replica waits for the others.
        with tf.control_dependencies([loop.op]):
            scalars = {"logged": outputs.logged, "losses": outputs.losses}
            named = {(kind, n): x for kind, each in scalars.items() for n, x in each.items()}
            means = run.replica.mean_scalars(named)
            averages = list(means.values())
            kinds = {kind: {n: means[kind, n] for n in each} for kind, each in scalars.items()}
            outputs = outputs._replace(**kinds)
        _check_averages(loop.op, averages, outputs)
    sums = read_sums(loop.op, builder.summed, run.replica)
    builder.end_step(outputs.logged)
    return TrainingGraph(
        tf_graph,
        run,
        model,
        outputs,
        skipped_steps,
        loop.op,
        step_after,
        loop if loop.num_steps is not None else None,
        specs_of([outputs.guard_values, outputs.outputs, outputs.logged, outputs.losses]),
        sums,
        [*averages, sums.rows] if count > 1 else [],
    )


def _check_averages(train_op, averages: Sequence[Any], outputs: StepOutputs) -> None:
    """Refuse averages over all replicas that only some calls of the session would compute.

    The first replica fetches summaries and outputs alone, and would wait for the others for ever.
    """
    common = upstream([train_op, *(x.op for x in averages)])
    leaves = tf.nest.flatten(outputs.outputs) + tf.get_collection(tf.GraphKeys.SUMMARIES)
    for leaf in leaves:
        ops = upstream([leaf.op]) - common if isinstance(leaf, tf.Tensor) else set()
        if any(op.type == "CollectiveReduce" for op in ops):
            raise ToolkitError(
                f"'{leaf.op.name}' needs an average over all replicas that the step does not "
                "compute.",
                hint="run.mean_over_replicas is for what the loss, the updates or run.log use; log "
                "the value by run.log.",
            )


def _build_step(
    plugins: Plugins, run: Run, model: Any, read: Callable[[Any], Sequence[Any]]
) -> Step:
    """call -> loss -> optimize on the next batch; possibly in the body of a loop."""
    builder = step_builder_of(run)
    builder.begin_step()
    features, labels = read(run.step_index)
    note = builder.notes.append
    with noted_draws(plugins, "augment", note), refused_variables(plugins, "augment"):
        features, labels = plugins.augment(features, labels, run)
    with noted_draws(plugins, "call", note):
        outputs, updates = _call(plugins, run, model, features, labels)
    builder.state_updates = updates  # for the first update of the step
    with noted_draws(plugins, "loss", note), refused_variables(plugins, "loss"):
        loss = _ask_loss(plugins, run, model, features, labels, outputs)
    losses = _by_name(loss)
    examples = {"features": features, "labels": labels}
    train_op = plugins.call_hook(
        "optimize", check_train_op, model=model, losses=loss, run=run, **examples
    )
    train_op = plugins.call_plugin_code(
        "function of run.update_state", builder.finish, train_op, losses
    )
    if run.data.mean and not run.compiled and not is_normalized():
        raise UsageError(
            f"--normalize is on, but the plugin '{plugins.model.name}' does not normalize its "
            "features.",
            hint="Leave it out; in a plugin of your own, call toolkit.normalize(features, "
            "run.data) in the hook 'call'.",
        )
    builder.omitted_losses = builder.networks.count_omitted([v.loss for v in builder.guard_values])
    batch, logged = (features, labels), run.logged
    train_op = builder.add_scalars(train_op, {**losses, **logged})
    return train_op, StepOutputs(batch, builder.guard_values, outputs, logged, losses, ())


def build_inference(plugins: Plugins, run: Run) -> InferenceGraph:
    """build -> call -> predict, and in mode "eval" also loss and metrics, in a new graph."""
    graph = tf.Graph()
    with _construction(graph, run):
        specs: Any = None
        examples: Dict[str, Any] = {}
        labels = None
        if run.mode == "predict":
            specs = plugins.call_hook("inputs", check_inputs, run=run)
        if specs is None:
            examples, features = example_placeholders(run, FEATURES)
            packed = pack_role(examples, FEATURES)
            placeholders = packed if isinstance(packed, dict) else {FEATURES: packed}
        else:
            placeholders = {
                name: tf.placeholder(dtype, [None, *shape], "inputs/" + name)
                for name, (dtype, shape) in specs.items()
            }
            features = dict(placeholders)
        if run.mode == "eval":
            of_labels, labels = example_placeholders(run, LABELS)
            examples.update(of_labels)
        model = _build_model(plugins, run)
        outputs, _ = _call(plugins, run, model, features, labels)
        predicted = {"model": model, "features": features, "outputs": outputs, "run": run}
        with refused_variables(plugins, "predict"):
            predictions = plugins.call_hook("predict", check_predictions, **predicted)
        predictions = {name: tf.identity(tensor) for name, tensor in predictions.items()}
        losses, metrics, example_metrics, resettable = {}, {}, {}, []
        if run.mode == "eval":
            losses = _by_name(_ask_loss(plugins, run, model, features, labels, outputs))
            arguments = dict(predicted, labels=labels)
            before = {v.op.name for v in tf.local_variables()}
            metrics = _merge_metrics(plugins, "metrics", check_metrics, arguments)
            variables = {v.op.name: v for v in tf.get_collection(tf.GraphKeys.METRIC_VARIABLES)}
            new = [v for v in tf.local_variables() if v.op.name not in before]
            resettable = list({**variables, **{v.op.name: v for v in new}}.values())
            values = _merge_metrics(plugins, "example_metrics", check_example_metrics, arguments)
            for name, x in values.items():  # numpy has no bfloat16
                is_half = x.dtype.is_floating and x.dtype.size < 4
                example_metrics[name] = tf.identity(tf.cast(x, tf.float32) if is_half else x)
        restored = [function() for function in step_builder_of(run).restore_functions]
        return InferenceGraph(
            graph,
            run,
            placeholders,
            examples,
            specs is None,
            predictions,
            losses,
            metrics,
            example_metrics,
            resettable,
            run.position if run.mode == "eval" else step_builder_of(run).position,
            outputs,
            tf.group(*restored) if restored else None,
        )


def _merge_metrics(
    plugins: Plugins, hook: str, check: Any, arguments: Dict[str, Any]
) -> Dict[str, Any]:
    """What all plugins return from a hook of metrics, by the names of the metrics."""
    metrics: Dict[str, Any] = {}
    with refused_variables(plugins, hook):
        answers = plugins.call_each(hook, check, **arguments)
    for function, values in answers:
        names = sorted(set(metrics) & set(values))
        if names:
            text = f"returned the metric '{names[0]}', which another plugin returns, too"
            raise function.error(Problem(text, "Rename it."))
        metrics.update(values)
    return metrics


def _call(plugins, run, model, features, labels):
    """The outputs of `call`, and the state updates that it adds to the graph."""
    graph = tf.get_default_graph()
    before = set(graph.get_operations())
    with refused_variables(plugins, "call"):
        outputs = plugins.call_hook(
            "call", check_outputs, model=model, features=features, labels=labels, run=run
        )
    new_ops = [op for op in graph.get_operations() if op not in before]
    return outputs, state_updates(new_ops)


@contextlib.contextmanager
def refused_variables(plugins: Plugins, hook: str) -> Iterator[None]:
    """Refuse global variables that a hook creates in the block. Raises ToolkitError, which names
    the plugin and the line that created the first of them.
    """
    known = {variable.op.name for variable in tf.global_variables()}
    yield
    for variable in tf.global_variables():
        if variable.op.name not in known:
            owner, place = plugins.find_place(variable.op.traceback)
            is_state = variable.op.name.startswith(STATE)
            raise ToolkitError(
                f"Hook '{hook}' of {owner.noun} '{owner.name}' created the variable "
                f"'{variable.op.name}' ({place}).",
                hint="Call run.state in 'build', also in an extension's wrapper of it, and keep "
                "what it returns."
                if is_state
                else "Create it in 'build': build each layer there with its input shape, or take "
                "run.function.",
            )


def _ask_loss(plugins, run, model, features, labels, outputs) -> Any:
    """What the hook `loss` returns: a scalar, or a dict of named scalars."""

    def check(value: Any) -> Optional[Problem]:
        if isinstance(value, dict) and not value and run.mode == "train":
            return Problem("returned {}, expected a scalar tensor", "Return at least one scalar.")
        return check_loss(value)

    return plugins.call_hook(
        "loss", check, model=model, features=features, labels=labels, outputs=outputs, run=run
    )


def _by_name(loss: Any) -> Dict[str, Any]:
    return dict(loss) if isinstance(loss, dict) else {"loss": loss}
