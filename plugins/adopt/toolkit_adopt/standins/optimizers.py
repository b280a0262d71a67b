"""`tf.contrib.layers.optimize_loss`: a training step of an optimizer that is named."""

from __future__ import annotations

from typing import Any

from toolkit import tf

from .learning import multiply_gradients

__all__ = ["OPTIMIZER_CLS_NAMES", "OPTIMIZER_SUMMARIES", "optimize_loss"]

OPTIMIZER_CLS_NAMES = {
    "Adagrad": tf.train.AdagradOptimizer,
    "Adam": tf.train.AdamOptimizer,
    "Ftrl": tf.train.FtrlOptimizer,
    "Momentum": lambda learning_rate: tf.train.MomentumOptimizer(learning_rate, momentum=0.9),
    "RMSProp": tf.train.RMSPropOptimizer,
    "SGD": tf.train.GradientDescentOptimizer,
}
OPTIMIZER_SUMMARIES = [
    "learning_rate",
    "loss",
    "gradients",
    "gradient_norm",
    "global_gradient_norm",
]


def optimize_loss(
    loss,
    global_step,
    learning_rate,
    optimizer,
    gradient_noise_scale=None,
    gradient_multipliers=None,
    clip_gradients=None,
    learning_rate_decay_fn=None,
    update_ops=None,
    variables=None,
    name=None,
    summaries=None,
    colocate_gradients_with_ops=False,
    increment_global_step=True,
):
    """The loss, whose evaluation makes a training step.

    Args:
        loss: a scalar.
        global_step: the step to advance; None for that of the graph, if it has one.
        learning_rate: a float, which becomes the variable "learning_rate", a scalar, or None.
        optimizer: one of `OPTIMIZER_CLS_NAMES`, an optimizer, or what makes one of the rate.
        gradient_noise_scale: None; noise has no stand-in.
        gradient_multipliers: variable or its name with ":0" -> factor of its gradient.
        clip_gradients: a float, the largest global norm, or a function of (gradient, variable)
            pairs.
        learning_rate_decay_fn: (rate, step) -> rate.
        update_ops: what runs before the loss; the collection UPDATE_OPS by default.
        variables: all trainable ones by default.
        name: of the scope.
        summaries: some of `OPTIMIZER_SUMMARIES`; by default the scalars of the whole model.
        colocate_gradients_with_ops: as of the optimizer.
        increment_global_step: whether the step is advanced.
    """
    if gradient_noise_scale is not None:
        raise ValueError("gradient_noise_scale has no stand-in")
    shown = ["loss", "learning_rate", "global_gradient_norm"] if summaries is None else summaries
    step = tf.train.get_global_step() if global_step is None else global_step
    with tf.variable_scope(name, "OptimizeLoss", [loss, step]):
        updates = tf.get_collection(tf.GraphKeys.UPDATE_OPS) if update_ops is None else update_ops
        with tf.control_dependencies(list(updates)):
            loss = tf.identity(loss)
        rate = _make_rate(learning_rate)
        if rate is not None and learning_rate_decay_fn is not None:
            rate = learning_rate_decay_fn(rate, step)
            if "learning_rate" in shown:
                tf.summary.scalar("learning_rate", rate)
        maker = _make_optimizer(optimizer, rate)
        pairs = maker.compute_gradients(
            loss,
            tf.trainable_variables() if variables is None else variables,
            colocate_gradients_with_ops=colocate_gradients_with_ops,
        )
        if gradient_multipliers is not None:
            # Here a name has its ":0", or is nobody's.
            named = {getattr(key, "name", key): each for key, each in gradient_multipliers.items()}
            factors = {key: each for key, each in named.items() if ":" in key}
            pairs = multiply_gradients(pairs, factors)
        shows_norm = not {"global_gradient_norm", "gradient_norm"}.isdisjoint(shown)
        if shows_norm:
            _summarize_norm("gradient_norm", pairs)
        if clip_gradients is not None:
            pairs = (
                clip_gradients(pairs) if callable(clip_gradients) else _clip(pairs, clip_gradients)
            )
            if shows_norm:
                _summarize_norm("clipped_gradient_norm", pairs)
        if "loss" in shown:
            tf.summary.scalar("loss", loss)
        _summarize_gradients(pairs, shown)
        advanced = step if increment_global_step else None
        with tf.control_dependencies([maker.apply_gradients(pairs, advanced, name="train")]):
            return tf.identity(loss)


def _make_rate(rate: Any) -> Any:
    """The rate as a tensor: a number in a variable."""
    if not isinstance(rate, float):
        return rate
    start = tf.constant_initializer(rate)
    return tf.get_variable("learning_rate", [], trainable=False, initializer=start)


def _make_optimizer(optimizer: Any, rate: Any) -> Any:
    if isinstance(optimizer, str):
        optimizer = OPTIMIZER_CLS_NAMES[optimizer]
    if isinstance(optimizer, tf.train.Optimizer):
        return optimizer
    return optimizer() if rate is None else optimizer(rate)


def _clip(pairs: Any, norm: float) -> Any:
    gradients, variables = zip(*pairs)
    return list(zip(tf.clip_by_global_norm(gradients, norm)[0], variables))


def _summarize_norm(name: str, pairs: Any) -> None:
    tf.summary.scalar(f"global_norm/{name}", tf.global_norm([gradient for gradient, _ in pairs]))


def _summarize_gradients(pairs: Any, shown: Any) -> None:
    """A histogram and the norm of each gradient, as far as they are asked for."""
    for gradient, variable in pairs:
        if gradient is None:
            continue
        values = gradient.values if isinstance(gradient, tf.IndexedSlices) else gradient
        place = variable.name.replace(":", "_")
        if "gradients" in shown:
            tf.summary.histogram(f"gradients/{place}", values)
        if "gradient_norm" in shown:
            tf.summary.scalar(f"gradient_norm/{place}", tf.global_norm([values]))
