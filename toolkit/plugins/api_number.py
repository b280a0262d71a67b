"""The number of the interface between the toolkit and its plugins.

A plugin may state the number that it is written for, as `TOOLKIT_API = 1` in its module or class. A
change that breaks plugins raises `toolkit.API`.
"""

from __future__ import annotations

from typing import Any

from ..hookspecs import API

NAME = "TOOLKIT_API"


def describe_other_api(number: Any) -> str:
    """`is written for API 2 of the toolkit, this is API 1`; "" if it is this one or None."""
    if number is None or (number == API and not isinstance(number, bool)):
        return ""
    return f"is written for API {number!r} of the toolkit, this is API {API}"
