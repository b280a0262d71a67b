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


class LoopOutputs:
    """Brings the tensors of a structure out of the body of a loop, in which it is created.

    `tf.while_loop` returns only its loop variables, whose shapes must be known before the body is
    built. A TensorArray that the body writes needs neither, and a call that does not read it does
    not write it.
    """

    def __init__(self, structure: Any):
        self._structure = structure
        self._leaves = _tensors_of(structure)
        with tf.control_dependencies(None):  # outside of the loop
            # Placed without regard to the first write of each: they live outside of the loop.
            self._arrays = [
                tf.TensorArray(
                    leaf.dtype,
                    1,
                    element_shape=leaf.shape,
                    infer_shape=False,
                    colocate_with_first_write_call=False,
                )
                for leaf in self._leaves
            ]
        pairs = zip(self._arrays, self._leaves)
        self._flows = [array.write(0, leaf).flow for array, leaf in pairs]

    def flow(self, unused):
        """A float32 scalar for the body to return; `unused` if the structure has no tensors."""
        return tf.add_n(self._flows) if self._flows else unused

    def read(self, flow) -> Any:
        """The structure outside of the loop, which returned `flow` for that of the body."""
        values = []
        for array, leaf in zip(self._arrays, self._leaves):
            written = tf.TensorArray(leaf.dtype, handle=array.handle, flow=flow, infer_shape=False)
            value = written.read(0)
            value.set_shape(leaf.shape)
            values.append(value)
        return _replace_tensors(self._structure, values)


def _tensors_of(structure: Any) -> List[tf.Tensor]:
    return [leaf for leaf in tf.nest.flatten(structure) if isinstance(leaf, tf.Tensor)]


def _replace_tensors(structure, tensors) -> Any:
    """The structure with its tensors replaced, in their order; other leaves stay."""
    iterator = iter(tensors)
    leaves = tf.nest.flatten(structure)
    leaves = [next(iterator) if isinstance(leaf, tf.Tensor) else leaf for leaf in leaves]
    return tf.nest.pack_sequence_as(structure, leaves)


def make_num_steps():
    """The number of steps of a call: an int32 scalar placeholder, 1 by default."""
    return tf.placeholder_with_default(tf.constant(1, tf.int32), [], name="steps_per_call")


def build_loop(make_step: Callable[[Any], Step], num_steps) -> StepLoop:
    """Build steps in a loop of the graph, `num_steps` of `make_num_steps`. `make_step` adds a step,
    given its number in the call (int32 scalar).
    """
    fields: List[LoopOutputs] = []
    outputs_type: List[Any] = []

    def body(count, *flows):
        with tf.name_scope(None):  # a summary's name must be the one it has in a single step
            train_op, outputs = make_step(count)
        outputs_type[:] = [type(outputs)]
        fields[:] = [LoopOutputs(field) for field in outputs]
        with tf.control_dependencies([train_op]):
            count = count + 1
        # One flow for each field, so that fields that are not fetched are not computed.
        used = [field.flow(flow) for field, flow in zip(fields, flows)]
        return [count] + used + list(flows[len(fields) :])

    start = [tf.constant(0)] + [tf.constant(0.0)] * MAX_GROUPS
    ends = tf.while_loop(
        lambda count, *_: count < num_steps, body, start, parallel_iterations=1, back_prop=False
    )
    outputs = outputs_type[0](*[field.read(flow) for field, flow in zip(fields, ends[1:])])
    return StepLoop(ends[0].op, num_steps, outputs)


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
