"""What a training run reports of itself: its entries, its first and last lines, its failures."""

from __future__ import annotations

import functools
import os
import time
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Optional, Sequence

from .. import autopsy
from ..data.examples import LENGTH
from ..data.same_data import ALL_FILES, LIST_FILE, summarize, write_list
from ..display.console import Console
from ..errors import DivergedError, ToolkitError, join_names
from ..graph.model_size import count_parameters, list_model_variables
from ..graph.run import step_builder_of
from ..graph.session_config import effective_threads
from ..options import NOT_SET, CoreOptions, Origin, result_options
from ..storage.session_changes import THREADS
from ..storage.source_copies import write_copies
from . import provenance
from .best_metric import BestMetric
from .hooks.runner import RunHook
from .initial_weights import assign_initial_values
from .session_record import SessionRecord
from .setup import begin_graph, record_steps
from .step_mode import TrainingPlan

if TYPE_CHECKING:
    from .trainer import Trainer

# Where training reads its examples, by the kind of the reader, if they are not in memory.
_PLACES = {
    "stream": "read while it trains, not kept in memory",
    "dataset": "a tf.data.Dataset of the plugin: a resume reads past its first examples, and has "
    "the same bits only if the data set repeats itself exactly",
}
_DARK = 1 / 8  # images without a brighter pixel get a note


class RunLog(SessionRecord):
    """Writes how a run begins and ends, and tells the console what a user needs to know."""

    def __init__(self, trainer: Trainer, console: Console):
        job = trainer.job
        super().__init__(job.folder, job.plugins.model.name, console)
        self._trainer, self._job, self._plan = trainer, job, trainer.plan
        self._run_data = trainer.run_data
        self._facts: Optional[Dict[str, Any]] = None

    # ---------------------------------------------------------------------------------- beginning

    def begin(
        self, hooks: Sequence[RunHook], changes: Sequence[str], best: Optional[BestMetric]
    ) -> None:
        """Write what describes the run, before its first step, and say what is about to be trained;
        `changes` are sentences on what the run begins with.
        """
        job, folder, log, run_data = self._job, self._folder, self._console.log, self._run_data
        facts, dataset = self.session_facts(), self._run_data.dataset

        def run_facts() -> Dict[str, Any]:
            return {**provenance.run_facts(job.plugins, run_data), **self._trainer.parent_facts}

        # The folder: its configuration and the run.
        if job.allow_other_data and not folder.is_new:
            facts["data_facts"] = run_facts()["data"]
        differences = self.begin_session(job.config, job.argv, facts, run_facts)
        if not folder.has_lock:
            self._console.warn(
                f"{folder} cannot be locked: do not train in it twice at the same time"
            )
        list_path = folder.file(LIST_FILE)
        is_summary = ALL_FILES in summarize(dataset.sha256)
        if is_summary and (job.allow_other_data or not os.path.lexists(list_path)):
            with folder.writing():
                write_list(list_path, dataset.sha256)
        # The session, whose entry is written with its first step.
        names = [hook.name for hook in hooks]
        variables = list_model_variables(self._plan.graph.run, self._plan.graph.tf_graph)
        options = type(job.options)
        own_options = options.model_fields.keys() - CoreOptions.model_fields.keys()
        facts.update(
            hooks=names,
            without_effect=sorted(own_options - result_options(options)),  # of those of plugins
            total_steps=self._plan.total_steps,
            record_steps=record_steps(job.options, self._plan.total_steps, run_data),
            model=count_parameters(variables),
            git=provenance.read_git_commits(job.plugins.all),
            keeps_sources=job.options.keep_sources,
            sources=self._copy_sources(facts["plugins"]) if job.options.keep_sources else {},
            session_start=time.time(),  # once what is copied is there
        )
        # The first lines of its log.
        sizes = ", ".join(f"{len(s)} {name}" for name, s in run_data.splits.items() if len(s))
        log(f"run    {folder}")
        log(f"data   {dataset.name} ({sizes}; {_describe_examples(run_data.spec)})")
        for note in dataset.notes:
            log(f"data   {note}")
        highest = (folder.state()["data"]["ink"] or {}).get("max", 1.0)
        if highest < _DARK and not job.options.normalize:
            log(
                f"data   the images are dark, with values up to {highest * 255:.0f} of 255, as of "
                "12 bits in 16; see --normalize"
            )
        if self._plan.reader.kind in _PLACES:
            log(f"data   {_PLACES[self._plan.reader.kind]}")
        if best is not None:
            log(f"best   {best.summary}")
        for text in self._trainer.peers.describe(job.options.batch_size):
            log(f"peers  {text}")
        self._console.file.write(f"hooks  {' > '.join(names)}")
        order = job.plugins.describe_order()
        if order:
            log(f"order  {order}")
        notes = [*job.resolved.notes, *_plan_notes(self._plan, job.origins), *changes]
        if differences:  # those of a resume will not be the bits of an uninterrupted run
            notes.append(f"no longer bit-exact from here: {'; '.join(differences)}")
        names = [hook.name for hook in hooks if not hook.has_due_steps]
        if names:
            called = f"called on every step: {', '.join(names)}"
            notes.append(f"one step per call, which is slower; {called}")
        for note in notes:
            log(f"note   {note}")

    def _copy_sources(self, hashes: Dict[str, Dict[str, str]]) -> Dict[str, Any]:
        """Copy the sources of the plugins, whose files have these hashes, to the folder; return by
        the plugin's name where the copies are.
        """
        record = {}
        for plugin in [plugin for plugin in self._job.plugins.all if hashes.get(plugin.name)]:
            files = hashes[plugin.name]
            copy = write_copies(self._folder, plugin.name, files, plugin.read_source)
            if copy.omitted:
                names = join_names(copy.omitted, 3)
                self._console.warn(f"{copy.place} lacks files that have just changed: {names}")
            record[plugin.name] = dict(copy._asdict())
        return record

    def session_facts(self) -> Dict[str, Any]:
        """What the commit log records of this session: all that its bits depend on, and what
        `begin` adds to it.
        """
        if self._facts is None:
            job = self._job
            facts = provenance.reproducibility_facts(job.plugins, self._run_data, job.config)
            facts["machine"][THREADS] = effective_threads(self._plan.options)
            reader = self._plan.reader.kind
            facts.update(self._trainer.parent_facts, **self._trainer.peers.facts())
            self._facts = dict(facts, compiled=self._plan.is_compiled, reader=reader)
        return self._facts

    # ------------------------------------------------------------------------------------- ending

    def fail(self, error: ToolkitError, step: int, seconds: float = 0.0) -> None:
        """Write how training failed after the last good step and the seconds of this session, and
        add to the error what the loop cannot know: the folder, and how to continue.
        """
        resume = self._trainer.peers.describe_resume(self._folder.argument)
        self.write_failure(error, step, seconds, f"Continue with: {resume}")
        if isinstance(error, DivergedError) and error.is_repeatable:
            source = self._examine(step)
            if source:
                error.hint = f"Step {step} is kept; {source}."
        self._console.file.write(f"Error: {error}")

    def write_page(self) -> str:
        """See `SessionRecord`; the options may leave it out."""
        return super().write_page() if self._job.options.page else ""

    def _examine(self, step: int) -> str:
        """Say where a divergence began, by repeating the step after the last good one."""
        job, log = self._job, self._console.log
        try:
            start = self._folder.checkpoints.newest()
            if (start.step if start else 0) != step:
                return ""  # its state could not be saved: there is nothing to begin from
            finding = autopsy.examine(
                job.plugins,
                lambda: begin_graph(job.options, self._run_data, self._folder.path),
                start.path if start else None,
                step,
                None if start else functools.partial(assign_initial_values, self._trainer),
            )
            if finding is not None:
                autopsy.write(finding, self._folder.make_subfolder("reports", f"autopsy-{step}"))
        except Exception as error:  # the divergence is what counts
            self._console.warn(f"the autopsy failed: {type(error).__name__}: {error}")
            return ""
        for line in finding.lines() if finding else [autopsy.NOT_REPRODUCED]:
            log("autopsy  " + line)
        if finding is None:
            return ""
        log(f"autopsy  The batch is in {self._folder}/reports/autopsy-{step}")
        return finding.way_out(skips=job.options.on_nonfinite == "skip")


def _describe_examples(spec) -> str:
    """`28x28x1 uint8, 10 classes`, or of several components `features/words value int64 ?,
    features/photo image uint8 4x6x3, labels ...`; lengths of sequences are left out.
    """
    lengths = {key + LENGTH for key, component in spec.components if component.is_sequence}
    parts = [f"{key} {part.describe()}" for key, part in spec.components if key not in lengths]
    if parts:
        return ", ".join(parts)
    text = "x".join(map(str, spec.shape)) + " " + spec.dtype
    if not spec.num_classes:
        return text + ", unlabelled"
    return text + f", {spec.num_classes} class{'es' if spec.num_classes > 1 else ''}"


def _plan_notes(plan: TrainingPlan, origins: Mapping[str, Origin]) -> List[str]:
    """A clause or sentence for each surprise of a plan: what a user may not expect of it. `origins`
    says where the value of each option comes from.
    """
    builder = step_builder_of(plan.graph.run)
    notes = [plan.note, *builder.notes]
    if plan.random_ops:
        notes.append(
            f"a resume of this run is not exact: {join_names(plan.random_ops, 3)}. The state of "
            "such an op is not in checkpoints; draw with run.uniform, run.normal or run.dropout."
        )
    names = sorted(builder.frozen_variables())
    if names:
        noun = "variable is" if len(names) == 1 else "variables are"
        notes.append(f"{len(names)} {noun} frozen: {join_names(names, 3)}")
    # Options that a person set, and that the plugin's own settings replace.
    unused = builder.unused_options() - set(plan.options.idle_options())
    notes += [
        f"{name} ({origins[name]}) has no effect: no update of the step uses it"
        for name in sorted(unused)
        if origins.get(name, NOT_SET).is_choice
    ]
    if plan.options.weight_decay and builder.update_counts and not builder.has_decay():
        place = origins.get("weight_decay", "set")
        notes.append(f"weight_decay ({place}) has no effect: no variable of the step decays")
    if builder.own_variables:
        text = join_names(builder.own_variables, 3)
        notes.append(f"updated by the plugin's own ops, and put back by the guard: {text}")
        if not builder.update_counts:
            notes.append("the options of optimizers have no effect: all updates are by such ops")
    count = builder.omitted_losses
    if count:
        noun = "loss of a regularizer is" if count == 1 else "losses of regularizers are"
        notes.append(
            f"{count} {noun} not minimized. Add sum(net.losses()) of each network of run.keras, or "
            "tf.losses.get_regularization_loss(), to what the hook 'loss' returns."
        )
    return [note for note in notes if note]
