"""`--with label-smoothing`: train on labels a share of which is spread evenly over all classes.

With the share e, the loss of a batch becomes

    (1 - e) * loss(labels) + e / K * (loss(all labels 0) + ... + loss(all labels K - 1)),

which for softmax cross-entropy is the loss of the smoothed labels, exactly (Szegedy et al. 2016),
and for any other mean over the examples its expectation. The model's hook `loss` is called once for
each class, so K losses are computed in each step. Evaluation keeps the plain loss.
"""

from __future__ import annotations

from toolkit import Options, UsageError, hookimpl, option

MAX_CLASSES = 1000


class LabelSmoothingOptions(Options):
    zero_strength = {"smoothing": 0.0}

    smoothing: float = option(
        0.1,
        "share of each label that is spread over all classes; 0 is off",
        group="Label smoothing",
        ge=0,
        lt=1,
    )


@hookimpl
def options():
    return LabelSmoothingOptions


@hookimpl(wrapper=True)
def loss(labels, run):
    from toolkit import tf

    share = run.options.smoothing
    if run.mode != "train" or not share:
        return (yield)
    num_classes = count_classes(run.data)
    total = None
    for k in range(num_classes):
        # A label that is no class, such as 255 for pixels without one, stays.
        replaced = tf.where(labels < num_classes, tf.fill(tf.shape(labels), k), labels)
        losses = yield {"labels": replaced}
        check_depends(losses, replaced)
        total = losses if total is None else combine(tf.add, total, losses)
    losses = yield  # last, so that what the model logs is of the true labels
    spread = share / num_classes
    return combine(lambda plain, other: (1 - share) * plain + spread * other, losses, total)


def count_classes(data) -> int:
    """The number of classes of the labels. Raises UsageError if they are no classes."""
    if isinstance(data.labels, dict) or getattr(data.labels, "kind", "") != "class":
        raise UsageError(
            "Label smoothing needs one label for each example, a class.",
            hint="Omit --with label-smoothing, or set --smoothing 0.",
        )
    num_classes: int = data.labels.num_classes  # `data.num_classes` is 0 for classes of pixels
    if num_classes > MAX_CLASSES:
        raise UsageError(
            f"Label smoothing computes a loss for each class, and {num_classes} are more than "
            f"{MAX_CLASSES}.",
            hint="Set --smoothing 0, and smooth the labels in the model's loss.",
        )
    return num_classes


def check_depends(losses, labels) -> None:
    """Raise UsageError if no loss depends on a tensor of labels."""
    ops = [loss.op for loss in (losses.values() if isinstance(losses, dict) else [losses])]
    visited = set()
    while ops:
        op = ops.pop()
        if op is labels.op:
            return
        if op not in visited:
            visited.add(op)
            ops += [tensor.op for tensor in op.inputs]
    raise UsageError(
        "The model's loss does not depend on the labels that its hook 'loss' gets, so label "
        "smoothing has no effect.",
        hint="Omit --with label-smoothing, or set --smoothing 0.",
    )


def combine(function, first, second):
    """Apply a function of two losses, or to each of those of the same name."""
    if isinstance(first, dict):
        return type(first)((name, function(first[name], second[name])) for name in first)
    return function(first, second)
