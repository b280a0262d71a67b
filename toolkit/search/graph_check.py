"""Whether configurations can be trained: a process builds their graphs, or times their steps."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ..display.waits import waiting
from ..errors import InterruptedRun, RetryError, ToolkitError
from ..files import write_json
from ..storage.jsonl import JsonLines
from .children import Children
from .commands import trial_environment
from .definition import EXAMPLES, STEPS, Budget, Definition, Layer

CHECKS = "checks"  # the subfolder with requests, answers and logs
BUILD, PROBE = "build", "probe"  # tasks
_STATEMENTS = "import sys; from toolkit.search.graph_process import main; main(sys.argv[1])"


class Request(NamedTuple):
    """What to check.

    Attributes:
        plugin, extensions, layers, flags: as in `Definition`.
        values: those of the options that vary, of each configuration.
        budget: of each trial; None for the length that the flags or the plugin set.
        threads: as in `Definition`.
        task: BUILD: build the graphs; PROBE: train the first configuration for a while,
            too, and time it.
        probe_secs: how long to train.
    """

    plugin: str
    extensions: Tuple[str, ...]
    layers: Tuple[Layer, ...]
    flags: Dict[str, str]
    values: Sequence[Mapping[str, Any]]
    budget: Optional[Budget] = None
    threads: int = 0
    task: str = BUILD
    probe_secs: float = 0.0

    @classmethod
    def of(cls, definition: Definition, values: Sequence[Mapping[str, Any]]) -> Request:
        """Return the request to check configurations of a study."""
        names = ("plugin", "extensions", "layers", "flags", "budget", "threads")
        return cls(values=values, **{name: getattr(definition, name) for name in names})

    def as_json(self) -> Dict[str, Any]:
        return dict(
            self._asdict(),
            layers=[layer._asdict() for layer in self.layers],
            budget=None if self.budget is None else self.budget._asdict(),
        )

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Request:
        budget = values["budget"]
        return cls(
            **dict(
                values,
                extensions=tuple(values["extensions"]),
                layers=tuple(Layer(**layer) for layer in values["layers"]),
                budget=None if budget is None else Budget(**budget),
            )
        )


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
        total_steps: the length of a run in steps.
        cpu_secs_per_step, secs_per_step: as a probe timed them, else 0.
        start_secs: from the start of the check to the end of the building of the graphs.
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
    total_steps: int = 1
    cpu_secs_per_step: float = 0.0
    secs_per_step: float = 0.0
    start_secs: float = 0.0


def budget_steps(budget: Optional[Budget], examples_per_step: int) -> Optional[int]:
    """Return the length of a trial in steps; None if the budget does not say it."""
    if budget is None or budget.kind not in (STEPS, EXAMPLES):
        return None
    per_step = examples_per_step if budget.kind == EXAMPLES else 1
    return max(1, -int(-budget.amount // per_step))


def check_configurations(
    request: Request, folder: str, name: str, children: Optional[Children] = None
) -> List[Answer]:
    """Check configurations in a process of their own.

    Args:
        request: what to check.
        folder: of the study, in which the process writes.
        name: of its files.
        children: starts the process, and interrupts it.

    Returns:
        The answer for each configuration, in order.

    Raises:
        InterruptedRun: a signal ended the check.
        RetryError: the process died.
    """
    place = os.path.join(folder, CHECKS, name)
    answers = JsonLines(place + ".jsonl")
    with contextlib.suppress(FileNotFoundError):
        os.remove(answers.path)
    write_json(place + ".json", request.as_json())
    environment = trial_environment(request.layers, os.environ)
    log = place + ".log"
    count = len(request.values)
    with waiting(f"Checking {count} configuration{'s' * (count != 1)}"):
        code = (children or Children()).run([place], log, environment, statements=_STATEMENTS)
    values = answers.read()
    if code or len(values) != len(request.values):
        raise _process_error(code, log)
    for path in (answers.path, place + ".json", log):
        os.remove(path)
    return [Answer(**each) for each in values]


def _process_error(code: int, log: str) -> ToolkitError:
    if code in (130, 143):
        return InterruptedRun("The check was interrupted.", signum=code - 128)
    with open(log, encoding="utf-8", errors="replace") as file:
        lines = [line.strip() for line in file if line.strip()]
    last = lines[-1] if lines else "without a message"
    return RetryError(
        f"The process that checks ended with exit code {code}: {last}",
        hint=f"See {_copy_to_temporary_folder(log)}.",
    )


def _copy_to_temporary_folder(log: str) -> str:
    """Copy a log to a place where it remains: the folder of the check may be deleted; return its
    path.
    """
    try:
        descriptor, path = tempfile.mkstemp(prefix="toolkit-search-", suffix=".log")
        os.close(descriptor)
        shutil.copyfile(log, path)
        return path
    except OSError:  # the disk may be full
        return log


def write_answer(path: str, answer: Answer) -> None:
    """Append an answer to the file of answers."""
    JsonLines(path).append_line(json.dumps(answer._asdict()))
