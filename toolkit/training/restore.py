"""Continue from a checkpoint: check the model against it, restore it, undo what came after it."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional

from ..compat import summarize_tf_error, tf
from ..errors import CheckpointError
from ..files import plain_path
from ..storage.checkpoint_diff import (
    RestoreOptions,
    RestorePlan,
    build_saver,
    plan_restore,
    read_variable_specs,
    variable_specs,
)
from ..storage.checkpoint_store import QUARANTINE
from ..storage.commit_log import Checkpoint
from ..storage.run_folder import RunFolder


class Restorer:
    """Restores each session of one training run.

    Args:
        folder: of the run.
        start: the checkpoint that training starts from, or None.
        warn: shows a warning about what is damaged.
    """

    def __init__(self, folder: RunFolder, start: Optional[Checkpoint], warn: Callable[[str], None]):
        self._folder = folder
        self._start = start
        self._warn = warn
        self._plan: Optional[RestorePlan] = None
        self._partial_saver: Any = None  # restores the start by the plan, where it is not whole
        self._is_first = True

    def plan(self, options: RestoreOptions) -> None:
        """Compare the start with the variables of the default graph, before a session exists.

        Args:
            options: how the model may differ from its checkpoint.

        Raises:
            CheckpointError: the model differs in another way.
        """
        if self._start is None:
            return
        variables = tf.global_variables()
        in_checkpoint = read_variable_specs(self._start.path)
        in_graph = variable_specs(variables)
        self._plan = plan_restore(in_checkpoint, in_graph, options)
        if not self._plan.is_plain:
            self._partial_saver = build_saver(self._plan, variables)

    def describe_changes(self) -> str:
        """How the model differs from the start; empty if it does not."""
        return self._plan.sentence() if self._plan else ""

    def newest_checkpoint(self) -> Optional[Checkpoint]:
        """The newest intact checkpoint, or None if none was committed."""
        if self._is_first:  # damage was reported when the start was found
            self._is_first = False
            return self._start
        return self._folder.checkpoints.newest(self._warn)

    def is_of_other_model(self, checkpoint: Optional[Checkpoint]) -> bool:
        """Whether the checkpoint is of the model before its change."""
        is_other_model = self._plan is not None and not self._plan.is_plain
        return is_other_model and self._is_start(checkpoint)

    def new_names(self, checkpoint: Optional[Checkpoint]) -> List[str]:
        """The variables of the graph that a checkpoint does not restore."""
        if self._plan is None or not self._is_start(checkpoint):
            return []
        return list(self._plan.init_names)

    def restore(
        self,
        session: tf.Session,
        checkpoint: Optional[Checkpoint],
        saver: tf.train.Saver,
        facts: Dict[str, Any],
    ) -> None:
        """Give the variables and the folder the state of a checkpoint.

        Args:
            checkpoint: None for the beginning of the run.
            saver: of all variables, for a checkpoint of the same model.
            facts: for the session's entry in the commit log.
        """
        if checkpoint is not None:
            is_partial = self._partial_saver is not None and self._is_start(checkpoint)
            _restore_variables(self._partial_saver if is_partial else saver, session, checkpoint)
        if self.is_of_other_model(checkpoint):
            assert self._plan is not None
            facts = dict(facts, model=self._plan.as_json())
        names = self._folder.checkpoints.begin_session(checkpoint, **facts)
        if names:
            place = f"{self._folder}/checkpoints/{QUARANTINE}"
            self._warn(f"moved to {place}: {', '.join(names)}")
        fault = self._folder.metrics.cut_back(checkpoint)
        if fault:
            self._warn(fault + "; its contents stay")

    def _is_start(self, checkpoint: Optional[Checkpoint]) -> bool:
        start_step = self._start.step if self._start else 0
        return checkpoint is not None and checkpoint.step == start_step


def _restore_variables(saver, session, checkpoint: Checkpoint) -> None:
    try:
        with plain_path(checkpoint.path) as path:
            saver.restore(session, path)
    except tf.errors.OpError as error:
        raise CheckpointError(
            f"{checkpoint.path} cannot be restored: {summarize_tf_error(error.message)}."
        ) from error
