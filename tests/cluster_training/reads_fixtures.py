"""A plugin that counts how often each example was trained on, in its checkpoints."""

from __future__ import annotations

import numpy as np

from toolkit import Options, Split, hookimpl, option, tf

COUNTS = {"train": 96, "validation": 6, "test": 6}
STATE = "state/reads"  # the name of the counts, [96]


class ReadsOptions(Options):
    core_defaults = {"batch_size": 8, "learning_rate": 0.05, "evaluate": False}

    poison: int = option(-1, "the number of the example whose loss is nan", group="Network", ge=-1)


class Reads:
    """Two classes that a linear model of four floats can tell apart."""

    @hookimpl
    def options(self):
        return ReadsOptions

    @hookimpl
    def data(self, split):
        count = COUNTS[split]
        x = np.random.RandomState(len(split)).normal(size=[count, 4]).astype(np.float32)
        return Split({"x": x, "number": np.arange(count)}, (x.sum(1) > 0).astype(int))

    @hookimpl
    def build(self, run):
        start = run.initializer("glorot_uniform", "w")
        reads = run.state("reads", np.zeros([COUNTS["train"]], np.int64))
        return tf.get_variable("w", [4, 2], initializer=start), reads

    @hookimpl
    def call(self, model, features):
        return {"logits": tf.matmul(features["x"], model[0])}

    @hookimpl
    def loss(self, features, labels, outputs, run):
        loss = tf.losses.sparse_softmax_cross_entropy(labels, outputs["logits"])
        is_poisoned = tf.reduce_any(tf.equal(features["number"], run.options.poison))
        return loss * tf.where(is_poisoned, np.float32("nan"), np.float32(1))

    @hookimpl
    def optimize(self, model, features, losses, run):
        numbers = tf.cast(features["number"], tf.int32)
        counts = tf.reduce_sum(tf.one_hot(numbers, COUNTS["train"], dtype=tf.int64), 0)
        run.update_state(lambda: model[1].assign_add(counts, read_value=False))
        return run.minimize(losses)

    @hookimpl
    def predict(self, outputs):
        return dict(outputs)


plugin = Reads()
for _name in ("options", "data", "build", "call", "loss", "optimize", "predict"):
    globals()[_name] = getattr(plugin, _name)
