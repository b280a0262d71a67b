"""Several steps in one session call: a step as the body of a `tf.while_loop`.

The number of steps of a call is fed. The outputs of a step, its losses for example, can be fetched
in a call of one step. Nothing here knows what a step is; `make_step` adds one to the graph.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

from ..compat import compile_with_xla, tf

MAX_GROUPS = 8


class StepLoop(NamedTuple):
    """A loop of steps."""

    op: Any  # makes the steps
    num_steps: Any  # int32 scalar placeholder, 1 by default; None for a single step without a loop
    # Of the only step of a call that makes one: a NamedTuple whose fields are structures of
    # tensors. Fetching one tensor of a field computes the whole field, and nothing of the others.
    outputs: Any
    all_finite: Any = None  # bool scalar of a compiled loop, False where it refused a step
    max_steps: Optional[int] = None  # of a call


Step = Tuple[Any, Any]  # the op that makes a step, and the step's outputs


def _tensors_of(structure: Any) -> List[tf.Tensor]:
    return [leaf for leaf in tf.nest.flatten(structure) if isinstance(leaf, tf.Tensor)]


def _replace_tensors(structure, tensors) -> Any:
    """The structure with its tensors replaced, in their order; other leaves stay."""
    iterator = iter(tensors)
    return tf.nest.map_structure(
        lambda leaf: next(iterator) if isinstance(leaf, tf.Tensor) else leaf, structure
    )


def make_num_steps():
    """The number of steps of a call: an int32 scalar placeholder, 1 by default."""
    return tf.placeholder_with_default(tf.constant(1, tf.int32), [], name="steps_per_call")


def build_loop(make_step: Callable[[Any], Step], num_steps) -> StepLoop:
    """Build steps in a loop of the graph, `num_steps` of `make_num_steps`. `make_step` adds a step,
    given its number in the call (int32 scalar).

    `tf.while_loop` returns only its loop variables, whose shapes must be known before the body is
    built. A TensorArray that the body writes needs neither, and a call that does not read it does
    not write it.
    """
    structures: List[Any] = []  # the outputs of the step
    arrays: List[List[Any]] = []  # of each field, one for each of its tensors

    def body(count, *flows):
        with tf.name_scope(None):  # a summary's name must be the one it has in a single step
            train_op, outputs = make_step(count)
        structures[:], arrays[:], sums = [outputs], [], []
        for field, flow in zip(outputs, flows):
            leaves = _tensors_of(field)
            with tf.control_dependencies(None):  # outside of the loop
                arrays.append([_make_array(leaf) for leaf in leaves])
            written = [array.write(0, leaf).flow for array, leaf in zip(arrays[-1], leaves)]
            # One flow for each field, so that fields that are not fetched are not computed.
            sums.append(tf.add_n(written) if written else flow)
        with tf.control_dependencies([train_op]):
            count = count + 1
        return [count] + sums + list(flows[len(sums) :])

    start = [tf.constant(0)] + [tf.constant(0.0)] * MAX_GROUPS
    ends = tf.while_loop(
        lambda count, *_: count < num_steps, body, start, parallel_iterations=1, back_prop=False
    )
    fields = []
    for field, flow, own in zip(structures[0], ends[1:], arrays):
        values = []
        for array, leaf in zip(own, _tensors_of(field)):
            written = tf.TensorArray(leaf.dtype, handle=array.handle, flow=flow, infer_shape=False)
            values.append(written.read(0))
            values[-1].set_shape(leaf.shape)
        fields.append(_replace_tensors(field, values))
    return StepLoop(ends[0].op, num_steps, type(structures[0])(*fields))


def _make_array(tensor: tf.Tensor) -> tf.TensorArray:
    """For one value; placed without regard to the write of it: it lives outside of the loop."""
    return tf.TensorArray(
        tensor.dtype,
        1,
        element_shape=tensor.shape,
        infer_shape=False,
        colocate_with_first_write_call=False,
    )


# ---------------------------------------------------------------------------------- compiled by XLA


def specs_of(structure) -> List[tf.TensorSpec]:
    """Shape and dtype of every tensor of the structure."""
    return [tf.TensorSpec(leaf.shape, leaf.dtype) for leaf in _tensors_of(structure)]


def build_compiled_loop(
    make_step: Callable[..., Step],
    num_steps,
    inputs: List[Any],
    specs: List[tf.TensorSpec],
    read_all_finite: Callable[[], Optional[Any]],
) -> StepLoop:
    """Build steps in a loop that XLA compiles as a whole, `num_steps` of `make_num_steps`.
    `make_step` gets its number in the call (int32 scalar) and `inputs`, tensors from outside of the
    loop. The specs are of the tensors of the step's outputs, in their order. Where the bool scalar
    that `read_all_finite` returns behind a step is False, no further step is made.
    """
    structures: Dict[str, Any] = {}

    def steps(num_steps, *inputs):
        def body(count, _, *before):
            train_op, structures["outputs"] = make_step(count, *inputs)
            values = _tensors_of(structures["outputs"])
            with tf.control_dependencies([train_op]):
                finite = read_all_finite()
                all_finite = tf.constant(True) if finite is None else tf.identity(finite)
                return [count + 1, all_finite] + values

        start = [tf.zeros(spec.shape, spec.dtype) for spec in specs]
        return tf.while_loop(
            lambda count, all_finite, *_: tf.logical_and(count < num_steps, all_finite),
            body,
            [tf.constant(0), tf.constant(True)] + start,
            parallel_iterations=1,
            back_prop=False,
        )

    ends = list(compile_with_xla(steps, [num_steps] + inputs))
    outputs = _replace_tensors(structures["outputs"], ends[2:])
    return StepLoop(ends[0].op, num_steps, outputs, ends[1])
