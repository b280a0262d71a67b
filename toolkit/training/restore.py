"""The checkpoint to continue from: check the model against it, and restore its variables."""

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

    def restore_variables(
        self, session: tf.Session, checkpoint: Checkpoint, saver: tf.train.Saver
    ) -> None:
        """Give the variables the state of a checkpoint.

        Args:
            saver: of all variables, for a checkpoint of the same model.

        Raises:
            CheckpointError: it cannot be read.
        """
        if self._partial_saver is not None and self._is_start(checkpoint):
            saver = self._partial_saver
        try:
            with plain_path(checkpoint.path) as path:
                saver.restore(session, path)
        except tf.errors.OpError as error:
            raise CheckpointError(
                f"{checkpoint.path} cannot be restored: {summarize_tf_error(error.message)}."
            ) from error

    def model_facts(self, checkpoint: Optional[Checkpoint]) -> Dict[str, Any]:
        """What the session's entry in the commit log has of another model; {} for the same."""
        return {"model": self._plan.as_json()} if self.is_of_other_model(checkpoint) else {}

    def _is_start(self, checkpoint: Optional[Checkpoint]) -> bool:
        start_step = self._start.step if self._start else 0
        return checkpoint is not None and checkpoint.step == start_step
