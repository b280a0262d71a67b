"""Lift a script: what a dry run saw of it, as the words of a `toolkit run lift`.

That is possible where the train calls repeat, nothing else changes a variable between them, and
what they are fed is data, noise or constants. A call that the script makes for other reasons, to
evaluate or to draw, is left out.
"""

from __future__ import annotations

import os
from typing import Any, Dict, List, Tuple

import numpy as np

from toolkit import DrivenRun, UsageError, tf

_RANGES = ((0, 1), (-1, 1), (-0.5, 0.5), (0, 255))  # of the rows of pictures


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

    def guess(self) -> Tuple[str, str]:
        """The rule by which a lifted graph is fed the like (lift/rules.py), "" if there is none,
        and what the values are, in words.
        """
        first, low, high = self.first, self.low, self.high
        if not self.changes:
            words = f"constant {first.ravel()[0]}" if first.size == 1 else "constant"
            return (f"{low:g}" if low == high else ""), words
        if first.size == 1:
            return "", f"a scalar that changes, {low:g} to {high:g}"
        if self.is_returned:
            return "", "what a call before returned"
        span, deviation = max(abs(low), abs(high)), 0.0
        if first.dtype.kind == "f" and low < 0:
            deviation = float(np.std(first))
        if 0.9 < span <= 1 and abs(deviation - 3**-0.5) < 0.03:
            return "uniform:-1:1", "noise, uniform in [-1, 1]"
        if 2 < span < 6 and abs(deviation - 1) < 0.05:
            return "normal:0:1", "noise, normal"
        is_one_hot = first.ndim == 2 and first.shape[1] > 1 and np.isin(first, (0, 1)).all()
        if first.dtype.kind in "iub" or is_one_hot and (first.sum(1) == 1).all():
            return "labels" if first.ndim <= 2 else "", "rows of data"
        for least, most in _RANGES:
            if least <= low and high <= most and high - low > 0.9 * (most - least):
                scaled = f":range:{least:g}:{most:g}" if (least, most) != (0, 1) else ""
                return "features" + scaled, "rows of data"
        return "", "rows of data"


def list_words(seen: Any) -> List[str]:
    """The train ops, losses and feeds of a script.

    Args:
        seen: the `Observation` of it.

    Raises:
        UsageError: it cannot be lifted; the message says why.
    """
    kinds = seen.trained[: seen.period]
    if not kinds:
        raise UsageError("The script's train calls do not repeat.")
    if len(seen.training_graphs) > 1:
        raise UsageError(f"The script trains {len(seen.training_graphs)} graphs.")
    if seen.between:
        raise UsageError(f"'{seen.between[0]}' changes a variable between the train calls.")
    rules, sizes = {}, set()
    for name, values in seen.feeds.items():
        rule, what = values.guess()
        if not rule:
            raise UsageError(f"'{name}' is fed {what}{values.span}, for which there is no rule.")
        fed = [digests[name] for digests in seen.fed[: seen.period] if name in digests]
        if rule.startswith(("features", "labels")):
            is_parted = len(set(fed)) > 1  # among the calls of a period
            rule += ":part" * is_parted
            sizes.add(values.first.shape[0] * (len(fed) if is_parted else 1))
        elif rule.startswith(("uniform", "normal")) and len(set(fed)) < len(fed):
            rule += ":shared"
        rules[name] = rule
    if len(sizes) != 1:
        what = f"batches of {sorted(sizes)} rows" if sizes else "no rows of data"
        raise UsageError(f"A period of the script is fed {what}.")
    words = ["--train-op", ",".join("+".join(kind.updates) for kind in kinds)]
    losses = list(dict.fromkeys(loss.op.name for kind in kinds for loss in kind.losses))
    words += ["--losses", ",".join(losses)] if losses else []
    words += ["--feed", _join(rules), "--batch-size", str(sizes.pop())]
    known = {op.name for op in seen.training_graphs[0].get_operations()}
    others = {
        name: x.guess()[0]
        for name, x in seen.other_feeds.items()
        if not x.changes and name.partition(":")[0] in known  # and not in a graph besides
    }
    changed = {name: rule for name, rule in others.items() if rule not in ("", rules.get(name))}
    return [*words, *(["--infer-feed", _join(changed)] if changed else [])]


def _join(rules: Dict[str, str]) -> str:
    return ",".join(f"{name}={rule}" for name, rule in rules.items())


def write_graph(seen: Any, folder: str) -> str:
    """Write the graph, and its variables as they were before the first train call.

    Args:
        seen: the `Observation`, whose graph is as the script wrote it.
        folder: for the files.

    Returns:
        The path of the file .meta.
    """
    os.makedirs(folder, exist_ok=True)
    prefix = os.path.join(folder, "graph")
    tf.train.export_meta_graph(prefix + ".meta", graph=seen.training_graphs[0])
    DrivenRun.write_tensors(prefix, seen.initial)
    return prefix + ".meta"
