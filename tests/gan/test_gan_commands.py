"""`toolkit sample`: what is generated, where it is written, what is refused."""

from __future__ import annotations

import json
import os
import types

import numpy as np
import pytest
from click.testing import CliRunner
from gan_fixtures import options as gan_options
from PIL import Image
from toolkit_gan import sampling
from toolkit_gan.options import GanSampleOptions

from toolkit import DataSpec, UsageError
from toolkit.cli.sample import file_name
from toolkit.cli.sample import sample as sample_command
from toolkit.cli.sample_files import kind_of
from toolkit.inference.sampling import class_number
from toolkit.inference.trained_model import TrainedModel
from toolkit.plugins import Plugins, load
from toolkit.storage.run_folder import RunFolder

SHAPES = DataSpec((2, 2, 1), "uint8", 3, ("disc", "ring", "7"), (1, 1, 2))


class Generator:
    """An open run: all pixels of an image are its first latent number, or its class / 3."""

    plugin, step, sha256, data = "gan", 500, "abc", SHAPES
    run_folder = RunFolder("run")
    plugins = Plugins(load("gan", "model"))
    sampler, sample_settings = TrainedModel.sampler, TrainedModel.sample_settings

    def __init__(self, conditional="none"):
        self.options = gan_options(conditional=conditional, latent="uniform", latent_size=4)
        self.batch_sizes = []
        self.run = types.SimpleNamespace(options=self.options, data=SHAPES)
        specs = sampling.generator_inputs(self.run)
        self.graph = types.SimpleNamespace(input_specs=specs, placeholders=specs, outputs=())
        self.predictor = self

    def predict(self, inputs, position=0):
        self.batch_sizes.append(len(inputs["z"]))
        value = (inputs["z"][:, 0] + 1) / 2
        if self.options.conditional != "none":
            value = inputs["label"] / 3.0
        return {"image": np.ones((1, *SHAPES.shape)) * value.reshape(-1, 1, 1, 1)}

    def plan(self, count=None, seed=0, label=None, in_rows=False, **settings):
        return self.sampler().plan(count, seed, label, GanSampleOptions(**settings), in_rows)

    def draw_inputs(self, *arguments, **settings):
        """The inputs of the generator, and the columns of their grid."""
        plan = self.plan(*arguments, **settings)
        return sampling.draw_inputs(plan.request, self.run), plan.columns

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.batch_sizes.append("closed")


@pytest.fixture
def sample(here, monkeypatch):
    """`sample("-n", 4)` -> what the command printed; an error is raised."""

    def call(*argv, model=None):
        monkeypatch.setattr("toolkit.cli.common.open_model", lambda *_: model or Generator())
        argv = ["run"] + [str(argument) for argument in argv]
        return CliRunner().invoke(sample_command, argv, catch_exceptions=False)

    return call


def pixels(path):
    with Image.open(str(path)) as picture:
        return np.asarray(picture)


# ----------------------------------------------------------------------------------------- outputs


def test_a_folder_gets_one_png_per_image(sample):
    result = sample("-n", 3, "--out", "out")
    assert sorted(os.listdir("out")) == ["000000.png", "000001.png", "000002.png"]
    assert pixels("out/000000.png").shape == (2, 2)
    assert result.output == "out  3 images of step 500, seed 0\n"


def test_an_npz_has_the_images_as_bytes_and_their_inputs(sample):
    sample("-n", 5, "--out", "out.npz", "--class", "ring", model=Generator("concat"))
    with np.load("out.npz") as file:
        assert file["images"].dtype == np.uint8
        assert file["images"].shape == (5, 2, 2, 1)
        assert file["images"].ravel().tolist() == [85] * 20  # 1/3 of 255
        assert file["label"].tolist() == [1] * 5
        assert file["z"].shape == (5, 4)


def test_a_png_is_one_grid_and_is_overwritten(sample):
    for seed in (1, 2):
        sample("-n", 4, "--seed", seed, "--out", "out.png")
    assert pixels("out.png").shape == (2 * 4 + 2, 2 * 4 + 2)
    sample("-n", 4, "--seed", 2, "--out", "other.png")
    assert np.array_equal(pixels("out.png"), pixels("other.png"))


def test_the_default_is_a_grid_in_the_run_named_by_seed_and_step(sample):
    result = sample("--seed", 7)
    assert result.output.split()[0] == os.path.join("run", "samples", "seed-7-step-500.png")
    assert os.listdir("run/samples") == ["seed-7-step-500.png"]


@pytest.mark.parametrize("target", ["elsewhere", "absent"])
def test_the_default_is_not_written_through_a_link(sample, here, target):
    (here / "elsewhere").mkdir()
    (here / "run").mkdir()
    (here / "run" / "samples").symlink_to(here / target)
    with pytest.raises(UsageError, match="run/samples is a symbolic link"):
        sample()
    assert not os.listdir("elsewhere") and not os.path.exists("absent")


@pytest.mark.parametrize(
    "count, settings, name",
    [
        (None, {}, "seed-0-step-5.png"),
        (9, {}, "seed-0-step-5-n-9.png"),
        (None, {"label": 0}, "seed-0-step-5-class-0.png"),
        (None, {"truncation": 0.5}, "seed-0-step-5-truncation-0.5.png"),
        (None, {"interpolate": True}, "seed-0-step-5-paths.png"),
    ],
)
def test_each_request_has_its_own_file_name(count, settings, name):
    assert file_name(Generator("concat").plan(count, **settings), count, 5) == name


def test_json_is_one_object_that_describes_the_samples(sample):
    assert json.loads(sample("-n", 2, "--out", "a.npz", "--json").output) == {
        **{"run": "run", "plugin": "gan", "step": 500, "sha256": "abc"},
        **{"out": "a.npz", "count": 2, "seed": 0, "label": None},
        **{"truncation": None, "interpolate": False},
    }


def test_images_are_generated_in_chunks_and_the_run_is_closed(sample):
    model = Generator()
    sample("-n", 1001, "--out", "a.npz", model=model)
    assert model.batch_sizes == [500, 500, 1, "closed"]


# ------------------------------------------------------------------------------------ what is drawn


def test_truncation_bounds_the_latent_numbers():
    inputs, _ = Generator().draw_inputs(100, truncation=0.25)
    assert 0.2 < np.abs(inputs["z"]).max() <= 0.25


def test_a_number_of_images_is_exact_and_mixed_classes_are_written_below_them():
    model = Generator("concat")
    inputs, columns = model.draw_inputs(5, in_rows=True)
    assert columns is None and len(inputs["label"]) == 5
    assert model.plan(5, in_rows=True).captions == ["disc", "ring", "7"]


def test_interpolations_are_in_rows_of_eight_that_join():
    inputs, columns = Generator().draw_inputs(24, 3, interpolate=True)
    random, _ = Generator().draw_inputs(3, 3)
    assert columns == 8
    assert np.allclose(inputs["z"][::8], random["z"], atol=1e-6)


@pytest.mark.parametrize("text, number", [("disc", 0), ("1", 1), ("7", 2), ("2", 2)])
def test_a_class_is_chosen_by_its_name_or_else_by_its_number(text, number):
    assert class_number(text, SHAPES) == number


# --------------------------------------------------------------------------------- what is refused


DIGITS = SHAPES._replace(num_classes=10, class_names=tuple("0123456789"))


@pytest.mark.parametrize(
    "text, data, listed",
    [
        *((text, SHAPES, "0 to 2, or by name: disc, ring, 7.") for text in ("3", "-1", "1.0")),
        ("disk", SHAPES, "0 to 2, or by name: disc, ring, 7."),
        ("10", DIGITS, r"0 to 9\.$"),  # names that are numbers are a range
    ],
)
def test_an_unknown_class_is_refused_with_a_list_of_classes(text, data, listed):
    with pytest.raises(UsageError, match=f"no class '{text}'.\nClasses: {listed}"):
        class_number(text, data)


@pytest.mark.parametrize(
    "argv, message",
    [
        (["--class", 1], "knows no classes(.|\n)*--conditional projection"),
        (["--out", "a.jpg"], r"not written as \.jpg(.|\n)*\.npz"),
    ],
)
def test_what_cannot_be_drawn_or_written_is_refused_with_a_hint(sample, argv, message):
    with pytest.raises(UsageError, match=message):
        sample(*argv)


def test_a_folder_with_something_in_it_is_refused_and_left_alone(sample):
    os.mkdir("out")
    open("out/mine", "w").close()
    with pytest.raises(UsageError, match="out is not empty"):
        sample("--out", "out")
    assert os.listdir("out") == ["mine"]


def test_a_grid_has_a_limit_and_a_folder_has_not():
    with pytest.raises(UsageError, match="50000 images are too many for a grid"):
        kind_of("a.png", 50000)
    assert kind_of("out", 50000) == "folder"
