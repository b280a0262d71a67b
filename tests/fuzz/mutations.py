"""Strategies for damaged input: bytes after a few edits, odd values of JSON, awkward texts."""

from __future__ import annotations

import copy
import json
from typing import Any, List

from hypothesis import strategies as st

# Counts, sizes and offsets in files are often these, or off by one.
EDGES = [b"\0" * 4, b"\xff" * 4, b"\x7f\xff\xff\xff", b"\x80\0\0\0", b"\0\0\0\1", b"\1\0\0\0"]


@st.composite
def mutants(draw, content: bytes, other: bytes = b"", max_edits: int = 4):
    """`content` after 1 to `max_edits` edits. other: a second intact file, for splices."""
    splice = other or content
    for kind in draw(st.lists(st.sampled_from(EDITS), min_size=1, max_size=max_edits)):
        start = draw(st.integers(0, max(0, len(content) - 1)))
        content = content[:start] + _edit(draw, kind, content[start:], splice)
    return content


EDITS = ("flip", "overwrite", "insert", "delete", "truncate", "duplicate", "splice")


def _edit(draw, kind, rest, other):
    """What an edit makes of all that follows its place."""
    if kind == "flip":
        return bytes([rest[0] ^ 1 << draw(st.integers(0, 7))]) + rest[1:] if rest else rest
    if kind in ("overwrite", "insert"):
        piece = draw(st.sampled_from(EDGES) | st.binary(min_size=1, max_size=8))
        return piece + (rest[len(piece) :] if kind == "overwrite" else rest)
    if kind == "delete":
        return rest[draw(st.integers(1, 16)) :]
    if kind == "duplicate":
        return rest[: draw(st.integers(1, 64))] + rest
    return b"" if kind == "truncate" else other[draw(st.integers(0, len(other))) :]


DEEP = "\0deep"  # a placeholder for a nesting that json.dumps cannot write
NUMBERS = [0, 1, -1, 7, 2**31, 2**63, 10**400, 1e308, float("nan"), float("inf"), 0.5]
TEXTS = ["", "x", "6", "\0", "\ud800", "../../x", "/", "finished", "running", "best", DEEP]
ODD: List[Any] = [None, True, False, *NUMBERS, *TEXTS, {}, {"": None}]
ODD += [[], [[]], [None], [1], ["x"], [0] * 99]


@st.composite
def odd_json(draw, content, max_changes=3):
    """A JSON text with up to `max_changes` of its values odd or missing; DEEP is replaced by a
    nesting deeper than any reader accepts.
    """
    values = json.loads(content.decode("utf-8"))
    for _ in range(draw(st.integers(1, max_changes))):
        values = draw(_with_odd_value(values))
    return json.dumps(values).replace(json.dumps(DEEP), "[" * 100000 + "]" * 100000).encode()


@st.composite
def _with_odd_value(draw, values):
    """The values, with one at any depth removed or replaced by an odd one."""
    node = values
    while isinstance(node, (dict, list)) and len(node):
        key = draw(st.sampled_from(sorted(node) if isinstance(node, dict) else range(len(node))))
        child = node[key]
        if not isinstance(child, (dict, list)) or draw(st.integers(0, 2)) == 0:
            if isinstance(node, dict) and draw(st.integers(0, 3)) == 0:
                del node[key]
            else:
                node[key] = copy.deepcopy(draw(st.sampled_from(ODD)))
            return values
        node = child
    return copy.deepcopy(draw(st.sampled_from(ODD)))


def json_values(*others):
    """Values of JSON of any depth, whose texts have lone surrogates and NUL, and other leaves."""
    texts = st.text(st.characters(), max_size=20)
    return st.recursive(
        st.one_of(*others, st.none(), st.booleans(), st.integers(), st.floats(), texts),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
        max_leaves=8,
    )


def argument_texts(max_size: int = 20):
    """Texts of an argument or a variable: no NUL, and stray bytes as surrogates."""
    stray = st.integers(0xDC80, 0xDCFF).map(chr)
    plain = st.characters(blacklist_categories=["Cs"], blacklist_characters="\0")
    return st.text(plain | stray, max_size=max_size)
