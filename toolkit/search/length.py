"""How long a trial is in steps, by the budget of its study."""

from __future__ import annotations

import math
from typing import Optional

from ..errors import RetryError, ToolkitError, UsageError
from ..plugins import Plugins, choose
from .children import Children
from .definition import CPU_SECS, STEPS, Configuration, Definition
from .graph_check import PROBE, Request, budget_steps, check_configurations
from .resolution import TrialOptions

# Of training, of which the first third does not count; the second for steps that the first is too
# short to time, as it is on a machine with much else to do.
PROBES_SECS = (6.0, 60.0)


def find_length(
    definition: Definition,
    configuration: Configuration,
    folder: str,
    children: Optional[Children] = None,
) -> int:
    """Return the length of a configuration's trials in steps.

    With a budget of CPU seconds it depends on the speed of this machine now: the caller records the
    first result of a configuration, and all of its trials have that length. A configuration that
    cannot be trained has the length 1: its run says why.

    Args:
        definition: of the study.
        configuration: what to train.
        folder: of the study.
        children: starts the process that measures, and interrupts it.

    Raises:
        InterruptedRun: a signal ended the measurement.
        RetryError: the process that measures died.
        UsageError: the steps are too slow to be timed.
    """
    kind, amount = definition.budget
    if kind == STEPS:
        return math.ceil(amount)
    if kind == CPU_SECS:
        return _time_length(definition, configuration, folder, children)
    plugins = load_plugins(definition)
    options = TrialOptions(plugins, definition.layers, definition.flags)
    try:
        values = options.resolve_for_data(configuration.values).options
    except ToolkitError:
        return 1
    return budget_steps(definition.budget, values.batch_size * values.batches_per_step) or 1


def _time_length(
    definition: Definition,
    configuration: Configuration,
    folder: str,
    children: Optional[Children],
) -> int:
    """Return how many steps take the CPU seconds of the budget; see `find_length`."""
    name = f"length-{configuration.number:04d}"
    request = Request.of(definition, [configuration.values])._replace(task=PROBE)
    for probe_secs in PROBES_SECS:
        request = request._replace(probe_secs=probe_secs)
        answer = check_configurations(request, folder, name, children)[0]
        if answer.exit_code == RetryError.exit_code:  # of the machine, not of the configuration
            raise RetryError(answer.error, hint=answer.hint)
        if answer.error:
            return 1
        if answer.cpu_secs_per_step:
            return max(1, int(definition.budget.amount / answer.cpu_secs_per_step))
    raise UsageError(
        f"Configuration {configuration.number} makes fewer than two steps in "
        f"{PROBES_SECS[-1]:g} seconds, too few to be timed.",
        hint="Set the budget by --steps or --examples.",
    )


def load_plugins(definition: Definition) -> Plugins:
    """Return the plugins of a study, whose trust the command has checked."""
    for reference in (definition.plugin, *definition.extensions):
        choose(reference)
    return Plugins.load(definition.plugin, definition.extensions)
