"""The command that trains a run again, from the options that it saved."""

from __future__ import annotations

import os
import shlex
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

from ..comparison.record import RunRecord
from ..comparison.special_options import options_without_effect
from ..display.escapes import escape_line
from ..options import (
    ORIGINS,
    CoreOptions,
    changeable_options,
    flag_name,
    format_value,
    is_choice,
    is_choice_of_data,
    join_step,
    map_paths,
    map_reference,
    split_step,
)
from ..storage.commit_log import Entry
from ..storage.parent import Parent
from ..storage.session_changes import find_session_changes
from ..storage.source_copies import SOURCES
from .values import clean_text, fields

MAX_FLAGS = 16  # more are read from the file of the run
_ALWAYS = ("seed", "data")
_NEVER = ("page",)
_CHANGEABLE = changeable_options(CoreOptions)  # by a resume, without --allow


class Recipe(NamedTuple):
    """How a run is trained again.

    Attributes:
        command: for a shell.
        needs: what else it takes to train the same model, a sentence each.
    """

    command: str
    needs: List[str]


def describe_recipe(record: RunRecord, entries: Sequence[Entry], folder: str) -> Recipe:
    """How to train a run again, also a branch, and one that was continued with other options.

    Args:
        record: of the run.
        entries: of its commit log.
        folder: as for `again`.
    """
    command, needs = _describe_branch(entries) or (again(record, folder), [])
    weights = Parent.from_json(record.manifest.get("parent"))
    if weights is not None and record.options.get("init_from"):
        needs.append(f"{weights.sentence()[:-1]}, which it needs.")
    return Recipe(command, needs + _describe_changes(entries) + _describe_code(record, entries))


def _describe_branch(entries: Sequence[Entry]) -> Optional[Tuple[str, List[str]]]:
    """The command that branches off again, and what it needs; None if the run is no branch."""
    places = [n for n, entry in enumerate(entries) if entry.values.get("kind") == "branch"]
    parent = Parent.from_json(entries[places[-1]].values.get("parent")) if places else None
    if parent is None:
        return None
    former = [entry.values for entry in entries[: places[-1]] if entry.is_session]
    later = [entry.values for entry in entries[places[-1] :] if entry.is_session]
    words = ["toolkit", "resume", parent.name, "--from", str(parent.step)]
    changes = _changed_options(former[-1], later[0]) if former and later else {}
    needs = [f"{parent.sentence()[:-1]} and needs that run, the head of whose log was"]
    needs[0] += f" {parent.head[:16]}."
    for name, (_, value) in changes.items():
        flag = _option_flag(name, value, lambda path: path)
        if flag is None:
            needs.append(f"It also takes the value of {name} in its options below.")
            continue
        words += ([] if name in _CHANGEABLE else ["--allow", name]) + flag
    return _join(words), [clean_text(text, 600) for text in needs]


def _describe_changes(entries: Sequence[Entry]) -> List[str]:
    """A sentence for each session that continued the run with other options, or with another model,
    code, data or software.
    """
    texts = []
    last: Dict[str, Any] = {}
    is_branch = False  # whose command has the options of its first session
    for entry in entries:
        if entry.values.get("kind") == "branch":
            is_branch = True
        elif entry.is_session:
            changes = _changed_options(last, entry.values) if last and not is_branch else {}
            values = [
                f"{clean_text(name, 80)} {clean_text(_text_of(now), 80)} in place of"
                f" {clean_text(_text_of(before), 80)}"
                for name, (before, now) in list(changes.items())[:5]
            ]
            others = _changed_facts(last, entry.values) if last else []
            if values and entry.step:
                texts.append(
                    f"One command is not enough: at step {entry.step:,} the run was continued"
                    f" with {', '.join(values)}."
                )
            if others and entry.step:
                texts.append(f"From step {entry.step:,} on, {clean_text('; '.join(others))}.")
            last, is_branch = entry.values, False
    return texts[:5]


def _changed_facts(before: Dict[str, Any], now: Dict[str, Any]) -> List[str]:
    """What else differs between two sessions on which the result depends, a clause each."""
    plan = fields(now.get("model"))
    words = [word for word in ("renamed", "initialised", "dropped") if plan.get(word)]
    model = [f"variables were {', '.join(words)}"] if words else []
    return model + find_session_changes(before, now)


def _text_of(value: Any) -> str:
    return "none" if value in (None, [], {}, "") else format_value(value)


def _changed_options(before: Dict[str, Any], now: Dict[str, Any]) -> Dict[str, Tuple[Any, Any]]:
    """The options on which the result depends that differ between two sessions: before, now."""
    former, options = fields(before.get("options")), fields(now.get("options"))
    left_out = {"plugin", "with", "data", "folder", ORIGINS, *options_without_effect()}
    return {
        name: (former[name], value)
        for name, value in options.items()
        if name in former and former[name] != value and name not in left_out
    }


def _describe_code(record: RunRecord, entries: Sequence[Entry]) -> List[str]:
    """Where the code of plugins that are files is, and what software executed it."""
    sessions = [entry.values for entry in entries if entry.is_session]
    copies = fields(sessions[-1].get(SOURCES)) if sessions else {}
    texts = []
    for reference in (record.plugin, *record.extensions):
        file = os.path.basename(reference)
        copy = clean_text(fields(copies.get(os.path.splitext(file)[0])).get("folder"), 120)
        if copy and map_reference(reference, lambda path: "") == "":
            name = clean_text(file, 80)
            texts.append(
                f"The command executes {name} as it is now; that of this run is in its folder, in"
                f" {SOURCES}/{copy}."
            )
    names = (("toolkit", "toolkit"), ("python", "Python"), ("tensorflow", "TensorFlow"))
    versions = [
        f"{word} {record.versions[name]}" for name, word in names if name in record.versions
    ]
    if versions:
        texts.append(clean_text(f"The numbers are those of {', '.join(versions)}."))
    return texts


def again(record: RunRecord, folder: str) -> str:
    """A command for a shell that trains the run again, in any working directory.

    The options are flags. Where they are many, or a list has values with commas, they are read
    from the config.json of the run, at the place where it was trained.

    Args:
        record: of the run.
        folder: the absolute path at which the run was trained; "" if it is not known.
    """
    flags = list_flags(record, folder)
    if flags is None or len(flags) > MAX_FLAGS:
        config = os.path.join(folder, "config.json") if folder else f"{record.name}/config.json"
        return _join(["toolkit", "run", "--config", config])
    words = ["toolkit", "run", *_flag("plugin", _resolve(record.plugin, folder))]
    for extension in record.extensions:
        words += _flag("with", _resolve(extension, folder))
    return _join(words + [word for flag in flags for word in flag])


def list_flags(record: RunRecord, folder: str) -> Optional[List[List[str]]]:
    """The flags of the options that are neither defaults nor set by a preset, and the name of the
    preset, even if the data chose it: another version may choose otherwise.

    Returns:
        None if the run does not say where its values come from, or flags cannot express one.
    """
    if not record.origins:
        return None
    flags = []
    for name, value in record.options.items():
        origin = record.origins.get(name, "")
        is_needed = name in _ALWAYS or is_choice(origin) or is_choice_of_data(origin)
        if name in _NEVER or not is_needed:
            continue
        if name == "init_from":
            value = _with_step(record, value)
        flag = _option_flag(name, value, lambda path: _absolute(path, folder))
        if flag is None:
            return None
        flags.append(flag)
    return flags


def _with_step(record: RunRecord, weights: Any) -> Any:
    """The weights from which a run began with the step that it took, as the manifest says."""
    parent = Parent.from_json(record.manifest.get("parent"))
    is_open = isinstance(weights, str) and weights and not split_step(weights)[1]
    return join_step(weights, parent.step) if parent is not None and is_open else weights


def _option_flag(name: str, value: Any, resolve: Callable[[str], str]) -> Optional[List[str]]:
    """The flag that sets an option to a value; None if there is none."""
    if name in CoreOptions.model_fields:
        value = map_paths(CoreOptions, name, value, resolve)
    if isinstance(value, bool):
        return [flag_name(name if value else f"no_{name}")]
    if isinstance(value, list):
        if not value or any("," in str(part) for part in value):
            return None
    elif not isinstance(value, (str, int, float, dict, type(None))):
        return None
    return _flag(name, format_value(value))


def _flag(name: str, text: str) -> List[str]:
    """A flag with its value, which may begin with a dash."""
    return [f"{flag_name(name)}={text}"] if text.startswith("-") else [flag_name(name), text]


def _resolve(reference: str, folder: str) -> str:
    return map_reference(reference, lambda path: _absolute(path, folder))


def _absolute(path: str, folder: str) -> str:
    """A path of a run's config.json, which starts at its folder, as an absolute path."""
    return os.path.normpath(os.path.join(folder, path)) if folder else path


def _join(words: List[str]) -> str:
    """The words of a command as text for a shell."""
    return escape_line(" ".join(shlex.quote(word) for word in words))


def former_folder(config: Dict[str, Any]) -> str:
    """The absolute path of the folder in which a run was trained, as its config.json says."""
    path = config.get("folder")
    return path if isinstance(path, str) and os.path.isabs(path) and "\0" not in path else ""
