"""`slim.learning.create_train_op`, and `slim.model_analyzer`, which lists variables."""

from __future__ import annotations

from typing import Any, Iterable, List, Tuple

from toolkit import tf

__all__ = ["analyze_ops", "analyze_vars", "clip_gradient_norms", "create_train_op"]
__all__ += ["multiply_gradients"]

_DEFAULT = object()


def clip_gradient_norms(gradients_to_variables, max_norm) -> List[Tuple[Any, Any]]:
    """(gradient, variable) pairs whose gradients are each clipped to a norm."""
    clip = tf.clip_by_norm
    return [(None if g is None else clip(g, max_norm), v) for g, v in gradients_to_variables]


def multiply_gradients(grads_and_vars, gradient_multipliers) -> List[Tuple[Any, Any]]:
    """(gradient, variable) pairs; those of variables or names in a dictionary are multiplied."""
    factors = {getattr(key, "name", key): value for key, value in gradient_multipliers.items()}

    def factor(var: Any) -> Any:
        return factors.get(var.name, factors.get(var.op.name))

    def scale(gradient: Any, by: Any) -> Any:
        if gradient is None or by is None:
            return gradient
        if isinstance(gradient, tf.IndexedSlices):
            return tf.IndexedSlices(gradient.values * by, gradient.indices, gradient.dense_shape)
        return gradient * by

    return [(scale(gradient, factor(var)), var) for gradient, var in grads_and_vars]


def create_train_op(
    total_loss,
    optimizer,
    global_step=_DEFAULT,
    update_ops=None,
    variables_to_train=None,
    clip_gradient_norm=0,
    summarize_gradients=False,
    gate_gradients=tf.train.Optimizer.GATE_OP,
    aggregation_method=None,
    colocate_gradients_with_ops=False,
    gradient_multipliers=None,
    check_numerics=True,
):
    """The loss, whose evaluation makes a training step.

    Args:
        total_loss: a scalar.
        optimizer: of `tf.train`.
        global_step: the step to advance; by default that of the graph; None for none.
        update_ops: what runs before the loss; the collection UPDATE_OPS by default.
        variables_to_train: all trainable ones by default.
        clip_gradient_norm: of each gradient; 0 to clip none.
        summarize_gradients: whether each gradient has a histogram.
        gate_gradients, aggregation_method, colocate_gradients_with_ops: as of the optimizer.
        gradient_multipliers: variable or name -> factor of its gradient.
        check_numerics: whether a loss that is not finite is an error.
    """
    step = tf.train.get_or_create_global_step() if global_step is _DEFAULT else global_step
    updates = tf.get_collection(tf.GraphKeys.UPDATE_OPS) if update_ops is None else list(update_ops)
    with tf.control_dependencies(updates):
        total_loss = tf.identity(total_loss)
    pairs = optimizer.compute_gradients(
        total_loss,
        variables_to_train or tf.trainable_variables(),
        gate_gradients=gate_gradients,
        aggregation_method=aggregation_method,
        colocate_gradients_with_ops=colocate_gradients_with_ops,
    )
    if gradient_multipliers:
        pairs = multiply_gradients(pairs, gradient_multipliers)
    if clip_gradient_norm > 0:
        pairs = clip_gradient_norms(pairs, clip_gradient_norm)
    if summarize_gradients:
        for gradient, var in pairs:
            if gradient is not None:
                tf.summary.histogram(var.op.name + "/gradient", gradient)
    applied = optimizer.apply_gradients(pairs, global_step=step)
    with tf.name_scope("train_op"):
        if check_numerics:
            total_loss = tf.check_numerics(total_loss, "LossTensor is inf or nan")
        with tf.control_dependencies([applied]):
            train_op = tf.identity(total_loss)
    tf.get_default_graph().add_to_collections(tf.GraphKeys.TRAIN_OP, train_op)
    return train_op


def _describe(value: Any) -> str:
    return f"({value.dtype.base_dtype.name} {'x'.join(map(str, value.shape.as_list()))})"


def analyze_vars(variables: Iterable[Any], print_info: bool = False) -> Tuple[int, int]:
    """How many values and bytes some variables have; their list, if it is asked for, on stdout."""
    sizes = [(each, each.shape.num_elements() or 0) for each in variables]
    total = sum(size for _, size in sizes)
    total_bytes = sum(size * each.dtype.base_dtype.size for each, size in sizes)
    if print_info:
        line = "---------"
        print(line, "Variables: name (type shape) [size]", line, sep="\n")
        for each, size in sizes:
            count = size * each.dtype.base_dtype.size
            print(f"{each.name} {_describe(each)} [{size}, bytes: {count}]")
        print(f"Total size of variables: {total}\nTotal bytes of variables: {total_bytes}")
    return total, total_bytes


def analyze_ops(graph: Any, print_info: bool = False) -> int:
    """How many values the outputs of all ops of a graph have, as far as shapes are known."""
    total = 0
    for op in graph.get_operations():
        known = [each for each in op.outputs if each.shape.num_elements()]
        size = sum(each.shape.num_elements() for each in known)
        total += size
        if print_info:
            print(f"{op.name}\t-> {', '.join(map(_describe, known))} [{size}]")
    return total
