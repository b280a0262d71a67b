"""Continue from a checkpoint: check the model against it, restore it, undo what came after it."""

from __future__ import annotations

from typing import Any, Callable, Dict, Optional

from ..compat import summarize_tf_error, tf
from ..errors import CheckpointError
from ..files import plain_path
from ..storage.checkpoint_store import QUARANTINE
from ..storage.commit_log import Checkpoint
from ..storage.run_folder import RunFolder
from ..storage.variables import find_misfit, read_variable_specs, variable_specs


def check_model(folder: RunFolder, checkpoint: Checkpoint) -> None:
    """Compare a checkpoint with the variables of the default graph, before a session exists.

    Raises:
        CheckpointError: the model is another one.
    """
    in_checkpoint = read_variable_specs(checkpoint.path)
    misfit = find_misfit(in_checkpoint, variable_specs(tf.global_variables()))
    if misfit:
        raise CheckpointError(
            misfit,
            hint="Resume with the plugin and the options with which the run was started, or begin "
            f"a new run with its weights: toolkit run --config {folder.argument}/config.json "
            f"--init-from {folder.argument}",
        )


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
        self._is_first = True

    def newest_checkpoint(self) -> Optional[Checkpoint]:
        """The newest intact checkpoint, or None if none was committed."""
        if self._is_first:  # damage was reported when the start was found
            self._is_first = False
            return self._start
        return self._folder.checkpoints.newest(self._warn)

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
            saver: of all variables.
            facts: for the session's entry in the commit log.
        """
        if checkpoint is not None:
            try:
                with plain_path(checkpoint.path) as path:
                    saver.restore(session, path)
            except tf.errors.OpError as error:
                raise CheckpointError(
                    f"{checkpoint.path} cannot be restored: {summarize_tf_error(error.message)}."
                ) from error
        names = self._folder.checkpoints.begin_session(checkpoint, **facts)
        if names:
            place = f"{self._folder}/checkpoints/{QUARANTINE}"
            self._warn(f"moved to {place}: {', '.join(names)}")
        fault = self._folder.metrics.cut_back(checkpoint)
        if fault:
            self._warn(fault + "; its contents stay")
