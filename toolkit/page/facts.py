"""The tables of a page: options with their origins, data, environment, and how to verify it."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence

from ..comparison.record import RunRecord, finite
from ..options import format_value, is_choice
from ..storage.commit_log import NO_HASH, Entry
from ..storage.folder import shell_argument
from ..storage.session_changes import describe_cluster
from .values import clean_text, count, fields, format_count, items

MAX_OPTIONS = 400
MAX_CLASSES = 200
_MAX_FILES = 20
_FEW_WORDS = 600  # characters of a value


def list_options(record: RunRecord) -> List[Dict[str, Any]]:
    """The options of a run: those that somebody chose first, then the defaults."""
    rows = [
        {
            "name": clean_text(name, 80),
            "value": clean_text(_format(value), _FEW_WORDS),
            "origin": clean_text(record.origins.get(name, ""), 200),
            "default": bool(record.origins) and not is_choice(record.origins.get(name, "")),
        }
        for name, value in list(record.options.items())[:MAX_OPTIONS]
    ]
    return sorted(rows, key=lambda row: row["default"])


def _format(value: Any) -> str:
    """An option's value as a person reads it; what no option can be is cut."""
    text = format_value(value) if not isinstance(value, bool) else str(value).lower()
    return text[: 4 * _FEW_WORDS]


def describe_data(record: RunRecord) -> Dict[str, Any]:
    """The data of a run: its splits, shapes, classes and hashes."""
    facts = fields(record.manifest.get("data"))
    spec = fields(facts.get("spec"))
    hashes = sorted(record.data_sha256.items())
    return {
        "name": clean_text(record.data_name, 200),
        "splits": [{"name": clean_text(n, 40), "examples": c} for n, c in record.examples.items()],
        "features": _describe_features(spec),
        "classes": _list_classes(spec),
        "num_classes": count(spec.get("num_classes")) or 0,
        "partition": clean_text(record.partition, 80),
        "files": [
            {"name": clean_text(name, 120), "sha256": clean_text(digest, 80)}
            for name, digest in hashes[:_MAX_FILES]
        ],
    }


def _describe_features(spec: Dict[str, Any]) -> str:
    """`28x28x1 uint8`, or the names of the features and labels."""
    components = [items(part) for part in items(spec.get("components"))]
    if components:
        return ", ".join(clean_text(part[0], 60) for part in components[:20] if part)
    shape = "x".join(str(side) for side in items(spec.get("shape"))[:8])
    return clean_text(f"{shape} {spec.get('dtype') or ''}", 80)


def _list_classes(spec: Dict[str, Any]) -> List[Dict[str, Any]]:
    """The classes with the number of their training examples, where that is known."""
    names, counts = items(spec.get("class_names")), items(spec.get("class_counts"))
    return [
        {
            "name": clean_text(name, 60),
            "train": count(counts[position]) if position < len(counts) else None,
        }
        for position, name in enumerate(names[:MAX_CLASSES])
    ]


def find_absent_classes(record: RunRecord) -> List[str]:
    """The names of the classes without a training example."""
    classes = _list_classes(fields(fields(record.manifest.get("data")).get("spec")))
    return [each["name"] for each in classes if each["train"] == 0]


def list_environment(record: RunRecord, entries: Sequence[Entry]) -> List[List[str]]:
    """Rows of a name and a value: software, machine, sessions."""
    sessions = [entry.values for entry in entries if entry.is_session]
    last = sessions[-1] if sessions else {}
    machine, model = fields(last.get("machine")), fields(record.manifest.get("model"))
    rows: List[List[Any]] = [
        ["plugin", record.plugin],
        ["extensions", ", ".join(record.extensions)],
        ["begun", record.created],
        ["sessions", str(len(sessions)) if sessions else ""],
        ["processes", describe_cluster(last["cluster"]) if last.get("cluster") else ""],
        *([name, version] for name, version in record.versions.items()),
        *([name, str(value)] for name, value in machine.items()),
        ["reader", record.manifest.get("reader")],
        ["compiled by XLA", _yes_no(record.manifest.get("xla"))],
        ["hooks", " > ".join(map(str, items(record.manifest.get("hooks"))[:50]))],
        *([f"model: {name}", _format_number(model.get(name))] for name in model),
        ["command", " ".join(record.argv)],
    ]
    texts = [[clean_text(name, 80), clean_text(value, 400)] for name, value in rows[:80]]
    return [row for row in texts if row[1]]


def _yes_no(value: Any) -> str:
    return {True: "yes", False: "no"}.get(value, "") if isinstance(value, bool) else ""


def _format_number(value: Any) -> Optional[str]:
    number = finite(value)
    return None if number is None else f"{number:,.0f}"


def describe_verification(record: RunRecord, entries: Sequence[Entry], head: str) -> Dict[str, Any]:
    """How a stranger checks the run and its page."""
    place = clean_text(shell_argument(record.name), 400)
    return {
        "head": "" if head == NO_HASH else head,
        "entries": len(entries),
        "is_sealed": bool(entries) and entries[-1].is_seal,
        "text": format_count(len(entries), "entry", "entries") + " in the commit log",
        "command": f"toolkit verify {place}",
        "page": f"toolkit report {place} -o other.html",
    }
