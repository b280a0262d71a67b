"""Extract the one informative line of a TensorFlow error."""

from __future__ import annotations

import re

_NOISE = ("Graph exec", "Detected", "File", "Node:", "[[")
_TEMPORARY = re.compile(r"\S*\.tempstate\S*\s*")  # a file that the user will never see


def summarize_tf_error(message: str) -> str:
    """The first line that is neither part of a stack nor the decoration of a node, without a full
    stop at its end.
    """
    lines = [line.strip() for line in _TEMPORARY.sub("", message).split("\n") if line.strip()]
    informative = [line for line in lines if not line.startswith(_NOISE)]
    return (informative or lines or ["?"])[0].rstrip(".")
