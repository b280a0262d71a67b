"""The draws of stateful random ops, replaced by draws of the run.

A dropout layer of Keras or tf.layers draws by an op whose stream starts again in the next session.
Its numbers become a function of (run seed, name, global step), as those of `Run.uniform`.
"""

from __future__ import annotations

from typing import Any, Sequence

from ..compat import tf

_DRAWS = {"RandomUniform": "uniform", "RandomStandardNormal": "normal"}


def replace_draws(run: Any, ops: Sequence[tf.Operation], name: str) -> None:
    """Give the consumers of stateful uniform and normal draws those of `run` instead.

    Ops within a loop or a condition of their own stay: a draw of the run would be the same in each
    iteration.

    Args:
        run: draws.
        ops: those that a forward pass created, in their order.
        name: the prefix of the draws' names, which another pass does not use.
    """
    draws = [op for op in ops if op.type in _DRAWS]
    context = tf.get_default_graph()._get_control_flow_context()
    for number, op in enumerate(draws):
        if op._get_control_flow_context() is context and op.outputs[0].consumers():
            _replace(op, getattr(run, _DRAWS[op.type])(f"{name}/{number}", op.inputs[0]))


def _replace(op: tf.Operation, draw: tf.Tensor) -> None:
    draw = tf.cast(draw, op.outputs[0].dtype)
    draw.set_shape(op.outputs[0].shape)
    for consumer in op.outputs[0].consumers():
        for index, tensor in enumerate(consumer.inputs):
            if tensor is op.outputs[0] or tensor.name == op.outputs[0].name:
                consumer._update_input(index, draw)
