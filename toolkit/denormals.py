"""Flush denormal numbers to zero in the calling thread, as TensorFlow does in its own threads.

An op that runs in the thread of the caller would keep numbers below 1.2e-38 that the same op in
TensorFlow's pool makes zero: other bits, and a hundred times the time for each. The processor's
state for that is in C's floating-point environment, whose layout is known for the C libraries of
Linux on x86-64 (a register MXCSR with FTZ and DAZ) and on ARM (FPCR with FZ).
"""

from __future__ import annotations

import ctypes
import functools
import platform
from typing import Any, Callable, Optional, Tuple

import numpy as np

# Machine -> the place of the register among the 32-bit words of `fenv_t`, and the bits to be set.
_REGISTERS = {"x86_64": (7, 0x8040), "aarch64": (0, 1 << 24)}
_NUM_WORDS = 64  # more than any `fenv_t` has


def can_flush() -> bool:
    """Whether a thread of this process can be told to flush denormal numbers."""
    return _environments() is not None


def flushing(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that calls another one while its thread flushes denormal numbers."""
    environments = _environments()
    assert environments is not None, "see can_flush"
    set_environment, usual, flushed = environments

    def call(*args: Any) -> Any:
        set_environment(flushed)
        try:
            return function(*args)
        finally:
            set_environment(usual)

    return call


@functools.lru_cache(maxsize=None)
def _environments() -> Optional[Tuple[Callable[[Any], int], Any, Any]]:
    """The function that sets an environment, the usual one, and the one that flushes."""
    register = _REGISTERS.get(platform.machine())
    if platform.system() != "Linux" or register is None:
        return None
    try:
        library = ctypes.PyDLL("libm.so.6")  # keeps Python's lock, as the calls are short
    except OSError:
        return None
    word, bits = register
    usual, flushed = (ctypes.c_uint32 * _NUM_WORDS)(), (ctypes.c_uint32 * _NUM_WORDS)()
    library.fegetenv(usual)
    library.fegetenv(flushed)
    flushed[word] |= bits
    library.fesetenv(flushed)
    is_flushed = float(np.float32(1e-38) * np.float32(0.1)) == 0.0
    library.fesetenv(usual)
    return (library.fesetenv, usual, flushed) if is_flushed else None
