"""`Group`: variables that a pattern selects, with a learning rate or weight decay of their own, or
frozen.
"""

from __future__ import annotations

import dataclasses
import fnmatch
import math
from typing import Any, Dict, Iterable, List, Optional

from ..errors import UsageError, suggest


@dataclasses.dataclass(frozen=True)
class Group:
    """Variables that train in a way of their own. The first group that fits a variable holds.

    Attributes:
        pattern: of the variables' names, with the wildcards of a shell: `conv1/*`, `*/bias`,
            `*[12]/kernel`. A `*` fits any text, slashes included.
        learning_rate: in the place of the update's full rate; it has the same schedule.
        weight_decay: in the place of the update's.
        frozen: the variables stay as they are: no gradient, no decay, no slots of an optimizer,
            and no update of batch norm's averages among them.

    Raises:
        UsageError: the pattern is empty, or a value is none that a group can have.
    """

    pattern: str
    learning_rate: Optional[float] = None
    weight_decay: Optional[float] = None
    frozen: bool = False

    def __post_init__(self) -> None:
        check_pattern(self.pattern)
        for name in ("learning_rate", "weight_decay"):
            fault = _number_fault(getattr(self, name), name)
            if fault:
                raise self._error(f"{name} is {getattr(self, name)!r}, but {fault}")
        if not isinstance(self.frozen, bool):
            raise self._error(f"frozen is {self.frozen!r}, but should be true or false")
        if self.frozen and (self.learning_rate, self.weight_decay) != (None, None):
            raise self._error("frozen variables have neither a learning rate nor a decay")

    def _error(self, fault: str) -> UsageError:
        return UsageError(f"Group '{self.pattern}': {fault}.")

    def fits(self, name: str) -> bool:
        """Whether the pattern fits the name of a variable, such as `conv1/kernel`."""
        return fnmatch.fnmatchcase(name, self.pattern)


def check_pattern(pattern: Any) -> None:
    """Raise UsageError for a pattern that is no text, or blank, or has a comma or a colon."""
    if not isinstance(pattern, str) or not pattern.strip():
        raise UsageError(
            f"The pattern {pattern!r} of variables is empty.", hint="For all variables, write '*'."
        )
    if {",", ":"} & set(pattern):
        raise UsageError(
            f"The pattern '{pattern}' has a comma or a colon, which no variable's name has.",
            hint="A name is written without ':0'; [ab] fits a or b.",
        )


def parse_group(text: str) -> Group:
    """Read a group such as `conv*:learning_rate=1e-4,weight_decay=0`. Raises UsageError."""
    pattern, colon, settings = text.partition(":")
    pairs = [part.partition("=") for part in settings.split(",")]
    if not colon or not all(equals for _, equals, _ in pairs):
        raise UsageError(
            f"'{text}' is no group of variables.",
            hint="Write PATTERN:learning_rate=X,weight_decay=X or PATTERN:frozen=true.",
        )
    values: Dict[str, Any] = {}
    for name, _, value in pairs:
        name = name.strip().replace("-", "_")
        if name in values:
            raise UsageError(f"'{text}' sets {name} twice.")
        values[name] = _parse_setting(text, name, value.strip())
    return Group(pattern.strip(), **values)


def format_group(group: Group) -> str:
    """Write a group as the text that `parse_group` reads."""
    settings = {"learning_rate": group.learning_rate, "weight_decay": group.weight_decay}
    pairs = [f"{name}={float(value)!r}" for name, value in settings.items() if value is not None]
    if group.frozen or not pairs:
        pairs.append(f"frozen={str(group.frozen).lower()}")
    return f"{group.pattern}:{','.join(pairs)}"


def join_groups(texts: Iterable[str]) -> List[str]:
    """The texts of groups, put together again where they were divided at commas.

    A group begins with its pattern and a colon; a setting that follows has no colon.
    """
    groups: List[str] = []
    for text in texts:
        if groups and ":" not in text:
            groups[-1] += "," + text
        else:
            groups.append(text)
    return groups


_SETTINGS = ("learning_rate", "weight_decay", "frozen")
_BOOLEANS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


def _parse_setting(text: str, name: str, value: str) -> Any:
    if name not in _SETTINGS:
        raise UsageError(f"'{text}' sets '{name}'.", hint=suggest(name, _SETTINGS))
    if name == "frozen":
        return _BOOLEANS.get(value.lower(), value)
    try:
        return float(value)
    except ValueError:
        raise UsageError(f"'{text}' sets {name} to '{value}', which is no number.") from None


def _number_fault(value: Any, name: str) -> str:
    """Why a value cannot be a group's learning rate or weight decay, as a clause; '' if it can."""
    if value is None:
        return ""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return "should be a number"
    if not math.isfinite(value) or value < 0:
        return "should be a finite number that is not negative"
    if name == "learning_rate" and value == 0:
        return "should be greater than 0; set frozen to leave variables as they are"
    return ""
