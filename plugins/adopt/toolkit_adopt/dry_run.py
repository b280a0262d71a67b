"""Dry run: two periods of a script, then a table of what it does and of what would be refused.

A *period* is the shortest series of train calls that repeats. Nothing is journaled and no run is
begun; the script trains for so long, and writes its own files.
"""

from __future__ import annotations

import os
import sys
from typing import Any, Dict, List, Mapping, Sequence

import numpy as np

from toolkit import ToolkitError

from . import script
from .calls import Calls, Kind
from .entropy import fix_entropy
from .noise import make_stateless, with_number
from .order import Order
from .patches import Patches
from .session import Sessions

_LEAST, _MOST = 12, 200  # train calls in which a period is looked for


class _Enough(SystemExit):
    """Two periods are seen."""


class Observation:
    """What a dry run has seen.

    Attributes:
        kinds: of all calls, with how often each was made.
        trained: the kinds of the train calls in their order.
        feeds: what each fed tensor got: name -> `FeedValues`.
        graphs: the graphs of sessions.
        files: what it wrote in its working directory.
        refusal: why the script cannot be driven; None if it can.
    """

    def __init__(self, path: str):
        self.kinds: Dict[str, List[Any]] = {}
        self.trained: List[Kind] = []
        self.feeds: Dict[str, FeedValues] = {}
        self.graphs: List[Any] = []
        self.files: List[str] = []
        self.refusal: Any = None
        self._calls, self._order = Calls(path), Order()
        self.refuse = self._calls.refusal
        self._number = 0

    def observe(self, patches: Patches, settings: Mapping[str, Any]) -> None:
        """Patch what the script calls."""
        fix_entropy(patches, settings["seed"])
        make_stateless(patches, settings["seed"])
        self._calls.record_losses(patches)
        sessions = Sessions(
            self._answer,
            lambda name, read: read(),
            lambda number, session: None,
            self.refuse,
            settings["threads"],
        )
        sessions.install(patches, os.path.dirname(settings["script"]))

    def _answer(self, session, targets, fetches, feeds, run) -> List[Any]:
        self._number += 1
        gates = self._order.complete(session.graph)
        if session.graph not in self.graphs:
            self.graphs.append(session.graph)
        try:
            kind = self._calls.find(session.graph, targets, fetches, feeds, gates)
        except ToolkitError as error:
            self.refusal = error
            raise
        self.kinds.setdefault(kind.text, [kind, 0])[1] += 1
        for name, value in zip(kind.feeds, feeds.values()):
            self.feeds.setdefault(name, FeedValues()).add(value)
        values = run(feeds={**with_number(session.graph, feeds, self._number), **kind.closed})
        if kind.trains:
            self.trained.append(kind)
            if len(self.trained) >= _MOST or find_period(self.trained):
                raise _Enough(0)
        result: List[Any] = values
        return result


class FeedValues:
    """The values of one fed tensor."""

    def __init__(self) -> None:
        self.first: Any = None
        self.shapes: List[Any] = []
        self.low, self.high = np.inf, -np.inf
        self.changes = False

    def add(self, value: np.ndarray) -> None:
        """Take one more value into account."""
        if self.first is None:
            self.first = value
        self.changes = self.changes or not np.array_equal(value, self.first)
        if value.shape not in self.shapes:
            self.shapes.append(value.shape)
        if value.dtype.kind in "fiub" and value.size:
            self.low = min(self.low, float(value.min()))
            self.high = max(self.high, float(value.max()))

    def guess(self) -> str:
        """What the values look like, in words."""
        if not self.changes:
            is_scalar = self.first.size == 1
            return f"constant {self.first.ravel()[0]}" if is_scalar else "constant"
        if self.first.size == 1:
            return f"a scalar that changes, {self.low:g} to {self.high:g}"
        span = max(abs(self.low), abs(self.high))
        is_float = self.first.dtype.kind == "f"
        deviation = float(np.std(self.first)) if is_float else 0.0
        if self.low < 0 and 0.9 < span <= 1 and abs(deviation - 3**-0.5) < 0.03:
            return "noise, uniform in [-1, 1]"
        if self.low < 0 and 2 < span < 6 and abs(deviation - 1) < 0.05:
            return "noise, normal"
        return "rows of data"


def find_period(kinds: Sequence[Kind]) -> int:
    """How many train calls repeat; 0 if no period is seen twice in at least 12 calls."""
    texts = [kind.text for kind in kinds]
    if len(texts) < _LEAST:
        return 0
    for length in range(1, len(texts) // 2 + 1):
        if all(text == texts[place % length] for place, text in enumerate(texts)):
            return length
    return 0


def observe(settings: Mapping[str, Any]) -> Observation:
    """Run a script for two periods of its train calls.

    Args:
        settings: as of a run: "script", "args", "directory", "seed" and "threads".

    Raises:
        ToolkitError: the script failed before that.
    """
    path = settings["script"]
    seen = Observation(path)
    before = _list_files(settings["directory"])
    try:
        with Patches() as patches:
            seen.observe(patches, settings)
            with script.prepared(path, settings["args"], settings["directory"], seen.refuse):
                script.run(path)
    except SystemExit:
        pass
    except ToolkitError as error:
        seen.refusal = error
    except Exception as error:
        if seen.refusal is None:
            raise ToolkitError(
                f"{os.path.basename(path)} failed: {type(error).__name__}: {error}.",
                hint="See that it runs with its arguments; -v shows the traceback.",
            ) from error
    seen.files = sorted(_list_files(settings["directory"]) - before)
    return seen


def list_lines(seen: Observation) -> List[str]:
    """The table of an observation, line by line."""
    rows = []
    for number, graph in enumerate(seen.graphs):
        ops = graph.get_operations()
        noise = sum(1 for op in ops if op.type.startswith("Stateless"))
        sizes = [v.shape.num_elements() or 0 for v in graph.get_collection("trainable_variables")]
        rows.append(
            (
                "graph" if number == 0 else "",
                f"{len(ops)} ops, {len(sizes)} trainable variables with {sum(sizes)} numbers, "
                f"{noise} ops that draw noise",
            )
        )
    period = find_period(seen.trained)
    shown = seen.trained[: period or 6]
    rows.append(("period", f"{period} train calls" if period else "none found"))
    rows += [("", f"{place}: {kind.title}") for place, kind in enumerate(shown, 1)]
    others = [(kind, count) for kind, count in seen.kinds.values() if not kind.trains]
    rows += [("other", f"{kind.title} ({count} times)") for kind, count in others[:8]]
    for name, values in seen.feeds.items():
        shapes = ", ".join("x".join(map(str, shape)) or "scalar" for shape in values.shapes[:3])
        span = f" in [{values.low:.4g}, {values.high:.4g}]" if values.low <= values.high else ""
        rows.append(("feed", f"{name}: {values.first.dtype} {shapes}{span}: {values.guess()}"))
    rows += [("loss", loss.op.name) for kind in shown for loss in kind.losses]
    rows += [("writes", name) for name in seen.files[:8]]
    names = {name: kind for kind, _ in seen.kinds.values() for name in kind.noise + kind.unordered}
    rows += [("inexact", name) for name in names]
    if seen.refusal is not None:
        rows.append(("refused", seen.refusal.message))
    elif not seen.trained:
        rows.append(("refused", "no call trains: none reaches an update of a trainable variable"))
    else:
        rows.append(("mode", "drive: the script makes each call"))
    return [f"{name:8}{text}" for name, text in rows]


def _list_files(folder: str) -> Any:
    return {
        os.path.relpath(os.path.join(root, name), folder)
        for root, _, names in os.walk(folder)
        for name in names
    }


def print_table(settings: Mapping[str, Any]) -> int:
    """Print the table of a script; return 1 if it would be refused."""
    seen = observe(settings)
    sys.stdout.writelines(line + "\n" for line in list_lines(seen))
    return 1 if seen.refusal is not None or not seen.trained else 0
