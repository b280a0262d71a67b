"""Grids of samples while training: what is written when."""

from __future__ import annotations

import os
from typing import NamedTuple

import numpy as np
from PIL import Image

from toolkit import SampleGrids, tf

NOISE = np.array([0.25, 0.75], np.float32)
REALS = np.array([[[[255]]], [[[0]]]], np.uint8)  # two images of one pixel


class Loop:
    """The part of the loop that the hook uses; `summaries` is what reached TensorBoard."""

    def __init__(self, target=10):
        self.step, self.target, self.summaries = 0, target, {}

    def is_last(self, step):
        return step >= self.target

    def summarize(self, step, summary):
        self.summaries[step] = summary


class Context(NamedTuple):
    session: object


class Training:
    """A hook in a folder whose images are `noise * brightness`; the weight is set by hand."""

    def __init__(self, folder):
        with tf.Graph().as_default() as graph:
            self.brightness = tf.placeholder_with_default(1.0, [])
            self.num_steps = tf.get_variable("num_steps", [], tf.int32, tf.zeros_initializer())
            self.count_step = self.num_steps.assign_add(1)
            images = tf.constant(NOISE)[:, None, None, None] * self.brightness  # [2, 1, 1, 1]
            self.hook = SampleGrids(str(folder), 5, images, columns=2, reals=REALS)
            self.session = tf.Session(graph=graph)
            self.session.run(tf.global_variables_initializer())
        self.loop = self.hook.loop = Loop()

    def step(self, step):
        self.loop.step = step - 1
        self.hook.before_run(None)
        self.loop.step = step
        self.hook.after_run(Context(self.session), tf.train.SessionRunValues(None, None, None))

    def to(self, last):
        self.hook.on_restore(self.session, self.loop.step)
        for step in range(self.loop.step + 1, last + 1):
            self.step(step)
        return self


def resume(folder, step, last):
    """A hook that continued at a step."""
    training = Training(folder)
    training.loop.step, training.loop.target = step, last
    return training.to(last)


def files(folder):
    return sorted(os.listdir(str(folder / "samples")))


# ------------------------------------------------------------------------------------------- grids


def test_reals_and_grids_are_written_at_the_start_on_due_steps_and_on_the_last(tmp_path):
    training = Training(tmp_path)
    training.to(0)
    assert files(tmp_path) == ["reals.png", "step-00000000.png"]
    training.loop.target = 7
    training.to(7)
    assert files(tmp_path)[1:] == [f"step-0000000{step}.png" for step in (0, 5, 7)]


def test_a_grid_has_the_images_side_by_side_in_bytes_which_tensorboard_gets_too(tmp_path):
    training = Training(tmp_path)
    training.to(5)
    path = tmp_path / "samples" / "step-00000005.png"
    with Image.open(str(path)) as grid:
        pixels = np.asarray(grid)
    assert pixels.shape[:2] == (5, 8)
    assert pixels[2].tolist() == [0, 0, 64, 0, 0, 191, 0, 0]  # 255 / 4 and 255 * 3 / 4
    assert sorted(training.loop.summaries) == [0, 5]
    value = training.loop.summaries[5].value[0]
    assert (value.tag, value.image.encoded_image_string) == ("samples", path.read_bytes())


def test_a_resume_deletes_the_grids_of_later_steps_and_ends_with_the_same(tmp_path):
    Training(tmp_path).to(10)
    whole = {name: (tmp_path / "samples" / name).read_bytes() for name in files(tmp_path)}
    training = resume(tmp_path, 5, 5)
    steps = ["step-00000000.png", "step-00000005.png"]
    assert files(tmp_path) == ["reals.png", *steps]
    training.loop.target = 10
    training.to(10)
    assert {name: (tmp_path / "samples" / name).read_bytes() for name in files(tmp_path)} == whole


def test_resuming_writes_no_grid_of_the_restored_step(tmp_path):
    Training(tmp_path).to(5)
    assert resume(tmp_path, 5, 5).loop.summaries == {}


def test_a_grid_runs_nothing_of_the_train_step(tmp_path):
    training = Training(tmp_path)
    assert training.hook.fetches() is None
    training.session.run(training.count_step)
    training.to(10)
    assert training.session.run(training.num_steps) == 1
