"""What differs between runs: options, code of plugins, data, versions and machine."""

from __future__ import annotations

from typing import Any, Dict, Iterable, List, Mapping, NamedTuple, Sequence, Set

from ..options import format_value
from .record import RunRecord
from .special_options import EXTENSIONS, is_default, options_without_effect

PLUGIN, DATA, SEED = "plugin", "data", "seed"
_MAX_NAMES = 4  # of files in a sentence
ALL_FILES = "all files"  # the name of one hash in place of those of many files
# Facts of a session by the title of their difference.
_VERSIONS = ("toolkit", "tensorflow", "numpy", "python")
_FRAMEWORK = "tensorflow"  # runs of several versions of it are no group of seeds


class OptionDifference(NamedTuple):
    """An option that has several values, the plugin, or the extensions.

    Attributes:
        name: of the option; "plugin" or "with".
        values: of each run; None for a run without such an option, too.
        origins: where each value comes from; "" if nothing says it, or there is no such option.
        is_present: whether each run has the option.
        affects_result: whether the option affects the result; of options of plugins, True.
    """

    name: str
    values: List[Any]
    origins: List[str]
    is_present: List[bool]
    affects_result: bool

    def cell(self, place: int) -> str:
        """The value of a run with its origin, for a table."""
        if not self.is_present[place]:
            return "-"
        origin = self.origins[place]
        return show_value(self.values[place]) + (f" ({origin})" if origin else "")


def show_value(value: Any) -> str:
    """A value of an option for a reader: an empty list or text is "none"."""
    return format_value(value) or "none"


def trained_options(record: RunRecord) -> Dict[str, Any]:
    """The options with which a run was last trained, with "plugin" and "with".

    They are those of its last session in the commit log; config.json may have been edited since.
    """
    saved = _last_session(record).get("options", {})
    if "plugin" not in saved:
        saved = dict(record.options, plugin=record.plugin, **{EXTENSIONS: record.extensions})
    return {name: value for name, value in saved.items() if name != "folder"}


def _last_session(record: RunRecord) -> Mapping[str, Any]:
    """The entry of the last session in the commit log, whose reader has checked its types."""
    sessions = record.folder.commits.sessions()
    return sessions[-1] if sessions else {}


def find_option_differences(records: Sequence[RunRecord]) -> List[OptionDifference]:
    """The options whose values differ; those that affect the result come first.

    The data is left out: its hashes decide, see `describe_data`. Of runs of several plugins,
    options that some of them do not have and that nobody set are left out, too.
    """
    options = [trained_options(record) for record in records]
    names = dict.fromkeys(name for values in options for name in values if name != DATA)
    without_effect = set(options_without_effect())
    is_one_plugin = len({record.plugin for record in records}) == 1
    differences = []
    for name in names:
        is_present = [name in values for values in options]
        values = [each.get(name) for each in options]
        if all(is_present) and all(value == values[0] for value in values):
            continue
        has_setter = any(
            name in record.options and not is_default(record, name) for record in records
        )
        if not all(is_present) and not is_one_plugin and not has_setter:
            continue
        origins = [
            str(record.origins.get(name, "")) if record.options.get(name) == value else ""
            for record, value in zip(records, values)
        ]
        has_effect = name not in without_effect
        differences.append(OptionDifference(name, values, origins, is_present, has_effect))
    return sorted(differences, key=lambda each: not each.affects_result)


# ------------------------------------------------------------------------------------------ groups


def group_by_seed(records: Sequence[RunRecord]) -> List[List[int]]:
    """The positions of runs that differ in the seed alone, in lists, in the order of the runs.

    They have equal plugins, options that affect the result, code, data and length, and the same
    version of TensorFlow. A run that did not reach its end is in a list of its own.
    """
    groups: Dict[Any, List[int]] = {}
    for place, record in enumerate(records):
        key = _method_of(record) if record.test is not None else place
        groups.setdefault(key, []).append(place)
    return list(groups.values())


def distinct_seeds(records: Sequence[RunRecord]) -> List[RunRecord]:
    """The runs of a group without those whose seed an earlier one has: they say nothing new."""
    by_seed: Dict[str, RunRecord] = {}
    for record in records:
        by_seed.setdefault(repr(record.options.get(SEED)), record)
    return list(by_seed.values())


def _method_of(record: RunRecord) -> str:
    """A text that is equal for runs that differ in the seed alone."""
    left_out = {SEED, DATA, *options_without_effect()}
    options = trained_options(record)
    values = {name: options[name] for name in sorted(options) if name not in left_out}
    facts = [values, code_hashes(record), record.data_sha256, record.partition, record.total_steps]
    return repr([*facts, record.versions.get(_FRAMEWORK)])


def describe_mixture(records: Sequence[RunRecord]) -> List[str]:
    """What else than the seed differs within a group: versions and machines, a clause each."""
    machines = [_last_session(record).get("machine", {}) for record in records]
    return describe_software(records) + [
        f"{name} {', '.join(str(machine.get(name, 'unknown')) for machine in machines)}"
        for name in differing_names(machines)
    ]


# ------------------------------------------------------------------------------------- code, data


def code_hashes(record: RunRecord) -> Dict[str, Mapping[str, str]]:
    """Plugin -> file -> hash, of the last session."""
    session = _last_session(record)
    if "plugins" in session:
        hashes: Dict[str, Mapping[str, str]] = session["plugins"]
        return hashes
    recorded = record.manifest.get("plugins")
    facts = recorded if isinstance(recorded, dict) else {}
    return {
        name: each["sha256"]
        for name, each in facts.items()
        if isinstance(each, dict) and isinstance(each.get("sha256"), dict)
    }


def describe_code(records: Sequence[RunRecord]) -> List[str]:
    """The plugins that several runs have with other code, a clause each."""
    hashes = [code_hashes(record) for record in records]
    clauses = []
    for plugin in sorted({name for each in hashes for name in each}):
        versions = [each[plugin] for each in hashes if plugin in each]
        names = differing_names(versions)
        if names:
            clauses.append(f"plugin '{plugin}' differs in {join_names(names)}")
    return clauses


def differing_names(tables: Sequence[Mapping[str, Any]]) -> List[str]:
    """The names whose values differ between tables, or that some of them lack."""
    names: Set[str] = {name for table in tables for name in table}
    return sorted(
        name for name in names if any(table.get(name) != tables[0].get(name) for table in tables)
    )


def join_names(names: Sequence[str], limit: int = _MAX_NAMES) -> str:
    """A few names, and how many more there are."""
    more = len(names) - limit
    return ", ".join(names[:limit]) + (f" and {more} more" if more > 0 else "")


def describe_data(records: Sequence[RunRecord]) -> List[str]:
    """How the data of the runs differs, a clause each."""
    clauses = []
    if _differ(record.data_sha256 for record in records):
        names = list(dict.fromkeys(record.data_name for record in records))
        names_of_files = differing_names([record.data_sha256 for record in records])
        files = [name for name in names_of_files if name != ALL_FILES]
        text = f"the data differs: {', '.join(names)}" if len(names) > 1 else "the data differs"
        clauses.append(f"{text} (files {join_names(files)})" if files else text)
    if _differ(record.partition for record in records):
        clauses.append("other examples are held out")
    if _differ(record.examples for record in records):
        splits = sorted({name for record in records for name in record.examples})
        counts = [
            f"{name} {', '.join(str(record.examples.get(name, 0)) for record in records)}"
            for name in splits
            if _differ(record.examples.get(name, 0) for record in records)
        ]
        clauses.append(f"numbers of examples: {'; '.join(counts)}")
    return clauses


def describe_software(records: Sequence[RunRecord]) -> List[str]:
    """The versions that differ, a clause each."""
    return [
        f"{name} {', '.join(record.versions.get(name, 'unknown') for record in records)}"
        for name in _VERSIONS
        if _differ(record.versions.get(name) for record in records)
    ]


def _differ(values: Iterable[Any]) -> bool:
    values = list(values)
    return any(value != values[0] for value in values)
