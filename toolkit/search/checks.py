"""Whether the configurations of a study can be trained: their options, then graphs, which a process
of its own builds, but does not train.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from typing import Any, Dict, Mapping, Tuple

from ..cluster.child import child_code
from ..cluster.signals import INTERRUPTED
from ..config import run_values
from ..display.console import Console
from ..display.numbers import format_count
from ..display.waits import waiting
from ..errors import InterruptedRun, RetryError, ToolkitError, UsageError
from ..options import CoreOptions
from ..plugins import Plugins, describe_failure
from ..preset_choice import choose_by_data
from ..storage.run_folder import RunFolder
from . import trial_options
from .definition import FLOAT, Definition
from .planning import fill_in
from .sampler import known_values

MAX_GRAPHS = 32
Values = Mapping[str, Any]  # of the options that vary


def validate(definition: Definition, plugins: Plugins) -> Tuple[Definition, str]:
    """Check the configurations of a study; return the study, a new one as `fill_in` completes it,
    and what was checked, a clause. A process of its own builds the graphs.

    Those are checked that are known before the first trial (all of a grid and of random
    configurations, the first ones of TPE), and those at the limits of the space. Each is resolved;
    of those that differ in floats within ranges alone, one graph is built. A configuration that is
    sampled later is checked by its own run before the first step.

    Raises InterruptedRun if a signal ended the check, RetryError if the process died, and
    ToolkitError with the values of a configuration that cannot be trained.
    """
    space, known = definition.space, known_values(definition)
    limits = [dict(known[0], **{each.name: end}) for each in space for end in each.ends]
    for values in [*known, *limits]:
        with trial_options.naming_values(values):
            trial_options.resolve_trial(plugins, definition, values)
    kinds: Dict[str, Values] = {}
    for values in [*known, *limits]:
        unlike = [values[each.name] for each in space if each.kind != FLOAT]
        kinds.setdefault(json.dumps(unlike), values)
    sample = list(kinds.values())
    count = min(len(sample), MAX_GRAPHS)
    sample = [sample[i * len(sample) // count] for i in range(count)]  # evenly spread
    ends = [{each.name: each.ends[end] for each in space} for end in (0, -1)]
    sample = list({json.dumps(each, sort_keys=True): each for each in ends + sample}.values())
    code = child_code("from toolkit.search.checks import main; main()")
    wait = waiting(f"Checking {format_count(len(sample), 'configuration')}")
    with wait, tempfile.TemporaryDirectory(prefix="toolkit-search-") as folder:
        process = subprocess.run(
            [sys.executable, "-c", code, os.path.join(folder, "run")],
            input=json.dumps([definition.as_json(), sample]),
            capture_output=True,
            env=trial_options.trial_environment(os.environ),
            encoding="utf-8",
            errors="replace",
        )
    exit_code = process.returncode if process.returncode >= 0 else 128 - process.returncode
    if exit_code in INTERRUPTED:
        raise InterruptedRun("The check was interrupted.", signum=exit_code - 128)
    if exit_code:
        sys.stderr.write(process.stderr)
        lines = process.stderr.strip().splitlines()
        raise RetryError(
            f"The process that checks ended with exit code {exit_code}: "
            f"{lines[-1] if lines else 'without a message'}",
            hint="Its messages are above.",
        )
    answer, fault = json.loads(process.stdout)
    if fault is not None:
        error = ToolkitError(fault["message"], hint=fault["hint"])
        error.exit_code = fault["exit_code"]
        raise error
    text = f"the options of {format_count(len(known), 'configuration')} and of the space's limits; "
    text += f"{format_count(len(sample), 'graph')} built"
    text += f", a sample of {len(kinds)} kinds" if count < len(kinds) else ""
    return Definition.from_json(answer), text


# ----------------------------------------------------------------------------------- the process


def main() -> None:
    """Check what stdin has: write the study and a fault to stdout, and nothing else."""
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as output:
        os.dup2(2, 1)  # plugins may print
        saved, configurations = json.load(sys.stdin)
        definition, fault = Definition.from_json(saved), None
        try:
            for values in configurations:
                with trial_options.naming_values(values):
                    try:
                        built = _check(definition, values, sys.argv[1])
                    except ToolkitError:
                        raise
                    except Exception as error:  # of a plugin, where the core does not translate it
                        failure = describe_failure(error)
                        text = f"It cannot be built: {failure.text}."
                        raise ToolkitError(text, hint=failure.hint) from error
                    finally:
                        shutil.rmtree(sys.argv[1], ignore_errors=True)
                if not definition.moment:  # it is a new study, of which this is the first
                    definition = fill_in(definition, *built)
        except ToolkitError as error:
            fault = {"message": error.message, "hint": error.hint, "exit_code": error.exit_code}
        json.dump([definition.as_json(), fault], output)


def _check(
    definition: Definition, values: Values, folder: str
) -> Tuple[CoreOptions, Dict[str, str], int]:
    """Build the graphs of one configuration, like a run that has not begun; nothing is written.
    Return what `fill_in` asks for.
    """
    from ..training.trainer import Job, Trainer  # imports TensorFlow

    plugins = trial_options.load_plugins(definition)
    length = (
        trial_options.find_length(plugins, definition, values) if definition.budget.amount else None
    )
    resolved = choose_by_data(
        plugins, trial_options.resolve_trial(plugins, definition, values, length)
    )
    options, references = resolved.options, [each.reference for each in plugins.extensions]
    config = run_values(plugins.model.reference, references, options, folder, resolved.origins)
    job = Job(plugins, resolved, RunFolder(folder, is_new=True), config, ["toolkit search"])
    trainer = Trainer(job, Console())
    try:
        directions = trainer.evaluator.metric_directions()
        splits = trainer.run_data.splits
        if not splits.get("validation"):
            raise UsageError(
                "The data has no validation split, by which a search chooses.",
                hint="Set --validation-share.",
            )
        metrics = {name: direction or "" for name, direction in directions.items()}
        return options, metrics, len(splits["train"])
    finally:
        trainer.close()
