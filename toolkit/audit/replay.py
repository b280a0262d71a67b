"""Replay a segment of a run: train its steps again in a copy, and compare the results."""

from __future__ import annotations

import os
import shutil
from typing import Any, Dict, Iterable, List, NamedTuple, Optional

from .. import config as configuration
from ..comparison.differences import find_changed_options
from ..display.numbers import format_count
from ..display.waits import waiting
from ..errors import (
    CheckFailed,
    CheckpointError,
    DivergedError,
    InterruptedRun,
    RetryError,
    UsageError,
    is_verbose,
    join_names,
)
from ..option_changes import find_differences
from ..options import Config, find_path, join_step, resolve, result_options, split_step
from ..plugins import Plugins, is_name, locate, plugin_name
from ..storage import checkpoint_reader
from ..storage.commit_log import Checkpoint, Entry, current_sessions, fold
from ..storage.entries import WEIGHTS
from ..storage.journal import copy_journal, has_state
from ..storage.jsonl import parse_object
from ..storage.own_folders import COMMITS
from ..storage.run_folder import RunFolder, driver_of
from ..storage.session_changes import THREADS, find_session_changes
from ..storage.source_copies import SOURCES
from ..training.initial_weights import open_initial_weights, read_parents
from .checks import declared_options, join_steps
from .processes import LastWords, count_processes, train

REPRODUCIBILITY_HINT = (
    "A step may depend only on the seed, the step and the variables: draw with run.uniform, "
    "run.normal or run.dropout, and keep no state in Python from step to step."
)
# Options that a replay sets itself, or that are compared by hashes.
_OTHERWISE_COMPARED = ("with", "init_from", "max_secs", "xla", "intra_op_threads")
_NO_LIMIT_SECS = 1e9


class Segment(NamedTuple):
    """Steps of a run that can be trained again."""

    start: Optional[Checkpoint]  # None: the beginning
    end: Checkpoint
    session: Dict[str, Any]  # the entry of the session that trained it


# --------------------------------------------------------------------------------------- segments


def find_segment(folder: RunFolder, first: Optional[int], last: Optional[int]) -> Segment:
    """The steps after `first`, a step with a checkpoint, or 0, up to `last`, a step with a commit;
    None: the last one. Raises UsageError if there is no such checkpoint or commit, or if the run
    was resumed with other options between them.
    """
    commits = folder.commits.current_commits()
    if not commits:
        raise UsageError(
            f"{folder} has no checkpoint yet, so there are no steps to replay.",
            hint=f"Train it: toolkit resume {folder.argument}",
        )
    last = max(commits) if last is None else last
    if last not in commits:
        raise UsageError(
            f"{folder} has no commit of step {last}.",
            hint=f"A replay ends at one of {join_steps(commits)}.",
        )
    starts = {c.step: c for c in folder.checkpoints.list() if c.step < last}
    if first is None:
        first = max(starts, default=0)
    if first and first not in starts:
        raise UsageError(
            f"There is no checkpoint of step {first} to start from, before step {last}.",
            hint=f"A replay up to step {last} starts from one of {join_steps([0, *starts])}.",
        )
    sessions = _find_sessions(folder, first, commits[last])
    if any((session.get("cluster") or {}).get("mode") == "ps" for session in sessions):
        raise UsageError(
            f"Steps {first} to {last} were trained with parameter servers, so the order of their "
            "updates followed from timing: they cannot be repeated.",
            hint="Without --replay and --chaos, the files of the run are checked.",
        )
    end = folder.commits.checkpoint(commits[last])
    return Segment(starts.get(first), end, sessions[-1])


def _find_sessions(folder: RunFolder, first: int, end: Entry) -> List[Dict[str, Any]]:
    """The sessions that trained these steps. Raises UsageError if their results differ."""
    sessions = current_sessions(folder.commits.entries()[: end.number])
    segment = [session for session in sessions if session["from"] <= first][-1:]
    segment += [session for session in sessions if first < session["from"] < end.step]
    for before, after in zip(segment, segment[1:]):
        configs = [session_config(folder, each) for each in (before, after)]
        options = declared_options(configs[1])
        without_effect = set(options.model_fields) - result_options(options)
        real = find_differences(options, *configs)
        changes = find_session_changes(before, after)
        changes += [
            f"{name} was {old}, then {new}"
            for name, old, new in find_changed_options(before, after, *_OTHERWISE_COMPARED)
            if name not in without_effect and name in real
        ]
        changes += _find_other_records(before, after)
        if changes:
            raise UsageError(
                f"The run was resumed with changes at step {after['from']}: {'; '.join(changes)}.",
                hint=f"Choose a segment that does not contain step {after['from']}.",
            )
    return segment


def _find_other_records(before: Dict[str, Any], after: Dict[str, Any]) -> List[str]:
    """The options by which a session records or evaluates other steps than the one before, though
    the tensors do not depend on them; a clause each.
    """
    former, options = (session.get("options") or {} for session in (before, after))
    names = ["log_steps"]
    if options.get("evaluate") and options.get("evaluate_steps") is None:
        names.append("checkpoint_steps")
    changes = [
        f"{name} was {former[name] or 'not set'}, then {options[name] or 'not set'}"
        for name in names
        if name in former and name in options and former[name] != options[name]
    ]
    old, new = (session.get("record_steps") for session in (before, after))
    if None not in (old, new) and old != new and not changes:  # such as by a limit of time
        changes.append(f"metrics were recorded each {old} steps, then each {new}")
    return changes


def session_config(folder: RunFolder, session: Dict[str, Any]) -> Config:
    """The plugins and options of a session, to train the same steps again: with the same threads
    and compilation, and without a time limit, but with the records of a run that has one.
    """
    values = session.get("options") or folder.read_config()
    config = configuration.parse_values(folder.path, values)
    config.values["xla"] = "on" if session.get("compiled") else "off"
    config.values["intra_op_threads"] = (session.get("machine") or {}).get(THREADS, 0)
    if config.values.get("max_secs") is not None:
        config.values["max_secs"] = _NO_LIMIT_SECS
    return config


# ----------------------------------------------------------------------------------------- replay


def replay_segment(folder: RunFolder, segment: Segment, path: str) -> str:
    """Train a segment again in a new folder, and compare the results. Returns what is equal, in
    words; raises CheckFailed with the first difference, UsageError if this TensorFlow, machine or
    plugin is not the one that trained the run, and RetryError for a fault of the machine.
    """
    config = session_config(folder, segment.session)
    recorded = segment.session.get("plugins") or {}
    for reference in (config.plugin, *config.extensions):  # before one is executed
        if not is_name(reference):
            name, hashes = plugin_name(reference), locate(reference).hashes
            former = recorded.get(name) or {}
            files = sorted(n for n in hashes if former.get(n, hashes[n]) != hashes[n])
            change = f"plugin '{name}' has changed ({join_names(files, 3)})"
            _refuse_differences(segment, [change] if files else [])
    check_initial_weights(folder, segment)
    try:
        with waiting(f"Training again to step {segment.end.step}", segment.end.step):
            target = _copy_start(folder, segment, path)
            if driver_of(folder.path):
                _train_in_processes(target, segment, segment.session["options"], 1)
            else:
                _train_copy(folder, segment, target, config)
    except (InterruptedRun, RetryError) as error:  # nobody can resume the replay
        if isinstance(error, InterruptedRun):
            error.message = "The replay was interrupted."
        error.hint = "The replay trains a copy in the temporary folder; the run is unchanged."
        raise
    return compare_runs(folder, target, segment.end)


def _train_copy(folder: RunFolder, segment: Segment, target: RunFolder, config: Config) -> None:
    """Train a segment again in a folder in the state in which it starts."""
    from ..api import quiet
    from ..training.trainer import Job, Trainer

    place, step = os.path.join(str(folder), COMMITS), segment.end.step
    plugins = Plugins.load(config.plugin, config.extensions, place)
    resolved = resolve(plugins.options(), [config])
    names = config.plugin, config.extensions
    contents = configuration.run_values(*names, resolved.options, target.path)
    count = count_processes(segment.session)
    if count > 1:
        _train_in_processes(target, segment, contents, count)
        return
    trainer = Trainer(Job(plugins, resolved, target, contents, ["verify"], step), quiet())
    try:
        trainer.check_resume()
        changes = find_session_changes(segment.session, trainer.log.session_facts())
        _refuse_differences(segment, changes)
        trainer.train()
    except DivergedError as error:
        raise CheckFailed(
            f"The replay did not reach step {step}: {error.message}", hint=REPRODUCIBILITY_HINT
        ) from error
    finally:
        trainer.close()


def _train_in_processes(
    target: RunFolder, segment: Segment, values: Dict[str, Any], count: int
) -> None:
    """Train a segment again in several processes, as the run did."""
    if segment.start is None:
        target.create(values)
    else:
        target.write_config(values)
    target.unlock()
    step = segment.end.step
    last_words = LastWords()
    words = ["resume", target.path, "--pause-at", str(step)]
    code = train(words, target.path, count, last_words)
    target.commits.invalidate_cache()
    last = target.commits.last_session()
    if last.get("options"):  # else it ended before its first step
        _refuse_differences(segment, find_session_changes(segment.session, last))
    if code:
        message = (
            f"The replay did not reach step {step}: a process ended with exit code {code}: "
            f"{last_words}"
        )
        if code == RetryError.exit_code:  # a fault of the machine says nothing of the run
            raise RetryError(message)
        raise CheckFailed(message, hint=REPRODUCIBILITY_HINT)


def _refuse_differences(segment: Segment, differences: Iterable[str]) -> None:
    """Raise UsageError if this machine or installation is not the one that trained the run."""
    if differences:
        place = f" {SOURCES}/ in the run has copies of these plugins."
        raise UsageError(
            f"The segment cannot be trained again here: {'; '.join(differences)}.",
            hint="It needs the machine, the versions and the plugins that trained it."
            + (place if segment.session.get(SOURCES) else ""),
        )


def check_initial_weights(folder: RunFolder, segment: Segment) -> None:
    """Refuse a segment from step 0 without the weights with which the run began. Raises UsageError
    or CheckpointError if they are gone, or have changed.
    """
    config = session_config(folder, segment.session)
    path, step = split_step(config.values.get("init_from") or "")
    if segment.start is not None or not path:
        return
    place, recorded = find_path(path, config.folders), read_parents(folder).get(WEIGHTS)
    try:
        open_initial_weights(join_step(place, step), [], recorded, lambda text: None)
    except (UsageError, CheckpointError) as error:
        error.hint = (
            "The run began with these weights, so it cannot be trained again from step 0 without "
            "them: put them back; --replay from a later step does not need them."
        )
        raise


def _copy_start(folder: RunFolder, segment: Segment, path: str) -> RunFolder:
    """A run folder at `path` in the state in which the segment starts."""
    target = RunFolder(os.path.abspath(path), is_new=True)
    if segment.start is None:
        return target
    target.create(folder.read_config())
    with target.writing():
        for name in segment.start.files:
            file = os.path.join("checkpoints", name)
            shutil.copyfile(folder.file(file), target.file(file))
        for line in folder.metrics.lines(segment.start.metrics.bytes):
            target.metrics.append_line(line)
        if has_state(segment.start):
            copy_journal(folder, target, segment.start)
    number = folder.commits.current_commits()[segment.end.step].number
    state = fold(folder.commits.entries()[:number])  # later sessions may have had other data
    target.record("run", **{name: state[name] for name in ("created", "plugins", "data")})
    target.record("session", **{"from": 0, "kept": [], "compiled": state["xla"]})
    # What the evaluations before had found, with which those of the copy are compared.
    before = folder.commits.state_at(segment.start.step)
    found = {name: before.get(name) for name in ("best", "evaluations_since_best", "validation")}
    target.record("evaluated", step=segment.start.step, **found)
    target.checkpoints.add_commit(segment.start, [segment.start.step])
    return target


# ------------------------------------------------------------------------------------- comparison


def compare_runs(folder: RunFolder, copy: RunFolder, expected: Checkpoint) -> str:
    """Compare a copy of a run with it at one commit: all tensors, and metrics.jsonl byte by byte.
    Returns what is equal, in words; raises CheckFailed with the first difference.
    """
    step = expected.step
    checkpoint = copy.commits.find_commit(step)
    if checkpoint is None:
        raise CheckFailed(f"The copy did not commit step {step}.", hint=REPRODUCIBILITY_HINT)
    if checkpoint.tensors != expected.tensors:
        difference = _compare_tensors(folder, expected, checkpoint)
        raise CheckFailed(f"Step {step} differs: {difference}.", hint=REPRODUCIBILITY_HINT)
    if checkpoint.metrics != expected.metrics:
        difference = _compare_metrics(
            folder.metrics.lines(expected.metrics.bytes),
            copy.metrics.lines(checkpoint.metrics.bytes),
        )
        raise CheckFailed(f"metrics.jsonl differs: {difference}.", hint=REPRODUCIBILITY_HINT)
    digest = f" {checkpoint.tensors[:16]}" if is_verbose() else ""
    return (
        f"step {step}: tensors{digest} and {checkpoint.metrics.bytes} bytes of metrics.jsonl are "
        "equal"
    )


def _compare_tensors(folder: RunFolder, expected: Checkpoint, actual: Checkpoint) -> str:
    """The first difference between the tensors of two checkpoints, in words."""
    hashes = f"tensors {actual.tensors[:16]}, expected {expected.tensors[:16]}"
    if expected.step not in [checkpoint.step for checkpoint in folder.checkpoints.list()]:
        return hashes + " (the checkpoint itself was not kept)"
    try:
        return checkpoint_reader.first_difference(
            checkpoint_reader.read_tensors(expected.path),
            checkpoint_reader.read_tensors(actual.path),
        )
    except CheckpointError:
        return hashes


def _compare_metrics(expected: List[str], actual: List[str]) -> str:
    """The first difference between two lists of lines of metrics.jsonl, in words."""
    for number, lines in enumerate(zip(expected, actual), 1):
        if lines[0] != lines[1]:
            old, new = (parse_object(line) or {} for line in lines)
            for name in {**new, **old}:
                was, now = (record.get(name, "none") for record in (old, new))
                if was != now:
                    place = f"line {number} (step {new.get('step')})"
                    return f"{place}: {name} is {now}, expected {was}"
            return f"line {number} has the same values in another notation"
    return f"{format_count(len(actual), 'line')}, expected {len(expected)}"
