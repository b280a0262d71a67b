"""The rule by which each tensor of a lifted graph is fed.

A rule is a text, words between colons. This module imports no TensorFlow.
"""

from __future__ import annotations

import re
from typing import NamedTuple, Tuple

from toolkit import UsageError

RULES = (
    "features, labels, features.NAME or labels.NAME, each with :flat, :one-hot, :range:LOW:HIGH or "
    ":part; uniform:LOW:HIGH or normal:MEAN:STDDEV, with :shared; a number, true or false; "
    "table:STEP=VALUE:... or linear:FROM:TO:STEPS"
)
_OF_ROWS = ("flat", "one-hot", "part", "range")
_WORDS = {"features": _OF_ROWS, "labels": _OF_ROWS, "uniform": ("shared",), "normal": ("shared",)}
_COUNTS = {"uniform": 2, "normal": 2, "linear": 3, "constant": 1}  # of numbers


class Rule(NamedTuple):
    """How one tensor of the graph is fed."""

    # "features" or "labels", "uniform" or "normal", "constant", "table" or "linear"; also "given",
    # which no text is.
    kind: str
    # What the rows' 0 and 1 become (none: they stay); the range of noise, the constant, those of
    # "linear"; of a table, step and value in turn.
    numbers: Tuple[float, ...] = ()
    component: str = ""  # the name of a feature or label; "" for the only one
    words: Tuple[str, ...] = ()  # of "flat", "one-hot", "part", "range" and "shared"


def parse_rule(name: str, text: str) -> Rule:
    """The rule for the tensor of a name that a text describes; see `RULES`.

    Raises UsageError if it describes none.
    """
    kind, *words = str(text).strip().split(":")
    role, dot, component = kind.partition(".")
    flags = tuple(word for word in words if word in _WORDS.get(role, ()))
    texts = [word for word in words if word not in flags]
    is_of_rows = role in ("features", "labels")
    if is_of_rows:
        kind, is_rule = role, bool(dot) == bool(component)
    elif kind not in ("table", *_COUNTS):
        texts.insert(0, {"true": "1", "false": "0"}.get(kind.lower(), kind))
        kind = "constant"
    try:
        if kind == "table":
            pairs = [(float(step), float(value)) for step, value in (t.split("=") for t in texts)]
            steps = [step for step, _ in pairs]
            is_rule = steps[:1] == [0] and steps == sorted(set(steps))
            numbers = tuple(number for pair in pairs for number in pair)
        else:
            numbers = tuple(map(float, texts))
            if is_of_rows:
                is_rule = is_rule and len(numbers) == 2 * flags.count("range")
            else:
                is_rule = len(numbers) == _COUNTS[kind]
    except ValueError:
        is_rule = False
    if not is_rule:
        raise UsageError(f"'{text}' is no rule for '{name}'.", hint=f"A rule is {RULES}.")
    return Rule(kind, numbers, component if is_of_rows else "", flags)


def tensor_name(name: str) -> str:
    """`x` and `x:0` are the first output of the op x."""
    return name if re.search(r":\d+$", name) else f"{name}:0"
