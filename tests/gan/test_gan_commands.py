"""`toolkit sample`: where it writes, which class is meant, what a GAN is fed, what is refused."""

import functools
import os
import types

import numpy as np
import pytest
from gan_fixtures import make_run
from linear_fixtures import Linear
from PIL import Image
from toolkit_gan import sampling
from toolkit_gan.options import GanSampleOptions

from toolkit import DataSpec, SampleRequest, UsageError, hookimpl
from toolkit.cli.sample_files import kind_of
from toolkit.inference.sampling import Sampler, class_number

SHAPES = DataSpec((2, 2, 1), "uint8", 3, ("disc", "ring", "7"), (1, 1, 2))


@hookimpl
def draw_pixels(self, request):
    """The hook `sample` of a model whose images are noise."""
    for part in request.parts():
        yield {"images": part.uniform("pixels", [2, 2, 1])}


@pytest.fixture
def sample(cli, trained, monkeypatch):
    """`sample("-n", 4)` -> how the command ended, of a run of six steps."""
    monkeypatch.setattr(Linear, "sample", draw_pixels, raising=False)
    return functools.partial(cli, "sample", trained / "run")


def pixels(path):
    with Image.open(str(path)) as picture:
        return np.asarray(picture)


def test_a_folder_gets_one_png_per_image(sample):
    result = sample("-n", 3, "--out", "out")
    assert sorted(os.listdir("out")) == ["000000.png", "000001.png", "000002.png"]
    assert pixels("out/000000.png").shape == (2, 2)
    assert result.out == "out  3 images of step 6, seed 0\n"


def test_a_png_is_one_grid_and_is_overwritten(sample):
    for seed in (1, 2):
        sample("-n", 4, "--seed", seed, "--out", "out.png")
    assert pixels("out.png").shape == (2 * 4 + 2, 2 * 4 + 2)
    sample("-n", 4, "--seed", 2, "--out", "other.png")
    assert np.array_equal(pixels("out.png"), pixels("other.png"))


@pytest.mark.parametrize("target", ["elsewhere", "absent"])
def test_the_default_is_not_written_through_a_link(sample, here, trained, target):
    (here / "elsewhere").mkdir()
    (trained / "run" / "samples").symlink_to(here / target)
    assert "run/samples is a symbolic link" in sample().err
    assert not os.listdir("elsewhere") and not os.path.exists("absent")


def draw_z(count, seed=0, **settings):
    """The latent numbers of a sample, uniform."""
    request = SampleRequest(count, seed, options=GanSampleOptions(**settings))
    return sampling.draw_inputs(request, make_run(latent="uniform", latent_size=4))["z"]


@pytest.mark.parametrize("interpolate", [False, True])
def test_truncation_bounds_the_latent_numbers(interpolate):
    assert 0.2 < np.abs(draw_z(100, truncation=0.25, interpolate=interpolate)).max() <= 0.25


def test_interpolations_are_in_rows_of_eight_that_join():
    assert GanSampleOptions(interpolate=True).columns == 8
    np.testing.assert_allclose(draw_z(24, 3, interpolate=True)[::8], draw_z(3, 3), atol=1e-6)


def test_a_number_of_images_is_exact_and_mixed_classes_are_written_below_them():
    graph, run = types.SimpleNamespace(input_specs={"label"}), types.SimpleNamespace(data=SHAPES)
    sampler = Sampler(None, types.SimpleNamespace(graph=graph, run=run))
    plan = sampler.plan(5, 0, None, GanSampleOptions(), in_rows=True)
    assert (plan.request.count, plan.columns) == (5, None)
    assert plan.captions == ["disc", "ring", "7"]


@pytest.mark.parametrize("text, number", [("disc", 0), ("1", 1), ("7", 2), ("2", 2)])
def test_a_class_is_chosen_by_its_name_or_else_by_its_number(text, number):
    assert class_number(text, SHAPES) == number


DIGITS = SHAPES._replace(num_classes=10, class_names=tuple("0123456789"))


@pytest.mark.parametrize(
    "text, data, listed",
    [
        *((word, SHAPES, "0 to 2, or by name: disc, ring, 7.") for word in ("3", "-1", "disk")),
        ("10", DIGITS, r"0 to 9\.$"),  # names that are numbers are a range
    ],
)
def test_an_unknown_class_is_refused_with_a_list_of_classes(text, data, listed):
    with pytest.raises(UsageError, match=f"no class '{text}'.\nClasses: {listed}"):
        class_number(text, data)


def test_a_picture_of_another_form_is_refused_with_those_that_are_known(sample):
    result = sample("--out", "a.jpg")
    assert result.code == 2 and "not written as .jpg" in result.err and ".npz" in result.err


def test_a_grid_has_a_limit_and_a_folder_has_not():
    with pytest.raises(UsageError, match="50000 images are too many for a grid"):
        kind_of("a.png", 50000)
    assert kind_of("out", 50000) == "folder"
