"""All that keeps a table from being used, in one error, with the options that would do."""

from __future__ import annotations

import shlex
from typing import Any, Callable, List, TypeVar

from ...errors import DataError, ToolkitError
from ..reading_options import ColumnOptions

Rows = TypeVar("Rows")


class TableFault(DataError):
    """A fault that options repair.

    Args:
        repair: fields of `ColumnOptions` that would do; names of columns come to those before.
    """

    def __init__(self, message: str, hint: str, **repair: Any):
        super().__init__(message, hint)
        self.repair = repair


def read_with_all_faults(read: Callable[[ColumnOptions], Rows], options: ColumnOptions) -> Rows:
    """The rows that `read` returns for the options.

    Raises:
        TableFault: the only fault, as `read` raised it.
        DataError: all faults, and the options with which there would be none.
    """
    faults: List[ToolkitError] = []
    repaired = options
    while True:
        try:
            rows = read(repaired)
            break
        except TableFault as fault:
            faults.append(fault)
            values = repaired._asdict()
            for name, value in fault.repair.items():
                values[name] = (*values[name], *value) if isinstance(value, tuple) else value
            repaired = ColumnOptions(**values)
        except ToolkitError as error:  # which no option repairs
            if not faults:
                raise
            faults.append(error)
            break
    if not faults:
        return rows
    if len(faults) == 1:
        raise faults[0]
    message = "; ".join(fault.message.rstrip(".") for fault in faults)
    hint = faults[-1].hint
    if isinstance(faults[-1], TableFault):
        flags = []
        for name, value in repaired._asdict().items():
            if value != getattr(options, name):
                text = ",".join(value) if isinstance(value, tuple) else value
                flags.append(f"--{name.replace('_', '-')} {shlex.quote(text)}")
        hint = f"These options would do: {' '.join(flags)}"
    raise DataError(message + "." * (not message.endswith("?")), hint=hint)
