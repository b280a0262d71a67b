"""Evaluation within a run: after a commit, then the `best` pointer, then early stopping."""

from __future__ import annotations

from typing import Any, Callable, Dict, Optional, Tuple

from ...errors import ToolkitError, UsageError, suggest
from ...storage.run_folder import RunFolder
from .base import Hook

LOWER_IS_BETTER = ("loss", "error", "distance")


class Target:
    """The metric that names the best checkpoint, from `NAME`, `min:NAME` or `max:NAME`.

    Without a direction, names that end in loss, error or distance are better when lower. Raises
    UsageError where no such metric is computed.
    """

    def __init__(self, text: str, known):
        direction, _, name = text.rpartition(":")
        if name not in known:
            raise UsageError(
                f"There is no metric '{name}' to choose the best checkpoint by.",
                hint=suggest(name, known),
            )
        self.name = name
        self.lower = direction == "min" or (not direction and name.endswith(LOWER_IS_BETTER))

    def better(self, value: float, than: Optional[float], noise: float = 0.0) -> bool:
        """Whether the gain is larger than the noise, a standard deviation."""
        if value != value:
            return False
        if than is None:
            return True
        gain = than - value if self.lower else value - than
        return gain > (noise if noise > 0 else 0)  # noise may be nan


class Validation(Hook):
    """Evaluates the checkpoints of its steps, a function of the step alone, and the last one; keeps
    `best` and the patience, which the manifest tells.

    With a metric NAME_noise, the standard deviation of NAME, `best` moves only by a gain larger
    than that of the new value; where noise alone kept it, the record says `within_noise`.

    evaluate(path) -> name to float, of the validation split. target: set before the session is
    made, or None.
    """

    name = "evaluation"

    def __init__(
        self,
        folder: RunFolder,
        steps: int,
        evaluate: Callable[[str], Dict[str, float]],
        patience: int,
        record: Callable[[Dict[str, Any]], None],
    ):
        self._folder = folder
        self._steps = steps
        self._evaluate = evaluate
        self.target: Optional[Target] = None
        self._patience = patience
        self._record = record
        self._pending: Optional[Tuple[int, str]] = None
        self._best: Optional[Dict[str, Any]] = None
        self._waited = 0  # evaluations since then
        self.is_other_model = False  # the checkpoint that is restored is of another model

    def committed(self, step: int, path: str) -> None:
        """The checkpoint hook, which runs before this one, has committed `step`."""
        if step and (step % self._steps == 0 or self.loop.is_last(step)):
            self._pending = (step, path)

    def state(self):
        return {"best": self._best, "waited": self._waited}

    def set_state(self, state):
        state = {} if self.is_other_model else state  # what was best can be loaded no more
        self._best, self._waited = state.get("best"), state.get("waited", 0)

    def is_due(self, step: int) -> bool:
        return True  # whether there is anything to do is known only after the checkpoint hook ran

    def on_restore(self, session, step):
        self._tell()
        if self.is_other_model:
            self.is_other_model = False
            return
        # The commit is from before its evaluation, which is made again, to the same numbers.
        self.committed(step, self._folder.checkpoints.prefix(step))
        self.evaluate_pending()

    def on_step(self, step, values, context):
        self.evaluate_pending()

    def on_stop(self, session, step, error):
        if error is None:
            self.evaluate_pending()

    def evaluate_pending(self) -> None:
        if self._pending is None:
            return
        (step, path), self._pending = self._pending, None
        metrics = self._evaluate(path)
        record: Dict[str, Any] = {"step": step, "kind": "eval", "split": "validation"}
        if self.target is not None:
            if self._within_noise(metrics):
                record["within_noise"] = True
            self._judge(step, metrics)
        self._record(dict(record, **metrics))
        self._tell()

    def _tell(self) -> None:
        told = self._folder.read_manifest()
        if (told.get("best"), told.get("evaluations_since_best")) != (self._best, self._waited):
            self._folder.update_manifest(best=self._best, evaluations_since_best=self._waited)

    def _measured(self, metrics: Dict[str, float]) -> Tuple[float, float]:
        """The value of the target's metric and its noise, 0 where that is not measured."""
        name = self.target.name
        if name not in metrics:
            raise ToolkitError(
                f"The evaluation gave no '{name}' to choose the best checkpoint by.",
                hint=f"It gave {', '.join(sorted(metrics)) or 'nothing'}.",
            )
        return metrics[name], metrics.get(name + "_noise", 0.0)

    def _within_noise(self, metrics: Dict[str, float]) -> bool:
        """Whether it is noise alone that keeps `best` where it is."""
        value, noise = self._measured(metrics)
        than = self._best["value"] if self._best else None
        return self.target.better(value, than) and not self.target.better(value, than, noise)

    def _judge(self, step: int, metrics: Dict[str, float]) -> None:
        """Move `best`, or count that it stays; ask for the end when patience is at its end."""
        value, noise = self._measured(metrics)
        if self.target.better(value, self._best["value"] if self._best else None, noise):
            self._best = {"step": step, "metric": self.target.name, "value": value}
            if noise > 0:
                self._best["noise"] = noise
            self._waited = 0
            return
        self._waited += 1
        if self._patience and self._waited >= self._patience:
            self.loop.request_stop(
                f"{self.target.name} has not improved in {self._waited} evaluations"
            )
