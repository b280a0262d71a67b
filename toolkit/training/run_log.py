"""What a training run reports of itself: its manifest, its first and last lines, its failures."""

from __future__ import annotations

import contextlib
import os
from typing import Any, Dict, List, Optional, Sequence

import numpy as np

from .. import autopsy
from ..data.examples import LENGTH
from ..data.files.hash_list import LIST_FILE, is_long, write_list
from ..display.console import Console
from ..errors import DivergedError, InterruptedRun, RetryError, ToolkitError
from ..graph.session_config import effective_threads
from ..run_data import RunData, describe_missing_splits
from ..storage.manifest import FINISHED
from . import provenance
from .best_metric import BestMetric
from .hooks.base import HookWrapper, SessionHook
from .loop import TrainResult
from .notes import plan_notes
from .setup import Job, training_reader, training_run
from .step_mode import TrainingPlan

# Where training reads its examples, by the kind of the reader, if they are not in memory.
_PLACES = {
    "stream": "streamed from where it is",
    "mapped": "decoded once, and streamed from the cache",
    "dataset": "a tf.data.Dataset of the plugin: a resume reads past its first examples, and has "
    "the same bits only if the data set repeats itself exactly",
}


class RunLog:
    """Writes the manifest of a run, and tells the console what a user needs to know."""

    def __init__(self, job: Job, run_data: RunData, plan: TrainingPlan, console: Console):
        self._job = job
        self._folder = job.folder
        self._run_data = run_data
        self._plan = plan
        self._console = console
        self._facts: Optional[Dict[str, Any]] = None

    # ---------------------------------------------------------------------------------- beginning

    def begin(self, hooks: Sequence[SessionHook]) -> None:
        """Write what describes the run, before its first step."""
        job, folder = self._job, self._folder
        is_new = folder.is_new
        if is_new:
            folder.create(job.config)
        else:
            folder.write_config(job.config)
        if not folder.has_lock:
            self.warn(f"{folder} cannot be locked: do not train in it twice at the same time")
        total = self._plan.total_steps
        facts = provenance.session_facts(job.argv, [hook.name for hook in hooks], total)
        facts.update(xla=self._plan.is_compiled, metrics=None, summary=None)
        facts.update(reader=self._plan.reader.kind)
        if is_new:
            facts.update(provenance.run_facts(job.plugins, self._run_data))
        elif job.allow_other_data:
            facts["data"] = provenance.run_facts(job.plugins, self._run_data)["data"]
        folder.update_manifest(**facts)
        self._write_hash_list()

    def _write_hash_list(self) -> None:
        """Write the hashes of the data's files, of which the manifest has one hash, once."""
        hashes, path = self._run_data.dataset.sha256, self._folder.file(LIST_FILE)
        is_missing = self._job.allow_other_data or not os.path.lexists(path)
        if is_long(hashes) and is_missing:
            with self._folder.writing():
                write_list(path, hashes)

    def announce(
        self, hooks: Sequence[SessionHook], changes: Sequence[str], best: Optional[BestMetric]
    ) -> None:
        """Say what is about to be trained.

        Args:
            changes: what differs from the session before; the texts may be empty.
            best: the metric that chooses the best checkpoint, or None.
        """
        log, run_data = self._console.log, self._run_data
        sizes = ", ".join(f"{len(s)} {name}" for name, s in run_data.splits.items() if len(s))
        log(f"run    {self._folder}")
        log(f"data   {run_data.dataset.name} ({sizes}; {_describe_examples(run_data.spec)})")
        missing = describe_missing_splits(run_data.dataset, self._job.options)
        for note in [*_describe_classes(run_data), *missing, *run_data.dataset.notes]:
            log(f"data   {note}")
        if self._plan.reader.kind in _PLACES:
            log(f"data   {_PLACES[self._plan.reader.kind]}")
        if best is not None:
            log(f"best   {best.summary}")
        log(f"hooks  {' > '.join(hook.name for hook in hooks)}")
        notes = [*self._job.notes, *plan_notes(self._plan), *changes]
        for note in notes + self._changes_since_last_session():
            self.note(note)
        names = [
            hook.name
            for hook in hooks
            if isinstance(hook, HookWrapper) and hook.is_called_on_every_step
        ]
        if names:
            log(
                "note   one step per call, which is slower; called on every step: "
                f"{', '.join(names)}"
            )

    def note(self, text: str) -> None:
        """Show what a user should know, if there is a text."""
        if text:
            self._console.log(f"note   {text}")

    def session_facts(self) -> Dict[str, Any]:
        """What the commit log records of this session: all that its bits depend on."""
        if self._facts is None:
            job = self._job
            facts = provenance.reproducibility_facts(job.plugins, self._run_data, job.config)
            facts["machine"][provenance.THREADS] = effective_threads(self._plan.options)
            reader = self._plan.reader.kind
            self._facts = dict(facts, compiled=self._plan.is_compiled, reader=reader)
        return self._facts

    def _changes_since_last_session(self) -> List[str]:
        """Why the bits of a resume will not be those of an uninterrupted run."""
        sessions = self._folder.commits.sessions()
        if not sessions:
            return []
        changes = provenance.changes_since(sessions[-1], self.session_facts())
        return [f"no longer bit-exact from here: {'; '.join(changes)}"] if changes else []

    # ------------------------------------------------------------------------------------- ending

    def end(self, result: TrainResult) -> None:
        """Write how training ended, before the test."""
        status = "trained" if result.is_done else "stopped"
        self._write_status(status, result.step, result.reason)

    def finish(self, result: TrainResult, test: Optional[Dict[str, Any]]) -> Dict[str, Any]:
        """Write the summary of the run, and return it.

        Args:
            test: the result of the test split, or None.
        """
        summary = {
            "run": str(self._folder),
            "plugin": self._job.plugins.model.name,
            "steps": result.step,
            "seconds": round(result.seconds, 2),
            "reason": result.reason,
            "finished": result.is_done,
            "best": self._folder.checkpoints.best(),
            "test": test,
        }
        relative = dict(summary, run=".")
        if result.is_done:  # written last: a resume repeats what a kill prevents
            metrics = self._folder.metrics.position()._asdict()
            reports = (test or {}).get("reports", "")
            self._folder.finish(reports, status=FINISHED, summary=relative, metrics=metrics)
        else:
            self._folder.update_manifest(summary=relative)
        return summary

    def fail(self, error: ToolkitError, step: int) -> None:
        """Write how training failed, and add to the error what the loop cannot know: the folder,
        and how to continue.

        Args:
            step: the last good step.
        """
        resume = f"Continue with: toolkit resume {self._folder.argument}"
        status = "failed"
        if isinstance(error, InterruptedRun):
            status = "interrupted"
            error.message = f"Interrupted; step {step} is saved in {self._folder}."
            error.hint = resume
        elif isinstance(error, DivergedError):
            status = "diverged"
            event = {"step": step, "kind": "event", "event": "diverged", "message": error.message}
            with contextlib.suppress(ToolkitError):
                self._folder.metrics.append(event)
        elif isinstance(error, RetryError):
            error.hint = f"{error.hint} {resume}".strip()
        with contextlib.suppress(ToolkitError):  # the folder may be what failed
            self._write_status(status, step, error.message)
        if isinstance(error, DivergedError):
            self._examine(step)

    def _write_status(self, status: str, step: int, reason: str) -> None:
        checkpoints = self._folder.checkpoints.list()
        committed = checkpoints[-1].step if checkpoints else 0
        self._folder.update_manifest(status=status, step=step, reason=reason, committed=committed)

    def _examine(self, step: int) -> None:
        """Say where a divergence began, by repeating the step after the last good one."""
        job, log = self._job, self._console.log
        try:
            start = self._folder.checkpoints.newest()
            if (start.step if start else 0) != step:
                return  # its state could not be saved: there is nothing to begin from
            finding = autopsy.examine(
                job.plugins,
                lambda: training_reader(job.options, self._run_data),
                lambda reader: training_run(job.options, self._run_data, self._folder.path, reader),
                start.path if start else None,
                step,
            )
            if finding is not None:
                autopsy.write(finding, self._folder.make_subfolder("reports", f"autopsy-{step}"))
        except Exception as error:  # the divergence is what counts
            self.warn(f"the autopsy failed: {type(error).__name__}: {error}")
            return
        for line in finding.lines() if finding else [autopsy.NOT_REPRODUCED]:
            log("autopsy  " + line)
        if finding is not None:
            log(f"autopsy  The batch is in {self._folder}/reports/autopsy-{step}")

    def warn(self, text: str) -> None:
        """Show a warning."""
        self._console.log("warning: " + text)


def _describe_examples(spec) -> str:
    if spec.components:
        return "; ".join(
            f"{role} {_describe_structure(structure)}"
            for role, structure in (("features", spec.features), ("labels", spec.labels))
            if structure is not None
        )
    text = "x".join(map(str, spec.shape)) + " " + spec.dtype
    if not spec.num_classes:
        return text + ", unlabelled"
    return text + f", {spec.num_classes} class{'es' if spec.num_classes > 1 else ''}"


def _describe_structure(structure) -> str:
    """`words value int64 ?, photo image uint8 4x6x3`; lengths of sequences are left out."""
    if not isinstance(structure, dict):
        return structure.describe()
    lengths = {name + LENGTH for name, component in structure.items() if component.is_sequence}
    return ", ".join(
        f"{name} {component.describe()}"
        for name, component in structure.items()
        if name not in lengths
    )


def _describe_classes(run_data: RunData) -> List[str]:
    """How many examples each split has of a class, in one line; none without classes."""
    names = run_data.dataset.spec.class_names
    parts = []
    for name, split in run_data.splits.items():
        if split.class_labels is None or len(names) < 2:
            continue
        counts = np.bincount(split.class_labels, minlength=len(names))
        low, high = counts.min(), counts.max()
        part = f"{name} {low}" if low == high else f"{name} {low} to {high}"
        absent = [names[i] for i in np.flatnonzero(counts == 0)[:5]]
        parts.append(part + (f" (none of {', '.join(absent)})" if absent else ""))
    return [f"per class: {', '.join(parts)}"] if parts else []
