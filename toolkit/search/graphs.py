"""Whether configurations can be trained: a process builds their graphs; see `graph_process`."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from typing import Any, List, Mapping, NamedTuple, Optional, Sequence

from ..display.waits import waiting
from ..errors import InterruptedRun, RetryError, ToolkitError
from ..storage.jsonl import JsonLines
from .children import Children
from .definition import Definition
from .trial_options import trial_environment

_STATEMENTS = "import sys; from toolkit.search.graph_process import main; main(sys.argv[1])"


class Answer(NamedTuple):
    """What a check found of one configuration.

    Attributes:
        error: why it cannot be trained, a sentence; "" if it can.
        hint: the way out, a sentence.
        exit_code: of a run of it.
        metrics: the names of the metrics of the validation split.
        directions: "min" or "max" by the name of a metric that declares it.
        best_metric: --best-metric, "" for none.
        interval: --evaluate-steps or --checkpoint-steps; None if neither is set.
        num_examples: of the training split.
        examples_per_step: how many a step reads.
    """

    error: str = ""
    hint: str = ""
    exit_code: int = 0
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
    """
    count = len(values)
    environment = trial_environment(definition, os.environ)
    with tempfile.TemporaryDirectory(prefix="toolkit-search-") as folder:
        answers, log_path = (os.path.join(folder, name) for name in ("answers.jsonl", "log"))
        with open(os.path.join(folder, "question.json"), "w", encoding="utf-8") as file:
            json.dump([definition.as_json(), list(values)], file)
        wait = waiting(f"Checking {count} configuration{'s' * (count != 1)}")
        with wait, open(log_path, "ab") as log:
            code = Children().run([folder], log.fileno(), environment, statements=_STATEMENTS)
        found = [Answer(**each) for each in JsonLines(answers).read()]
        if code or len(found) != count:
            raise _process_error(code, log_path)
        return found


def _process_error(code: int, log: str) -> ToolkitError:
    if code in (130, 143):
        return InterruptedRun("The check was interrupted.", signum=code - 128)
    with open(log, encoding="utf-8", errors="replace") as file:
        text = file.read()
    sys.stderr.write(text)
    lines = text.strip().splitlines()
    return RetryError(
        f"The process that checks ended with exit code {code}: "
        f"{lines[-1] if lines else 'without a message'}",
        hint="Its messages are above.",
    )
