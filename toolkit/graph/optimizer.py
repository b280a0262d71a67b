"""From losses to one training op: schedule, gradients, guard, clipping, update, decay, step.

The order within the op, held by control dependencies: all gradients, the guard, the updates of the
variables and the state updates that the forward pass asked for (batch norm's), weight decay, the
global step. A guard that fails stops all of them, so a step happens as a whole or not at all: also
a step of several updates one after the other, whose earlier ones a later guard takes back.
"""

from __future__ import annotations

import functools
import inspect
import math
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

from ..compat import tf
from ..errors import ToolkitError, UsageError, nearest

NOT_FINITE = "not finite: loss, gradient norm"
STATE_UPDATES = ("AssignVariableOp", "AssignAddVariableOp", "AssignSubVariableOp")


class Part(NamedTuple):
    """The gradients of one loss, ready to be applied; see `Run.gradients`."""

    name: str
    loss: Any
    gradients: List[Any]  # dense, of `variables`
    variables: List[Any]
    updates: List[Any]  # state-update ops, to be run behind the guard
    optimizer: Any
    learning_rate: Any
    gradient_norm: Any
    after: Optional[Callable[[], Any]]


class Applied(NamedTuple):
    """One guarded update. `before`: what it changes, as pairs (variable's handle, old value)."""

    op: Any
    finite: Any  # bool scalar: whether this and all earlier updates of the step went through
    skipped: Any  # int64 variable, or None with the policy "stop"
    before: List[Tuple[Any, Any]]
    going: Any = None  # bool scalar of a compiled update: False where the run is to stop


def gradients(
    loss, variables, updates, optimizer, rate, name: str = "", after=None, compiled=False
) -> Part:
    """See `Run.gradients`. optimizer, rate: of `make_optimizer` and `learning_rate`."""
    found, variables = _gradients(optimizer, loss, variables)
    measure = squared_norm_compiled if compiled else squared_norm
    norm = tf.sqrt(tf.add_n([measure(g) for g in found]))
    return Part(name, loss, found, variables, list(updates), optimizer, rate, norm, after)


def apply(
    parts: Sequence[Part], options, step, earlier: Sequence[Applied] = (), more: bool = False
) -> Applied:
    """Apply all parts behind one guard, each after the gradients of all are known.

    step: int64 scalar, steps made so far. earlier: the updates of this step that stand before this
    one and are taken back if the guard fails. more: whether others follow, which may have to take
    this one back.
    """
    finite = _all_finite(parts, earlier)
    _make_own(parts, options)
    before = [pair for part in parts for pair in _state_of(part, options)] if more else []
    if before:  # read before anything changes
        with tf.control_dependencies([value for _, value in before]):
            finite = tf.identity(finite)

    def change():
        return tf.group(*[_change(part, options, step) for part in parts])

    # A tf.cond costs next to nothing; an assertion that all updates waited for cost a tenth of the
    # step.
    skipped = _skip_counter() if options.nan == "skip" else None

    def refuse():
        return _fail(parts, earlier) if skipped is None else _skip(skipped, earlier)

    return Applied(tf.cond(finite, change, refuse).op, finite, skipped, before)


def values_now() -> Dict[str, Any]:
    """The values of all variables, by the names of their handles."""
    return {v.handle.name: v.read_value() for v in tf.global_variables()}


def apply_compiled(
    parts: Sequence[Part],
    options,
    step,
    earlier: Sequence[Applied] = (),
    more: bool = False,
    start: Optional[Dict[str, Any]] = None,
) -> Applied:
    """`apply` for XLA, which copies what a tf.cond might change and knows no assertions.

    All changes are made, and each variable then gets its new value or its old one, which XLA does
    in the same pass. A step that was refused is told by `going`. start: `values_now` from before
    the step: what is compiled runs state updates where they are made, so they are not made again.
    """
    finite = _all_finite(parts, earlier)
    _make_own(parts, options)
    old = values_now()
    graph, known = tf.get_default_graph(), set(tf.get_default_graph().get_operations())
    with tf.control_dependencies([finite, *old.values()]):
        changed = tf.group(*[_change(part._replace(updates=[]), options, step) for part in parts])
    new = [o for o in graph.get_operations() if o not in known]
    written = {i.name for o in new for i in o.inputs if i.dtype == tf.resource}
    updated = {update.inputs[0].name for part in parts for update in part.updates}
    before = []
    for variable in tf.global_variables():
        name, inside = variable.handle.name, _inside(variable.handle).name
        if inside in updated:
            before.append((variable.handle, (start or old)[name]))
        elif inside in written:
            before.append((variable.handle, old[name]))
    with tf.control_dependencies([changed]):
        ops = [_choose(finite, resource, value) for resource, value in before]
        ops += [_choose(finite, r, value) for r, value in _oldest(earlier)]
    if options.nan == "stop":
        return Applied(tf.group(*ops), finite, None, before, finite)
    skipped = _skip_counter()
    first = earlier[-1].finite if earlier else tf.constant(True)
    count = tf.cast(tf.logical_and(first, tf.logical_not(finite)), tf.int64)
    ops.append(skipped.assign_add(count, read_value=False))
    return Applied(tf.group(*ops), finite, skipped, before)


def _choose(finite, resource, old):
    new = tf.raw_ops.ReadVariableOp(resource=resource, dtype=old.dtype)
    return tf.raw_ops.AssignVariableOp(resource=resource, value=tf.where(finite, new, old))


def _inside(handle):
    """The tensor that stands for a variable's handle in the function that is being made."""
    return tf.get_default_graph().capture(handle)


# ------------------------------------------------------------------------------------------ guard


def _all_finite(parts, earlier):
    """bool scalar: whether these updates and all earlier ones of the step can be made."""
    finite = [tf.logical_and(tf.is_finite(p.loss), tf.is_finite(p.gradient_norm)) for p in parts]
    return functools.reduce(tf.logical_and, finite + [other.finite for other in earlier[-1:]])


def _fail(parts, earlier):
    with tf.control_dependencies(_taken_back(earlier)):
        # The raw op: tf.Assert would wrap it in a further tf.cond.
        never = tf.constant(False)
        told = [NOT_FINITE]
        for part in parts:
            told += [part.name, part.loss, part.gradient_norm]
        return tf.raw_ops.Assert(condition=never, data=told, summarize=3)


def _skip_counter():
    with tf.init_scope(), tf.variable_scope("toolkit", reuse=tf.AUTO_REUSE):
        return tf.get_variable(
            "skipped_steps",
            [],
            tf.int64,
            tf.zeros_initializer(),
            trainable=False,
            use_resource=True,
        )


def _skip(skipped, earlier):
    """Count the step once: not again where an earlier update of it was skipped already."""
    counted = tf.cast(earlier[-1].finite, tf.int64) if earlier else tf.constant(1, tf.int64)
    return tf.group(skipped.assign_add(counted, read_value=False), *_taken_back(earlier))


def _taken_back(earlier):
    """Ops that give every variable the value from before the earlier updates of the step."""
    return [tf.raw_ops.AssignVariableOp(resource=r, value=value) for r, value in _oldest(earlier)]


def _oldest(earlier):
    """(handle, value) of every variable that the earlier updates of the step changed."""
    oldest = {}
    for applied in earlier:  # the first value that is met is the oldest
        for resource, value in applied.before:
            oldest.setdefault(resource.name, (resource, value))
    return list(oldest.values())


def _state_of(part: Part, options):
    """(handle, value now) of every variable that applying the part changes."""
    variables = list(part.variables) + _own(part, options)
    pairs = [(v.handle, v.read_value()) for v in variables]
    for update in part.updates:
        resource = update.inputs[0]
        dtype = update.get_attr("dtype")
        pairs.append((resource, tf.raw_ops.ReadVariableOp(resource=resource, dtype=dtype)))
    return pairs


def _make_own(parts, options) -> None:
    """Make the variables of all updates before the first of them, outside of any condition."""
    for part in parts:
        _own(part, options)


def _own(part: Part, options):
    """The variables of the optimizer and of accumulation, made now if this is their first use."""
    with tf.init_scope(), tf.name_scope(_scope(part.name)):
        # tf.train has no public way to make them ahead of the first update.
        part.optimizer._create_slots(part.variables)
    sums = _sums(part.variables) if options.accumulate > 1 else []
    return part.optimizer.variables() + sums


# ---------------------------------------------------------------------------------------- updates


def _scope(name: str) -> str:
    # Absolute: an optimizer's own variables are named alike in a loop and outside.
    return f"optimizer/{name}/" if name else "optimizer/"


def _gradients(optimizer, loss, variables):
    """Dense gradients and their variables, without those that the loss does not depend on."""
    pairs = [(g, v) for g, v in optimizer.compute_gradients(loss, variables) if g is not None]
    if not pairs:
        raise ToolkitError("The loss depends on none of the variables to be trained.")
    return [tf.convert_to_tensor(g) for g, _ in pairs], [v for _, v in pairs]


def _change(part: Part, options, step):
    """Every change of a part, as one op. Made under the guard, so all of it waits for it."""
    with tf.name_scope(_scope(part.name)):
        # An op made before the guard can't be made to wait for it; an equal one made here does.
        states = [_again(update) for update in part.updates]
        if options.accumulate == 1:
            changed = _update(part, part.gradients, options)
        else:
            changed = _accumulate(part, options, step)
        return tf.group(changed, *states)


def _update(part: Part, values, options):
    # All gradients are read before the first variable changes.
    with tf.control_dependencies(values):
        clipped = clip(values, options.clip, options.clip_at)
        changed = part.optimizer.apply_gradients(list(zip(clipped, part.variables)))
    decayed = [v for v in part.variables if v.shape.ndims >= 2]
    if options.weight_decay and decayed:
        with tf.control_dependencies([changed]):
            factor = part.learning_rate * options.weight_decay
            changed = tf.group(*[v.assign_sub(factor * v.read_value()) for v in decayed])
    if part.after is None:
        return changed
    with tf.control_dependencies([changed]):
        return tf.group(part.after())


def _sums(variables):
    with tf.init_scope(), tf.variable_scope("toolkit/accumulated", reuse=tf.AUTO_REUSE):
        return [
            tf.get_variable(
                v.op.name,
                v.shape.as_list(),
                v.dtype.base_dtype,
                tf.zeros_initializer(),
                trainable=False,
                use_resource=True,
            )
            for v in variables
        ]


def _accumulate(part: Part, options, step):
    """Add gradients to checkpointed sums; on every n-th step apply their mean and clear."""
    count, sums = options.accumulate, _sums(part.variables)
    added = [s.assign_add(g, read_value=False) for s, g in zip(sums, part.gradients)]

    def update():
        means = [s.read_value() / count for s in sums]
        with tf.control_dependencies([_update(part, means, options)]):
            return tf.group(*[s.assign(tf.zeros_like(s), read_value=False) for s in sums])

    with tf.control_dependencies(added):
        return tf.cond(tf.equal((step + 1) % count, 0), update, lambda: tf.group(*added)).op


def _again(update):
    """An op equal to a state update, but made here, under the control dependencies in force."""
    if update.type not in STATE_UPDATES:
        raise ToolkitError(f"State update '{update.name}' is a {update.type}.")
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


def squared_norm_compiled(tensor):
    """The same for XLA, which sums a row one number after the other, but columns side by side.

    The root keeps it from making one sum of the two.
    """
    size = tensor.shape.num_elements()
    columns = tf.reduce_sum(tf.square(tf.reshape(tensor, [-1, math.gcd(size, 64)])), 0)
    return tf.reduce_sum(tf.square(tf.sqrt(columns)))


def clip(gradients: List[Any], how: str, limit: float) -> List[Any]:
    """Gradients limited to [-limit, limit] each, to a norm each, or to one norm over all."""
    if how == "value":
        return [tf.clip_by_value(g, -limit, limit) for g in gradients]
    if how == "norm":
        return [tf.clip_by_norm(g, limit) for g in gradients]
    if how == "global-norm":
        return tf.clip_by_global_norm(gradients, limit)[0]
    return gradients


def learning_rate(options, step, total_steps: Optional[int], base: Optional[float] = None):
    """float32 scalar tensor: the rate of the step after `step` (int64 scalar, steps made so far).

    base: in place of options.learning_rate.

    constant; cosine: 0.5 (1 + cos(pi t)) over decay_steps (Loshchilov and Hutter 2017); step and
    exponential: decay_rate ** (step / decay_steps), rounded down for `step`. During warm-up the
    rate rises from rate / warmup_steps to the full rate, and the schedule counts from the
    warm-up's end.
    """
    base = tf.constant(options.learning_rate if base is None else base, tf.float32)
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
            f"There is no optimizer '{name}' in tf.train.",
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
                f"Optimizer '{name}' has no argument '{argument}'.",
                hint=nearest(argument, known),
            )
    if "global_step" in inspect.signature(cls.__init__).parameters:
        given["global_step"] = tf.train.get_or_create_global_step()
    return cls(learning_rate=rate, **given)
