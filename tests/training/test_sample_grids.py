"""Grids of samples while training: what is written when, and the animation of it."""

from __future__ import annotations

import os

import numpy as np
import pytest
from file_fixtures import save_image
from PIL import Image, ImageSequence

from toolkit import DivergedError, SampleGrids, ToolkitError, tf
from toolkit.training.hooks.sample_grids import write_gif

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


class Training:
    """A hook in a folder, whose images are the noise, and the session that it draws them with."""

    def __init__(self, folder):
        with tf.Graph().as_default() as graph:
            images = tf.constant(NOISE)[:, None, None, None]  # [2, 1, 1, 1]
            self.hook = SampleGrids(str(folder), 5, images, columns=2, reals=REALS)
            self.session = tf.Session(graph=graph)
        self.loop = self.hook.loop = Loop()

    def to(self, last):
        self.hook.on_restore(self.session, self.loop.step)
        for step in range(self.loop.step + 1, last + 1):
            self.loop.step = step
            if self.hook.is_due(step):
                self.hook.on_step(step, None, self)  # of the context, it takes the session
        return self

    def stop(self, error=None):
        self.hook.on_stop(self.session, self.loop.step, error)


def files(folder):
    return sorted(os.listdir(str(folder / "samples")))


def write_frames(folder, *values):
    """Write pictures of 4x3 pixels, each of one grey or of one colour: their paths."""
    arrays = [np.zeros((3, 4) + np.shape(value), np.uint8) + np.uint8(value) for value in values]
    return [save_image(folder / f"{i:03d}.png", array) for i, array in enumerate(arrays)]


def read_gif(path):
    with Image.open(str(path)) as gif:
        return [(f.convert("RGB").copy(), f.info["duration"]) for f in ImageSequence.Iterator(gif)]


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


def test_a_resume_deletes_the_grids_of_later_steps_repeats_none_and_ends_with_the_same(tmp_path):
    Training(tmp_path).to(10).stop()
    whole = {name: (tmp_path / "samples" / name).read_bytes() for name in files(tmp_path)}
    training = Training(tmp_path)
    training.loop.step = 5
    training.to(5)
    assert files(tmp_path) == ["reals.png", "step-00000000.png", "step-00000005.png"]
    assert training.loop.summaries == {}
    training.to(10).stop()
    assert {name: (tmp_path / "samples" / name).read_bytes() for name in files(tmp_path)} == whole


@pytest.mark.parametrize(
    "error, is_written",
    [(None, True), (DivergedError("loss nan"), True), (ToolkitError("the machine failed"), False)],
    ids=["end", "divergence", "fault"],
)
def test_an_animation_of_all_grids_is_written_at_the_end(tmp_path, error, is_written):
    Training(tmp_path).to(10).stop(error)
    assert ("progress.gif" in files(tmp_path)) is is_written
    if is_written:
        with Image.open(str(tmp_path / "samples" / "progress.gif")) as gif:
            assert gif.size == (8 * 56, 5 * 56)  # images of one pixel are seen at 56


def test_frames_are_in_order_and_the_last_lasts_longest(tmp_path):
    write_gif(write_frames(tmp_path, 0, 100, 200), str(tmp_path / "a.gif"), scale=3)
    frames = read_gif(tmp_path / "a.gif")
    assert [frame.getpixel((0, 0))[0] for frame, _ in frames] == [0, 100, 200]
    assert [milliseconds for _, milliseconds in frames] == [200, 200, 2000]
    assert {frame.size for frame, _ in frames} == {(12, 9)}


def test_grey_stays_exactly_grey(tmp_path):
    ramp = np.arange(256, dtype=np.uint8).reshape(16, 16)
    write_gif([save_image(tmp_path / "ramp.png", ramp)], str(tmp_path / "a.gif"))
    ((frame, _),) = read_gif(tmp_path / "a.gif")
    assert np.array_equal(np.asarray(frame), np.repeat(ramp[..., None], 3, axis=2))


def test_still_pixels_of_colour_do_not_flicker(tmp_path):
    write_gif(write_frames(tmp_path, *[(200, 30, 30)] * 2), str(tmp_path / "a.gif"))
    colours = {frame.getpixel((1, 1)) for frame, _ in read_gif(tmp_path / "a.gif")}
    assert colours == {(200, 30, 30)}


def test_of_many_grids_120_are_shown_from_the_first_to_the_last(tmp_path):
    write_gif(write_frames(tmp_path, *[i % 200 for i in range(300)]), str(tmp_path / "a.gif"))
    shown = [frame.getpixel((0, 0))[0] for frame, _ in read_gif(tmp_path / "a.gif")]
    assert (len(shown), shown[0], shown[-1]) == (120, 0, 99)
