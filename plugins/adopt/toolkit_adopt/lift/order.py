"""The state of a graph in the order of the program that wrote it.

TensorFlow runs ops as soon as their inputs are there. Where nothing else orders them, a read and a
write of a variable race. Here, for each variable and in the order in which the ops were created, a
read waits for the write before it, and a write for the reads and the write before it.

The order of a driven script is another one (../order.py): its calls run parts of a graph, where a
read that waited for a write would make it. Here each call runs all ops of its graph.

An op in a branch of a condition or in a loop cannot be waited for from outside: what waits, waits
for the merges or exits behind it; and an op in a loop waits where its handle enters the loop.
"""

from __future__ import annotations

import collections
import heapq
from typing import Any, Dict, List, Sequence, Set, Tuple

from toolkit import UsageError, tf

from .nodes import split_name

_READS = (
    "ReadVariableOp",
    "ResourceGather",
    "ResourceGatherNd",
    "VarIsInitializedOp",
    "VariableShape",
)
_LINKS = ("Enter", "Switch", "Identity")
_RESOURCE = tf.resource.as_datatype_enum
Context = Tuple[Tuple[str, int], ...]  # the conditions and loops around an op, the outermost first


class _Graph:
    """What waits for what in a list of nodes."""

    def __init__(self, nodes: Sequence[Any]):
        self.nodes = {node.name: node for node in nodes}
        self.inputs = {node.name: [split_name(text) for text in node.input] for node in nodes}
        self.users: Dict[str, List[str]] = {name: [] for name in self.nodes}
        for name, inputs in self.inputs.items():
            for source in {source for source, _ in inputs if source in self.nodes}:
                self.users[source].append(name)
        self.order = self._sort()
        self.contexts: Dict[str, Context] = {}
        for name in self.order:
            self.contexts[name] = self._context(name)

    def _sort(self) -> List[str]:
        """The names in the order of their creation, each behind its inputs."""
        places = {name: place for place, name in enumerate(self.nodes)}
        waiting = {
            name: len({s for s, _ in inputs if self._op(s) not in ("", "NextIteration")})
            for name, inputs in self.inputs.items()
        }
        ready = [places[name] for name, count in waiting.items() if not count]
        heapq.heapify(ready)
        names, order = list(self.nodes), []
        while ready:
            name = names[heapq.heappop(ready)]
            order.append(name)
            for user in self.users[name] if self._op(name) != "NextIteration" else ():
                waiting[user] -= 1
                if not waiting[user]:
                    heapq.heappush(ready, places[user])
        return order

    def _context(self, name: str) -> Context:
        """The context of a node, from those of its inputs."""
        node = self.nodes[name]
        contexts: List[Context] = [()]
        for source, number in self.inputs[name]:
            is_choice = self._op(source) == "Switch" and number >= 0
            branch = self._branch(source, number) if is_choice else ()
            contexts.append(self.contexts.get(source, ()) + branch)
        context = max(contexts, key=len)
        if node.op == "Enter":
            return (*context, (node.attr["frame_name"].s.decode(), -1))
        sources = [self._op(source) for source, _ in self.inputs[name]]
        is_join = node.op == "Merge" and "NextIteration" not in sources
        return context[:-1] if is_join or node.op == "Exit" else context

    def _op(self, name: str) -> str:
        return str(self.nodes[name].op) if name in self.nodes else ""

    def _branch(self, switch: str, number: int) -> Context:
        """What an output of a switch adds to the context: () of one in a loop."""
        name, place = self.inputs[switch][1]
        if self._op(name) == "LoopCond":
            return ()
        while self._op(name) == "Identity":
            name, place = self.inputs[name][0]
        return ((f"{name}:{place}", number),)

    def ends(self, name: str, depth: int) -> List[str]:
        """The first ops behind one whose contexts have this depth."""
        found: List[str] = []
        pending, known = [name], {name}
        while pending:
            for user in self.users[pending.pop()]:
                if user in known:
                    continue
                known.add(user)
                is_out = len(self.contexts[user]) <= depth
                (found if is_out else pending).append(user)
        return found

    def start(self, name: str, depth: int) -> str:
        """Where an op in a loop can be made to wait for one outside."""
        while len(self.contexts[name]) > depth:
            if self.nodes[name].op == "Enter" and len(self.contexts[name]) == depth + 1:
                return name
            above, number = self.inputs[name][0] if self.inputs[name] else ("", -1)
            if number < 0 or self._op(above) not in _LINKS:
                break
            name = above
        return name


def order_state(nodes: Sequence[Any], handles: Set[str]) -> List[Any]:
    """Add control inputs to the nodes of a cut, which are in the order of their creation.

    `handles` names the nodes that are handles of variables. Returned are the nodes in an order in
    which they may be run. Raises UsageError if the graph orders two ops in the other way.
    """
    graph = _Graph(nodes)
    roots = {name: name for name in handles if name in graph.nodes}  # of what passes them on, too
    last: Dict[str, str] = {}
    reads: Dict[str, List[str]] = collections.defaultdict(list)
    edges: Dict[str, Set[str]] = collections.defaultdict(set)
    for name in graph.order:
        node, inputs = graph.nodes[name], graph.inputs[name]
        used = {roots[source] for source, number in inputs if number >= 0 and source in roots}
        if used and node.op in _LINKS and node.attr["T"].type == _RESOURCE:
            roots[name] = roots[inputs[0][0]]
            continue
        for handle in used:
            before = [last[handle]] if handle in last else []
            if node.op in _READS:
                reads[handle].append(name)
            else:
                before += reads[handle]
                last[handle] = name
                if not graph.contexts[name]:  # one in a condition may not run
                    reads[handle] = []
            for other in before:
                for source, target in _edges(graph, other, name):
                    edges[target].add(f"^{source}")
    for target, sources in edges.items():
        texts = graph.nodes[target].input
        texts.extend(sorted(sources.difference(texts)))
    ordered = _Graph([graph.nodes[name] for name in graph.order])
    if len(ordered.order) < len(graph.nodes):
        stuck = sorted(set(graph.nodes) - set(ordered.order))
        raise UsageError(
            f"The state of the graph cannot be ordered: '{stuck[0]}' would wait for itself.",
            hint="It is changed within a loop or a condition, and read in another one.",
        )
    return [graph.nodes[name] for name in graph.order]


def _edges(graph: _Graph, first: str, second: str) -> List[Tuple[str, str]]:
    """The control edges that let one op wait for another, each (source, target)."""
    here, there = graph.contexts[first], graph.contexts[second]
    common = 0
    while common < min(len(here), len(there)) and here[common] == there[common]:
        common += 1
    if common < min(len(here), len(there)) and here[common][0] == there[common][0]:
        return []  # the two branches of a condition
    sources = [first] if len(here) == common else graph.ends(first, common)
    target = second if len(there) == common else graph.start(second, common)
    return [(source, target) for source in sources if source != target]
