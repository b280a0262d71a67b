"""The rule by which each tensor of a lifted graph is fed.

A rule is a text, words between colons. This module imports no TensorFlow.
"""

from __future__ import annotations

import re
from typing import Dict, List, NamedTuple, Tuple

from toolkit import UsageError

ROWS = ("features", "labels")
NOISE = ("uniform", "normal")
SCHEDULES = {"cosine": (1, 2), "linear": (3, 3), "exponential": (3, 3)}  # least, most numbers
RULES = (
    "features, labels, features.NAME or labels.NAME, each with :flat, :one-hot, :range:LOW:HIGH or "
    ":part; uniform:LOW:HIGH or normal:MEAN:STDDEV, with :shared or :shape:AxB; a number, true or "
    "false; table:STEP=VALUE:..., cosine:FULL[:STEPS], linear:FROM:TO:STEPS or "
    "exponential:FULL:FACTOR:STEPS"
)


class Rule(NamedTuple):
    """How one tensor of the graph is fed.

    Attributes:
        kind: "features" or "labels", "uniform" or "normal", "constant", "table" or the name of a
            schedule.
        numbers: of the range of noise, the constant, the schedule; of a table, step and value in
            turn.
        component: the name of a feature or label; "" for the only one.
        words: of "flat", "one-hot", "part" and "shared", those that the rule has.
        scale: LOW and HIGH that the rows' 0 and 1 become; () for none.
        shape: of noise, if the graph does not tell it; () for none.
    """

    kind: str
    numbers: Tuple[float, ...] = ()
    component: str = ""
    words: Tuple[str, ...] = ()
    scale: Tuple[float, ...] = ()
    shape: Tuple[int, ...] = ()


def parse_rule(name: str, text: str) -> Rule:
    """The rule that a text describes.

    Args:
        name: of the tensor, for messages.
        text: see `RULES`.

    Raises:
        UsageError: it describes none.
    """
    kind, *words = str(text).strip().split(":")
    role, dot, component = kind.partition(".")
    try:
        if role in ROWS and bool(dot) == bool(component):
            return _parse_rows(role, component, words)
        if kind in NOISE:
            return _parse_noise(kind, words)
        if kind == "table" and words:
            return Rule(kind, _parse_table(words))
        if kind in SCHEDULES:
            least, most = SCHEDULES[kind]
            if least <= len(words) <= most:
                return Rule(kind, tuple(map(float, words)))
        elif not words:
            return Rule("constant", (float({"true": 1, "false": 0}.get(kind.lower(), kind)),))
    except ValueError:
        pass
    raise UsageError(f"'{text}' is no rule for '{name}'.", hint=f"A rule is {RULES}.")


def _parse_rows(role: str, component: str, words: List[str]) -> Rule:
    scale: Tuple[float, ...] = ()
    if "range" in words:
        at = words.index("range")
        low, high = words[at + 1 : at + 3]
        scale = float(low), float(high)
        words = words[:at] + words[at + 3 :]
    if set(words) - {"flat", "one-hot", "part"}:
        raise ValueError
    return Rule(role, (), component, tuple(words), scale)


def _parse_noise(kind: str, words: List[str]) -> Rule:
    shape: Tuple[int, ...] = ()
    if "shape" in words:
        at = words.index("shape")
        shape = tuple(map(int, words[at + 1].split("x")))
        words = words[:at] + words[at + 2 :]
    shared = tuple(word for word in words if word == "shared")
    low, high = [float(word) for word in words if word != "shared"]
    return Rule(kind, (low, high), words=shared, shape=shape)


def _parse_table(words: List[str]) -> Tuple[float, ...]:
    pairs = [tuple(map(float, word.split("="))) for word in words]
    steps = [step for step, _ in pairs]
    if steps[0] != 0 or steps != sorted(set(steps)):
        raise ValueError
    return tuple(number for pair in pairs for number in pair)


def tensor_name(name: str) -> str:
    """`x` and `x:0` are the first output of the op x."""
    return name if re.search(r":\d+$", name) else f"{name}:0"


def rules_of(feeds: Dict[str, str], call: int) -> Dict[str, Rule]:
    """The name of a tensor -> its rule in a call of the period.

    Args:
        feeds: of the plan; `NAME@K` is for call K alone.
        call: its number, from 1.
    """
    own: Dict[str, Rule] = {}
    for key, text in feeds.items():
        name, at, number = key.partition("@")
        if not at:
            own.setdefault(tensor_name(name), parse_rule(name, text))
        elif number == str(call):
            own[tensor_name(name)] = parse_rule(name, text)
    return own
