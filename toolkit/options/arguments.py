"""`OptimizerArguments`: the type of an option with the arguments of an optimizer."""

from __future__ import annotations

from typing import Any, Dict, Union

import pydantic
from typing_extensions import Annotated

BOOLEANS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


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
    """Read what a flag has as text; TOML and JSON have numbers and booleans."""
    if not isinstance(value, dict):
        return value
    return {name: _read_argument(argument) for name, argument in value.items()}


# Name -> number, boolean or text; as text `beta1=0.5,use_nesterov=true`.
OptimizerArguments = Annotated[
    Dict[str, Union[bool, float, str]], pydantic.BeforeValidator(_read_arguments)
]
