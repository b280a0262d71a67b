"""Evaluation within a run: after a commit, then the `best` checkpoint, then early stopping."""

from __future__ import annotations

from typing import Any, Callable, Dict, Optional, Tuple

from ...display.console import MAX_METRICS
from ...display.numbers import format_number
from ...errors import ToolkitError
from ...files import to_json_value
from ...storage.run_folder import RunFolder
from ..best_metric import BestMetric, read_best_value
from .base import SessionHook


class Validation(SessionHook):
    """Evaluates committed checkpoints, moves `best`, and stops early; the commit log records both.

    It also has the last evaluation and that of the best checkpoint, with intervals. A resume takes
    all from there, as they were when its checkpoint was committed.

    If the evaluation has a metric NAME_noise, the standard deviation of NAME, `best` moves to a
    newer checkpoint also where its value is worse than the best one by no more than this noise:
    small gains of a longer training are then not lost in it. The record of such an evaluation says
    `within_noise`. Early stopping counts it as one without an improvement.

    A resumed run begins `best` again, and the count of early stopping, where new values cannot be
    compared with the recorded one.

    Multiples of `steps` are evaluated, and the last step: a function of the options, so that a run
    that was killed evaluates the same steps. `evaluate` is from the path of a checkpoint to its
    metrics on the validation split, and to facts beside them, as in the result of a test. So many
    evaluations as the patience, 0 for no end, without an improvement end the run.
    """

    name = "evaluation"

    def __init__(
        self,
        folder: RunFolder,
        steps: int,
        evaluate: Callable[[str], Tuple[Dict[str, float], Dict[str, Any]]],
        patience: int,
        metric: Optional[BestMetric],
    ):
        self._folder, self._steps, self._evaluate = folder, steps, evaluate
        self._patience, self._metric = patience, metric
        self._pending: Optional[Tuple[int, str]] = None
        self._best: Optional[Dict[str, Any]] = None
        self._waited = 0  # evaluations since the best value
        self._evaluations: Dict[str, Any] = {}  # the "last" one, and that of the "best" checkpoint

    def _restore(self, step: int) -> None:
        """Continue from the commit of a step; say where nothing can be compared with it."""
        state = self._folder.commits.state_at(step)
        self._evaluations = dict(state.get("validation") or {})
        self._best, self._waited = state.get("best"), state.get("evaluations_since_best", 0)
        if self._best is None:
            return
        note = "no metric chooses the best checkpoint any more"
        if self._metric is not None:
            difference = self._metric.find_difference(self._best)
            again = "the best checkpoint is chosen again from here"
            note = f"{again}: {difference}" if difference else ""
        if note:
            self.loop.log(f"note   {note}; step {self._best.get('step')} was best")
            self._best, self._waited, self._evaluations["best"] = None, 0, None
        elif self._best["step"] not in [each.step for each in self._folder.checkpoints.list()]:
            self.loop.log(  # in a branch: its parent had deleted it
                f"note   step {self._best['step']} was best so far, and its checkpoint no longer "
                "exists: there is a best checkpoint again from the next improvement"
            )

    def is_due(self, step: int) -> bool:
        return True  # the checkpoint hook, which runs before this one, decides

    def on_restore(self, session, step):
        self._restore(step)
        self._record_state(step)
        # The commit is from before its evaluation, which is repeated, with the same numbers.
        self.on_committed(step, self._folder.checkpoints.prefix(step))
        self._evaluate_pending()

    def on_committed(self, step, path):
        if step and (step % self._steps == 0 or self.loop.is_last(step)):
            self._pending = (step, path)

    def on_step(self, step, values, context):
        self._evaluate_pending()

    def on_stop(self, session, step, error):
        if error is None:
            self._evaluate_pending()

    def _evaluate_pending(self) -> None:
        if self._pending is None:
            return
        (step, path), self._pending = self._pending, None
        metrics, facts = self._evaluate(path)
        last = dict(facts, step=step, metrics=dict(metrics))
        self._evaluations = {"last": last, "best": self._evaluations.get("best")}
        record: Dict[str, Any] = {"step": step, "kind": "eval", "split": "validation"}
        metric = self._metric
        if metric is not None:
            if metric.name not in metrics:
                raise ToolkitError(
                    f"The evaluation has no metric '{metric.name}' to choose the best checkpoint "
                    "by.",
                    hint=f"It has {', '.join(sorted(metrics)) or 'none'}.",
                )
            value, noise = metrics[metric.name], metrics.get(f"{metric.name}_noise", 0.0)
            is_better = metric.is_better(value, read_best_value(self._best))
            best = metric.choose(self._best, step, value, noise)
            if best != self._best:
                self._best, self._evaluations["best"] = best, last
            if best is not None and best["step"] == step and not is_better:
                record["within_noise"] = True
            self._waited = 0 if is_better else self._waited + 1
            if self._patience and self._waited >= self._patience:
                self.loop.request_stop(
                    f"{metric.name} has not improved in {self._waited} evaluations"
                )
        self._show(dict(record, **metrics))
        self._record_state(step)

    def _show(self, record: Dict[str, Any]) -> None:
        """Take the record of an evaluation to metrics.jsonl, events and console.

        Of many metrics, the console has the one that chooses the best checkpoint, and the last
        ones: scores come after the values of the graph.
        """
        self.loop.record(record)
        metrics = {name: value for name, value in record.items() if isinstance(value, float)}
        step = record["step"]
        self.loop.summarize_scalars(step, {f"validation/{name}": x for name, x in metrics.items()})
        names = sorted(metrics)
        if len(names) > MAX_METRICS:
            best = self._metric.name if self._metric else ""
            names = [name for name in reversed(list(metrics)) if not name.endswith("_noise")]
            names.sort(key=lambda name: name != best)  # stable
        text = "  ".join(f"{name} {format_number(metrics[name])}" for name in names[:MAX_METRICS])
        if text:  # a model may have nothing to be judged by
            self.loop.log(f"step {step}  validation  {text}")

    def _record_state(self, step: int) -> None:
        """Add the best checkpoint and the evaluations so far to the commit log, if they changed."""
        values: Dict[str, Any] = {
            "best": self._best,
            "evaluations_since_best": self._waited,
            "validation": self._evaluations if self._evaluations.get("last") else None,
        }
        state = self._folder.state()
        if {name: state.get(name) for name in values} != to_json_value(values):
            self._folder.record("evaluated", step=step, **values)
