"""All changes together: by whichever reader, in a loop, compiled by XLA."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from augmentation_fixtures import make_run, random_images

from toolkit import augmentation, tf
from toolkit.compat import HAS_XLA, compile_with_xla
from toolkit.graph.step_strategy import XLA
from toolkit.graph.while_loop import StepOps, build_loop, make_num_steps

EVERYTHING = {
    "augment": "photos",
    "flip_vertical": 0.5,
    "shift": 1,
    "rotate": 10,
    "zoom": 0.1,
    "elastic": 0.5,
    "grey": 0.2,
    "cutout": 0.3,
    "rand_augment": 2,
}
PIPELINES = {"photos": {"augment": "photos"}, "everything": EVERYTHING}


class Outputs(NamedTuple):
    """A step that returns nothing."""

    nothing: Any


def change(images, run):
    """The changed images and targets of a step, with CutMix and mixup."""
    targets = tf.constant(np.eye(len(images_of_batch()), dtype=np.float32))
    changed = augmentation.augment(images, run)
    return augmentation.mix_examples(changed, targets, run, mixup=0.2, cutmix=1.0)


def images_of_batch():
    return random_images(6, 10, 14, 3)


@pytest.mark.parametrize("options", list(PIPELINES.values()), ids=list(PIPELINES))
def test_a_batch_is_changed_alike_from_a_variable_and_from_a_stream(options):
    batch = images_of_batch()
    run = make_run(**options)
    stored = tf.Variable(np.stack([batch, batch]), use_resource=True)
    stream = tf.data.Dataset.from_tensors(batch).repeat()
    streamed = tf.data.make_one_shot_iterator(stream).get_next()
    first, second = change(stored[1], run), change(streamed, run)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        (images, targets), (others, other_targets) = session.run([first, second])
    assert (images == others).all() and (targets == other_targets).all()
    assert images.shape == batch.shape and images.min() >= 0 and images.max() <= 1


def test_steps_in_a_loop_change_images_as_single_steps_do():
    run, batch = make_run(**EVERYTHING), images_of_batch()
    total = tf.Variable(np.zeros_like(batch), use_resource=True)
    num_steps = make_num_steps()

    def make_step(count):
        with tf.control_dependencies([total.assign_add(change(tf.constant(batch), run)[0])]):
            return StepOps(run.global_step.assign_add(1).op, Outputs({}))

    single = change(tf.constant(batch), run)[0]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        expected = np.zeros_like(batch)
        for step in range(3):
            session.run(run.global_step.assign(step))
            expected += session.run(single)
        session.run(run.global_step.assign(0))
    loop = build_loop(make_step, num_steps)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(loop.op, {num_steps: 3})
        assert (session.run(total) == expected).all()


@pytest.mark.skipif(not HAS_XLA, reason="this TensorFlow cannot compile a step")
@pytest.mark.parametrize("options", list(PIPELINES.values()), ids=list(PIPELINES))
def test_compiled_by_xla_the_same_random_numbers_change_images_alike(options):
    run, batch = make_run(strategy=XLA, **options), tf.constant(images_of_batch())
    plain = change(batch, run)
    compiled = compile_with_xla(lambda images: change(images, run), [batch])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        (images, targets), (others, other_targets) = session.run([plain, compiled])
    # Rounding may move a pixel across a limit of solarize or posterize.
    assert (np.abs(images - others) > 1e-3).mean() < 0.01
    np.testing.assert_allclose(targets, other_targets, atol=1e-5)
