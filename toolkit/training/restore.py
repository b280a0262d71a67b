"""Go on from a checkpoint: see that the model fits it, restore it, take back what came after it."""

from __future__ import annotations

from typing import Any, Callable, Dict, Optional

from ..compat import tf
from ..errors import CheckpointError
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
from .tf_messages import telling


class Restoring:
    """Restores each session of one training. start: the checkpoint that it begins from, or None.

    warn: is told of what is damaged.
    """

    def __init__(self, folder: RunFolder, start: Optional[Checkpoint], warn: Callable[[str], None]):
        self._folder = folder
        self._start = start
        self._warn = warn
        self._plan: Optional[RestorePlan] = None
        self._planned: Any = None  # the Saver that restores by the plan
        self._is_first = True

    def fit(self, changes: RestoreOptions) -> None:
        """Hold the start against the variables of the default graph, before a session exists.

        Raises CheckpointError where it is of another model, and `changes` do not make it fit.
        """
        if self._start is None:
            return
        variables = tf.global_variables()
        in_checkpoint = read_variable_specs(self._start.path)
        self._plan = plan_restore(in_checkpoint, variable_specs(variables), changes)
        if not self._plan.is_plain:
            self._planned = build_saver(self._plan, variables)

    def sentence(self) -> str:
        """What changes of the model; '' where nothing does."""
        return self._plan.sentence() if self._plan else ""

    def checkpoint(self) -> Optional[Checkpoint]:
        """The newest checkpoint that is whole, or None where none was committed."""
        if self._is_first:  # then what is damaged was told already
            self._is_first = False
            return self._start
        return self._folder.checkpoints.newest(self._warn)

    def is_of_other_model(self, checkpoint: Optional[Checkpoint]) -> bool:
        """Whether a checkpoint is that of a model that is to be changed."""
        is_start = checkpoint is not None and checkpoint.step == self._start_step()
        return self._planned is not None and is_start

    def restore(
        self, session, checkpoint: Optional[Checkpoint], plain: Any, facts: Dict[str, Any]
    ) -> None:
        """Give the variables their values, and the folder the state of that step.

        plain: the Saver of a model that is not changed. facts: for the chain's line of the session.
        """
        if self.is_of_other_model(checkpoint):
            self._variables(self._planned, session, checkpoint)
            facts = dict(facts, model=self._plan.as_json())
        elif checkpoint is not None:
            self._variables(plain, session, checkpoint)
        aside = self._folder.checkpoints.begin_session(checkpoint, **facts)
        if aside:
            where = f"{self._folder}/checkpoints/{QUARANTINE}"
            self._warn(f"put aside in {where}: {', '.join(aside)}")
        fault = self._folder.metrics.cut_back(checkpoint)
        if fault:
            self._warn(fault + "; what is there stays")

    def _start_step(self) -> int:
        return self._start.step if self._start else 0

    def _variables(self, saver, session, checkpoint: Checkpoint) -> None:
        try:
            saver.restore(session, checkpoint.path)
        except tf.errors.OpError as error:
            raise CheckpointError(
                f"{checkpoint.path} cannot be restored: {telling(error.message)}."
            ) from error
