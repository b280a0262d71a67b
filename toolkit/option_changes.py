"""What differs between the options and plugins of a run and those with which it is to continue."""

from __future__ import annotations

import os
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Type

from . import config as configuration
from .errors import UsageError
from .options import (
    Config,
    CoreOptions,
    changeable_options,
    find_path,
    format_value,
    join_step,
    map_paths,
    map_reference,
    split_step,
)
from .plugins import is_name, plugin_name
from .storage.run_folder import RunFolder

_LENGTH = ("steps", "epochs", "early_stopping")  # options that end a run


class OptionChange(NamedTuple):
    """An option whose value differs from that of the run, or its plugin or extensions."""

    name: str  # of the option; "plugin" or "with"
    before: Any  # the value of the run
    now: Any  # the value with which it is to continue

    def __str__(self) -> str:
        """A clause with both values."""
        before, now = (format_value(value) or "none" for value in (self.before, self.now))
        return f"{self.name} was {before}, now {now}"


def find_changes(folder: RunFolder, options: CoreOptions) -> List[OptionChange]:
    """Return the changes that need a permission, with the plugins that config.json names.

    The values are compared with those that the commit log recorded for the last session, so that
    an edited config.json is noticed. Whether the data changed is decided by its hash, not here.
    """
    config = configuration.read_run_config(folder)
    return [
        *find_option_changes(folder, options),
        *find_plugin_changes(folder, config.plugin, config.extensions),
    ]


def find_option_changes(
    folder: RunFolder, options: CoreOptions, session: Optional[Dict[str, Any]] = None
) -> List[OptionChange]:
    """Return the options that affect the state of a run and have another value than in a session of
    it, by default the last one.
    """
    changeable = changeable_options(type(options)) | {"data"}
    changes = _compare(folder, options, session)
    return [change for change in changes if change.name not in changeable]


def has_other_length(folder: RunFolder, options: CoreOptions) -> bool:
    """Whether an option that ends a run has another value than in the last session of it, or may
    have, since the log has none that can be read.
    """
    is_known = _last_session(folder) is not None
    changes = _compare(folder, options)
    return not is_known or any(change.name in _LENGTH for change in changes)


def describe_branch(branch: RunFolder, options: CoreOptions) -> str:
    """Where a branch that has not trained yet begins, and which of the options with which it is to
    train differ from those of its parent.
    """
    parent, changes = branch.state()["parent"], _compare(branch, options)
    texts = [str(change) for change in changes if change.name != "data"]
    return "; ".join([f"a branch of {parent['name']} from step {parent['step']}", *texts])


def _compare(
    folder: RunFolder, options: CoreOptions, values: Optional[Dict[str, Any]] = None
) -> List[OptionChange]:
    """Return the options that have another value than in a session of a run; None: the last."""
    session = _last_session(folder, values)
    if session is None:
        return []
    values = options.model_dump(mode="json")
    now, former = dict(values), session.values.get("init_from")
    if now["init_from"] and former and not split_step(now["init_from"])[1]:
        now["init_from"] = join_step(now["init_from"], split_step(former)[1])
    config = session._replace(values=now, folders=(os.getcwd(),))
    return [
        OptionChange(name, session.values[name], values[name])
        for name in find_differences(type(options), session, config)
        if name in session.values and name in values
    ]


def find_differences(options: Type[CoreOptions], config: Config, other: Config) -> List[str]:
    """The names of the options that two configurations of a run have different values of; values of
    others than those of the class are compared as they are saved.

    Two paths of one file are equal. "plugin" and "with" count as options.
    """
    values, others = _real_values(options, config), _real_values(options, other)
    names = [*values, *(name for name in others if name not in values)]
    return [name for name in names if values.get(name) != others.get(name)]


def find_plugin_changes(
    folder: RunFolder, plugin: str, extensions: Sequence[str]
) -> List[OptionChange]:
    """Whether the run had another plugin, a reference or the name of an object with hooks, and
    whether it had other extensions.
    """
    session = _last_session(folder)
    if session is None:
        return []
    pairs = [("plugin", [session.plugin], [plugin]), ("with", session.extensions, [*extensions])]
    return [
        OptionChange(name, ", ".join(before) or "none", ", ".join(now) or "none")
        for name, before, now in pairs
        if len(before) != len(now) or not all(map(_is_same, before, now))
    ]


def refuse_changes(
    folder: RunFolder,
    changes: Sequence[OptionChange],
    allow: Sequence[str],
    name_flags: Callable[[Sequence[OptionChange]], str],
) -> None:
    """Raise UsageError for changes that nobody has allowed by name, and after the first commit for
    options that only the first step of a run reads. `name_flags` returns how changes are allowed.
    """
    late = [str(change) for change in changes if change.name in ("init_from", "map")]
    if late and folder.commits.current_commits():
        raise UsageError(
            f"{'; '.join(late)}: a change has no effect after the first commit.",
            hint="Keep the former value, or start a new run.",
        )
    changes = [change for change in changes if change.name not in allow]
    if changes:
        raise UsageError(
            f"The run was trained with other options: {'; '.join(map(str, changes))}.",
            hint="Keep the former values, start a new run, or allow the change: "
            + name_flags(changes),
        )


def allow_flags(changes: Sequence[OptionChange]) -> str:
    """Return the flags that allow these changes."""
    return " ".join(f"--allow {change.name}" for change in changes)


def _last_session(folder: RunFolder, values: Optional[Dict[str, Any]] = None) -> Optional[Config]:
    """Return the plugins and options of the last session, or of one with these values; None before
    the first commit.
    """
    values = folder.commits.last_session() if values is None else values
    saved = values.get("options")
    if not isinstance(saved, dict):
        return None
    return configuration.parse_values(folder.path, saved, folder.file("commits.jsonl"))


def _real_values(options: Type[CoreOptions], config: Config) -> Dict[str, Any]:
    """Return plugins and options by name, with the absolute path of each file in them."""

    def find(path: str) -> str:
        return os.path.realpath(find_path(path, config.folders))

    plugin, *extensions = [map_reference(r, os.path.realpath) for r in config.references]
    values = {name: map_paths(options, name, v, find) for name, v in config.values.items()}
    return {"plugin": plugin, "with": extensions, **values}


def _is_same(reference: str, other: str) -> bool:
    """Whether two references can be of one plugin; that of an object with hooks is only a name."""
    if not (is_name(reference) or is_name(other)):
        return map_reference(reference, os.path.realpath) == map_reference(other, os.path.realpath)
    return plugin_name(reference).lower() == plugin_name(other).lower()
