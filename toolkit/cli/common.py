"""Shared by the commands that use a trained run."""

from __future__ import annotations

import sys
from typing import Iterable, Optional

from ..api import Trained, open_trained
from ..cli_options import warn


def open_with_warnings(path: str, checkpoint: Optional[str]) -> Trained:
    """Open a trained run; warn of each damaged checkpoint that is not used."""
    return open_trained(path, checkpoint, warn)


def print_details(lines: Iterable[str]) -> None:
    """Print the further lines of a plugin's scorers, below the metrics."""
    for line in lines:
        sys.stdout.write(f"{'':8}{line}\n")
