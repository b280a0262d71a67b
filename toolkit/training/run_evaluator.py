"""The evaluations of a training run: the validation split during training, the test split after."""

from __future__ import annotations

import functools
from typing import Any, Dict, Optional, Tuple

from ..display.console import Console
from ..errors import UsageError
from ..graph.build import InferenceGraph, build_inference
from ..graph.run import Run
from ..inference.evaluation import report
from ..inference.evaluator import Evaluator
from ..inference.example_values import MAX_EXAMPLES
from ..run_data import RunData
from .best_metric import SPLIT, BestMetric, choose_best_metric
from .setup import Job
from .step_mode import TrainingPlan


class RunEvaluator:
    """Evaluates checkpoints of a run in the process that trains it."""

    def __init__(self, job: Job, run_data: RunData, plan: TrainingPlan, console: Console):
        self._job, self._run_data, self._console = job, run_data, console
        self._evaluator: Optional[Evaluator] = None
        self._predict_graph: Optional[InferenceGraph] = None
        # The graphs that are needed after the training, so that a fault shows before it. A run that
        # continues builds that of predictions, which is kept for scorers, where it is used: it may
        # be of an earlier version, which did not ask for it.
        facts = (plan.options, run_data.spec, job.folder.path, plan.total_steps)
        self._run = Run("eval", *facts, splits=run_data.prepare_split)
        if job.folder.is_new:
            try:
                graph = build_inference(job.plugins, Run("predict", *facts))
                self._predict_graph = graph if job.plugins.has_hook("scorers") else None
            except UsageError as error:  # a refusal, as of a search whose weights are of no use
                if job.options.evaluate:
                    raise
                text = f"predict, export and sample will refuse this run: {error.message}"
                console.log(f"note   {text}")
        if job.options.evaluate and any(run_data.splits.get(name) for name in (SPLIT, "test")):
            self._evaluator = self.evaluator

    @property
    def evaluator(self) -> Evaluator:
        """Built at its first use, then kept."""
        if self._evaluator is None:
            graph = build_inference(self._job.plugins, self._run)
            self._evaluator = Evaluator(self._job.plugins, graph, self._predict_graph)
        return self._evaluator

    def best_metric(self) -> Optional[BestMetric]:
        """What --best-metric names; None without it or where nothing is evaluated during training.
        Raises UsageError if no such metric is computed, or its direction is not known.
        """
        text = self._job.options.best_metric
        split = self._run_data.prepare_split(SPLIT)
        if not text or not self._job.options.evaluate or split is None:
            return None
        metric = choose_best_metric(text, self.evaluator.metric_directions())
        find_dependencies = functools.partial(self.evaluator.dependencies, metric.name, split)
        return metric._replace(find_dependencies=find_dependencies)

    def validate(self, path: str) -> Tuple[Dict[str, float], Dict[str, Any]]:
        """Evaluate a checkpoint, the prefix of its files, on the validation split. Returns the
        metrics, and "examples", their number, with "intervals" and "intervals_omitted".
        """
        self.evaluator.load(path)
        split = self._run_data.prepare_split(SPLIT)
        assert split is not None  # without one there is no hook that validates
        batch_size, is_small = self._job.options.eval_batch_size, len(split) <= MAX_EXAMPLES
        evaluation = self.evaluator.evaluate(split, batch_size, keep_values=is_small)
        for line in evaluation.lines:
            self._console.log("validation  " + line)
        intervals = evaluation.intervals
        if not is_small:  # they would take memory and time, and be narrower than other seeds change
            reason = f"in training, none is computed over more than {MAX_EXAMPLES:,} examples"
            intervals.omissions.update(dict.fromkeys(evaluation.values, reason))
        return evaluation.metrics, dict(intervals.as_json(), examples=len(split))

    def test(self) -> Optional[Dict[str, Any]]:
        """Evaluate the test split with the best checkpoint, or with the last one if there is none.
        Returns the result of `report` and "checkpoint" ("best" or "last"); None if there is no test
        split or the options leave out evaluation.
        """
        options, folder = self._job.options, self._job.folder
        split = self._run_data.prepare_split("test")
        if split is None or not options.evaluate:
            return None
        has_best = bool(options.best_metric and folder.checkpoints.best())
        which = "best" if has_best else "last"
        checkpoint = folder.checkpoints.find(which)
        self.evaluator.load(checkpoint.path)
        result = report(self._job.plugins, self.evaluator, folder, "test", split, checkpoint.step)
        result["checkpoint"] = which
        return result

    def close(self) -> None:
        """Close the session, if one was opened."""
        if self._evaluator is not None:
            self._evaluator.close()
