"""What a contract is, and how one is checked."""

from __future__ import annotations

import time
from typing import Any, Callable, Iterable, List, Mapping, NamedTuple, Optional, Set

import numpy as np

from ...display.waits import waiting
from ...errors import InterruptedRun, RetryError, ToolkitError, join_names
from ...plugins import describe_failure
from ..subject import Subject, Unavailable

OK, FAILED, SKIPPED = "ok", "failed", "skipped"


class Skip(Exception):
    """A contract does not apply; the message says why."""


class Contract(NamedTuple):
    """Something that every plugin keeps.

    Attributes:
        name: words with hyphens.
        title: what holds, a sentence without a full stop.
        check: takes a `Subject`; raises AssertionError or ToolkitError if the plugin breaks the
            contract, and Skip if the contract does not apply.
    """

    name: str
    title: str
    check: Callable[[Subject], Any]


class Result(NamedTuple):
    """The result of checking a contract.

    Attributes:
        name, title: of the contract.
        status: "ok", "failed" or "skipped".
        message: what is wrong and how to mend it, or why the contract does not apply.
        seconds: that the check took.
    """

    name: str
    title: str
    status: str
    message: str
    seconds: float


ALL: List[Contract] = []  # in the order in which they are checked


def contract(check: Callable[[Subject], None]) -> Callable[[Subject], None]:
    """Register a function as a contract; its docstring is the contract's title."""
    title = (check.__doc__ or "").strip().split("\n")[0].rstrip(".")
    ALL.append(Contract(check.__name__.replace("_", "-"), title, check))
    return check


def require(condition: Any, message: str, remedy: str) -> None:
    """Raise AssertionError unless a condition holds.

    Args:
        condition: what has to hold.
        message: what is wrong, a sentence with values.
        remedy: how to mend it, a sentence.
    """
    if not condition:
        raise AssertionError(f"{message} {remedy}")


def find_differences(first: Mapping[str, Any], second: Mapping[str, Any]) -> Set[str]:
    """The names of the arrays whose bits differ, or that one side lacks."""
    return {
        name
        for name in {*first, *second}
        if name not in first
        or name not in second
        or np.asarray(first[name]).tobytes() != np.asarray(second[name]).tobytes()
    }


def require_same(
    first: Mapping[str, Any], second: Mapping[str, Any], event: str, remedy: str
) -> None:
    """Raise AssertionError unless the variables of two graphs have the same bits."""
    names = find_differences(first, second)
    require(not names, f"The variables {join_names(names)} differ {event}.", remedy)


def check_contract(contract: Contract, subject: Subject) -> Result:
    """Check one contract, and return the result."""
    start, status, message = time.perf_counter(), FAILED, ""
    try:
        contract.check(subject)
        status = OK
    except (Skip, Unavailable) as reason:
        status, message = SKIPPED, str(reason)
    except (InterruptedRun, RetryError, MemoryError):  # no fault of the plugin
        raise
    except AssertionError as error:
        message = str(error)
    except ToolkitError as error:
        message = " ".join(filter(None, [error.message, error.hint]))
    except Exception as error:
        file = "" if subject is None else subject.plugins.model.file  # None: of a command
        message = describe_failure(error, file).text + "."
    seconds = time.perf_counter() - start
    return Result(contract.name, contract.title, status, message, seconds)


def check_contracts(
    subject: Subject,
    contracts: Optional[Iterable[Contract]] = None,
    report: Callable[[Result], None] = lambda result: None,
    is_short: bool = False,
) -> List[Result]:
    """Check contracts one after the other.

    Args:
        subject: what to check.
        contracts: None for all.
        report: called with each result as it is known.
        is_short: whether to end at the first broken one.
    """
    results = []
    for each in ALL if contracts is None else contracts:
        with waiting(f"Checking {each.name}", is_logged=False):
            result = check_contract(each, subject)
        report(result)
        results.append(result)
        if is_short and result.status == FAILED:
            break
    return results
