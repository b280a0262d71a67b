"""From a loss to one training op: schedule, gradients, guard, clipping, update, decay, step.

The order within the op, held by control dependencies: all gradients, the guard, the updates of the
variables and the state updates that the forward pass asked for (batch norm's), weight decay, the
global step. A guard that fails stops all of them, so a step happens as a whole or not at all.
"""

from __future__ import annotations

import inspect
from typing import Any, List, NamedTuple, Optional

from .compat import tf
from .errors import ToolkitError, UsageError, nearest

NOT_FINITE = "not finite: loss, gradient norm"
STATE_UPDATES = ("AssignVariableOp", "AssignAddVariableOp", "AssignSubVariableOp")


class Minimize(NamedTuple):
    """The op of a step, and scalar tensors that tell of it."""

    op: Any
    learning_rate: Any
    gradient_norm: Any
    skipped: Any  # int64 variable, or None with the policy "stop"


def minimize(
    loss, variables, updates, options, global_step, total_steps, advance_step, name=""
) -> Minimize:
    """See `Run.minimize`. updates: state-update ops, to be run behind the guard."""
    step = global_step.read_value()
    rate = learning_rate(options, step, total_steps)
    optimizer = make_optimizer(options.optimizer, rate, options.optimizer_args)
    gradients, variables = _gradients(optimizer, loss, variables)
    norm = tf.sqrt(tf.add_n([squared_norm(g) for g in gradients]))
    finite = tf.logical_and(tf.is_finite(loss), tf.is_finite(norm))

    def apply():
        # The scope is absolute: an optimizer's own variables are named alike in a loop and outside.
        with tf.name_scope((name or "optimizer") + "/"):
            return _apply(optimizer, gradients, variables, updates, rate, options, step)

    # A tf.cond costs next to nothing; an assertion that all updates waited for cost a tenth of the
    # step.
    skipped = None
    if options.nan == "stop":
        applied = tf.cond(finite, apply, lambda: _fail(loss, norm)).op
    else:
        skipped = _skip_counter()
        applied = tf.cond(finite, apply, lambda: _skip(skipped)).op
    if advance_step:
        with tf.control_dependencies([applied]):
            applied = global_step.assign_add(1, read_value=False)
    return Minimize(applied, rate, norm, skipped)


def _fail(loss, norm):
    # The raw op: tf.Assert would wrap it in a further tf.cond.
    never = tf.constant(False)
    return tf.raw_ops.Assert(condition=never, data=[NOT_FINITE, loss, norm], summarize=3)


def _skip_counter():
    with tf.init_scope():
        return tf.get_variable(
            "toolkit/skipped_steps",
            [],
            tf.int64,
            tf.zeros_initializer(),
            trainable=False,
            use_resource=True,
        )


def _skip(skipped):
    return tf.group(skipped.assign_add(1, read_value=False))


def _gradients(optimizer, loss, variables):
    """Dense gradients and their variables, without those that the loss does not depend on."""
    pairs = [(g, v) for g, v in optimizer.compute_gradients(loss, variables) if g is not None]
    if not pairs:
        raise ToolkitError("The loss depends on none of the variables to be trained.")
    return [tf.convert_to_tensor(g) for g, _ in pairs], [v for _, v in pairs]


def _apply(optimizer, gradients, variables, updates, rate, options, step):
    """Every change of a step, as one op. Made under the guard, so all of it waits for it."""
    # An op made before the guard can't be made to wait for it; an equal one made here does.
    states = [_again(update) for update in updates]
    if options.accumulate == 1:
        changed = _update(optimizer, gradients, variables, rate, options)
    else:
        changed = _accumulate(optimizer, gradients, variables, rate, options, step)
    return tf.group(changed, *states)


def _update(optimizer, gradients, variables, rate, options):
    # All gradients are read before the first variable changes.
    with tf.control_dependencies(gradients):
        clipped = clip(gradients, options.clip, options.clip_at)
        applied = optimizer.apply_gradients(list(zip(clipped, variables)))
    decayed = [v for v in variables if v.shape.ndims >= 2]
    if not options.weight_decay or not decayed:
        return applied
    with tf.control_dependencies([applied]):
        factor = rate * options.weight_decay
        return tf.group(*[v.assign_sub(factor * v.read_value()) for v in decayed])


def _accumulate(optimizer, gradients, variables, rate, options, step):
    """Add gradients to checkpointed sums; on every n-th step apply their mean and clear."""
    count = options.accumulate
    with tf.init_scope():
        sums = [
            tf.get_variable(
                "toolkit/accumulated/" + v.op.name,
                v.shape.as_list(),
                v.dtype.base_dtype,
                tf.zeros_initializer(),
                trainable=False,
                use_resource=True,
            )
            for v in variables
        ]
    added = [s.assign_add(g, read_value=False) for s, g in zip(sums, gradients)]

    def apply():
        means = [s.read_value() / count for s in sums]
        with tf.control_dependencies([_update(optimizer, means, variables, rate, options)]):
            return tf.group(*[s.assign(tf.zeros_like(s), read_value=False) for s in sums])

    with tf.control_dependencies(added):
        return tf.cond(tf.equal((step + 1) % count, 0), apply, lambda: tf.group(*added)).op


def _again(update):
    """An op equal to a state update, but made here, under the control dependencies in force."""
    if update.type not in STATE_UPDATES:
        raise ToolkitError("State update '{}' is a {}.".format(update.name, update.type))
    make = {
        "AssignVariableOp": tf.raw_ops.AssignVariableOp,
        "AssignAddVariableOp": tf.raw_ops.AssignAddVariableOp,
        "AssignSubVariableOp": tf.raw_ops.AssignSubVariableOp,
    }[update.type]
    resource, value = update.inputs
    return make(resource=resource, value=value)


def state_updates(operations) -> List[Any]:
    """Those of the operations that assign a variable: what a forward pass wants done."""
    return [o for o in operations if o.type in STATE_UPDATES]


# ------------------------------------------------------------------------------------------ parts


def squared_norm(tensor):
    """The sum of the squares of all elements, a scalar. Not finite where an element is not.

    As a product of a row with itself: tf.nn.l2_loss, which wakes the thread pool for a
    sum, took six times as long on a gradient of 784 x 128.
    """
    row = tf.reshape(tensor, [1, -1])
    return tf.squeeze(tf.matmul(row, row, transpose_b=True))


def clip(gradients: List[Any], how: str, limit: float) -> List[Any]:
    """Gradients limited to [-limit, limit] each, to a norm each, or to one norm over all."""
    if how == "value":
        return [tf.clip_by_value(g, -limit, limit) for g in gradients]
    if how == "norm":
        return [tf.clip_by_norm(g, limit) for g in gradients]
    if how == "global-norm":
        return tf.clip_by_global_norm(gradients, limit)[0]
    return gradients


def learning_rate(options, step, total_steps: Optional[int]):
    """float32 scalar tensor: the rate of the step after `step` (int64 scalar, steps made so far).

    constant; cosine: 0.5 (1 + cos(pi t)) over decay_steps (Loshchilov and Hutter 2017); step and
    exponential: decay_rate ** (step / decay_steps), rounded down for `step`. During warm-up the
    rate rises from rate / warmup_steps to the full rate, and the schedule counts from the
    warm-up's end.
    """
    base = tf.constant(options.learning_rate, tf.float32)
    warmup = options.warmup_steps
    if options.schedule == "constant" and not warmup:
        return base
    made = tf.cast(step, tf.float32)
    rate = base
    if options.schedule != "constant":
        rate = base * _decay(options, tf.maximum(made - warmup, 0.0), total_steps)
    if warmup:
        rate = tf.where(made < warmup, base * (made + 1) / warmup, rate)
    return rate


def _decay(options, made, total_steps: Optional[int]):
    length = options.decay_steps
    whole = max((total_steps or 0) - options.warmup_steps, 1)
    if options.schedule == "cosine":
        if length is None and total_steps is None:
            raise UsageError(
                "The cosine schedule has no length.", hint="Set --decay-steps, --steps or --epochs."
            )
        done = tf.minimum(made / float(length or whole), 1.0)
        return 0.5 * (1 + tf.cos(3.14159265 * done))
    exponent = made / float(length or max(whole // 10, 1))
    if options.schedule == "step":
        exponent = tf.floor(exponent)
    return tf.pow(options.decay_rate, exponent)


def optimizer_names() -> List[str]:
    """What `--optimizer` takes: the classes of tf.train, lower case, less 'Optimizer'."""
    names = []
    for name in dir(tf.train):
        if name.endswith("Optimizer") and name not in ("Optimizer", "SyncReplicasOptimizer"):
            names.append(name[: -len("Optimizer")].lower())
    return names


def make_optimizer(name: str, rate, arguments):
    """A tf.train optimizer by name. Raises UsageError for an unknown name or argument."""
    wanted = name.lower().replace("-", "").replace("_", "")
    wanted = {"sgd": "gradientdescent"}.get(wanted, wanted)
    classes = {n.lower(): getattr(tf.train, n) for n in dir(tf.train) if n.endswith("Optimizer")}
    if wanted not in optimizer_names():
        raise UsageError(
            "There is no optimizer '{}' in tf.train.".format(name),
            hint=nearest(wanted, optimizer_names() + ["sgd"]),
        )
    cls = classes[wanted + "optimizer"]
    known = [
        p.name
        for p in inspect.signature(cls.__init__).parameters.values()
        if p.name not in ("self", "learning_rate", "name", "use_locking", "global_step")
    ]
    given = dict(arguments)
    if wanted == "momentum":
        given.setdefault("momentum", 0.9)
    for argument in given:
        if argument not in known:
            raise UsageError(
                "Optimizer '{}' has no argument '{}'.".format(name, argument),
                hint=nearest(argument, known),
            )
    if "global_step" in inspect.signature(cls.__init__).parameters:
        given["global_step"] = tf.train.get_or_create_global_step()
    return cls(learning_rate=rate, **given)
