"""What is special about the options of a run among others."""

from __future__ import annotations

import collections
import json
from typing import Any, Callable, Counter, Dict, Iterable, List, Sequence, Tuple

from ..options import NOT_SET, ORIGINS, CoreOptions, Origin, format_value, result_options
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
    another value; and defaults that are not those of most runs, as of another version. Of a plugin
    with one run, all options that somebody set.
    """
    groups = collections.defaultdict(list)
    for record in records:
        groups[record.plugin].append(record)
    finders = {plugin: _find_in_group(group) for plugin, group in groups.items()}
    return [finders[record.plugin](record) for record in records]


def describe_options(options: Dict[str, Any]) -> str:
    """The options of `find_special_options` as text: `learning_rate=0.1 seed=3`."""
    return " ".join(f"{name}={format_value(value)}" for name, value in options.items())


def options_without_effect() -> List[str]:
    """The options of the core on which no result depends, such as where a run logs."""
    return sorted(set(CoreOptions.model_fields) - result_options(CoreOptions))


def find_option_changes(before: Dict[str, Any], now: Dict[str, Any]) -> List[str]:
    """The options on which the result depends that differ between two sessions, a clause each.

    Args:
        before, now: the entries of the sessions in the commit log.
    """
    former, options = before.get("options"), now.get("options")
    if not isinstance(former, dict) or not isinstance(options, dict):
        return []
    left_out = {"plugin", "with", "data", "folder", ORIGINS, *options_without_effect()}
    return [
        f"{name} {format_value(value) or 'none'} in place of {format_value(former[name]) or 'none'}"
        for name, value in options.items()
        if name in former and former[name] != value and name not in left_out
    ]


def _find_in_group(records: Sequence[RunRecord]) -> Callable[[RunRecord], Dict[str, Any]]:
    """A function that finds the special options of a run of a group."""
    left_out = {*options_without_effect(), *_SHOWN_ELSEWHERE}
    varying = _find_varying(records) - left_out if len(records) > 1 else None
    usual = _usual_defaults(records, varying or ())

    def find(record: RunRecord) -> Dict[str, Any]:
        options = {EXTENSIONS: record.extensions, **record.options}
        names = set(own_options(record)) if varying is None else varying
        return {
            name: options[name]
            for name in options
            if name in names
            and name not in left_out
            and (varying is None or _is_special(record, name, usual))
        }

    return find


def _is_special(record: RunRecord, name: str, usual: Dict[Tuple[str, Origin], str]) -> bool:
    """Whether somebody set an option that varies, or its default is not that of most runs."""
    if name == EXTENSIONS:
        return bool(record.extensions)
    return not is_default(record, name) or _is_unusual(record, name, usual)


def _find_varying(records: Iterable[RunRecord]) -> set:
    """The names of the options of which the runs have several values."""
    first: Dict[str, Any] = {}
    varying = set()
    for record in records:
        for name, value in {EXTENSIONS: record.extensions, **record.options}.items():
            if first.setdefault(name, value) != value:
                varying.add(name)
    return varying


def _usual_defaults(
    records: Iterable[RunRecord], names: Iterable[str]
) -> Dict[Tuple[str, Origin], str]:
    """Option and origin -> the JSON text of the value that most runs have by default."""
    counts: Dict[Tuple[str, Origin], Counter[str]] = collections.defaultdict(collections.Counter)
    for record in records:
        for name in names:
            if name in record.options and is_default(record, name):
                key = (name, record.origins.get(name, NOT_SET))
                counts[key][json.dumps(record.options[name])] += 1
    return {key: counter.most_common(1)[0][0] for key, counter in counts.items()}


def _is_unusual(record: RunRecord, name: str, usual: Dict[Tuple[str, Origin], str]) -> bool:
    """Whether a default is not that of most runs with the same origin."""
    key = (name, record.origins.get(name, NOT_SET))
    return key in usual and json.dumps(record.options.get(name)) != usual[key]
