"""Dry run: two periods of a script, then a table of what it does and of what would be refused.

A *period* is the shortest series of train calls that repeats. Nothing is journaled and no run is
begun; the script trains for so long, and writes its own files. What is seen is also what a graph
needs to be lifted out of its script (lifting.py).
"""

from __future__ import annotations

import os
import shlex
import sys
from typing import Any, Dict, List, Mapping, Sequence, Set

import numpy as np

from toolkit import ToolkitError, UsageError, tf

from . import script
from .calls import Calls, Kind, digest, is_source
from .entropy import fix_entropy
from .feed_values import FeedValues
from .lifting import list_words
from .noise import fix_op_seeds, make_stateless, with_number
from .order import Order
from .patches import Patches
from .queues import Queues
from .session import Sessions
from .variables import find_places, read_values

_LEAST, _MOST = 12, 200  # train calls in which a period is looked for


class _Enough(SystemExit):
    """Two periods are seen."""


class Observation:
    """What a dry run has seen.

    Args:
        path: of the script.
        as_written: leave noise and order as the script has them, for a graph that is lifted.

    Attributes:
        kinds: of all calls, with how often each was made.
        trained: the kinds of the train calls in their order.
        fed: for each train call, the digest of the value of each fed tensor by name.
        feeds, other_feeds: what tensors were fed in train calls, and in others, by name; what a
            train call takes from an iterator counts as fed.
        graphs: the graphs of sessions.
        training_graphs: those of train calls.
        initial: the values of the variables before the first train call, by name.
        between: the names of ops that change variables in other calls after the first train call.
        files: what it wrote in its working directory.
        refusal: why the script cannot be driven; None if it can.
    """

    def __init__(self, path: str, as_written: bool = False):
        self.kinds: Dict[str, List[Any]] = {}
        self.trained: List[Kind] = []
        self.fed: List[Dict[str, bytes]] = []
        self.feeds: Dict[str, FeedValues] = {}
        self.other_feeds: Dict[str, FeedValues] = {}
        self.graphs: List[Any] = []
        self.training_graphs: List[Any] = []
        self.initial: Dict[str, np.ndarray] = {}
        self.between: List[str] = []
        self.files: List[str] = []
        self.refusal: Any = None
        self._as_written = as_written
        self._calls = Calls(path, (lambda graph: ()) if as_written else Order().complete)
        self.refuse = self._calls.refusal
        self._number = 0
        self._returned: Set[bytes] = set()  # digests of what calls returned

    @property
    def period(self) -> int:
        """How many train calls repeat; 0 if no period was seen twice."""
        return find_period(self.trained)

    def observe(self, patches: Patches, settings: Mapping[str, Any]) -> None:
        """Patch what the script calls."""
        fix_entropy(patches, settings["seed"])
        (fix_op_seeds if self._as_written else make_stateless)(patches, settings["seed"])
        self._calls.record_losses(patches)
        self._sessions = Sessions(
            self._answer,
            lambda name, read: read(),
            lambda number, session: None,
            self.refuse,
            settings["threads"],
        )
        self._sessions.install(patches, os.path.dirname(settings["script"]))
        self._queues = Queues(self._calls, self._sessions.run)
        self._queues.install(patches)

    def _answer(self, *call: Any) -> List[Any]:
        try:
            return self._answer_next(*call)
        except ToolkitError as error:  # the script may catch it
            self.refusal = error
            raise

    def _answer_next(self, session, targets, fetches, feeds, run) -> List[Any]:
        self._number += 1
        if session.graph not in self.graphs:
            self.graphs.append(session.graph)
        kind = self._calls.find(session.graph, targets, fetches, feeds)
        self.kinds.setdefault(kind.text, [kind, 0])[1] += 1
        if kind.trains and (not self.trained or kind.losses and not self._has_loss()):
            # What changed a weight before, without a loss, gave it its first value.
            self.trained, self.fed, self.feeds, self.between = [], [], {}, []
            self.training_graphs = []
            self.initial = read_values(
                lambda *call: self._sessions.run(session, *call), find_places(session.graph)
            )
        if kind.trains and session.graph not in self.training_graphs:
            self.training_graphs.append(session.graph)
        # The outputs of a branch that is not taken have no values.
        sources = [
            op for op in kind.resources if is_source(op) and op._get_control_flow_context() is None
        ]
        taken = [tensor for op in sources for tensor in op.outputs]
        taken = [tensor for tensor in taken if kind.trains and tensor.dtype != tf.variant]
        numbered = {**with_number(session.graph, feeds, self._number), **kind.closed}
        self._queues.fill(session, kind, numbered)
        values = run(fetches=[*fetches, *taken], feeds=numbered)
        names = [*kind.feeds, *(tensor.name for tensor in taken)]
        arrays = [*feeds.values(), *values[len(fetches) :]]
        self._note(kind, dict(zip(names, map(np.asarray, arrays))))
        result: List[Any] = values[: len(fetches)]
        self._returned.update(digest(value) for value in result if np.ndim(value))
        if kind.trains and (len(self.trained) >= _MOST or self.period):
            raise _Enough(0)
        return result

    def _has_loss(self) -> bool:
        return any(kind.losses for kind in self.trained)

    def _note(self, kind: Kind, fed: Dict[str, np.ndarray]) -> None:
        """Note a call and what it was fed."""
        digests = {name: digest(value) for name, value in fed.items()}
        for name, value in fed.items():
            known = self.feeds if kind.trains else self.other_feeds
            is_returned = digests[name] in self._returned
            known.setdefault(name, FeedValues()).add(value, is_returned)
        if kind.trains:
            self.trained.append(kind)
            self.fed.append(digests)
        elif self.trained:
            self.between.extend(kind.updates)


def find_period(kinds: Sequence[Kind]) -> int:
    """How many train calls repeat; 0 if no period is seen twice in at least 12 calls."""
    texts = [kind.text for kind in kinds]
    if len(texts) < _LEAST:
        return 0
    for length in range(1, len(texts) // 2 + 1):
        if all(text == texts[place % length] for place, text in enumerate(texts)):
            return length
    return 0


def observe(settings: Mapping[str, Any], as_written: bool = False) -> Observation:
    """Run a script for two periods of its train calls.

    Args:
        settings: as of a run: "script", "args", "directory", "seed" and "threads".
        as_written: see `Observation`.

    Raises:
        ToolkitError: the script failed before that.
    """
    path = settings["script"]
    seen = Observation(path, as_written)
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
    period = seen.period
    shown = seen.trained[: period or 6]
    rows.append(("period", f"{period} train calls" if period else "none found"))
    rows += [("", f"{place}: {kind.title}") for place, kind in enumerate(shown, 1)]
    others = [(kind, count) for kind, count in seen.kinds.values() if not kind.trains]
    rows += [("other", f"{kind.title} ({count} times)") for kind, count in others[:8]]
    for name, values in {**seen.other_feeds, **seen.feeds}.items():
        shapes = ", ".join("x".join(map(str, shape)) or "scalar" for shape in values.shapes[:3])
        span = f" in [{values.low:.4g}, {values.high:.4g}]" if values.low <= values.high else ""
        rows.append(("feed", f"{name}: {values.first.dtype} {shapes}{span}: {values.describe()}"))
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
        try:
            words = " ".join(map(shlex.quote, list_words(seen)))
            rows.append(("lift", f"--mode lift --data DATA would train with {words}"))
        except UsageError as error:
            rows.append(("no lift", error.message))
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
