"""The variables of a model: how many numbers they are, which of them training changes, and whether
they fit in the machine's memory before a session allocates it.
"""

from __future__ import annotations

import re
from typing import Any, Dict, List, Optional, Sequence

from ..compat import tf
from ..errors import UsageError
from .run import Run, step_builder_of

# Where Linux says how much memory there is: the machine's, and the limits of containers (cgroups).
_MEMORY_FILES = (
    ("/proc/meminfo", r"MemAvailable:\s*(\d+) kB", 1024),
    ("/sys/fs/cgroup/memory.max", r"(\d+)", 1),
    ("/sys/fs/cgroup/memory/memory.limit_in_bytes", r"(\d+)", 1),
)


def check_model_size(variables: Sequence[Any]) -> None:
    """Refuse variables that do not fit in the available memory. Raises UsageError, with their size
    and the largest of them.
    """
    sizes = {v: (v.shape.num_elements() or 0) * int(v.dtype.base_dtype.size) for v in variables}
    total, available = sum(sizes.values()), available_memory()
    if available is None or total <= available:
        return
    largest = max(variables, key=lambda v: sizes[v])
    raise UsageError(
        f"The model's variables and their slots take {total / 1e9:,.1f} GB, and "
        f"{available / 1e9:,.1f} GB are available: '{largest.op.name}' alone is "
        f"{largest.shape.as_list()}.",
        hint="Choose a smaller network.",
    )


def available_memory() -> Optional[int]:
    """The bytes that a process may have; None where the system does not say."""
    counts = []
    for path, pattern, unit in _MEMORY_FILES:
        try:
            with open(path) as file:
                match = re.search(pattern, file.read())
        except OSError:
            continue
        if match:
            counts.append(unit * int(match.group(1)))
    return min(counts, default=None)


def list_model_variables(run: Run, tf_graph: tf.Graph) -> List[Dict[str, Any]]:
    """The variables of the model of a run's training graph, in the order of their creation, as JSON
    values. Not trained are averages, such as those of batch norm, and what is frozen.
    """
    builder = step_builder_of(run)
    trained = {v.op.name for v in tf_graph.get_collection(tf.GraphKeys.TRAINABLE_VARIABLES)}
    trained -= builder.frozen_variables()
    variables = []
    for v in builder.model_variables:
        numbers, dtype = int(v.shape.num_elements() or 0), v.dtype.base_dtype
        facts = {
            "name": v.op.name,
            "shape": [int(n or 0) for n in v.shape.as_list()] if v.shape.rank is not None else [],
            "dtype": dtype.name,
            "numbers": numbers,
            "bytes": numbers * dtype.size,
            "is_trained": v.op.name in trained,
        }
        variables.append(facts)
    return variables


def count_parameters(variables: Sequence[Dict[str, Any]]) -> Dict[str, int]:
    """How many numbers some of these variables have, how many of them training changes, and how
    many variables they are.
    """
    trained = sum(variable["numbers"] for variable in variables if variable["is_trained"])
    total = sum(variable["numbers"] for variable in variables)
    return {"parameters": total, "trainable": trained, "variables": len(variables)}
