"""Checks of whole runs for any plugin in one call each, made of some of the contracts.

Arguments of each: `plugin` and `extensions` are what to check, `folder` is one to write to, and
options are values or texts by name. Without `data`, a plugin is checked on what its hook `data`
returns, or else on small synthetic data. A broken contract raises AssertionError or ToolkitError.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from typing import Any, Callable, Iterable, Mapping

from .contracts import runs, steps, trained
from .contracts.registry import Skip
from .subject import Subject

Check = Callable[[Subject], None]


def check_plugin(plugin: Any, folder: Any, extensions: Iterable[Any] = (), **options: Any) -> None:
    """Run every check below, and check a resume with examples that are read as a stream, too."""
    checks = [*LOOP, runs.resumes_exactly, runs.resumes_exactly_from_a_stream, *INFERENCE]
    _check(checks, plugin, folder, extensions, options)


def check_step_in_a_loop(plugin: Any, extensions: Iterable[Any] = (), **options: Any) -> None:
    """Check that several steps in one call change the variables exactly as single steps do."""
    with tempfile.TemporaryDirectory() as folder:
        _check(LOOP, plugin, folder, extensions, options)


def check_resume(plugin: Any, folder: Any, extensions: Iterable[Any] = (), **options: Any) -> None:
    """Check that a run that pauses half-way and resumes ends exactly as an uninterrupted one does.

    Every tensor of the last checkpoint and every byte of metrics.jsonl must be equal.
    """
    is_stream = options.get("reader") == "stream"
    check = runs.resumes_exactly_from_a_stream if is_stream else runs.resumes_exactly
    _check([check], plugin, folder, extensions, options)


def check_inference(
    plugin: Any, folder: Any, extensions: Iterable[Any] = (), **options: Any
) -> None:
    """Check that a trained model is evaluated, that it predicts, and that its export agrees.

    The metrics must be finite, and the predictions must not depend on the batch size. Scorers are
    not called.
    """
    _check(INFERENCE, plugin, folder, extensions, options)


LOOP = (steps.steps_in_a_loop_have_the_same_bits,)
INFERENCE = (
    trained.metrics_are_finite,
    trained.predictions_ignore_the_batch_size,
    trained.exports_what_it_predicts,
)


def _check(
    checks: Iterable[Check],
    plugin: Any,
    folder: Any,
    extensions: Iterable[Any],
    options: Mapping[str, Any],
) -> None:
    os.makedirs(str(folder), exist_ok=True)
    with Subject(plugin, folder, extensions, **options) as subject:
        for check in checks:
            with contextlib.suppress(Skip):
                check(subject)
