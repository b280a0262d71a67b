"""Whether this version of the toolkit is one that a distribution requires."""

from __future__ import annotations

import re
from typing import Iterable, Tuple

from .. import __version__

# `toolkit>=0.2,<1` or `toolkit (>=0.2)`. One with a marker, such as an extra, is not looked at.
_REQUIREMENT = re.compile(r"toolkit\s*(?:\[[^]]*\])?\s*\(?([^;()]*)\)?\s*", re.IGNORECASE)
_CLAUSE = re.compile(r"\s*(==|!=|<=|>=|~=|<|>)\s*v?([\d.]+)(\.\*)?\s*")


def find_unmet(requirements: Iterable[str], version: str = __version__) -> str:
    """`needs toolkit>=9, this is 0.2.0`; "" if the version of the toolkit fits.

    Args:
        requirements: of a distribution, as in its metadata.
        version: of the toolkit.
    """
    for requirement in requirements:
        match = _REQUIREMENT.fullmatch(requirement)
        clauses = match.group(1).split(",") if match else []
        if not all(_fits(version, clause) for clause in clauses):
            return f"needs toolkit{','.join(clauses).replace(' ', '')}, this is {version}"
    return ""


def _fits(version: str, clause: str) -> bool:
    """Whether a version fits `>=0.2`; True for clauses of another form."""
    match = _CLAUSE.fullmatch(clause)
    if match is None:
        return True
    operator, text, has_star = match.groups()
    limit = _numbers(text)
    length = len(limit) - (operator == "~=")
    ours, limit_start = _numbers(version)[:length], limit[:length]
    if has_star or operator == "~=":
        is_same = ours == limit_start
        return is_same != (operator == "!=") and (operator != "~=" or _compare(version, text) >= 0)
    order = _compare(version, text)
    return {
        "==": order == 0,
        "!=": order != 0,
        "<=": order <= 0,
        ">=": order >= 0,
        "<": order < 0,
        ">": order > 0,
    }[operator]


def _compare(version: str, other: str) -> int:
    """-1, 0 or 1."""
    first, second = _numbers(version), _numbers(other)
    length = max(len(first), len(second))
    padded = [numbers + (0,) * (length - len(numbers)) for numbers in (first, second)]
    return (padded[0] > padded[1]) - (padded[0] < padded[1])


def _numbers(version: str) -> Tuple[int, ...]:
    """The numbers of the release: (0, 2, 0) of 0.2.0.dev1."""
    match = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(int(number) for number in match.group().split(".")) if match else ()
