"""The GAN's graph-mode contenders besides `toolkit run`; `gan_speed.py` starts them.

Both accept the options of `toolkit run --plugin gan`, so that all train the same networks.
"""

from __future__ import annotations

import argparse

from arrays import Arrays
from link import Link
from toolkit_gan import losses
from toolkit_gan import model as models

from toolkit import Run, tf
from toolkit.data.readers.batches import ReaderOptions
from toolkit.data.readers.resident import ResidentReader
from toolkit.graph import build
from toolkit.graph.session_config import choose_threads, session_config
from toolkit.options import resolve
from toolkit.plugins import Plugins
from toolkit.run_data import open_run_data
from toolkit.training.step_runner import StepRunner


def no_hooks(link: Link, flags, folder) -> None:
    """Call the toolkit's own train op, with guard and averaged weights, and nothing else.

    The faster of two ways to call it is measured first, as in the toolkit's loop.
    """
    plugins = Plugins.load("gan")
    options = resolve(plugins.options(), flags=flags).options
    run_data = open_run_data(plugins, options)
    link.mark("import")
    graph = tf.Graph()
    with graph.as_default():
        count = options.batch_size * options.batches_per_step
        reader = ResidentReader(run_data.splits["train"], count, ReaderOptions(seed=1))
    run = Run("train", options, run_data.spec, None, options.steps)
    training_graph = build.build_training(plugins, run, reader, graph)
    config = session_config(choose_threads(options, graph))
    link.mark("build")
    with graph.as_default(), tf.Session(config=config) as session:
        session.run(tf.global_variables_initializer())
        reader.initialize(session)
        runner = StepRunner(session, training_graph, reader.in_memory, 1)
        link.repeat(1, lambda: runner.run(1))


def two_runs(link: Link, flags, folder) -> None:
    """Run two ops per step on a fed batch, without guard and averaged weights."""
    arrays = Arrays(folder)
    link.mark("import")
    plugins = Plugins.load("gan")
    options = resolve(plugins.options(), flags=dict(flags, ema="0")).options
    run = Run("train", options, arrays.spec)
    model = models.build(run)
    features = tf.placeholder(tf.float32, [options.batch_size] + list(arrays.spec.shape))
    discriminator_op = discriminator_update(model, features, run)
    generator_op = generator_update(model, features, run)
    link.mark("build")
    batches = arrays.shuffled_batches(options.batch_size)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())

        def step():
            images, _ = next(batches)
            session.run(discriminator_op, {features: images})
            session.run(generator_op)

        link.repeat(1, step)


def discriminator_update(model, features, run):
    """One op: Adam on the discriminator's loss and the power iterations of its spectral norm."""
    outputs = models.discriminator_pass(model, features, None, 0, run)
    loss = losses.named_losses(outputs, run)["d_loss"]
    update = adam(run.options).minimize(loss, var_list=model.discriminator.variables)
    return tf.group(update, *tf.get_collection(tf.GraphKeys.UPDATE_OPS))


def generator_update(model, features, run):
    """One op: Adam on the generator's loss. The global step grows, so the noise changes."""
    outputs = models.generator_pass(model, features, None, run)
    loss = losses.named_losses(outputs, run)["g_loss"]
    variables = model.generator.variables
    return adam(run.options).minimize(loss, run.global_step, var_list=variables)


def adam(options):
    return tf.train.AdamOptimizer(options.learning_rate, **options.optimizer_args)


CONTENDERS = {"no_hooks": no_hooks, "two_runs": two_runs}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("contender", choices=sorted(CONTENDERS))
    parser.add_argument("--folder", help="folder of digits.npz")
    arguments, rest = parser.parse_known_args()
    flags = {name[2:]: value for name, value in zip(rest[::2], rest[1::2])}
    CONTENDERS[arguments.contender](Link(), flags, arguments.folder)


if __name__ == "__main__":
    main()
