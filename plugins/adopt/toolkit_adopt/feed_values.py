"""What the values of a fed tensor look like: data, noise, or a constant."""

from __future__ import annotations

from typing import Any, List, Tuple

import numpy as np

_RANGES = ((0, 1), (-1, 1), (-0.5, 0.5), (0, 255))  # of the rows of pictures
_NOISE = {"uniform:-1:1": "noise, uniform in [-1, 1]", "normal:0:1": "noise, normal"}


class FeedValues:
    """The values of one fed tensor, call by call."""

    def __init__(self) -> None:
        self.first: Any = None
        self.shapes: List[Tuple[int, ...]] = []
        self.low, self.high = np.inf, -np.inf
        self.changes = False
        self.is_returned = False  # whether calls before had returned one of them

    def add(self, value: np.ndarray, is_returned: bool = False) -> None:
        """Take one more value into account; `is_returned` if a call before had returned it."""
        if self.first is None:
            self.first = value
        self.changes = self.changes or not np.array_equal(value, self.first)
        self.is_returned = self.is_returned or is_returned
        if value.shape not in self.shapes:
            self.shapes.append(value.shape)
        if value.dtype.kind in "fiub" and value.size:
            self.low = min(self.low, float(value.min()))
            self.high = max(self.high, float(value.max()))

    @property
    def span(self) -> str:
        """` in [LOW, HIGH]`; "" for texts."""
        return f" in [{self.low:.4g}, {self.high:.4g}]" if self.low <= self.high else ""

    def describe(self) -> str:
        """What the values are, in words."""
        if not self.changes:
            return f"constant {self.first.ravel()[0]}" if self.first.size == 1 else "constant"
        if self.first.size == 1:
            return f"a scalar that changes, {self.low:g} to {self.high:g}"
        if self.is_returned:
            return "what a call before returned"
        return _NOISE.get(self._noise(), "rows of data")

    def rule(self) -> str:
        """The rule by which a lifted graph is fed the like (lift/rules.py); "" if there is none."""
        first = self.first
        if not self.changes:
            return f"{self.low:g}" if self.low == self.high else ""
        if first.size == 1 or self.is_returned or first.dtype.kind not in "fiub":
            return ""
        if self._noise():
            return self._noise()
        is_one_hot = first.ndim == 2 and first.shape[1] > 1 and np.isin(first, (0, 1)).all()
        if first.dtype.kind != "f" or is_one_hot and (first.sum(1) == 1).all():
            return "labels" if first.ndim <= 2 else ""
        for low, high in _RANGES:
            if low <= self.low and self.high <= high and self.high - self.low > 0.9 * (high - low):
                return "features" if (low, high) == (0, 1) else f"features:range:{low:g}:{high:g}"
        return ""

    def _noise(self) -> str:
        """The rule of the noise that they are; "" for none."""
        span = max(abs(self.low), abs(self.high))
        deviation = float(np.std(self.first)) if self.first.dtype.kind == "f" else 0.0
        if self.low < 0 and 0.9 < span <= 1 and abs(deviation - 3**-0.5) < 0.03:
            return "uniform:-1:1"
        return "normal:0:1" if self.low < 0 and 2 < span < 6 and abs(deviation - 1) < 0.05 else ""
