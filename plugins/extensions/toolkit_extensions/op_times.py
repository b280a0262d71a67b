"""The session hook of the profiler: a table of the time and memory of each op of a step."""

from __future__ import annotations

import collections
import csv
import io
import os
from typing import Any, Iterable, List, NamedTuple

import toolkit
from toolkit import tf

NEVER = float("inf")


class OpTime(NamedTuple):
    """An op, or all ops of a type."""

    name: str
    type: str
    microseconds: int
    calls: int
    bytes: int  # allocated in the step


class OpTimes(toolkit.SessionHook):
    """Writes step-N.csv for each of the steps, and logs so many of the slowest types of ops."""

    name = "profiler"

    def __init__(self, folder: str, steps: Iterable[int], num_rows: int):
        self._folder, self._steps, self._num_rows = folder, sorted(steps), num_rows

    def on_restore(self, session: Any, step: int) -> None:
        if step < self.loop.target < self.next_due_step(step):
            steps = ", ".join(map(str, self._steps)) or "none"
            self.loop.log(
                f"profiler: no step is traced: --profile-steps has {steps}, and the run trains "
                f"steps {step + 1} to {self.loop.target}"
            )

    def next_due_step(self, step: int) -> float:
        return next((s for s in self._steps if s > step), NEVER)

    def is_due(self, step: int) -> bool:
        return step in self._steps

    def before_run(self, run_context: Any) -> Any:
        if not self.is_due(self.loop.step + 1):
            return None
        options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
        return tf.train.SessionRunArgs(None, options=options)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        if not self.is_due(self.loop.step):
            return
        types = {op.name: op.type for op in run_context.session.graph.get_operations()}
        ops = measure(run_values.run_metadata.step_stats, types)
        path = os.path.join(self._folder, f"step-{self.loop.step}.csv")
        os.makedirs(self._folder, exist_ok=True)
        with toolkit.atomic_write(path) as file:
            file.write(table(ops).encode("utf-8"))
        for text in summarize(ops, self.loop.step, self._num_rows):
            self.loop.log(text)


def measure(step_stats: Any, types: Any) -> List[OpTime]:
    """The ops of a step, the slowest first, by the step_stats of a RunMetadata and the type of each
    op of the graph, by its name.
    """
    ops: Any = {}
    for device in step_stats.dev_stats:
        if "stream:" in device.device:  # of a GPU, which counts these ops again
            continue
        for node in device.node_stats:
            name, time = node.node_name, max(0, node.op_end_rel_micros - node.op_start_rel_micros)
            allocated = sum(m.total_bytes for m in node.memory)
            before = ops.get(name, OpTime(name, op_type(node, types), 0, 0, 0))
            ops[name] = before._replace(
                microseconds=before.microseconds + time,
                calls=before.calls + 1,
                bytes=before.bytes + allocated,
            )
    return sorted(ops.values(), key=lambda op: (-op.microseconds, op.name))


def op_type(node: Any, types: Any) -> str:
    """The type of an op: of the graph, or else as the label says, `NAME = TYPE(inputs)`."""
    label = node.timeline_label.partition(" = ")[2].partition("(")[0]
    return str(types.get(node.node_name) or label or "other")


def by_type(ops: Iterable[OpTime]) -> List[OpTime]:
    """The sums of the ops of each type, the slowest first."""
    groups = collections.defaultdict(list)
    for op in ops:
        groups[op.type].append(op)
    sums = [
        OpTime(
            "",
            kind,
            sum(op.microseconds for op in group),
            sum(op.calls for op in group),
            sum(op.bytes for op in group),
        )
        for kind, group in groups.items()
    ]
    return sorted(sums, key=lambda op: (-op.microseconds, op.type))


def table(ops: Iterable[OpTime]) -> str:
    """The text of a CSV file with a row for each op."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(OpTime._fields)
    writer.writerows(ops)
    return file.getvalue()


def summarize(ops: List[OpTime], step: int, num_rows: int) -> List[str]:
    """A heading, and a line for each of the slowest types of ops."""
    total = sum(op.microseconds for op in ops) or 1
    allocated = sum(op.bytes for op in ops)
    heading = f"step {step}  profile  {len(ops)} ops  {total / 1000:.1f} ms"
    lines = [f"{heading}  {allocated / 2**20:.1f} MiB allocated"]
    for op in by_type(ops)[:num_rows]:
        share = f"{100 * op.microseconds / total:5.1f} %"
        lines.append(f"{share}  {op.microseconds / 1000:8.2f} ms  {op.calls:5d} x {op.type}")
    return lines if num_rows else []
