"""`Group`: variables that a pattern selects, with a learning rate or weight decay of their own, or
frozen; and `OptimizerArguments`, the type of an option with the arguments of an optimizer.
"""

from __future__ import annotations

import dataclasses
import fnmatch
import math
from typing import Any, Dict, Optional, Union

import pydantic
from typing_extensions import Annotated

from ..errors import UsageError, suggest

BOOLEANS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
_RATES = ("learning_rate", "weight_decay")


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
        fault = ""
        for name in _RATES:
            value: Any = getattr(self, name)
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                fault = "should be a number"
            elif not math.isfinite(value) or value < 0:
                fault = "should be a finite number that is not negative"
            elif not value and name == "learning_rate":
                fault = "should be greater than 0; set frozen to leave variables as they are"
            if fault:
                raise UsageError(f"Group '{self.pattern}': {name} is {value!r}, but {fault}.")
        if not isinstance(self.frozen, bool):
            fault = f"frozen is {self.frozen!r}, but should be true or false"
        elif self.frozen and (self.learning_rate, self.weight_decay) != (None, None):
            fault = "frozen variables have neither a learning rate nor a decay"
        if fault:
            raise UsageError(f"Group '{self.pattern}': {fault}.")

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
        name, value = name.strip().replace("-", "_"), value.strip()
        if name in values:
            raise UsageError(f"'{text}' sets {name} twice.")
        if name not in (*_RATES, "frozen"):
            raise UsageError(f"'{text}' sets '{name}'.", hint=suggest(name, [*_RATES, "frozen"]))
        try:
            values[name] = BOOLEANS.get(value.lower(), value) if name == "frozen" else float(value)
        except ValueError:
            message = f"'{text}' sets {name} to '{value}', which is no number."
            raise UsageError(message) from None
    return Group(pattern.strip(), **values)


def _read_argument(value: Any) -> Any:
    """Return the boolean or number that a text is, or else the value; integers as floats."""
    if isinstance(value, str):
        if value.lower() in BOOLEANS:
            return BOOLEANS[value.lower()]
        try:
            return float(value) if value.isascii() else value
        except ValueError:
            return value
    if isinstance(value, (bool, float)):
        return value
    if not isinstance(value, int) or abs(value) >= 2**63:
        raise ValueError("should be numbers, true, false or text")
    return float(value)


def _read_arguments(value: Any) -> Any:
    return {n: _read_argument(v) for n, v in value.items()} if isinstance(value, dict) else value


# Name -> number, boolean or text; as text `beta1=0.5,use_nesterov=true`.
OptimizerArguments = Annotated[
    Dict[str, Union[bool, float, str]], pydantic.BeforeValidator(_read_arguments)
]
