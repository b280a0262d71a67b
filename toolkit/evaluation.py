"""Evaluate and predict with a checkpoint: one graph and one session, kept for all evaluations."""

from __future__ import annotations

from typing import Any, Dict, Iterable, List, NamedTuple, Optional

import numpy as np

from . import graphs
from .compat import tf
from .errors import CheckpointError, DataError
from .plugins import Plugins
from .run import Run
from .session.config import session_config


class Evaluation(NamedTuple):
    """metrics: name -> float over the whole split. examples: arrays, batch first, or None."""

    metrics: Dict[str, float]
    examples: Optional[Dict[str, np.ndarray]]


class Evaluator:
    """A graph in mode "eval" or "predict" with a session, and the checkpoint that it holds.

    plugins, options: of the run. spec: the `DataSpec` that it was trained on.
    """

    def __init__(
        self,
        plugins: Plugins,
        options: Any,
        spec: Any,
        mode: str = "eval",
        folder=None,
        total_steps=None,
    ):
        self.run = Run(mode, options, spec, folder, total_steps)
        self._plugins = plugins
        self._graph = graphs.build_inference(plugins, self.run)
        with self._graph.graph.as_default():
            self._saver = tf.train.Saver() if tf.global_variables() else None
            self._reset = tf.local_variables_initializer()
        self._session = tf.Session(graph=self._graph.graph, config=session_config(options))
        self._graph.graph.finalize()

    @property
    def graph(self) -> graphs.InferenceGraph:
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
        return sorted(set(self._graph.losses) | set(self._graph.metrics))

    def load(self, path: str) -> None:
        """Take the variables from the checkpoint with this prefix. Raises CheckpointError."""
        with self._graph.graph.as_default():
            variables = tf.global_variables()
        difference = compare(path, variables, partial=True)
        if difference:
            raise CheckpointError(difference)
        self._saver.restore(self._session, path)

    def evaluate(self, split, batch_size: int, keep_examples: bool = False) -> Evaluation:
        """Metrics over the split, its partial last batch included.

        Losses are means over examples; a plugin's metric of the same name takes a loss's place.
        Raises DataError for an empty split, or one without labels where the model was trained with
        some.
        """
        if len(split) == 0:
            raise DataError("The split to evaluate is empty.")
        if split.labels is None and self._graph.labels is not None:
            raise DataError("The data to evaluate has no labels, the model was trained with some.")
        fetches = {
            "losses": self._graph.losses,
            "updates": [update for _, update in self._graph.metrics.values()],
        }
        if keep_examples:
            fetches["kept"] = dict(self._graph.predictions, features=self._graph.inputs)
        self._session.run(self._reset)
        sums = dict.fromkeys(self._graph.losses, 0.0)
        kept: List[Dict[str, np.ndarray]] = []
        for start in range(0, len(split), batch_size):
            features, labels = split.take(slice(start, start + batch_size))
            values = self._session.run(fetches, self._feed(features, labels))
            for name, value in values["losses"].items():
                sums[name] += float(value) * len(features)
            if keep_examples:
                kept.append(dict(values["kept"], labels=labels))
        metrics = {name: total / len(split) for name, total in sums.items()}
        streamed = self._session.run({n: value for n, (value, _) in self._graph.metrics.items()})
        metrics.update((name, float(value)) for name, value in streamed.items())
        return Evaluation(metrics, _joined(kept) if keep_examples else None)

    def predict(self, features: np.ndarray, batch_size: int) -> Dict[str, np.ndarray]:
        """Each tensor of `predict` for features [N, ...] of the data's shape and dtype."""
        rows = []
        for start in range(0, len(features), batch_size):
            feed = self._feed(features[start : start + batch_size], None)
            rows.append(self._session.run(self._graph.predictions, feed))
        return _joined(rows)

    def _feed(self, features, labels) -> Dict[Any, Any]:
        feed = {self._graph.features: features}
        if labels is not None and self._graph.labels is not None:
            feed[self._graph.labels] = labels
        return feed

    def close(self) -> None:
        self._session.close()


def _joined(rows: List[Dict[str, np.ndarray]]) -> Dict[str, np.ndarray]:
    return {
        name: np.concatenate([row[name] for row in rows]) if rows[0][name] is not None else None
        for name in rows[0]
    }


def compare(path: str, variables: Iterable[Any], partial: bool = False) -> str:
    """How a checkpoint differs from the variables that it should fill, in words; '' where it fits.

    partial: variables of the checkpoint that are not asked for are no difference. Raises
    CheckpointError where the checkpoint cannot be read.
    """
    try:
        stored = tf.train.NewCheckpointReader(path).get_variable_to_shape_map()
    except (tf.errors.OpError, ValueError, RuntimeError) as error:
        raise CheckpointError("{}: not a readable checkpoint: {}".format(path, error)) from None
    wanted = {v.op.name: v.shape.as_list() for v in variables}
    added = sorted(set(wanted) - set(stored))
    removed = [] if partial else sorted(set(stored) - set(wanted))
    reshaped = [n for n in sorted(set(wanted) & set(stored)) if wanted[n] != list(stored[n])]
    renamed = []
    for name in list(added):
        twins = [
            other
            for other in set(stored) - set(wanted)
            if list(stored[other]) == wanted[name] and other.split("/")[-1] == name.split("/")[-1]
        ]
        if len(twins) == 1:
            renamed.append("{} (was {})".format(name, twins[0]))
            added.remove(name)
            if twins[0] in removed:
                removed.remove(twins[0])
    parts = []
    for title, names in (("added", added), ("removed", removed), ("likely renamed", renamed)):
        if names:
            parts.append("{} {}".format(title, _some(names)))
    if reshaped:
        shapes = ["{} {} (was {})".format(n, wanted[n], list(stored[n])) for n in reshaped]
        parts.append("reshaped {}".format(_some(shapes)))
    return "The model differs from its checkpoint: {}.".format("; ".join(parts)) if parts else ""


def _some(names: List[str], most: int = 5) -> str:
    text = ", ".join(names[:most])
    return text + (" and {} more".format(len(names) - most) if len(names) > most else "")
