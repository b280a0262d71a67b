"""What the GAN's tests share: its options, a run on data of any shape, players of one weight."""

from __future__ import annotations

from typing import NamedTuple

from toolkit_gan.settings import GanOptions

from toolkit import DataSpec, Run, tf
from toolkit.graph.optimizer import state_updates
from toolkit.options import resolve


def options(**values):
    """Resolved options, without a preset's surprises: plain descent at rate 0.1."""
    return resolve([("gan", GanOptions)], [("test", values)]).options


def make_run(mode="train", shape=(8, 8, 1), classes=0, total_steps=100, **values):
    names = tuple(str(k) for k in range(classes))
    data = DataSpec(tuple(shape), "uint8", classes, names, (1,) * classes)
    given = dict({"width": 4, "batch_size": 4, "conditional": "none"}, **values)
    return Run(mode, options(**given), data, None, total_steps)


def own_game(run):
    """(train op, model, run) of the plugin's own networks, built as the core builds them."""
    from toolkit_gan import steps

    run.global_step  # noqa: B018 - made before the first pass, as the core makes it
    model = steps.build(run)
    features = tf.fill([run.options.batch_size * run.options.n_critic, 8, 8, 1], 0.5)
    before = set(tf.get_default_graph().get_operations())
    outputs = steps.call(model, features, None, run)
    losses = steps.objective(outputs, run)
    added = [o for o in tf.get_default_graph().get_operations() if o not in before]
    run.begin_step()
    run.hold(state_updates(added))
    return steps.optimize(model, features, None, losses, run), model, run


class Judged(NamedTuple):
    logits: object
    class_logits: object = None


class Weights(NamedTuple):
    values: object
    updates: tuple = ()


class Point:
    """A generator that always makes the one number theta."""

    def __init__(self, theta=1.0):
        self.theta = tf.get_variable("theta", initializer=tf.constant(theta), use_resource=True)
        self.variables = [self.theta]

    def __call__(self, z, labels=None, statistics=None):
        return tf.ones([tf.shape(z)[0], 1]) * self.theta.read_value()


class Line:
    """A discriminator psi * x, or psi[1] * tanh(psi[0] * x) of two weights."""

    def __init__(self, *psi):
        self.variables = [
            tf.get_variable(f"psi{i}", initializer=tf.constant(p), use_resource=True)
            for i, p in enumerate(psi)
        ]
        self.calls = []  # the images of each call

    def weights(self, iterate):
        return Weights([v.read_value() for v in self.variables])

    def __call__(self, images, labels, weights):
        self.calls.append(images)
        psi = [tf.reshape(p, []) for p in weights.values]
        x = images[:, 0]
        return Judged(psi[0] * x if len(psi) == 1 else psi[1] * tf.tanh(psi[0] * x))

    def pair(self, reals, real_labels, fakes, fake_labels, weights):
        return self(reals, real_labels, weights), self(fakes, fake_labels, weights)
