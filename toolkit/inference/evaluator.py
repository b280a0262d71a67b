"""Evaluate and predict with a checkpoint, through one graph and one session for all calls."""

from __future__ import annotations

import copy
import functools
from typing import Any, Callable, Dict, Iterable, Iterator, List, NamedTuple, Optional, Set, Union

import numpy as np

from ..autopsy.op_traceback import find_failing_line
from ..compat import make_callable, summarize_tf_error, tf
from ..data.column import Column
from ..data.examples import LENGTH, Split
from ..data.named_arrays import check_arrays
from ..data.same_data import check_fit
from ..data.spec import DataSpec
from ..data.structure import pack
from ..display.waits import waiting
from ..errors import CheckpointError, DataError, RetryError, ToolkitError, UsageError
from ..files import plain_path
from ..graph.build import InferenceGraph, build_inference
from ..graph.run import Run
from ..graph.session_config import fill_queues, session_config
from ..plugins import Plugins
from ..statistics.intervals import mean
from ..storage.checkpoint_reader import has_files
from ..storage.variables import find_misfit, read_variable_specs, stored_specs
from .example_values import Intervals, compute_intervals
from .model_features import ModelFeatures
from .sample_options import sample_options_class
from .sampling import Sampler, SampleRequest
from .scorer_set import ScorerSet, read_directions

# What a model predicts on: its features, or arrays by the names of the hook `inputs`.
ModelInputs = Union[np.ndarray, Dict[str, np.ndarray]]
Call = Callable[..., List[np.ndarray]]  # fed arrays -> the values of the fetches


class Evaluation(NamedTuple):
    """The result of evaluating a split."""

    metrics: Dict[str, float]  # name -> value over the whole split
    # Arrays [N, ...] by name, in the split's order: the tensors of `predict`, "features" (a
    # `ModelFeatures`, or a dict of them) and "labels"; None unless requested.
    examples: Optional[Dict[str, Any]]
    lines: List[str]  # of the scorers, to print below the metrics
    details: Dict[str, Any]  # JSON values of the scorers
    depends_on: Dict[str, Dict[str, Any]]  # a scorer's metric -> what else its value depends on
    # The name of a metric -> the values [N] whose mean it is; those that only an interval needs, if
    # requested or if there is a folder for reports.
    values: Dict[str, np.ndarray]
    intervals: Intervals  # of the metrics whose values are kept, and of those of scorers


class Evaluator:
    """A new graph for evaluation or prediction, and a session with the loaded checkpoint.

    `predict_graph`, a new one of the same plugins, options and data, is for the predictions that
    scorers ask for; without it, one is built then.
    """

    def __init__(
        self,
        plugins: Plugins,
        graph: InferenceGraph,
        predict_graph: Optional[InferenceGraph] = None,
    ):
        self.run, self.graph, self._predict_graph = graph.run, graph, predict_graph
        self._plugins = plugins
        with self.graph.tf_graph.as_default():
            self.saver = tf.train.Saver()  # of all global variables
            self._initialize_locals = tf.group(
                tf.local_variables_initializer(), tf.tables_initializer()
            )
            self._reset_metrics = tf.variables_initializer(self.graph.metric_variables)
            # For an export: a finalized graph takes no more collections.
            tf.add_to_collection(tf.saved_model.constants.MAIN_OP_KEY, self._initialize_locals)
        self.session = tf.Session(graph=graph.tf_graph, config=session_config(self.run.options))
        self.graph.tf_graph.finalize()
        self.path = ""  # the prefix of the loaded checkpoint
        self._calls: Dict[str, Call] = {}
        self._predictor: Optional[Evaluator] = None
        self._scorers = ScorerSet(plugins, self.run, self._names_of_model(), self._draw_for_scorers)

    @property
    def input_hooks(self) -> List[str]:
        """The hooks, of `filter` and `convert`, that examples pass through before this graph."""
        if not self.graph.takes_examples:
            return []
        return [name for name in ("filter", "convert") if self._plugins.has_hook(name)]

    def _names_of_model(self) -> Set[str]:
        graph = self.graph
        return {*graph.losses, *graph.metrics, *graph.example_metrics}

    def metric_directions(self) -> Dict[str, Optional[str]]:
        """The name of each metric -> "min" or "max", whichever is better, or None if undeclared."""
        scorers = self._scorers.scorers
        declared = read_directions(self._plugins, self.run, self.graph.losses, scorers)
        names = self._names_of_model().union(*(scorer.names for scorer in scorers))
        return {name: declared.get(name) for name in sorted(names)}

    def dependencies(self, metric: str, split: Split) -> Dict[str, Any]:
        """What values of a metric depend on besides the model: JSON values by name."""
        return {**self._scorers.dependencies(metric, split), "examples": split.sha256()}

    def load(self, path: str) -> None:
        """Load the variables of a checkpoint of this prefix, then initialise the local variables,
        whose initial values may depend on the weights. Raises CheckpointError if the checkpoint
        does not fit the graph, RetryError if a process that trains its run deleted it meanwhile.
        """
        with self.graph.tf_graph.as_default():
            variables = stored_specs(tf.global_variables())
        try:
            misfit = find_misfit(read_variable_specs(path), variables, partial=True)
            if misfit:
                raise CheckpointError(misfit)
            with plain_path(path) as plain:
                self.saver.restore(self.session, plain)
            if self.graph.after_restore is not None:
                self.session.run(self.graph.after_restore)
            self.session.run(self._initialize_locals)
        except (CheckpointError, tf.errors.OpError, ValueError) as error:  # ValueError: a Saver's
            if has_files(path):
                raise
            raise RetryError(
                f"{path} was deleted while it was read.",
                hint="A process trains its run and keeps newer checkpoints; repeat the command.",
            ) from error
        self.path = path
        if self._predictor is not None:  # now: a process that trains may delete the checkpoint
            self._predictor.load(path)

    def close(self) -> None:
        self._scorers.close()
        if self._predictor is not None:
            self._predictor.close()
        self.session.close()

    # ----------------------------------------------------------------------------------- evaluate

    def evaluate(
        self,
        split: Split,
        batch_size: int,
        keep_examples: bool = False,
        folder: Optional[str] = None,
        keep_values: bool = False,
    ) -> Evaluation:
        """Compute metrics over the whole split, a partial last batch included, and its scores; with
        `keep_examples`, each example and its predictions. The scorers write reports to an existing
        `folder`; without one, which is a quick score, `keep_values` asks for intervals, too.

        A loss is the mean over the examples. A plugin's metric replaces a loss of the same name.
        Raises DataError if the split is empty, or does not fit the data of the training.
        """
        if len(split) == 0:
            raise DataError("The split to evaluate is empty.")
        check_fit(split.components, self.run.data, "The split")
        graph, tensors = self.graph, self.graph.predictions if keep_examples else {}
        has_intervals = keep_values or folder is not None
        means = graph.example_metrics
        if not has_intervals:  # those alone whose means are no metrics otherwise
            means = {name: x for name, x in means.items() if name not in graph.metrics}
        values = _ExampleArrays("example_metrics", means, len(split))
        predictions = _ExampleArrays("predict", tensors, len(split))
        metrics = self._measure(split, batch_size, predictions, values)
        examples: Optional[Dict[str, Any]] = None
        if keep_examples:
            features = pack({key: ModelFeatures(split, key) for key in split.columns})[0]
            labels = copy.copy(split.labels)
            examples = dict(predictions.by_name, features=features, labels=labels)
        intervals = compute_intervals(metrics, values.by_name if has_intervals else {})
        evaluation = Evaluation(metrics, examples, [], {}, {}, values.by_name, intervals)

        def predict(inputs: ModelInputs, batch_size: Optional[int] = None) -> Any:
            return self._open_predictor().predict(inputs, batch_size)

        for result in self._scorers.score(split, predict, folder):
            evaluation.metrics.update(result.metrics)
            evaluation.lines.extend(result.lines)
            evaluation.details.update(result.details)
            evaluation.depends_on.update(dict.fromkeys(result.metrics, result.depends_on))
            intervals.by_name.update(result.intervals)
        return evaluation

    def _measure(
        self, split: Split, batch_size: int, predictions: _ExampleArrays, values: _ExampleArrays
    ) -> Dict[str, float]:
        """Losses and metrics of one pass over the split."""
        graph = self.graph
        updates = [update for _, update in graph.metrics.values()]
        fetches = [*predictions.tensors, *values.tensors, *graph.losses.values(), *updates]
        feeds = [graph.position, *graph.example_placeholders.values()]
        measure_batch = self._prepare_call(
            f"measure {[each.name for each in fetches]}", fetches, feeds
        )
        sums = dict.fromkeys(graph.losses, 0.0)
        self._prepare_call("reset", [self._reset_metrics])()
        keys = list(graph.example_placeholders)
        with waiting(f"Evaluating {len(split):,} examples", len(split)) as wait:
            for start in range(0, len(split), batch_size):
                # One length for all batches: a sum over padded values depends on it by rounding.
                batch = split.read(slice(start, start + batch_size), keys, is_longest=True)
                results = iter(measure_batch(np.int64(start), *batch.values()))
                rows = len(batch[keys[0]])
                predictions.append(results, start, rows)
                values.append(results, start, rows)
                for name, value in zip(sums, results):
                    sums[name] += float(value) * rows
                wait.show(start + rows)
        metrics = {name: total / len(split) for name, total in sums.items()}
        metrics.update((name, mean(array)) for name, array in values.by_name.items())
        read_metrics = self._prepare_call("metrics", [value for value, _ in graph.metrics.values()])
        metrics.update((name, float(value)) for name, value in zip(graph.metrics, read_metrics()))
        return metrics

    # ------------------------------------------------------------------------------------ predict

    def predict(
        self, inputs: ModelInputs, batch_size: Optional[int] = None, position: int = 0
    ) -> Dict[str, np.ndarray]:
        """Each tensor of the hook `predict`, arrays [N, ...] by name.

        The inputs are features [N, ...] of the data's shape and dtype, or a dict of them if they
        have names (lists of sequences need no lengths); where the hook `inputs` names other inputs,
        a dict of arrays [N, ...] of these names. Random numbers of the graph follow `position`, of
        the first example. Raises DataError if the inputs do not fit the model.
        """
        by_name = inputs if isinstance(inputs, dict) else {"features": inputs}
        if self.graph.takes_examples:
            by_name = pad_sequences(by_name, self.run.data)
        arrays = check_arrays(by_name, self.graph.input_specs)
        return self._predict(self.graph.placeholders, arrays, batch_size, position)

    def _draw_for_scorers(self, count: int, seed: int) -> Iterator[Dict[str, np.ndarray]]:
        """Samples, with the settings that they have by default; see `Scorer.draw`."""
        request = SampleRequest(count, seed, options=sample_options_class(self._plugins)())
        return Sampler(self._plugins, self._open_predictor()).draw(request)

    def _open_predictor(self) -> Evaluator:
        """A second evaluator in mode "predict", which is built on first use."""
        if self._predictor is None:
            run, graph = self.run, self._predict_graph
            if graph is None:
                run = Run("predict", run.options, run.data, run.folder, run.total_steps)
                graph = build_inference(self._plugins, run)
            self._predictor = Evaluator(self._plugins, graph)
            self._predictor.load(self.path)
        return self._predictor

    def predict_from_outputs(
        self, values: Dict[str, np.ndarray], position: int = 0
    ) -> Dict[str, np.ndarray]:
        """As `predict`, from arrays [N, ...] by the names of tensors that the hook `call` returned.
        Raises DataError if they do not fit the tensors, or a prediction needs more than these.
        """
        tensors = {name: self.graph.outputs[name] for name in values}
        specs = {n: (t.dtype.name, tuple(t.shape.as_list()[1:])) for n, t in tensors.items()}
        arrays = check_arrays(values, specs)
        try:
            return self._predict(tensors, arrays, None, position)
        except ToolkitError as error:
            if not isinstance(error.__cause__, tf.errors.InvalidArgumentError):
                raise
            raise DataError(
                f"The model cannot predict from {', '.join(values)} alone: {error.message}",
                hint="Its hook 'predict' may use nothing else of the examples, such as their "
                "number.",
            ) from error

    def _predict(
        self,
        tensors: Dict[str, Any],
        arrays: Dict[str, np.ndarray],
        batch_size: Optional[int],
        position: int,
    ) -> Dict[str, np.ndarray]:
        """The predictions for arrays that the tensors of their names are fed with."""
        count = min(map(len, arrays.values()))
        batch_size = self.run.options.eval_batch_size if batch_size is None else batch_size
        if batch_size < 1:
            raise UsageError(f"The batch size is {batch_size}, not at least 1.")
        predictions, place = self.graph.predictions, self.graph.position
        feeds = [*tensors.values(), *([] if place is None else [place])]
        call = "predict from " + " ".join(tensors)
        predict_batch = self._prepare_call(call, predictions.values(), feeds)
        outputs = _ExampleArrays("predict", predictions, count)
        with waiting(f"Predicting {count:,} examples", count) as wait:
            for start in range(0, max(1, count), batch_size):
                batch = [arrays[name][start : start + batch_size] for name in tensors]
                fed = batch if place is None else [*batch, np.int64(position + start)]
                outputs.append(iter(predict_batch(*fed)), start, len(batch[0]))
                wait.show(start)
        return outputs.by_name

    def _prepare_call(
        self, name: str, fetches: Iterable[Any], feeds: Iterable[tf.Tensor] = ()
    ) -> Call:
        """Return the call cached under `name`, or prepare it: fed arrays -> values of the fetches.

        All its ops run in the caller's thread. They depend on each other anyway, and waking other
        threads took 7 % of the time of a batch of a small network.
        """
        if name not in self._calls:
            elements = [self.graph.tf_graph.as_graph_element(fetch) for fetch in fetches]
            if not elements:
                return lambda *arrays: []  # TensorFlow refuses a call without fetches
            fill_queues(self.session)
            call = make_callable(self.session, elements, feeds, inline=True)
            self._calls[name] = functools.partial(self._explain, call)
        return self._calls[name]

    def _explain(self, call: Call, *arrays: np.ndarray) -> List[np.ndarray]:
        """What a call returns; an error of TensorFlow as one of the toolkit, with the line of the
        plugin that made the op.
        """
        try:
            return call(*arrays)
        except tf.errors.OpError as error:
            place = find_failing_line(error, self.graph.tf_graph)
            text = summarize_tf_error(str(error.message)) + (place and f" ({place})")
            lacks_memory = isinstance(error, tf.errors.ResourceExhaustedError)
            cls = RetryError if lacks_memory else ToolkitError
            hint = "Run again with -v for the traceback."
            raise cls(f"The model failed: {text}.", hint=hint) from error


def pad_sequences(arrays: Dict[str, Any], spec: DataSpec) -> Dict[str, Any]:
    """Features by name, with lists of sequences padded as in the data of the spec, and their
    lengths added.
    """
    padded = dict(arrays)
    for key, component in spec.flat.items():
        name = key.partition("/")[2]
        if component.is_sequence and name in arrays and name + LENGTH not in arrays:
            column = Column(list(arrays[name]), padding=component.padding)
            lengths = [len(sequence) for sequence in column.values]
            if len(set(lengths)) == 1:
                padded[name + LENGTH] = np.array(lengths, np.int32)
                continue
            split = Split({name: column}).read(slice(None), is_longest=True)
            padded.update((k.partition("/")[2], array) for k, array in split.items())
    return padded


class _ExampleArrays:
    """Arrays by name, allocated once for `count` examples and filled batch by batch with the values
    of tensors [N, ...], which a hook returned by name.
    """

    def __init__(self, hook: str, tensors: Dict[str, tf.Tensor], count: int):
        self.tensors = list(tensors.values())
        self.by_name: Dict[str, np.ndarray] = {}
        self._hook, self._names, self._count = hook, list(tensors), count

    def append(self, values: Iterator[np.ndarray], start: int, rows: int) -> None:
        """Store the next values, in the order of the names, of the `rows` examples from `start`."""
        for name, value in zip(self._names, values):
            if name not in self.by_name:
                self.by_name[name] = np.empty((self._count,) + value.shape[1:], value.dtype)
            array = self.by_name[name]
            if value.shape != (rows, *array.shape[1:]):
                raise ToolkitError(
                    f"Hook '{self._hook}' returned '{name}' {list(value.shape)} for {rows} "
                    "examples.",
                    hint="It returns tensors with the batch first, of the same other sizes in all "
                    "batches.",
                )
            array[start : start + rows] = value
