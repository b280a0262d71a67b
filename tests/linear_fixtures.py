"""A linear model as a plugin, quick to build, and images of bars that it can learn."""

from __future__ import annotations

import numpy as np

from toolkit import Options, hookimpl, option

LINEAR = "linear_fixtures:Linear"
DERIVED = "linear_fixtures:DerivedWeights"


class LinearOptions(Options):
    core_defaults = {"learning_rate": 0.02, "batch_size": 8, "checkpoint_steps": 2}

    gain: float = option(1.0, "factor on the features", unit="times", group="Network", gt=0)


class Linear:
    """Logits are x W + b: `linear/w` [D, K] and `linear/b` [K]."""

    @hookimpl
    def options(self):
        return LinearOptions

    @hookimpl
    def build(self, run):
        from toolkit import tf

        sizes = [int(np.prod(run.data.shape)), run.data.num_classes]
        start = run.initializer("glorot_uniform", "linear/w")
        w = tf.get_variable("linear/w", sizes, initializer=start)
        return w, tf.get_variable("linear/b", sizes[1:], initializer=tf.zeros_initializer())

    @hookimpl
    def call(self, model, features, run):
        from toolkit import tf

        w, b = model
        flat = tf.reshape(features, [-1, int(w.shape[0])])
        return {"flat": flat, "logits": run.options.gain * tf.matmul(flat, w) + b}

    @hookimpl
    def loss(self, labels, outputs):
        from toolkit import tf

        return tf.reduce_mean(
            tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=outputs["logits"])
        )

    @hookimpl
    def optimize(self, losses, run):
        return run.minimize(losses)

    @hookimpl
    def predict(self, outputs):
        from toolkit import tf

        logits = outputs["logits"]
        return {
            "label": tf.argmax(logits, axis=1, output_type=tf.int32),
            "logits": logits,
            "features": outputs["flat"],
        }

    @hookimpl
    def metrics(self, labels, outputs):
        from toolkit import tf

        return {"accuracy": tf.metrics.accuracy(labels, tf.argmax(outputs["logits"], axis=1))}

    @hookimpl
    def metric_directions(self):
        return {"accuracy": "max"}


class TabledOptions(LinearOptions):
    table: str = option("none", "a file", group="Network", path=True)


class Tabled(Linear):
    @hookimpl
    def options(self):
        return TabledOptions


def spoiled(value, *steps, plugin=Linear):
    """A plugin whose loss is that of another, in some steps, counted from 1, times a value."""

    class Spoiled(plugin):
        @hookimpl
        def loss(self, labels, outputs, run):
            from toolkit import tf

            loss = plugin.loss(self, labels, outputs)
            if run.mode != "train":
                return loss
            is_spoiled = tf.reduce_any(tf.equal(run.step_index + 1, steps))
            return loss * tf.where(is_spoiled, float(value), 1.0)

    return Spoiled


class DerivedWeights(Linear):
    """Linear with doubled weights, stored in a local variable except in training."""

    @hookimpl
    def build(self, run):
        from toolkit import tf

        w, b = Linear.build(self, run)
        if run.mode != "train":
            w = tf.get_variable(
                "doubled",
                initializer=2 * w.read_value(),
                trainable=False,
                collections=[tf.GraphKeys.LOCAL_VARIABLES],
                use_resource=True,
            )
        return w, b


def bars(labels, seed=0):
    """uint8 [N, 6, 6, 1]: a light bar in row k + 1 for class k, noise, a black border."""
    images = np.zeros((len(labels), 6, 6, 1), np.uint8)
    noise = np.random.RandomState(seed).randint(0, 120, (len(labels), 4, 4, 1))
    images[:, 1:5, 1:5] = noise
    for i, label in enumerate(labels):
        images[i, label + 1, 1:5] = 200
    return images


def write_bars(path, train=40, validation=7, test=13):
    """An .npz of three classes. Neither 7 nor 13 is a multiple of a batch."""
    arrays = {}
    for seed, (name, count) in enumerate([("train", train), ("val", validation), ("test", test)]):
        labels = np.arange(count) * 7 % 3
        arrays["x_" + name], arrays["y_" + name] = bars(labels, seed), labels
    np.savez(str(path), **arrays)
    return f"npz:{path}"


TEST_LABELS = np.arange(13) * 7 % 3  # of the test split that write_bars writes


def read_weights(run, step=6):
    """The arrays W [D, K] and b [K] in a checkpoint of a run of Linear."""
    from toolkit import tf
    from toolkit.storage.run_folder import RunFolder

    reader = tf.train.NewCheckpointReader(RunFolder(str(run)).checkpoints.prefix(step))
    return reader.get_tensor("linear/w"), reader.get_tensor("linear/b")


def expected_logits(run, images, step=6):
    """The logits of Linear for uint8 images, computed by numpy from a checkpoint."""
    w, b = read_weights(run, step)
    return (images.reshape(len(images), -1) / 255.0).dot(w) + b
