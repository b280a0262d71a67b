"""Find the first step at which two runs differ, by training the steps between two bounds again."""

from __future__ import annotations

import os
from typing import Any, Callable, Dict, List, NamedTuple, Tuple

from ..errors import CheckFailed, UsageError
from ..storage.run_folder import RunFolder
from .replay import (
    REPRODUCIBILITY_HINT,
    Segment,
    check_initial_weights,
    find_segment,
    session_config,
    train_copy,
)
from .replay_sources import find_other_sources, replay_with_copies

PARTS = 16  # into which a pass divides the steps between the bounds


class _Side(NamedTuple):
    """One of the two runs, or a copy of it that has more checkpoints."""

    name: str
    folder: RunFolder


def find_first_difference(
    runs: Dict[str, RunFolder],
    equal: int,
    differing: int,
    path: str,
    log: Callable[[str], None],
) -> Tuple[int, int]:
    """The last step at which two runs are equal, and the next one.

    Each pass trains the steps between the bounds again in copies that commit at PARTS steps, and
    compares the hashes of all tensors.

    Args:
        runs: name -> folder of the two runs.
        equal: a step at which they are equal; 0 for the beginning.
        differing: a later step at which they differ.
        path: of a folder for the copies.
        log: is called with a text before each training.

    Raises:
        UsageError: the steps cannot be trained again.
        CheckFailed: they were trained again with other results.
    """
    sides = [_Side(name, folder) for name, folder in runs.items()]
    passes = 0
    while differing - equal > 1:
        passes += 1
        interval = -(-(differing - equal) // PARTS)
        hashes: List[Dict[int, str]] = []
        for number, side in enumerate(sides):
            copy = os.path.join(path, f"{passes}-{number}")
            segment = _find_segment(side, equal, differing)
            first = segment.start.step if segment.start else 0
            log(f"{side.name}: training steps {first:,} to {segment.end.step:,} again")
            target = _train(side.folder, segment, interval, copy)
            hashes.append(_read_hashes(target))
            _check(side, segment, hashes[-1])
            sides[number] = _Side(side.name, target)
        equal, differing = _narrow(hashes, equal, differing)
    return equal, differing


def _find_segment(side: _Side, equal: int, differing: int) -> Segment:
    """The steps from the last checkpoint up to `equal` to the first commit from `differing` on."""
    folder = side.folder
    starts = [0, *(c.step for c in folder.checkpoints.list() if c.step <= equal)]
    ends = [step for step in folder.commits.current_commits() if step >= differing]
    if not ends:
        raise UsageError(
            f"{side.name} has no commit of step {differing} or later, so it cannot be trained "
            "again up to there.",
            hint=f"Continue it: toolkit resume {folder.argument}",
        )
    try:
        return find_segment(folder, max(starts), min(ends))
    except UsageError as error:
        raise UsageError(
            f"{side.name} cannot be trained again from step {max(starts)} to {min(ends)}: "
            f"{error.message}",
            hint="Without --replay, the logs give the bounds.",
        ) from error


def _train(folder: RunFolder, segment: Segment, interval: int, path: str) -> RunFolder:
    """Train a segment again in a copy that commits every `interval` steps."""
    check_initial_weights(folder, segment)
    values: Dict[str, Any] = {"checkpoint_steps": interval, "checkpoint_secs": None}
    values.update(keep_checkpoints=10**6, keep_every_hours=None)
    values.update(evaluate=False, best_metric=None, early_stopping=0)
    config = session_config(folder, segment.session)
    values = {name: value for name, value in values.items() if name in config.values}
    others = find_other_sources(folder, segment.session, config)
    if not others:
        return train_copy(folder, segment, path, values)
    steps = (segment.start.step if segment.start else 0, segment.end.step)
    replay_with_copies(folder, segment.session, others, steps, path, values)
    return RunFolder(os.path.join(path, "replay"))


def _read_hashes(folder: RunFolder) -> Dict[int, str]:
    """Step -> the hash over all tensors."""
    folder.commits.invalidate_cache()
    commits = folder.commits.current_commits()
    return {step: entry.values["tensors"] for step, entry in commits.items()}


def _check(side: _Side, segment: Segment, hashes: Dict[int, str]) -> None:
    """Raise CheckFailed if a copy is not what the run was at the steps that both committed."""
    for step, expected in sorted(_read_hashes(side.folder).items()):
        if step <= segment.end.step and hashes.get(step, expected) != expected:
            raise CheckFailed(
                f"{side.name} was trained again with another result: step {step} differs from the "
                "run's.",
                hint=REPRODUCIBILITY_HINT,
            )


def _narrow(hashes: List[Dict[int, str]], equal: int, differing: int) -> Tuple[int, int]:
    """The bounds, closer to each other by the steps that both copies committed."""
    for step in sorted(set(hashes[0]) & set(hashes[1])):
        if not equal < step <= differing:
            continue
        if hashes[0][step] != hashes[1][step]:
            return equal, step
        equal = step
    raise CheckFailed(
        f"The runs were trained again with equal results up to step {equal}, where they differ.",
        hint=REPRODUCIBILITY_HINT,
    )
