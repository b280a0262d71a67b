"""Several steps in one call of the session: a step as the body of a loop of the graph.

How many steps a call makes is fed. What the step computes, its losses for example, can be fetched
in a call of one step. Nothing here knows what a step is; `make_step` adds one to the graph.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, NamedTuple, Optional

from ..compat import compiled, tf

MOST_GROUPS = 8


class Made(NamedTuple):
    """A step that was added to the graph: its op, and what can be fetched of it.

    groups: name -> a structure of tensors. Who fetches one tensor of a group computes all of it.
    """

    train_op: Any
    groups: Dict[str, Any]


class Looped(NamedTuple):
    """A loop of steps. budget: int32 scalar, fed; 1 by default. going: bool scalar, or None.

    groups: of the only step of a call that makes one.
    """

    op: Any
    budget: Any
    groups: Dict[str, Any]
    going: Any = None


class Tap:
    """Takes the tensors of a structure out of the body of a loop.

    A loop hands out what it carries, and carries what is known before its body is made. An array
    that the body writes needs neither, and a call that reads none of it does not write it either.
    """

    def __init__(self, structure: Any):
        """To be called in the body."""
        self._structure = structure
        self._leaves = [leaf for leaf in tf.nest.flatten(structure) if _is_tensor(leaf)]
        with tf.control_dependencies(None):  # outside of the loop
            self._arrays = [_array(leaf.dtype, leaf.shape) for leaf in self._leaves]
        pairs = zip(self._arrays, self._leaves)
        self._flows = [array.write(0, leaf).flow for array, leaf in pairs]

    def flow(self, unused):
        """A float32 scalar for the body to return; `unused` where there is nothing to take out."""
        return tf.add_n(self._flows) if self._flows else unused

    def read(self, flow) -> Any:
        """The structure behind the loop. flow: what the loop returned for that of the body."""
        values = []
        for array, leaf in zip(self._arrays, self._leaves):
            value = _array(leaf.dtype, leaf.shape, array.handle, flow).read(0)
            value.set_shape(leaf.shape)
            values.append(value)
        return _replaced(self._structure, values)


def _array(dtype, shape, handle=None, flow=None) -> tf.TensorArray:
    """A new array of one tensor, or that of `handle` in the state of `flow`."""
    if handle is not None:
        return tf.TensorArray(dtype, handle=handle, flow=flow, infer_shape=False)
    # Placed without regard to who writes it: its place is outside of the loop.
    return tf.TensorArray(
        dtype, 1, element_shape=shape, infer_shape=False, colocate_with_first_write_call=False
    )


def _is_tensor(leaf) -> bool:
    return isinstance(leaf, tf.Tensor)


def _replaced(structure, tensors) -> Any:
    """The structure with its tensors replaced, in their order; what is no tensor stays."""
    waiting = iter(tensors)
    leaves = [next(waiting) if _is_tensor(x) else x for x in tf.nest.flatten(structure)]
    return tf.nest.pack_sequence_as(structure, leaves)


def make_budget():
    """How many steps a call makes: an int32 scalar to be fed, 1 by default."""
    return tf.placeholder_with_default(tf.constant(1, tf.int32), [], name="steps_per_call")


def looped(make_step: Callable[[Any], Made], budget) -> Looped:
    """The steps of `make_step` in a loop of the graph; it is given the step's number in the call.

    budget: of `make_budget`.
    """
    taps: Dict[str, Tap] = {}

    def body(count, *flows):
        with tf.name_scope(None):  # summaries are named by it, and are to be named as in any step
            made = make_step(count)
        names = sorted(made.groups)
        taps.update((name, Tap(made.groups[name])) for name in names)
        with tf.control_dependencies([made.train_op]):
            count = count + 1
        # One flow for each group, so that those that are not fetched are not computed.
        return [count] + [taps[n].flow(f) for n, f in zip(names, flows)] + list(flows[len(names) :])

    start = [tf.constant(0)] + [tf.constant(0.0)] * MOST_GROUPS
    ends = tf.while_loop(
        lambda count, *_: count < budget, body, start, parallel_iterations=1, back_prop=False
    )
    groups = {name: taps[name].read(flow) for name, flow in zip(sorted(taps), ends[1:])}
    return Looped(ends[0].op, budget, groups)


# ---------------------------------------------------------------------------------- compiled by XLA


class Like(NamedTuple):
    """Dtype and shape of a tensor that is not made yet."""

    dtype: Any
    shape: Any


def likes(structure) -> List[Like]:
    """Of every tensor of the structure."""
    return [Like(t.dtype, t.shape) for t in tf.nest.flatten(structure) if _is_tensor(t)]


def compiled_loop(
    make_step: Callable[..., Made],
    budget,
    inputs: List[Any],
    like: Dict[str, List[Like]],
    going: Callable[[], Optional[Any]],
) -> Looped:
    """The steps of `make_step(number, *inputs)` in a loop that XLA compiles as a whole.

    budget: of `make_budget`. inputs: tensors from outside of the loop. like: the tensors of each
    group of the step. going: asked in the body, behind the step, for a bool scalar; where that is
    False, no further step is made.
    """
    kept: Dict[str, Any] = {}
    names = sorted(like)

    def steps(budget, *inputs):
        def body(count, _, *before):
            made = make_step(count, *inputs)
            kept.update(made.groups)
            values = [x for n in names for x in tf.nest.flatten(made.groups[n]) if _is_tensor(x)]
            with tf.control_dependencies([made.train_op]):
                on = going()
                return [count + 1, tf.constant(True) if on is None else tf.identity(on)] + values

        start = [tf.zeros(x.shape, x.dtype) for name in names for x in like[name]]
        return tf.while_loop(
            lambda count, on, *_: tf.logical_and(count < budget, on),
            body,
            [tf.constant(0), tf.constant(True)] + start,
            parallel_iterations=1,
            back_prop=False,
        )

    ends = list(compiled(steps, [budget] + inputs))
    groups, values = {}, iter(ends[2:])
    for name in names:
        groups[name] = _replaced(kept[name], [next(values) for _ in like[name]])
    return Looped(ends[0].op, budget, groups, ends[1])
