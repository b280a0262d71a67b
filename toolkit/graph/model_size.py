"""The size of a model, compared with the machine's memory before a session allocates it."""

from __future__ import annotations

from typing import Any, Sequence

from ..data.files.memory import available_memory, format_bytes
from ..errors import UsageError


def check_model_size(variables: Sequence[Any]) -> None:
    """Refuse variables that do not fit in the available memory.

    Raises:
        UsageError: names their size and the largest of them.
    """
    sizes = {v: _num_bytes(v) for v in variables}
    total, available = sum(sizes.values()), available_memory()
    if available is None or total <= available:
        return
    largest = max(variables, key=lambda v: sizes[v])
    raise UsageError(
        f"The model's variables and their slots take {format_bytes(total)}, and "
        f"{format_bytes(available)} are available: '{largest.op.name}' alone is "
        f"{largest.shape.as_list()}.",
        hint="Choose a smaller network.",
    )


def _num_bytes(variable: Any) -> int:
    return (variable.shape.num_elements() or 0) * int(variable.dtype.base_dtype.size)
