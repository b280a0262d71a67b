"""What a hook returned, in few words: without addresses, and without the numbers of an array."""

from __future__ import annotations

import inspect
from typing import Any

MAX_LENGTH = 40  # of the text of a value


def describe_value(value: Any) -> str:
    """Describe a value with its article: `a list of 2`, `a tensor float32 [4]`, `1.0`."""
    if inspect.isclass(value):
        return f"the class {value.__name__}"
    if inspect.iscoroutine(value):
        value.close()  # Python would warn that nobody waits for it
        return "a coroutine"
    if inspect.isgenerator(value):
        return "a generator"
    if isinstance(value, (tuple, list, dict, set)):
        text = repr(value)
        is_readable = len(text) <= MAX_LENGTH and "<" not in text and "\n" not in text
        return text if is_readable else f"a {type(value).__name__} of {len(value)}"
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        return _describe_tensor(value)
    if value is None or isinstance(value, (bool, int, float, str, bytes)):
        text = repr(value)
        return text if len(text) <= MAX_LENGTH else text[:MAX_LENGTH] + "..."
    name = type(value).__name__
    return f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}"


def _describe_tensor(value: Any) -> str:
    """`a tensor float32 [4, 3]`; an array or a number of numpy in the same way."""
    module = type(value).__module__.split(".")[0]
    dtype = getattr(value.dtype, "name", str(value.dtype))
    if module == "numpy":
        shape = list(value.shape)
        return f"an array {dtype} {shape}" if shape else f"numpy's {dtype} {value}"
    kind = "variable" if hasattr(value, "assign") else "tensor"
    rank = value.shape.ndims if hasattr(value.shape, "ndims") else len(value.shape)
    if rank is None:
        return f"a {kind} {dtype} of unknown shape"
    sizes = ["?" if size is None else str(size) for size in value.shape.as_list()]
    return f"a {kind} {dtype} [{', '.join(sizes)}]"
