"""Whether configurations can be trained: a process builds their graphs; see `graph_process`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from typing import Any, List, Mapping, NamedTuple, Optional, Sequence

from ..cluster.child import child_code
from ..display.waits import waiting
from ..errors import InterruptedRun, RetryError, ToolkitError
from .definition import Definition
from .trial_options import trial_environment

_STATEMENTS = "from toolkit.search.graph_process import main; main()"


class Answer(NamedTuple):
    """What a check found of one configuration.

    Attributes:
        metrics: the names of the metrics of the validation split.
        directions: "min" or "max" by the name of a metric that declares it.
        best_metric: --best-metric, "" for none.
        interval: --evaluate-steps or --checkpoint-steps; None if neither is set.
        num_examples: of the training split.
        examples_per_step: how many a step reads.
    """

    metrics: Sequence[str] = ()
    directions: Mapping[str, str] = {}
    best_metric: str = ""
    interval: Optional[int] = None
    num_examples: int = 0
    examples_per_step: int = 1


def check_graphs(definition: Definition, values: Sequence[Mapping[str, Any]]) -> List[Answer]:
    """Build the graphs of configurations in a process of their own.

    Args:
        definition: of the study; it may lack what follows from the answers.
        values: of the options that vary, of each configuration.

    Returns:
        The answer for each configuration, in order.

    Raises:
        InterruptedRun: a signal ended the check.
        RetryError: the process died.
        ToolkitError: one of them cannot be trained; names its values.
    """
    wait = waiting(f"Checking {len(values)} configuration{'s' * (len(values) != 1)}")
    with wait, tempfile.TemporaryDirectory(prefix="toolkit-search-") as folder:
        process = subprocess.run(
            [sys.executable, "-c", child_code(_STATEMENTS), os.path.join(folder, "run")],
            input=json.dumps([definition.as_json(), list(values)]),
            capture_output=True,
            env=trial_environment(os.environ),
            encoding="utf-8",
            errors="replace",
        )
    code = process.returncode if process.returncode >= 0 else 128 - process.returncode
    if code in (130, 143):
        raise InterruptedRun("The check was interrupted.", signum=code - 128)
    if code:
        sys.stderr.write(process.stderr)
        lines = process.stderr.strip().splitlines()
        raise RetryError(
            f"The process that checks ended with exit code {code}: "
            f"{lines[-1] if lines else 'without a message'}",
            hint="Its messages are above.",
        )
    answers, fault = json.loads(process.stdout)
    if fault is not None:
        error = ToolkitError(fault["message"], hint=fault["hint"])
        error.exit_code = fault["exit_code"]
        raise error
    return [Answer(**each) for each in answers]
