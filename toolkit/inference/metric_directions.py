"""Which values of a metric are better: the lower ones ("min") or the higher ones ("max")."""

from __future__ import annotations

from typing import Any, Dict, Iterable, Mapping

from ..errors import ToolkitError
from ..graph.run import Run
from ..plugins import Plugins
from .scorer import Scorer

DIRECTIONS = ("min", "max")


def read_directions(
    plugins: Plugins, run: Run, losses: Iterable[str], scorers: Iterable[Scorer]
) -> Dict[str, str]:
    """The declared directions of metrics.

    A plugin declares the direction of its metrics in the hook `metric_directions`, a scorer in its
    attribute `directions`. The loss of a model with a single loss is "min", unless the plugin
    declares another direction.

    Args:
        plugins: the run's plugins.
        run: the `Run` of the evaluation.
        losses: the names of the model's losses.
        scorers: the plugins' scorers.

    Returns:
        Name -> "min" or "max". It may name metrics that are not computed.

    Raises:
        ToolkitError: a declaration is invalid, or two of them contradict each other.
    """
    answers = plugins.call_hook("metric_directions", run=run)
    sources = [("The hook 'metric_directions'", answer) for answer in answers]
    sources += [(f"Scorer {type(s).__name__}", s.directions) for s in scorers]
    declared: Dict[str, str] = {}
    for source, directions in sources:
        _check(source, directions)
        for name, direction in directions.items():
            if declared.setdefault(name, direction) != direction:
                raise ToolkitError(
                    f"{source} declares '{direction}' for the metric '{name}', which is declared "
                    f"'{declared[name]}' elsewhere.",
                    hint="Declare the direction of a metric once.",
                )
    losses = list(losses)
    return {**({losses[0]: "min"} if len(losses) == 1 else {}), **declared}


def _check(source: str, directions: Any) -> None:
    if isinstance(directions, Mapping):
        wrong = {n: d for n, d in directions.items() if d not in DIRECTIONS}
        if not wrong:
            return
        directions = wrong
    raise ToolkitError(
        f"{source} declares the directions {directions!r}.",
        hint='It declares a dict from the name of a metric to "min" or "max".',
    )
