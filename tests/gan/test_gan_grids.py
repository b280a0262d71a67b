"""Grids of samples while training: what is written when, and the animation of it."""

from __future__ import annotations

import io
import os
from typing import NamedTuple

import numpy as np
import pytest
from linear_fixtures import Linear, write_bars
from PIL import Image, ImageSequence
from toolkit_gan import animation, grids
from toolkit_gan.grids import SampleGrids

from toolkit import DivergedError, Every, ToolkitError, atomic_write, hookimpl, tf

NOISE = {"z": np.array([[0.25], [0.75]], np.float32), "label": np.array([0, 1], np.int32)}
REALS = np.array([[[[255]]], [[[0]]]], np.uint8)  # two images of one pixel


class Loop:
    """The part of the loop that the hook uses; `summaries` is what reached TensorBoard."""

    def __init__(self, target=10):
        self.step, self.target, self.summaries, self.lines = 0, target, {}, []

    def log(self, text):
        self.lines.append(text)

    def is_last(self, step):
        return step >= self.target

    def summarize(self, step, summary):
        self.summaries[step] = summary


class Context(NamedTuple):
    session: object


class Training:
    """A hook in a folder whose images are `noise * brightness`; the weight is set by hand."""

    def __init__(self, folder, noise=NOISE, **arguments):
        with tf.Graph().as_default() as graph:
            self.brightness = tf.placeholder_with_default(1.0, [])
            self.num_steps = tf.get_variable("num_steps", [], tf.int32, tf.zeros_initializer())
            self.count_step = self.num_steps.assign_add(1)
            z = tf.constant(NOISE["z"])[:, :, None, None]  # [2, 1, 1, 1]
            images = z * self.brightness
            self.hook = SampleGrids(
                str(folder), Every(5), images, noise, REALS, columns=2, **arguments
            )
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


def files(folder):
    return sorted(os.listdir(str(folder)))


def picture(array):
    return Image.fromarray(np.asarray(array, np.uint8))


@pytest.fixture
def frames(tmp_path):
    """`frames(0, 10, 20)` writes grey pictures of 4x3 pixels with these values: their paths."""

    def write(*values, colour=False):
        paths = []
        for i, value in enumerate(values):
            shape = (3, 4, 3) if colour else (3, 4)
            paths.append(str(tmp_path / f"{i:03d}.png"))
            picture(np.full(shape, value, np.uint8)).save(paths[-1])
        return paths

    return write


def read_gif(path):
    with Image.open(str(path)) as gif:
        return [(f.convert("RGB").copy(), f.info["duration"]) for f in ImageSequence.Iterator(gif)]


# ------------------------------------------------------------------------------------------- grids


def test_step_zero_has_the_reals_the_noise_and_the_grid_of_the_untrained_generator(tmp_path):
    Training(tmp_path).to(0)
    assert files(tmp_path) == ["noise.npz", "reals.png", "step-00000000.png"]


def test_grids_are_written_on_due_steps_and_on_the_last(tmp_path):
    training = Training(tmp_path)
    training.loop.target = 7
    training.to(7)
    written = [name for name in files(tmp_path) if name.startswith("step")]
    assert written == [f"step-0000000{step}.png" for step in (0, 5, 7)]


def test_a_grid_shows_the_images_side_by_side_in_bytes(tmp_path):
    Training(tmp_path).to(0)
    with Image.open(str(tmp_path / "step-00000000.png")) as grid:
        pixels = np.asarray(grid)
    assert pixels[2].tolist() == [0, 0, 64, 0, 0, 191, 0, 0]  # 255 / 4 and 255 * 3 / 4


def test_tensorboard_gets_the_very_bytes_of_the_file(tmp_path):
    training = Training(tmp_path)
    training.to(5)
    assert sorted(training.loop.summaries) == [0, 5]
    value = training.loop.summaries[5].value[0]
    assert (value.tag, value.image.colorspace) == ("samples", 1)
    assert value.image.encoded_image_string == (tmp_path / "step-00000005.png").read_bytes()
    with Image.open(io.BytesIO(value.image.encoded_image_string)) as image:
        assert image.size == (value.image.width, value.image.height) == (8, 5)


def test_the_noise_is_saved_in_the_run(tmp_path):
    Training(tmp_path).to(0)
    with np.load(str(tmp_path / "noise.npz")) as file:
        assert {name: file[name].tolist() for name in file.files} == {
            "z": [[0.25], [0.75]],
            "label": [0, 1],
        }


def test_a_resume_with_other_noise_keeps_the_earlier_noise_and_says_so(tmp_path):
    Training(tmp_path).to(5)
    before = (tmp_path / "noise.npz").read_bytes()
    other = dict(NOISE, z=NOISE["z"] + 1)
    resumed = Training(tmp_path, other)
    resumed.loop.step = 5
    resumed.to(10)
    assert (tmp_path / "noise-to-step-00000005.npz").read_bytes() == before
    with np.load(str(tmp_path / "noise.npz")) as file:
        np.testing.assert_array_equal(file["z"], other["z"])
    (line,) = resumed.loop.lines
    assert line.startswith("note: the grids after step 5 show other samples than those before; ")
    again = Training(tmp_path, other)
    again.loop.step = 10
    again.to(10)
    assert again.loop.lines == []


def test_noise_that_changes_twice_at_one_step_does_not_overwrite_the_earlier(tmp_path):
    Training(tmp_path).to(5)
    before = (tmp_path / "noise.npz").read_bytes()
    for shift in (1, 2):
        resumed = Training(tmp_path, dict(NOISE, z=NOISE["z"] + shift))
        resumed.loop.step = 5
        resumed.to(10)
    assert (tmp_path / "noise-to-step-00000005.npz").read_bytes() == before
    with np.load(str(tmp_path / "noise.npz")) as file:
        np.testing.assert_array_equal(file["z"], NOISE["z"] + 2)


@pytest.mark.parametrize("content", [b"", b"PK", b"no archive"])
def test_a_damaged_file_of_noise_is_kept_under_another_name(tmp_path, content):
    (tmp_path / "noise.npz").write_bytes(content)
    Training(tmp_path).to(0)
    assert (tmp_path / "noise-to-step-00000000.npz").read_bytes() == content
    with np.load(str(tmp_path / "noise.npz")) as file:
        assert sorted(file.files) == ["label", "z"]


def test_the_animation_shows_the_grids_of_one_noise(tmp_path, monkeypatch):
    paths = []
    monkeypatch.setattr(grids, "write_gif", lambda files, out, scale: paths.extend(files))
    Training(tmp_path).to(5)
    resumed = Training(tmp_path, dict(NOISE, z=NOISE["z"] + 1))
    resumed.loop.step, resumed.loop.target = 5, 15
    resumed.to(15)
    resumed.hook.on_stop(resumed.session, 15, None)
    assert [os.path.basename(path) for path in paths] == ["step-00000010.png", "step-00000015.png"]


def test_resuming_deletes_the_grids_of_later_steps(tmp_path):
    training = Training(tmp_path)
    training.to(10)
    training.hook.on_stop(training.session, 10, None)
    resumed = Training(tmp_path)
    resumed.loop.step = 5
    resumed.to(5)
    assert files(tmp_path) == [
        "noise.npz",
        "reals.png",
        "step-00000000.png",
        "step-00000005.png",
    ]


def test_resuming_writes_no_grid_of_the_restored_step_and_leaves_reals_alone(tmp_path):
    Training(tmp_path).to(5)
    before = {name: os.stat(str(tmp_path / name)).st_mtime_ns for name in files(tmp_path)}
    resumed = Training(tmp_path)
    resumed.loop.step = 5
    resumed.to(5)
    assert {n: os.stat(str(tmp_path / n)).st_mtime_ns for n in files(tmp_path)} == before
    assert resumed.loop.summaries == {}


def test_a_grid_runs_nothing_of_the_train_step(tmp_path):
    training = Training(tmp_path)
    assert training.hook.fetches() is None
    training.session.run(training.count_step)
    training.to(10)
    assert training.session.run(training.num_steps) == 1


def test_labels_are_written_below_the_samples(tmp_path):
    Training(tmp_path, labels=["0", "1"]).to(0)
    with Image.open(str(tmp_path / "step-00000000.png")) as grid:
        assert grid.size == (8, 1 + 12 + 2 * 2)


# -------------------------------------------------------------------------------------- animation


@pytest.mark.parametrize("error", [None, DivergedError("loss nan")], ids=["end", "divergence"])
def test_an_animation_of_all_grids_is_written_at_the_end(tmp_path, error):
    training = Training(tmp_path)
    training.to(10)
    training.hook.on_stop(training.session, 10, error)
    with Image.open(str(tmp_path / "progress.gif")) as gif:
        assert gif.size == (8 * 56, 5 * 56)  # images of one pixel are seen at 56


def test_no_animation_is_written_after_a_fault(tmp_path):
    training = Training(tmp_path)
    training.to(5)
    training.hook.on_stop(training.session, 5, ToolkitError("the machine failed"))
    assert "progress.gif" not in files(tmp_path)


@pytest.mark.parametrize("side, scale", [(28, 2), (32, 2), (64, 1), (256, 1), (8, 7)])
def test_small_images_are_enlarged_by_a_whole_factor(side, scale):
    hook = SampleGrids("", Every(1), tf.zeros([1, side, side, 1]), {}, REALS, 1)
    assert hook._scale() == scale


def test_frames_are_in_order_and_the_last_lasts_longest(frames, tmp_path):
    out = tmp_path / "a.gif"
    assert animation.write_gif(frames(0, 100, 200), str(out), seconds=0.2, hold=1.5) == 3
    frames_read = read_gif(out)
    assert [frame.getpixel((0, 0))[0] for frame, _ in frames_read] == [0, 100, 200]
    assert [milliseconds for _, milliseconds in frames_read] == [200, 200, 1500]


def test_grey_stays_exactly_grey(tmp_path):
    path = str(tmp_path / "ramp.png")
    ramp = np.arange(256, dtype=np.uint8).reshape(16, 16)
    picture(ramp).save(path)
    animation.write_gif([path], str(tmp_path / "a.gif"))
    ((frame, _),) = read_gif(tmp_path / "a.gif")
    assert np.array_equal(np.asarray(frame), np.repeat(ramp[..., None], 3, axis=2))


def test_colours_that_fit_a_palette_are_exact(frames, tmp_path):
    paths = frames((200, 30, 30), (30, 200, 30), (30, 30, 200), colour=True)
    animation.write_gif(paths, str(tmp_path / "a.gif"))
    colours = [frame.getpixel((1, 1)) for frame, _ in read_gif(tmp_path / "a.gif")]
    assert colours == [(200, 30, 30), (30, 200, 30), (30, 30, 200)]


def test_frames_grow_by_whole_pixels(frames, tmp_path):
    animation.write_gif(frames(9), str(tmp_path / "a.gif"), scale=3)
    ((frame, _),) = read_gif(tmp_path / "a.gif")
    assert frame.size == (12, 9)


def test_selection_is_even_from_the_first_to_the_last():
    assert animation.select_evenly(range(9), 5) == [0, 2, 4, 6, 8]
    assert animation.select_evenly(range(3), 5) == [0, 1, 2]
    many = animation.select_evenly(range(1000), 120)
    assert (len(many), many[0], many[-1]) == (120, 0, 999)


def test_a_file_that_cannot_be_finished_leaves_the_old_one(frames, tmp_path):
    out = tmp_path / "a.gif"
    out.write_bytes(b"old")
    with pytest.raises(RuntimeError), atomic_write(str(out)) as file:
        file.write(b"half")
        raise RuntimeError
    assert out.read_bytes() == b"old"
    assert files(tmp_path) == ["a.gif"]


# -------------------------------------------------------------------------------- in real training


class Pixels(Linear):
    """The linear model; its first weight is what the grids show."""

    @hookimpl
    def session_hooks(self, model, run):
        images = tf.fill([2, 1, 1, 1], tf.sigmoid(model[0][0, 0]))
        folder = os.path.join(run.folder, "samples")
        return [SampleGrids(folder, Every(2), images, NOISE, REALS, columns=2)]


@pytest.fixture
def train(cli, here):
    data = write_bars("bars.npz")
    pixels = f"{__name__}:Pixels"

    def call(folder, *argv):
        done = cli("run", "--plugin", pixels, "--data", data, "--run-dir", folder, *argv)
        assert done.code == 0, done.err
        return folder

    return call


def weights(run, step):
    reader = tf.train.NewCheckpointReader(f"{run}/checkpoints/model.ckpt-{step}")
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}


def test_training_leaves_grids_an_animation_and_tensorboard_images(train, here):
    train("r", "--steps", "5")
    assert files(here / "r" / "samples") == (
        ["noise.npz", "progress.gif", "reals.png"]
        + [f"step-0000000{step}.png" for step in (0, 2, 4, 5)]
    )
    events = str(next((here / "r" / "events").iterdir()))
    steps = [
        event.step
        for event in tf.train.summary_iterator(events)
        for value in event.summary.value
        if value.tag == "samples"
    ]
    assert steps == [0, 2, 4, 5]


def test_a_resumed_run_has_the_grids_of_an_uninterrupted_one(train, cli, here):
    train("whole", "--steps", "6")
    train("r", "--steps", "4")
    assert cli("resume", "r", "--steps", "6").code == 0
    for name in files(here / "whole" / "samples"):
        one, other = (here / run / "samples" / name for run in ("whole", "r"))
        assert one.read_bytes() == other.read_bytes(), name


def test_grids_do_not_change_training(train, monkeypatch):
    often = weights(train("often", "--steps", "5"), 5)
    monkeypatch.setattr(Pixels, "session_hooks", hookimpl(lambda self: []))
    never = weights(train("never", "--steps", "5"), 5)
    assert set(often) == set(never)
    assert all(np.array_equal(often[name], never[name]) for name in often)
