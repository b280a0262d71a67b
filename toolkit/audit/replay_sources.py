"""Replay steps whose plugin was edited or removed since then, with the copies that the run has.

The copies are loaded in a process of their own: in this one, the edited plugin may be imported
already. That process gets verified copies of the files that the session's hashes list, in a folder
that contains nothing else.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Tuple

from .. import errors
from ..config import Config
from ..errors import CheckFailed, ToolkitError, UsageError
from ..files import write_json
from ..launch.child import child_code
from ..plugins import (
    Copy,
    find_copy,
    hash_present_sources,
    is_everything_trusted,
    plugin_name,
    require_trusted_copy,
    trust_everything,
    use_copies,
    write_list,
)
from ..storage import source_copies
from ..storage.run_folder import RunFolder, open_run
from .processes import environment

_HINT = "A step of the replay runs the copies of the plugins' sources in the run's folder."


class OtherSources(NamedTuple):
    """A plugin of a session that is no longer what trained it."""

    name: str
    reference: str
    kind: str  # "model" or "extension"
    state: str  # "has changed" or "is missing"


def find_other_sources(
    folder: RunFolder, session: Dict[str, Any], config: Config
) -> List[OtherSources]:
    """The plugins of a session that have changed or are missing now. None of them is executed.

    Args:
        folder: of the run.
        session: its entry in the commit log.
        config: its plugins and options.
    """
    hashes = session.get("plugins") or {}
    copies = source_copies.read_copies(session)
    results = []
    for reference, kind, name in _name_plugins(config):
        if find_copy(reference) is None and name in copies and hashes.get(name):
            owner = folder.read_distributions().get(name, "")
            state = _describe_state(reference, kind, owner, hashes[name])
            if state:
                results.append(OtherSources(name, reference, kind, state))
    return results


def _name_plugins(config: Config) -> Iterator[Tuple[str, str, str]]:
    """The reference, kind and name of each plugin of a session."""
    references = [(config.plugin, "model"), *((each, "extension") for each in config.extensions)]
    for reference, kind in references:
        yield reference, kind, plugin_name(reference)


def _describe_state(reference: str, kind: str, owner: str, hashes: Dict[str, Any]) -> str:
    """What has become of a plugin: "has changed", "is missing", or "" if it is as it was."""
    try:
        present = hash_present_sources(reference, kind, owner)
    except UsageError:
        return "is missing"
    return "" if present == hashes else "has changed"


def replay_with_copies(
    folder: RunFolder,
    session: Dict[str, Any],
    others: List[OtherSources],
    steps: Tuple[int, int],
    path: str,
    values: Mapping[str, Any] = {},
) -> str:
    """Train steps again with the copies of the plugins that are no longer what trained them.

    Args:
        folder: of the run.
        session: that trained the steps.
        others: the plugins to load from copies.
        steps: the first and the last one.
        path: of a new folder for the copies and the replay, in `replay`.
        values: of options that have no effect on the result: then the steps are trained with them,
            and nothing is compared.

    Returns:
        What is equal, and which copies were used, in words.

    Raises:
        ToolkitError: as of `replay_segment`.
        UsageError: the copies are code that the user has not run or trusted.
        CheckpointError: a copy is damaged.
    """
    os.makedirs(path)
    copies = [
        _extract(folder, session, other, os.path.join(path, str(n)))
        for n, other in enumerate(others)
    ]
    write_list(os.path.join(path, "copies.json"), copies)
    _run_process(folder, steps, path, values)
    result = _read_result(path)
    places = source_copies.read_copies(session)
    used = [f"{places[o.name].place} ({o.reference} {o.state})" for o in others]
    return f"{result}; with the code in {' and '.join(used)}"


def _extract(folder: RunFolder, session: Dict[str, Any], other: OtherSources, path: str) -> Copy:
    """Write verified copies of a plugin's files to a folder, if they may be executed."""
    copy, hashes = source_copies.read_copies(session)[other.name], session["plugins"][other.name]
    place = folder.file(source_copies.SOURCES, copy.folder)
    if not copy.target:
        raise UsageError(
            f"Plugin '{other.name}' {other.state}, and its copy in {folder}/{copy.place} cannot be "
            "loaded: it was an object in Python.",
            hint="Replay the steps with the code that trained them.",
        )
    require_trusted_copy(
        other.name, copy.target, place, hashes, os.path.join(str(folder), "commits.jsonl")
    )
    source_copies.extract(folder, copy, hashes, path)
    owner = folder.read_distributions().get(other.name, "")
    return Copy(other.reference, other.name, other.kind, copy.target, path, owner)


# ---------------------------------------------------------------------------------------- process


def _run_process(
    folder: RunFolder, steps: Tuple[int, int], path: str, values: Mapping[str, Any]
) -> None:
    arguments = [folder.path, *steps, path, is_everything_trusted(), dict(values)]
    code = f"from {__name__} import main; main(*{arguments!r})"
    with open(os.path.join(path, "stderr.txt"), "wb") as stderr:
        process = subprocess.Popen(
            [sys.executable, "-c", child_code(code)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=stderr,
            env=environment(),
        )
        try:
            process.wait()
        finally:
            with contextlib.suppress(OSError):
                process.kill()
            process.wait()


def _read_result(path: str) -> str:
    """What the process reported. Raises its error."""
    try:
        with open(os.path.join(path, "result.json"), encoding="utf-8") as file:
            values = json.load(file)
    except OSError:
        with open(os.path.join(path, "stderr.txt"), encoding="utf-8", errors="replace") as file:
            words = " ".join(file.read().split()[-60:]) or "it wrote nothing"
        raise CheckFailed(f"The process of the replay ended: {words}", hint=_HINT) from None
    if "result" in values:
        return str(values["result"])
    raise getattr(errors, values["error"], ToolkitError)(values["message"], hint=values["hint"])


def main(
    run: str, first: int, last: int, path: str, trusts: bool, options: Mapping[str, Any]
) -> None:
    """Replay steps in a process that loads plugins from copies, and write the result.

    Args:
        run: the path of the run.
        first, last: the steps.
        path: of the folder with copies.json.
        trusts: whether the user trusts all code that the run names.
        options: values of options, see `replay_with_copies`.
    """
    from .replay import find_segment, replay_segment, train_copy

    use_copies(os.path.join(path, "copies.json"))
    if trusts:
        trust_everything()
    try:
        folder = open_run(run)
        segment = find_segment(folder, first, last)
        target = os.path.join(path, "replay")
        if options:
            train_copy(folder, segment, target, options)
            values = {"result": ""}
        else:
            values = {"result": replay_segment(folder, segment, target)}
    except ToolkitError as error:
        kind = next(each for each in type(error).__mro__ if each.__module__ == errors.__name__)
        values = {"error": kind.__name__, "message": error.message, "hint": error.hint}
    except KeyboardInterrupt:
        values = {"error": "InterruptedRun", "message": "The replay was interrupted.", "hint": ""}
    write_json(os.path.join(path, "result.json"), values)
