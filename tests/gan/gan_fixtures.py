"""Fixtures of the GAN's tests: options, runs on data of any shape, and networks of one weight.

The one-weight game: the data are the point 0 (features 0.5), the generator makes the point theta,
and the discriminator is psi * x. With the Wasserstein loss, the discriminator's gradient is theta
and the generator's is -psi.
"""

import collections
import types

import numpy as np
from graph_fixtures import evaluate, session  # noqa: F401 - tests import both from here
from toolkit_gan import losses, train_step
from toolkit_gan import model as models
from toolkit_gan.discriminator import DiscriminatorOutputs
from toolkit_gan.options import GanOptions
from toolkit_image_scores.options import ImageScoresOptions

from toolkit import DataSpec, Run, testing, tf
from toolkit.graph.ops import root_handle, state_updates, upstream
from toolkit.graph.run import step_builder_of
from toolkit.options import resolve

# Plain gradient descent at rate 0.1 on the Wasserstein loss: every step can be computed by hand.
DESCENT = {
    **{"loss": "wasserstein", "ema": 0.0, "spectral_norm": False},
    **{"optimizer": "sgd", "optimizer_args": {}, "learning_rate": 0.1, "schedule": "constant"},
}

# A small network with the cheapest scores, in single steps: its graph is large without a loop.
SMALL = {
    **{"preset": "quick", "steps_per_call": 1, "width": 4, "batch_size": 8, "latent_size": 8},
    **{"features": "pixels", "quick_samples": 100, "score_samples": 100, "two_sample": False},
    **{"norm_samples": 20, "sample_count": 9, "sample_steps": 2, "log_steps": 1},
}
TRAINED = {
    **{"conditional": "projection", "network": "mlp", "steps": 4, "checkpoint_steps": 2},
    **{"discriminator_steps": 2, "schedule": "cosine", "reader": "stream", "diff_augment": "flip"},
}


def train_digits():
    """Fill the working folder with a run `run` of four steps and its data: for `made_once`."""
    data = testing.write_digits("digits.npz", count=160)
    testing.train("gan", "run", data=data, **dict(SMALL, **TRAINED))


def options(**values):
    """The resolved options of the core, of the GAN and of its scores."""
    classes = [("gan", GanOptions), ("image-scores", ImageScoresOptions)]
    return resolve(classes, [("test", values)]).options


def make_run(shape=(8, 8, 1), mode="train", classes=0, total_steps=100, **values):
    """A run of small networks on data of this shape."""
    names = tuple(str(k) for k in range(classes))
    data = DataSpec(tuple(shape), "uint8", classes, names, (1,) * classes)
    small = {"width": 4, "batch_size": 4, "conditional": "none"}
    return Run(mode, options(**dict(small, **values)), data, None, total_steps)


def z_of(count):
    """float32 [count, 5]: points for a run with `latent_size` 5."""
    return tf.constant(np.random.RandomState(0).normal(size=[count, 5]), tf.float32)


def images_of(*shape, seed=0):
    """Random images in [-1, 1]; four grey ones of 8 x 8 pixels, if no shape is given."""
    values = np.random.RandomState(seed).uniform(-1, 1, shape or (4, 8, 8, 1))
    return tf.constant(values, tf.float32)


def build_step(model, features, run):
    """Build a step as the core does: its op, the model and the run."""
    run.global_step  # noqa: B018 - the core creates it before the first pass
    before = set(tf.get_default_graph().get_operations())
    labels = tf.zeros(features.shape[:1], tf.int32) if run.data.num_classes else None
    outputs = models.call(model, features, labels, run)
    step_losses = losses.named_losses(outputs, run)
    new_ops = [o for o in tf.get_default_graph().get_operations() if o not in before]
    step_builder_of(run).begin_step()
    step_builder_of(run).state_updates = state_updates(new_ops)
    op = train_step.optimize(model, features, labels, step_losses, run)
    return types.SimpleNamespace(op=op, model=model, run=run)


def build_point_game(discriminator=(1.0,), features=None, generator=None, **values):
    """A step of the one-weight game; `discriminator`: its first weights."""
    run = make_run(shape=(1,), **dict(DESCENT, network="mlp", **values))
    generator = generator or Point()
    model = models.Gan(generator, LinearDiscriminator(*discriminator), generator)
    if features is None:
        features = tf.fill([run.options.batch_size * run.options.discriminator_steps, 1], 0.5)
    return build_step(model, features, run)


def build_image_game(**values):
    """A step of the plugin's own networks, on grey images."""
    run = make_run(**dict(DESCENT, **values))
    model = models.build(run)
    count = run.options.batch_size * run.options.discriminator_steps
    return build_step(model, tf.fill([count, 8, 8, 1], 0.5), run)


def weights_after(game, times=1):
    """The weights of discriminator and generator after so many steps of a one-weight game."""
    with session() as tf_session:
        for _ in range(times):
            tf_session.run(game.op)
        variables = game.model.discriminator.variables + game.model.generator.variables
        return [float(np.ravel(value)[0]) for value in tf_session.run(variables)]


def variable_name(op):
    """The name of the variable that an op writes, also through the switches of a guard."""
    return root_handle(op.inputs[0]).op.name


def assignments_of(op):
    """How often the op assigns each variable, by name, without what a guard restores."""
    assigns = [o for o in upstream([op]) if o.type == "AssignVariableOp" and "optimizer/" in o.name]
    return collections.Counter(map(variable_name, assigns))


def update_ops(network):
    """The gradient-descent ops of a network, "discriminator" or "generator"."""
    operations = tf.get_default_graph().get_operations()
    is_update = "ResourceApplyGradientDescent"
    return [o for o in operations if o.type == is_update and f"optimizer/{network}/" in o.name]


class Point:
    """A generator that always makes the one number theta."""

    def __init__(self, theta=1.0):
        self.theta = tf.get_variable("theta", initializer=tf.constant(theta), use_resource=True)
        self.variables = [self.theta]

    def __call__(self, z, labels=None, statistics=None):
        return tf.ones([tf.shape(z)[0], 1]) * self.theta.read_value()


class LinearDiscriminator:
    """psi * x, or with two weights psi[1] * tanh(psi[0] * x).

    Attributes:
        calls: the images of each call.
    """

    def __init__(self, *psi):
        self.variables = [
            tf.get_variable(f"psi{i}", initializer=tf.constant(p), use_resource=True)
            for i, p in enumerate(psi)
        ]
        self.slope_variables = self.variables
        self.calls = []

    def read(self, iterate=False):
        return [v.read_value() for v in self.variables]

    def __call__(self, images, labels, values):
        self.calls.append(images)
        psi = [tf.reshape(p, []) for p in values]
        x = images[:, 0]
        logits = psi[0] * x if len(psi) == 1 else psi[1] * tf.tanh(psi[0] * x)
        return DiscriminatorOutputs(logits, None)

    def pair(self, reals, real_labels, fakes, fake_labels, values):
        return self(reals, real_labels, values), self(fakes, fake_labels, values)


class LinearImageDiscriminator(LinearDiscriminator):
    """A discriminator psi . x of images, whose gradient at images is psi everywhere."""

    def __call__(self, images, labels, values):
        self.calls.append(images)
        return DiscriminatorOutputs(tf.reduce_sum(values[0] * images, axis=[1, 2, 3]), None)
