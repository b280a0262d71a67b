"""Queues that runners fill: the main thread fills them, just before a call that takes from them.

Patched while the script runs, and put back when it has ended: `QueueRunner.create_threads`, which
`start_queue_runners`, monitored sessions and Supervisors call, notes the runner and makes no
thread; and queues are made without a capacity, as nobody takes while the main thread puts.

Before a call that reaches a dequeue or a reader, the enqueue ops of that queue's runner are run in
turn, those of the queues before it first, until the queue has what the call takes. One that
shuffles or sorts is filled to its capacity, as it chooses from what it has. One whose data ends
closes its queue, as the thread would. So what a call gets is a function of the calls before it. A
call that tells a queue's size, and neither trains nor takes, finds it filled to its capacity. A
resume does the same for each call that the journal answers, and takes what the call took: readers,
and the generator of a `RandomShuffleQueue`, whose seed is the run's, then stand where they stood.
"""

from __future__ import annotations

import collections
import weakref
from typing import Any, Callable, Deque, Dict, List

from tensorflow.python.framework import tensor_util
from tensorflow.python.ops import gen_data_flow_ops
from tensorflow.python.training import queue_runner_impl

from toolkit import tf

from .calls import Calls, Kind, growing, source_of
from .noise import with_number
from .patches import Patches

_QUEUES = ("fifo_queue_v2", "padding_fifo_queue_v2", "random_shuffle_queue_v2", "priority_queue_v2")
_CHOOSING = ("RandomShuffleQueueV2", "PriorityQueueV2")  # take one of the elements that they have
_FILES_AHEAD = 8  # names that a queue has for a reader, which may pass files without a record


class Queues:
    """Fills the queues of a script's sessions."""

    def __init__(self, calls: Calls, run: Callable[..., List[Any]]):
        self._calls, self._run = calls, run
        # session -> queue -> the ops that fill it, and have not ended, the next first, with runners
        self._puts: Any = weakref.WeakKeyDictionary()
        self._states: Any = weakref.WeakKeyDictionary()  # graph -> queue -> size, is closed
        self._capacities: Any = weakref.WeakKeyDictionary()  # graph -> queue -> given number
        self._num_puts = 0  # the numbers of the noise of enqueue ops

    def install(self, patches: Patches) -> None:
        """Patch what starts threads that call a session."""

        def create_threads(original, runner, session, *args, **kwargs):
            close = runner.close_op
            if len(close.inputs) != 1:
                raise self._calls.refusal("starts a queue runner that closes several queues", close)
            puts = self._puts.setdefault(session, {}).setdefault(
                source_of(close.inputs[0]), collections.deque()
            )
            if all(known is not runner for _, known in puts):  # else it is started a second time
                puts.extend((getattr(op, "op", op), runner) for op in runner.enqueue_ops)
            return []

        def make(original, *args, capacity=-1, **kwargs):
            made = original(*args, **kwargs)
            self._capacities.setdefault(made.graph, {})[made.op] = capacity
            return made

        patches.wrap(queue_runner_impl.QueueRunner, "create_threads", create_threads)
        for name in _QUEUES:
            patches.wrap(gen_data_flow_ops, name, make)

    def fill(self, session: Any, kind: Kind, feeds: Dict[Any, Any]) -> None:
        """Let queues have what a call of a kind takes from them.

        Raises the `tf.errors.OpError` of an enqueue op, unless it is by the end of its data, and
        ToolkitError if nothing fills the queue, so that the call would wait for ever.
        """
        needs: Dict[Any, int] = {}
        for take, queue in kind.takes:
            needs[queue] = needs.get(queue, 0) + self._count(session, take, queue, feeds)
        for queue in kind.sizes:
            if self._puts.get(session, {}).get(queue):
                needs[queue] = self._capacity(session, queue)
        while sum(self._fill(session, kind, queue, need) for queue, need in needs.items()):
            pass  # what fills one queue may take from another that was filled before

    def _fill(self, session: Any, kind: Kind, queue: Any, need: int) -> bool:
        """Let a queue have what a call takes from it; return whether anything was put into it."""
        puts = self._puts.get(session, {}).get(queue)
        if queue.type == "RandomShuffleQueueV2" and queue not in kind.sizes:
            need += queue.get_attr("min_after_dequeue")
        if puts is not None and queue.type in _CHOOSING:
            need = max(need, self._capacity(session, queue))
        has_put = False
        while True:
            size, is_closed = self._look(session, queue)
            if is_closed or size >= need:
                return has_put
            if not puts:
                take = next(take for take, taken in kind.takes if taken is queue)
                what = f"takes from the queue '{queue.name}', which no queue runner fills"
                raise self._calls.refusal(what, take)
            self._put(session, puts, need - size)
            has_put = True

    def _capacity(self, session: Any, queue: Any) -> int:
        """The capacity that the script gave a queue; 0 for one of an imported graph."""
        return int(self._capacities.get(session.graph, {}).get(queue, 0))

    def _put(self, session: Any, puts: Deque[Any], missing: int) -> None:
        """Run enqueue ops of a queue, at most as often as elements are missing."""
        is_single = all(op.type == "QueueEnqueueV2" for op, _ in puts)
        for _ in range(missing if is_single else 1):
            op, runner = put = puts[0]
            puts.rotate(-1)
            self._num_puts += 1
            kind = self._calls.find(session.graph, [op], [], {})
            feeds = {**with_number(session.graph, {}, self._num_puts), **kind.closed}
            try:
                self.fill(session, kind, feeds)
                self._run(session, [op], [], feeds)
            except runner.queue_closed_exception_types:
                puts.remove(put)
                if not puts:
                    self._run(session, [runner.close_op], [], {})
                return

    def _count(self, session: Any, take: Any, queue: Any, feeds: Dict[Any, Any]) -> int:
        """How many elements an op takes, at most."""
        if take.type.startswith("ReaderRead"):
            puts = self._puts.get(session, {}).get(queue, ())
            # Twice the names have those of a whole epoch, in which some file has a record.
            return max([_FILES_AHEAD, *(2 * _length(op) for op, _ in puts)])
        if take.type == "QueueDequeueV2":
            return 1
        count = feeds.get(take.inputs[1], tensor_util.constant_value(take.inputs[1]))
        return int(self._run(session, [], [take.inputs[1]], feeds)[0] if count is None else count)

    def _look(self, session: Any, queue: Any) -> List[Any]:
        """How many elements a queue has, and whether it is closed."""
        states = self._states.setdefault(session.graph, {})
        if queue not in states:
            looks = gen_data_flow_ops.queue_size_v2, gen_data_flow_ops.queue_is_closed_v2
            handle = queue.outputs[0]
            with growing(session.graph):
                states[queue] = [look(handle, name="toolkit_adopt_queue") for look in looks]
        return self._run(session, [], states[queue], {})


def _length(put: Any) -> int:
    """How many elements an enqueue op puts at once, as far as the graph knows."""
    is_many = put.type == "QueueEnqueueManyV2"
    shape = put.inputs[1].shape if is_many else tf.TensorShape([1])
    return int(shape.rank and tf.dimension_value(shape[0]) or 1)
