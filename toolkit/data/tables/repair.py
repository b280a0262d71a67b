"""All that keeps a table from being used, in one error, with the options that would do."""

from __future__ import annotations

import shlex
from typing import Any, Callable, List

from ...errors import DataError, ToolkitError
from ..examples import Dataset
from ..reading_options import ColumnOptions


class TableFault(DataError):
    """A fault that options repair.

    Args:
        repair: fields of `ColumnOptions` that would do; names of columns come to those before.
    """

    def __init__(self, message: str, hint: str, **repair: Any):
        super().__init__(message, hint)
        self.repair = repair


def read_with_all_faults(
    read: Callable[[ColumnOptions], Dataset], options: ColumnOptions
) -> Dataset:
    """What `read` returns for the options.

    Raises:
        ToolkitError: the only fault, as `read` raised it.
        DataError: all faults, and the options with which there would be none.
    """
    faults: List[ToolkitError] = []
    repaired = options
    while True:
        try:
            dataset = read(repaired)
            break
        except TableFault as fault:
            faults.append(fault)
            for name, value in fault.repair.items():
                if isinstance(value, tuple):
                    value = (*getattr(repaired, name), *value)
                repaired = repaired._replace(**{name: value})
        except ToolkitError as error:  # which no option repairs
            faults.append(error)
            break
    if not faults:
        return dataset
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
