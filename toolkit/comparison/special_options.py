"""What is special about the options of a run among others."""

from __future__ import annotations

import collections
from typing import Any, Dict, Iterable, List, Mapping, Sequence, Set, Tuple

from ..options import NOT_SET, ORIGINS, CoreOptions, format_value, result_options
from .record import RunRecord

# Options that other columns of a listing show.
_SHOWN_ELSEWHERE = ("data", "steps", "epochs")
EXTENSIONS = "with"


def own_options(record: RunRecord) -> Dict[str, Any]:
    """The options whose values somebody set, and the extensions as `with`, if there are any."""
    options = {
        name: value for name, value in record.options.items() if not is_default(record, name)
    }
    return dict({EXTENSIONS: record.extensions} if record.extensions else {}, **options)


def is_default(record: RunRecord, name: str) -> bool:
    """Whether nobody set the value of an option: it is a default, or that of a preset."""
    return not record.origins.get(name, NOT_SET).is_choice


def find_special_options(records: Sequence[RunRecord]) -> List[Dict[str, Any]]:
    """The options that tell each run from the others of its plugin, by name.

    These are options that affect the result and that somebody set, if another run of the plugin has
    another value. Of a plugin with one run, all options that somebody set.
    """
    groups = collections.defaultdict(list)
    for record in records:
        groups[record.plugin].append(record)
    left_out = {*options_without_effect(), *_SHOWN_ELSEWHERE}
    varying = {plugin: _find_varying(group) for plugin, group in groups.items()}
    return [
        {
            name: value
            for name, value in own_options(record).items()
            if name not in left_out
            and (len(groups[record.plugin]) == 1 or name in varying[record.plugin])
        }
        for record in records
    ]


def describe_options(options: Dict[str, Any]) -> str:
    """The options of `find_special_options` as text: `learning_rate=0.1 seed=3`."""
    return " ".join(f"{name}={format_value(value)}" for name, value in options.items())


def options_without_effect() -> List[str]:
    """The options of the core on which no result depends, such as where a run logs."""
    return sorted(set(CoreOptions.model_fields) - result_options(CoreOptions))


def find_changed_options(
    before: Mapping[str, Any], now: Mapping[str, Any], *left_out: str
) -> List[Tuple[str, Any, Any]]:
    """The options on which the result depends that differ between two sessions: name, values.

    Hashes decide about the data.

    Args:
        before, now: the entries of the sessions in the commit log.
        left_out: further names that do not count.
    """
    former, options = before.get("options") or {}, now.get("options") or {}
    others = {"plugin", "data", "folder", ORIGINS, *options_without_effect(), *left_out}
    return [
        (name, former[name], value)
        for name, value in options.items()
        if name in former and former[name] != value and name not in others
    ]


def find_option_changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> List[str]:
    """As `find_changed_options`, a clause each, without the extensions."""
    return [
        f"{name} {format_value(value) or 'none'} in place of {format_value(former) or 'none'}"
        for name, former, value in find_changed_options(before, now, EXTENSIONS)
    ]


def _find_varying(records: Iterable[RunRecord]) -> Set[str]:
    """The names of the options of which the runs have several values."""
    first: Dict[str, Any] = {}
    varying = set()
    for record in records:
        for name, value in {EXTENSIONS: record.extensions, **record.options}.items():
            if first.setdefault(name, value) != value:
                varying.add(name)
    return varying
