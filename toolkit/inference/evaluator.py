"""Evaluate and predict with a checkpoint: one graph and one session, kept for all evaluations."""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterable, List, NamedTuple, Optional, Sequence, Union

import numpy as np

from ..compat import make_callable, tf
from ..data.named_arrays import check_arrays
from ..errors import CheckpointError, DataError, ToolkitError
from ..graph import build
from ..graph.run import Run
from ..graph.session_config import session_config
from ..plugins import Plugins
from ..storage.checkpoint_diff import difference, read_variable_specs, variable_specs
from .scorer import Scorer, ScoreResult

Inputs = Union[np.ndarray, Dict[str, np.ndarray]]


class Evaluation(NamedTuple):
    """metrics: name -> float over the whole split. examples: arrays, batch first, or None.

    lines, details: what scorers have to tell; for a person, and as JSON values.
    """

    metrics: Dict[str, float]
    examples: Optional[Dict[str, np.ndarray]]
    lines: List[str]
    details: Dict[str, Any]


class Evaluator:
    """A graph in mode "eval" or "predict" with a session, and the checkpoint that it holds.

    plugins, options: of the run. spec: the `DataSpec` that it was trained on. splits: name ->
    `Split` or None, for the plugins' scorers; without it there are none.
    """

    def __init__(
        self,
        plugins: Plugins,
        options: Any,
        spec: Any,
        mode: str = "eval",
        folder=None,
        total_steps=None,
        splits: Optional[Callable[[str], Any]] = None,
    ):
        self.run = Run(mode, options, spec, folder, total_steps)
        self._plugins = plugins
        self._graph = build.build_inference(plugins, self.run)
        with self._graph.tf_graph.as_default():
            self._saver = tf.train.Saver() if tf.global_variables() else None
            self._derive = tf.group(tf.local_variables_initializer(), tf.tables_initializer())
            self._reset = tf.variables_initializer(self._graph.metric_variables)
            # For an export: it is too late for a collection once the graph is finalized.
            tf.add_to_collection(tf.saved_model.constants.MAIN_OP_KEY, self._derive)
        self._session = tf.Session(graph=self._graph.tf_graph, config=session_config(options))
        self._graph.tf_graph.finalize()
        self._path = ""
        self._calls: Dict[str, Callable[..., List[np.ndarray]]] = {}
        self._predictor = _Predictor(self)
        self._scorers: List[Scorer] = []
        if mode == "eval" and splits is not None:
            self._scorers = self._made_scorers(splits)

    @property
    def graph(self) -> build.InferenceGraph:
        return self._graph

    @property
    def session(self) -> tf.Session:
        return self._session

    @property
    def saver(self) -> tf.train.Saver:
        return self._saver

    @property
    def metric_names(self) -> List[str]:
        """The names that `evaluate` computes."""
        scored = {name for scorer in self._scorers for name in scorer.names}
        return sorted(set(self._graph.losses) | set(self._graph.metrics) | scored)

    def load(self, path: str) -> None:
        """Take the variables from the checkpoint with this prefix. Raises CheckpointError.

        Local variables are initialised behind it: their initial values may be functions of the
        weights.
        """
        with self._graph.tf_graph.as_default():
            variables = tf.global_variables()
        in_checkpoint, in_graph = read_variable_specs(path), variable_specs(variables)
        differing = difference(in_checkpoint, in_graph, partial=True).sentence()
        if differing:
            raise CheckpointError(differing)
        self._saver.restore(self._session, path)
        self._session.run(self._derive)
        self._path = path
        self._predictor.forget()

    def evaluate(
        self,
        split,
        batch_size: int,
        keep_examples: bool = False,
        folder: Optional[str] = None,
    ) -> Evaluation:
        """Metrics over the split, its partial last batch included, and what the scorers say of it.

        Losses are means over examples; a plugin's metric of the same name takes a loss's place.
        folder: an existing one for the scorers' reports, or None for their quick score. Raises
        DataError for an empty split, or one that does not fit what the model was trained on.
        """
        self._check_fit(split)
        metrics, kept = self._streamed(split, batch_size, keep_examples)
        evaluation = Evaluation(metrics, kept, [], {})
        for scorer in self._scorers:
            scored = self._scored(scorer, split, folder)
            evaluation.metrics.update(scored.metrics)
            evaluation.lines.extend(scored.lines)
            evaluation.details.update(scored.details)
        return evaluation

    def _check_fit(self, split) -> None:
        """A prepared call takes whatever it is fed, so this is the place to look."""
        if len(split) == 0:
            raise DataError("The split to evaluate is empty.")
        found, data = (split.shape, split.dtype), self.run.data
        if found != (tuple(data.shape), data.dtype):
            raise DataError(
                f"The split has examples {list(split.shape)} {split.dtype}, the model was "
                f"trained on {list(data.shape)} {data.dtype}."
            )
        if split.labels is None and self._graph.labels is not None:
            raise DataError(
                "The data to evaluate has no labels, the model was trained with some.",
                hint="Give --data with labels.",
            )

    def _streamed(self, split, batch_size: int, keep_examples: bool):
        """Losses and metrics of one pass over the split, and its examples or None."""
        graph = self._graph
        kept = dict(graph.predictions, features=graph.model_features) if keep_examples else {}
        measure, rows = self._measuring(kept), _Rows(kept, len(split))
        sums = dict.fromkeys(graph.losses, 0.0)
        self._call("reset", [self._reset])()
        for start in range(0, len(split), batch_size):
            features, labels = split.take(slice(start, start + batch_size))
            values = measure(features, labels)
            rows.add(values, len(features))
            for name, value in zip(sums, values[len(kept) :]):
                sums[name] += float(value) * len(features)
        metrics = {name: total / len(split) for name, total in sums.items()}
        streamed = self._call("metrics", [value for value, _ in graph.metrics.values()])()
        metrics.update((name, float(value)) for name, value in zip(graph.metrics, streamed))
        if not keep_examples:
            return metrics, None
        labels = None if split.labels is None else np.array(split.labels)
        return metrics, dict(rows.arrays, labels=labels)

    def _measuring(self, kept: Dict[str, Any]) -> Callable[..., List[np.ndarray]]:
        """A function of a batch's features and labels that adds the batch to the metrics.

        It returns the values of `kept`, then the losses.
        """
        graph = self._graph
        updates = [update for _, update in graph.metrics.values()]
        fetches = [*kept.values(), *graph.losses.values(), *updates]
        name = "keep" if kept else "measure"
        if graph.labels is not None:
            return self._call(name, fetches, [graph.features, graph.labels])
        call = self._call(name, fetches, [graph.features])
        return lambda features, labels: call(features)

    def predict(self, inputs: Inputs, batch_size: Optional[int] = None) -> Dict[str, np.ndarray]:
        """Each tensor of `predict`, batch first.

        inputs: features [N, ...] of the data's shape and dtype; where the hook `inputs` says what
        the model is fed, a dict of arrays [N, ...] of these names. batch_size: the option
        eval_batch_size by default. Raises DataError for inputs that do not fit.
        """
        given = inputs if isinstance(inputs, dict) else {"features": inputs}
        arrays = check_arrays(given, self._graph.input_specs)
        fed = [arrays[name] for name in self._graph.placeholders]
        count = min(map(len, fed))
        batch_size = batch_size or self.run.options.eval_batch_size
        predictions = self._graph.predictions
        predict = self._call("predict", predictions.values(), self._graph.placeholders.values())
        rows = _Rows(predictions, count)
        for start in range(0, max(1, count), batch_size):
            part = [array[start : start + batch_size] for array in fed]
            rows.add(predict(*part), len(part[0]))
        return rows.arrays

    def _call(self, name: str, fetches, feeds=()) -> Callable[..., List[np.ndarray]]:
        """The prepared call of that name, made once: what is fed -> the values of the fetches.

        Its ops run in the caller's thread: one follows the other anyway, and waking a thread for
        them took 7 % of a batch of a small network.
        """
        if not fetches:
            return lambda *fed: []  # a call without an end is refused
        if name not in self._calls:
            elements = [self._graph.tf_graph.as_graph_element(fetch) for fetch in fetches]
            self._calls[name] = make_callable(self._session, elements, feeds, inline=True)
        return self._calls[name]

    # ------------------------------------------------------------------------------------ scorers

    def _made_scorers(self, splits) -> List[Scorer]:
        """Asked when the session exists: a session made by a scorer does not choose its threads."""
        with tf.Graph().as_default():
            answers = self._plugins.call_hook("scorers", run=self.run, splits=splits)
        scorers = [scorer for answer in answers for scorer in answer or ()]
        taken = dict.fromkeys(list(self._graph.losses) + list(self._graph.metrics), "the model")
        for scorer in scorers:
            if not isinstance(scorer, Scorer):
                raise ToolkitError(
                    f"Hook 'scorers' of a plugin returned {scorer!r}.",
                    hint="It returns a list of toolkit.Scorers.",
                )
            for name in scorer.names:
                if name in taken:
                    raise ToolkitError(
                        f"Metric '{name}' of scorer {type(scorer).__name__} is already one "
                        f"of {taken[name]}.",
                        hint="Give it another name.",
                    )
                taken[name] = f"scorer {type(scorer).__name__}"
        return scorers

    def _scored(self, scorer: Scorer, split, folder: Optional[str]) -> ScoreResult:
        with tf.Graph().as_default():  # in training, the graph around us is finalized
            scored = self._plugins.call_plugin_code(
                f"scorer {type(scorer).__name__}",
                scorer.score,
                split,
                self._predictor.predict,
                folder,
            )
        known = set(scorer.names) | {name + "_noise" for name in scorer.names}
        if not isinstance(scored, ScoreResult) or not set(scored.metrics) <= known:
            raise ToolkitError(
                f"Scorer {type(scorer).__name__} returned {scored!r}.",
                hint=(
                    "It returns a toolkit.ScoreResult with metrics of its names: "
                    f"{', '.join(scorer.names) or 'it has none'}."
                ),
            )
        return scored._replace(metrics={n: float(v) for n, v in scored.metrics.items()})

    @property
    def path(self) -> str:
        """The prefix of the checkpoint that it holds; '' before the first `load`."""
        return self._path

    def close(self) -> None:
        for scorer in self._scorers:
            self._plugins.call_plugin_code(f"scorer {type(scorer).__name__}", scorer.close)
        self._predictor.close()
        self._session.close()


class _Predictor:
    """Predicts for scorers, with a second graph in mode "predict": made when first asked, and kept.

    It holds the checkpoint of its owner.
    """

    def __init__(self, owner: Evaluator):
        self._owner = owner
        self._evaluator: Optional[Evaluator] = None
        self._is_loaded = False

    def forget(self) -> None:
        """The owner holds another checkpoint now."""
        self._is_loaded = False

    def predict(self, inputs: Inputs, batch_size: Optional[int] = None) -> Dict[str, np.ndarray]:
        if self._evaluator is None:
            run = self._owner.run
            self._evaluator = Evaluator(
                self._owner._plugins, run.options, run.data, "predict", run.folder, run.total_steps
            )
        if not self._is_loaded:
            self._evaluator.load(self._owner.path)
            self._is_loaded = True
        return self._evaluator.predict(inputs, batch_size)

    def close(self) -> None:
        if self._evaluator is not None:
            self._evaluator.close()


class _Rows:
    """Arrays by name, batch first, of `count` examples: memory is taken once, batches fill it."""

    def __init__(self, names: Iterable[str], count: int):
        self._names = list(names)
        self._count = count
        self._filled = 0
        self.arrays: Dict[str, np.ndarray] = {}

    def add(self, values: Sequence[np.ndarray], rows: int) -> None:
        """The values, in the order of the names, of the next `rows` examples."""
        part = slice(self._filled, self._filled + rows)
        for name, value in zip(self._names, values):
            if value.shape[:1] != (rows,):
                raise ToolkitError(
                    f"Hook 'predict' gave '{name}' {list(value.shape)} for {rows} examples.",
                    hint="It returns tensors with the batch first.",
                )
            if name not in self.arrays:
                self.arrays[name] = np.empty((self._count,) + value.shape[1:], value.dtype)
            self.arrays[name][part] = value
        self._filled += rows
