"""The telling line of a TensorFlow error, which comes with a stack and the decoration of a node."""

from __future__ import annotations

import re

_NOISE = ("Graph exec", "Detected", "File", "Node:", "[[")
_TEMPORARY = re.compile(r"\S*\.tempstate\S*\s*")  # a file that the user will never see


def telling(message: str) -> str:
    """One line without a full stop at its end."""
    lines = [line.strip() for line in _TEMPORARY.sub("", message).split("\n") if line.strip()]
    found = [line for line in lines if not line.startswith(_NOISE)]
    return (found or lines or ["?"])[0].rstrip(".")
