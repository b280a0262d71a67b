"""What differs between runs: options, code of plugins, data, versions and machine."""

from __future__ import annotations

import collections
from typing import Any, Dict, List, Mapping, Optional, Sequence, Set, Tuple

from ..errors import join_names
from ..options import NOT_SET, ORIGINS, CoreOptions, format_value, result_options
from ..storage.commit_log import current_sessions
from .record import EXTENSIONS, RunRecord

DATA, SEED = "data", "seed"
ALL_FILES = "all files"  # the name of one hash in place of those of many files
_VERSIONS = ("toolkit", "tensorflow", "numpy", "python")
_FRAMEWORK = "tensorflow"  # runs of several versions of it are no group of seeds
# Options that other columns of a listing show.
_SHOWN_ELSEWHERE = (DATA, "steps", "epochs")


# ----------------------------------------------------------------------------------------- options


def show_value(value: Any) -> str:
    """A value of an option for a reader: an empty list or text is "none"."""
    return format_value(value) or "none"


def options_without_effect(*sessions: Mapping[str, Any]) -> Set[str]:
    """The options on which no result depends, such as where a run logs: those of the core, and of
    plugins those that the entries of sessions name.
    """
    own = (session.get("without_effect", ()) for session in sessions)
    return (set(CoreOptions.model_fields) - result_options(CoreOptions)).union(*own)


def is_default(record: RunRecord, name: str) -> bool:
    """Whether nobody set the value of an option: it is a default, or that of a preset."""
    return not record.origins.get(name, NOT_SET).is_choice


def own_options(record: RunRecord) -> Dict[str, Any]:
    """The options whose values somebody set, and the extensions as `with`, if there are any."""
    options = {name: v for name, v in record.options.items() if not is_default(record, name)}
    return dict({EXTENSIONS: record.extensions} if record.extensions else {}, **options)


def find_special_options(records: Sequence[RunRecord]) -> List[Dict[str, Any]]:
    """The options that tell each run from the others of its plugin, by name.

    These are options that affect the result and that somebody set, if another run of the plugin has
    another value. Of a plugin with one run, all options that somebody set.
    """
    values: Dict[Tuple[str, str], List[Any]] = {}  # plugin, name -> up to two different values
    for record in records:
        for name, value in {EXTENSIONS: record.extensions, **record.options}.items():
            known = values.setdefault((record.plugin, name), [])
            known += [value] if len(known) < 2 and value not in known else []
    counts = collections.Counter(record.plugin for record in records)
    left_out = options_without_effect().union(_SHOWN_ELSEWHERE)
    return [
        {
            name: value
            for name, value in own_options(r).items()
            if name not in left_out and (len(values[r.plugin, name]) > 1 or counts[r.plugin] == 1)
        }
        for r in records
    ]


def trained_options(record: RunRecord) -> Dict[str, Any]:
    """The options with which a run was last trained, with "plugin" and "with".

    They are those of its last session in the commit log; config.json may have been edited since.
    """
    saved = last_session(record).get("options", {})
    if "plugin" not in saved:
        saved = dict(record.options, plugin=record.plugin, **{EXTENSIONS: record.extensions})
    return {name: value for name, value in saved.items() if name != "folder"}


def last_session(record: RunRecord) -> Mapping[str, Any]:
    """The entry of the last session in the commit log, whose reader has checked its types."""
    return record.folder.commits.last_session()


def find_option_differences(records: Sequence[RunRecord]) -> List[Dict[str, Any]]:
    """The options whose values differ; those that affect the result come first.

    The data is left out: its hashes decide, see `describe_data`. Of runs of several plugins,
    options that some of them do not have and that nobody set are left out, too.

    Returns of each option its "name", which may be "plugin" or "with"; the "values" of all runs;
    and their "origins", "" if nothing says where one is from. Both are None where a run lacks it.
    """
    options = [trained_options(record) for record in records]
    is_one_plugin = len({record.plugin for record in records}) == 1
    differences = []
    for name in dict.fromkeys(name for values in options for name in values if name != DATA):
        values = [each.get(name) for each in options]
        is_everywhere = all(name in each for each in options)
        if is_everywhere and not _differ(values):
            continue
        has_setter = any(name in r.options and not is_default(r, name) for r in records)
        if is_everywhere or is_one_plugin or has_setter:
            origins: List[Optional[str]] = []
            for record, known in zip(records, options):
                is_saved = name in known and record.options.get(name) == known[name]
                origin = str(record.origins.get(name, "")) if is_saved else ""
                origins.append(origin if name in known else None)
            differences.append({"name": name, "values": values, "origins": origins})
    without_effect = options_without_effect(*map(last_session, records))
    return sorted(differences, key=lambda each: each["name"] in without_effect)


def find_changed_options(
    before: Mapping[str, Any], now: Mapping[str, Any], *left_out: str
) -> List[Tuple[str, Any, Any]]:
    """The options on which the result depends that differ between the entries of two sessions:
    name, values; without some names, and the data, of which hashes decide.
    """
    former, options = before.get("options") or {}, now.get("options") or {}
    others = options_without_effect(now).union(["plugin", DATA, "folder", ORIGINS], left_out)
    return [
        (name, former[name], value)
        for name, value in options.items()
        if name in former and former[name] != value and name not in others
    ]


def find_option_changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> List[str]:
    """As `find_changed_options`, a clause each, without the extensions."""
    return [
        f"{name} {show_value(value)} in place of {show_value(former)}"
        for name, former, value in find_changed_options(before, now, EXTENSIONS)
    ]


# ------------------------------------------------------------------------------------------ groups


def group_by_seed(records: Sequence[RunRecord]) -> List[List[int]]:
    """The positions of runs that differ in the seed alone, in lists, in the order of the runs.

    They have equal plugins, options that affect the result, also before resumes, code, data and
    length, and the same version of TensorFlow. A run that did not reach its end is in a list of its
    own.
    """
    groups: Dict[Any, List[int]] = {}
    for place, record in enumerate(records):
        session = last_session(record)
        left_out = options_without_effect(session).union([SEED, DATA])
        values = sorted(each for each in trained_options(record).items() if each[0] not in left_out)
        data, framework = (record.data_sha256, record.partition), record.versions.get(_FRAMEWORK)
        code = session.get("plugins", {})  # -> file -> hash
        trained = current_sessions(record.folder.commits.entries())
        resumes = [(b["from"], find_changed_options(a, b)) for a, b in zip(trained, trained[1:])]
        changes = [resume for resume in resumes if resume[1]]
        method = repr([values, changes, code, data, record.total_steps, framework])
        groups.setdefault(method if record.test is not None else place, []).append(place)
    return list(groups.values())


def distinct_seeds(records: Sequence[RunRecord]) -> List[RunRecord]:
    """The runs of a group without those whose seed an earlier one has: they say nothing new."""
    by_seed: Dict[str, RunRecord] = {}
    for record in records:
        by_seed.setdefault(repr(record.options.get(SEED)), record)
    return list(by_seed.values())


# ------------------------------------------------------------------------- code, data and software


def describe_code(records: Sequence[RunRecord]) -> List[str]:
    """The plugins that several runs have with other code, a clause each."""
    hashes = [last_session(record).get("plugins", {}) for record in records]
    clauses = []
    for plugin in sorted({name for each in hashes for name in each}):
        names = differing_names([each[plugin] for each in hashes if plugin in each])
        if names:
            clauses.append(f"plugin '{plugin}' differs in {join_names(names)}")
    return clauses


def describe_data(records: Sequence[RunRecord]) -> List[str]:
    """How the data of the runs differs, a clause each."""
    clauses = []
    files = differing_names([record.data_sha256 for record in records])
    if files:
        names = list(dict.fromkeys(record.data_name for record in records))
        files = [name for name in files if name != ALL_FILES]
        text = f"the data differs: {', '.join(names)}" if len(names) > 1 else "the data differs"
        clauses.append(f"{text} (files {join_names(files)})" if files else text)
    if _differ([record.partition for record in records]):
        clauses.append("other examples are held out")
    counts = _list_differing([record.examples for record in records], missing=0)
    return clauses + ([f"numbers of examples: {'; '.join(counts)}"] if counts else [])


def describe_software(records: Sequence[RunRecord]) -> List[str]:
    """The versions that differ, a clause each."""
    return _list_differing([record.versions for record in records], _VERSIONS)


def describe_mixture(records: Sequence[RunRecord]) -> List[str]:
    """What else than the seed differs within a group: versions and machines, a clause each."""
    machines = [last_session(record).get("machine", {}) for record in records]
    return describe_software(records) + _list_differing(machines)


def _list_differing(
    tables: Sequence[Mapping[str, Any]], names: Sequence[str] = (), missing: Any = "unknown"
) -> List[str]:
    """`name value, value, ...` for each name (of `names`, if there are any) whose values differ."""
    known = sorted({name for table in tables for name in table})
    differing = [n for n in known if _differ([table.get(n, missing) for table in tables])]
    return [
        f"{name} {', '.join(str(table.get(name, missing)) for table in tables)}"
        for name in names or differing
        if name in differing
    ]


def differing_names(tables: Sequence[Mapping[str, Any]]) -> List[str]:
    """The names whose values differ between tables, or that some of them lack."""
    names = sorted({name for table in tables for name in table})
    return [name for name in names if _differ([table.get(name) for table in tables])]


def _differ(values: Sequence[Any]) -> bool:
    return any(value != values[0] for value in values)
