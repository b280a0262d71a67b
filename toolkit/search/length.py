"""How long a trial is in steps, by the budget of its study."""

from __future__ import annotations

import math
from typing import Any, Mapping

from ..errors import RetryError, ToolkitError, UsageError
from ..plugins import Plugins
from ..preset_choice import choose_by_data
from .definition import CPU_SECS, STEPS, Definition
from .graphs import check_graphs
from .trial_options import budget_steps, resolve_trial

# Of training, of which the first third does not count; the second for steps that the first is too
# short to time, as it is on a machine with much else to do.
PROBES_SECS = (6.0, 60.0)


def find_length(plugins: Plugins, definition: Definition, values: Mapping[str, Any]) -> int:
    """Return the length of a configuration's trials in steps, which the study then records.

    With a budget of CPU seconds it depends on the speed of this machine now. A configuration that
    cannot be trained has the length 1: its run says why.

    Raises:
        InterruptedRun: a signal ended the measurement.
        RetryError: the process that measures died.
        UsageError: the steps are too slow to be timed.
    """
    kind, amount = definition.budget
    if kind == STEPS:
        return math.ceil(amount)
    if kind == CPU_SECS:
        return _time_length(definition, values)
    try:
        options = choose_by_data(plugins, resolve_trial(plugins, definition, values)).options
    except ToolkitError:
        return 1
    return budget_steps(definition.budget, options.batch_size * options.batches_per_step) or 1


def _time_length(definition: Definition, values: Mapping[str, Any]) -> int:
    """Return how many steps take the CPU seconds of the budget."""
    for probe_secs in PROBES_SECS:
        answer = check_graphs(definition, [values], probe_secs)[0]
        if answer.exit_code == RetryError.exit_code:  # of the machine, not of the configuration
            raise RetryError(answer.error, hint=answer.hint)
        if answer.error:
            return 1
        if answer.cpu_secs_per_step:
            return max(1, int(definition.budget.amount / answer.cpu_secs_per_step))
    raise UsageError(
        f"A configuration makes fewer than two steps in {PROBES_SECS[-1]:g} seconds, too few to be "
        "timed.",
        hint="Set the budget by --steps or --examples.",
    )
