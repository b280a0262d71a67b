"""Dry run: two periods of a script, then a table of what it does and of what would be refused.

A *period* is the shortest series of train calls that repeats. Nothing is journaled and no run is
begun; the script trains for so long, and writes its own files.

What is seen is also what a graph needs to be lifted out of its script: that is possible where the
train calls repeat, nothing else changes a variable between them, and what they are fed is data,
noise or constants. A call that the script makes for other reasons, to evaluate or to draw, is left
out.
"""

from __future__ import annotations

import os
import shlex
import sys
from typing import Any, Dict, List, Mapping, Set, Tuple

import numpy as np

from toolkit import DrivenRun, ToolkitError, UsageError, tf

from .calls import Kind, digest, has_optimizer, is_source
from .drive import reason_of
from .script import Observer
from .variables import read_values

_LEAST, _MOST = 12, 200  # train calls in which a period is looked for
_RANGES = ((0, 1), (-1, 1), (-0.5, 0.5), (0, 255))  # of the rows of pictures


class FeedValues:
    """The values of one fed tensor, call by call."""

    def __init__(self) -> None:
        self.first: Any = None
        self.shapes: List[Tuple[int, ...]] = []
        self.low, self.high = np.inf, -np.inf
        self.changes = False
        self.is_returned = False  # whether calls before had returned one, or gradients for it

    def add(self, value: np.ndarray, is_returned: bool = False) -> None:
        """Take one more value into account; `is_returned` if a call before had returned it, or a
        gradient by which it is made.
        """
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
            is_one = low == high  # in as few digits as tell it from others of its type
            return np.format_float_positional(first.min(), trim="-") if is_one else "", words
        if first.size == 1:
            return "", "a scalar that changes"
        if self.is_returned:
            return "", "what a call before returned, or is made of it"
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


class Observation(Observer):
    """What a dry run has seen of a script, from `settings` as of a run, within `observe`."""

    def __init__(self, settings: Mapping[str, Any], as_written: bool = False):
        super().__init__(settings, as_written)
        self.kinds: Dict[str, List[Any]] = {}  # of all calls, with how often each was made
        self.trained: List[Kind] = []  # the kinds of the train calls in their order
        self.fed: List[Dict[str, bytes]] = []  # of each train call: tensor -> digest of its value
        # What tensors were fed in train calls, and in others, by name; what a train call takes from
        # an iterator counts as fed.
        self.feeds: Dict[str, FeedValues] = {}
        self.other_feeds: Dict[str, FeedValues] = {}
        self.graphs: List[Any] = []  # of sessions
        self.training_graphs: List[Any] = []  # those of train calls
        self.initial: Dict[str, np.ndarray] = {}  # the variables before the first train call
        self.between: List[str] = []  # ops that change variables in other calls after it
        self.files: List[str] = []  # what it wrote in its working directory
        self.num_bytes = 0  # of what all calls returned, which the journal of a run would have
        self._returned: Set[bytes] = set()  # digests of what calls returned
        # Placeholders for which calls returned gradients: the script may feed what these give.
        self._improved: Set[Any] = set()

    @property
    def period(self) -> int:
        """How many train calls repeat; 0 if no period is seen twice in at least 12 calls."""
        texts = [kind.text for kind in self.trained]
        for length in range(1, len(texts) // 2 + 1 if len(texts) >= _LEAST else 0):
            if all(text == texts[place % length] for place, text in enumerate(texts)):
                return length
        return 0

    def answer(self, session, targets, fetches, feeds, run) -> List[Any]:
        graph = session.graph
        self.graphs += [] if graph in self.graphs else [graph]
        kind, run = self.prepare(session, targets, fetches, feeds, run)
        self.kinds.setdefault(kind.text, [kind, 0])[1] += 1
        if kind.trains:
            # Train calls that copied weights, before one that learns, gave them first values.
            if not self.trained or kind.learns and not any(k.learns for k in self.trained):
                for seen in (self.trained, self.fed, self.between, self.training_graphs):
                    seen.clear()
                self.feeds.clear()
                self.initial = read_values(self.run_session, session)
            self.training_graphs += [] if graph in self.training_graphs else [graph]
        is_read = kind.trains and not self.links  # which take from sources by themselves
        sources = [op for op in kind.resources if is_read and is_source(op)]
        outputs = [t for op in sources if not op._get_control_flow_context() for t in op.outputs]
        taken = [tensor for tensor in outputs if tensor.dtype != tf.variant]
        values = run(fetches=[*fetches, *taken])
        result: List[Any] = values[: len(fetches)]
        names = [*kind.feeds, *(tensor.name for tensor in taken)]
        arrays = map(np.asarray, [*feeds.values(), *values[len(fetches) :]])
        digests = {}
        for name, value in zip(names, arrays):
            digests[name] = digest(value)
            known = self.feeds if kind.trains else self.other_feeds
            is_made = digests[name] in self._returned or name in self._improved
            known.setdefault(name, FeedValues()).add(value, is_made)
        self.num_bytes += sum(np.asarray(value).nbytes for value in result)
        self._returned.update(digest(value) for value in result if np.ndim(value))
        if kind.trains:
            self.trained.append(kind)
            self.fed.append(digests)
            if len(self.trained) >= _MOST or self.period and not self._only_copies(graph):
                raise SystemExit(0)
        elif self.trained:
            self.between.extend(kind.updates)
        places = self.calls.input_gradients.get(graph, {})
        self._improved.update(places.get(tensor.name) for tensor in fetches)
        return result

    def _only_copies(self, graph: Any) -> bool:
        """Whether an optimizer of the graph is still to come: so far weights were copied, such as
        those of a target network while a memory of plays is filled.
        """
        has_learned = any(kind.learns for kind in self.trained)
        return not has_learned and has_optimizer(graph.get_operations())


def observe(settings: Mapping[str, Any], as_written: bool = False) -> Observation:
    """Run a script for two periods of its train calls; `as_written` is that of `Observer`.

    Raises ToolkitError if the script failed before that.
    """
    folder, name = settings["directory"], os.path.basename(settings["script"])
    seen = Observation(settings, as_written)
    before = _list_files(folder)
    try:
        seen.run_script()
    except SystemExit:
        pass
    except KeyboardInterrupt:
        if seen.failure is None:  # by the user, and not by a thread that failed
            raise
    except ToolkitError as error:
        seen.failure = error
    except Exception as error:
        if seen.failure is None:
            raise ToolkitError(
                f"{name} failed: {type(error).__name__}: {reason_of(error)}.",
                hint="See that it runs with its arguments; -v shows the traceback.",
            ) from error
    seen.files = sorted(_list_files(folder) - before)
    return seen


def _list_files(folder: str) -> Set[str]:
    """The files below a folder, but those of other file systems, such as /proc."""
    found = set()
    for root, folders, names in os.walk(folder):
        folders[:] = [each for each in folders if not os.path.ismount(os.path.join(root, each))]
        found |= {os.path.relpath(os.path.join(root, name), folder) for name in names}
    return found


def list_words(seen: Any) -> List[str]:
    """The train ops, losses and feeds of an observed script.

    Raises UsageError, which says why, if it cannot be lifted.
    """
    kinds = seen.trained[: seen.period]
    if not kinds:
        raise UsageError("The script's train calls do not repeat.")
    if len(seen.training_graphs) > 1:
        raise UsageError(f"The script trains {len(seen.training_graphs)} graphs.")
    if seen.between:
        raise UsageError(f"'{seen.between[0]}' changes a variable between the train calls.")
    for kind in kinds:
        if not kind.updates:
            raise UsageError(f"'{kind.title}' trains outside of the graph: it changes no variable.")
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
    losses = _names_of_losses(kinds)
    words += ["--losses", ",".join(losses)] if losses else []
    words += ["--feed", ",".join(map("=".join, rules.items())), "--batch-size", str(sizes.pop())]
    known = {op.name for op in seen.training_graphs[0].get_operations()}
    others = {
        name: x.guess()[0]
        for name, x in seen.other_feeds.items()
        if not x.changes and name.partition(":")[0] in known  # and not in a graph besides
    }
    changed = [f"{n}={rule}" for n, rule in others.items() if rule not in ("", rules.get(n))]
    return [*words, *(["--infer-feed", ",".join(changed)] if changed else [])]


def lift(settings: Mapping[str, Any]) -> List[str]:
    """Write the graph of a script; return the words for `toolkit run lift`."""
    seen = observe(settings, as_written=True)
    if seen.failure is not None:
        raise seen.failure
    try:
        words = list_words(seen)
    except UsageError as error:
        error.hint = (
            "Omit --data and --mode lift to drive it, or write the rules: toolkit run lift --meta, "
            "docs/adopt.md."
        )
        raise
    name = os.path.splitext(os.path.basename(settings["script"]))[0]
    prefix = os.path.join(settings["directory"], f"{name}.lifted", "graph")
    meta = prefix + ".meta"
    os.makedirs(os.path.dirname(prefix), exist_ok=True)
    tf.train.export_meta_graph(meta, graph=seen.training_graphs[0])
    DrivenRun.write_tensors(prefix, seen.initial)  # as they were before the first train call
    shown = " ".join(map(shlex.quote, words))
    sys.stderr.write(f"note   lifted to {os.path.relpath(meta)}: {shown}\n")
    return ["--meta", meta, *words]


def _names_of_losses(kinds: List[Kind]) -> List[str]:
    return list(dict.fromkeys(loss.op.name for kind in kinds for loss in kind.losses))


def _first(name: str, texts: List[str], limit: int = 8) -> List[Tuple[str, str]]:
    """Rows of the first texts, and one that says how many more there are."""
    more = [("", f"and {len(texts) - limit} more")] if len(texts) > limit else []
    return [(name, text) for text in texts[:limit]] + more


def print_table(settings: Mapping[str, Any]) -> int:
    """Print the table of a script; return 1 if it would be refused."""
    seen, rows = observe(settings), []
    for number, graph in enumerate(seen.graphs):
        ops = graph.get_operations()
        noise = sum(1 for op in ops if op.type.startswith("Stateless"))
        sizes = [v.shape.num_elements() or 0 for v in graph.get_collection("trainable_variables")]
        text = f"trainable variables: {len(sizes)}, of {sum(sizes):,} numbers; ops: {len(ops):,}"
        rows.append(("" if number else "graph", f"{text}, {noise} of them draw noise"))
    period = seen.period
    shown = seen.trained[: period or 6]
    rows.append(("period", f"{period} train calls" if period else "none found"))
    rows += [("", f"{place}: {kind.title}") for place, kind in enumerate(shown, 1)]
    others = [f"{n} x {kind.title}" for kind, n in seen.kinds.values() if not kind.trains]
    rows += _first("other", others)
    for name, values in {**seen.other_feeds, **seen.feeds}.items():
        shapes = ", ".join("x".join(map(str, shape)) or "scalar" for shape in values.shapes[:3])
        text = f"{name}: {values.first.dtype} {shapes}{values.span}: {values.guess()[1]}"
        rows.append(("feed", text))
    rows += [("loss", name) for name in _names_of_losses(shown)]
    rows.append(("journal", f"{seen.num_bytes:,} bytes in {len(seen.trained)} train calls"))
    rows += _first("writes", seen.files)
    if any(os.path.basename(name) == "checkpoint" for name in seen.files):
        rows.append(("", "its checkpoints stay: delete them if it would begin from them"))
    names = dict.fromkeys(name for kind, _ in seen.kinds.values() for name in kind.noise)
    rows += [("inexact", name) for name in names]
    if seen.failure is not None:
        rows.append(("refused", seen.failure.message))
    elif not seen.trained:
        rows.append(("refused", "no call trains: none reaches an update of a trainable variable"))
    else:
        rows.append(("mode", "drive: the script makes each call"))
        try:
            words = " ".join(map(shlex.quote, list_words(seen)))
            rows.append(("lift", f"--mode lift --data DATA would train with {words}"))
        except UsageError as error:
            rows.append(("no lift", error.message))
    sys.stdout.writelines(f"{name:8}{text}\n" for name, text in rows)
    return 1 if seen.failure is not None or not seen.trained else 0
