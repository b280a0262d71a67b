"""The scorers of a run's plugins: created, checked and called; which values of metrics are better:
lower ones ("min") or higher ones ("max").
"""

from __future__ import annotations

import contextlib
import inspect
import json
from typing import Any, Callable, Dict, Iterable, Iterator, List, Mapping, Optional

import numpy as np

from ..compat import tf
from ..data.examples import Split
from ..errors import ToolkitError
from ..files import to_json_value
from ..graph.run import Run
from ..plugins import Plugins, Problem, describe_value
from ..statistics.intervals import Interval
from .sampling import check_draws_samples
from .scorer import Scorer, ScoreResult


class ScorerSet:
    """The scorers that the hook `scorers` returns. Create it after the session of the evaluation:
    the first session of a process fixes its number of threads, and a scorer may create a session.

    There are none where the run has no `splits`. `model_metrics` are the names of the losses and
    metrics of the model; `draw` is that of `Scorer`. Raises ToolkitError if the hook returned
    something else, or two metrics have the same name.
    """

    def __init__(
        self,
        plugins: Plugins,
        run: Run,
        model_metrics: Iterable[str],
        draw: Callable[[int, int], Iterable[Dict[str, np.ndarray]]],
    ):
        self._plugins = plugins
        self.scorers: List[Scorer] = []
        if run.splits is not None:
            with tf.Graph().as_default():
                answers = plugins.call_hook("scorers", _check_list, run=run, splits=run.splits)
            self.scorers += [scorer for answer in answers for scorer in answer or ()]
        owners = dict.fromkeys(model_metrics, "the model")
        for scorer in self.scorers:
            if not isinstance(scorer, Scorer):
                raise ToolkitError(
                    f"Hook 'scorers' of a plugin returned {scorer!r}.",
                    hint="It returns a list of toolkit.Scorer objects.",
                )
            if type(scorer).score is Scorer.score:
                plugin = plugins.owner(scorer) or plugins.model.name
                raise ToolkitError(
                    f"Scorer {type(scorer).__name__} of plugin '{plugin}' does not implement "
                    "'score'.",
                    hint="Define score(self, split, predict, folder) in the class.",
                )
            if scorer.draws_samples:
                check_draws_samples(plugins)
                scorer.draw = draw
            for name in scorer.names:
                if name in owners:
                    raise ToolkitError(
                        f"Metric '{name}' of {_describe(scorer)} is already a metric of "
                        f"{owners[name]}.",
                        hint="Give it another name.",
                    )
                owners[name] = _describe(scorer)

    def dependencies(self, metric: str, split: Split) -> Dict[str, Any]:
        """See `Scorer.dependencies`; {} for a metric that no scorer computes."""
        for scorer in self.scorers:
            if metric in scorer.names:
                return _to_json(scorer, self._call(scorer, scorer.dependencies, split))
        return {}

    def score(
        self, split: Split, predict: Callable[..., Dict[str, Any]], folder: Optional[str]
    ) -> Iterator[ScoreResult]:
        """Yield the result of each scorer; the arguments are those of `Scorer.score`."""
        for scorer in self.scorers:
            with tf.Graph().as_default():  # during training, the current graph is finalized
                result = self._call(scorer, scorer.score, split, predict, folder)
            names = {*scorer.names, *(name + "_noise" for name in scorer.names)}
            if not _is_valid(result) or not set(result.metrics) <= names:
                raise ToolkitError(
                    f"Scorer {type(scorer).__name__} returned {result!r:.300}.",
                    hint="It returns a toolkit.ScoreResult with metrics among its names: "
                    f"{', '.join(scorer.names) or 'it has none'}. They are numbers, an interval of "
                    "one of them is a toolkit.statistics.Interval, and details are JSON values.",
                )
            depends_on = _to_json(scorer, result.depends_on)
            # For comparisons with other runs; they are no reason to lose a test.
            if folder is not None and result.metrics and not depends_on:
                with contextlib.suppress(ToolkitError):
                    depends_on = self.dependencies(next(iter(scorer.names)), split)
            metrics = {n: float(v) for n, v in result.metrics.items()}
            intervals = {
                name: Interval(float(low), float(high), float(level), method)
                for name, (low, high, level, method) in result.intervals.items()
            }
            yield result._replace(metrics=metrics, depends_on=depends_on, intervals=intervals)

    def close(self) -> None:
        for scorer in self.scorers:
            self._call(scorer, scorer.close)

    def _call(self, scorer: Scorer, method: Callable[..., Any], *arguments: Any) -> Any:
        return self._plugins.call_plugin_code(_describe(scorer), method, *arguments)


def _describe(scorer: Scorer) -> str:
    return f"scorer {type(scorer).__name__}"


def _to_json(scorer: Scorer, dependencies: Any) -> Dict[str, Any]:
    """Dependencies as they are read back from a checkpoint: a tuple becomes a list."""
    try:
        return dict(json.loads(json.dumps(dependencies, allow_nan=False)))
    except (TypeError, ValueError):
        raise ToolkitError(
            f"Scorer {type(scorer).__name__} returned the dependencies {dependencies!r}.",
            hint="It returns a dict of JSON values by name.",
        ) from None


def _check_list(value: Any) -> Optional[Problem]:
    """What is wrong with a value of the hook `scorers`, apart from the type of its elements."""
    if isinstance(value, (list, tuple)) or inspect.isgenerator(value):
        return None
    text = f"returned {describe_value(value)}, expected a list of scorers"
    return Problem(text, "Return a list: [scorer].")


def _is_valid(result: Any) -> bool:
    """Whether a result has metrics that are numbers, intervals of these, and details of JSON."""
    if not isinstance(result, ScoreResult) or not set(result.intervals) <= set(result.metrics):
        return False
    try:
        list(map(float, result.metrics.values()))
        json.dumps(to_json_value(dict(result.details)))
    except (TypeError, ValueError):
        return False
    return all(map(_is_interval, result.intervals.values()))


def _is_interval(value: Any) -> bool:
    """Whether a value is an interval whose ends are numbers."""
    ends = value[:3] if isinstance(value, Interval) else [None]
    is_finite = all(isinstance(x, (int, float, np.number)) and np.isfinite(x) for x in ends)
    return is_finite and value.low <= value.high


# ------------------------------------------------------------------------------------- directions


def read_directions(
    plugins: Plugins, run: Run, losses: Iterable[str], scorers: Iterable[Scorer]
) -> Dict[str, str]:
    """The declared directions of metrics: name -> "min" or "max", also of some that are not
    computed.

    A plugin declares the direction of its metrics in the hook `metric_directions`, a scorer in its
    attribute `directions`. The loss of a model with a single loss is "min", unless the plugin
    declares another direction; of two declarations the first holds. Raises ToolkitError if one is
    invalid.
    """
    answers = plugins.call_hook("metric_directions", run=run)
    sources = [("The hook 'metric_directions'", answer) for answer in answers]
    sources += [(f"Scorer {type(s).__name__}", s.directions) for s in scorers]
    declared: Dict[str, str] = {}
    for source, directions in sources:
        wrong = directions
        if isinstance(directions, Mapping):
            wrong = {n: d for n, d in directions.items() if d not in ("min", "max")}
        if wrong != {}:
            raise ToolkitError(
                f"{source} declares the directions {wrong!r}.",
                hint='It declares a dict from the name of a metric to "min" or "max".',
            )
        declared = {**directions, **declared}
    losses = list(losses)
    return {**({losses[0]: "min"} if len(losses) == 1 else {}), **declared}
