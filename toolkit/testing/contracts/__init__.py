"""Contracts that every plugin keeps, each a small function of a `Subject`.

    with testing.Subject("my_plugin", folder) as subject:
        results = testing.contracts.check_contracts(subject)

In tests, the fixture `contract` of `toolkit.testing.fixtures` is each of them in turn.

declarations: hooks and options.
graphs: what the hooks build.
steps: what training steps change.
runs: whole runs, paused and resumed.
trained: what is done with a checkpoint: evaluate, predict, export.
combinations: extensions and the plugin that they extend.
"""

from . import declarations, graphs, steps, runs, trained, combinations  # noqa: F401, I001
from .registry import (
    ALL,
    FAILED,
    OK,
    SKIPPED,
    Contract,
    Result,
    Skip,
    check_contract,
    check_contracts,
)

__all__ = [
    "ALL",
    "FAILED",
    "OK",
    "SKIPPED",
    "Contract",
    "Result",
    "Skip",
    "check_contract",
    "check_contracts",
]
