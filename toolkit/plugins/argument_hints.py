"""The way out of an exception of a hook, where it follows from what the hook was called with."""

from __future__ import annotations

import re
from typing import Any, Iterable, Mapping, Sequence

from ..errors import suggest

_STRUCTURES = {"outputs": "the outputs of 'call' are", "losses": "the losses are"}


def explain_with_arguments(
    error: BaseException, lines: Sequence[str], arguments: Mapping[str, Any]
) -> str:
    """The way out, one sentence; "" where the arguments do not explain the exception.

    Args:
        error: that a hook raised.
        lines: the plugin's lines of code in the traceback.
        arguments: of the hook, by name.
    """
    run, text = arguments.get("run"), str(error)
    cls = type(getattr(run, "options", None))
    match = re.search(r"'(\w+)' object has no attribute '(\w+)'", text)
    if isinstance(error, AttributeError) and match and match.group(1) == cls.__name__:
        near = _nearest(match.group(2), getattr(cls, "model_fields", ()))
        return f"{near}A plugin declares its options in a class that its hook 'options' returns."
    for name, key in re.findall(r"\b(\w+)\[[\"'](\w+)[\"']\]", lines[-1] if lines else ""):
        value = arguments.get(name)
        if isinstance(value, dict) and isinstance(error, KeyError) and key not in value:
            names = ", ".join(f"'{known}'" for known in value) or "none"
            what = _STRUCTURES.get(name, f"the {name} are")
            return f"{_nearest(key, map(str, value))}Here {what} {names}."
        if name in ("features", "labels") and value is not None and not isinstance(value, dict):
            return f"The {name} of this data are one tensor: write '{name}' without a name."
    is_predicted = getattr(run, "mode", "") == "predict" and re.search(r"\bNone\b|NoneType", text)
    if is_predicted and arguments.get("labels", 0) is None:
        hint = (
            "'labels' is None in mode \"predict\": use them in 'loss' alone, or where run.mode is "
        )
        return hint + "another."
    return ""


def _nearest(name: str, names: Iterable[str]) -> str:
    """`Did you mean 'x'? `, or "" where no name is like it."""
    near = suggest(name, names)
    return near + " " if near.startswith("Did you mean") else ""
