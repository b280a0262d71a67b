"""`toolkit sample` and `toolkit gan`: what is generated, where it is written, what is refused."""

from __future__ import annotations

import contextlib
import json
import os
import types
from typing import NamedTuple

import numpy as np
import pytest
from click.testing import CliRunner
from gan_fixtures import options as gan_options
from graph_fixtures import make_plugin
from linear_fixtures import Linear, write_bars
from PIL import Image
from toolkit_gan import commands, samples, sampling
from toolkit_gan.commands import calibration
from toolkit_gan.options import GanSampleOptions
from toolkit_gan.scores import extractor
from toolkit_gan.scores.scorer import GanScorer

import toolkit
from toolkit import DataError, DataSpec, Split, UsageError
from toolkit.api import Trained
from toolkit.cli.sample import file_name
from toolkit.cli.sample import sample as sample_command
from toolkit.cli.sample_files import kind_of
from toolkit.inference.sampling import class_number
from toolkit.options import resolve_class
from toolkit.plugins import Plugins, load
from toolkit.storage.run_folder import RunFolder

SHAPES = DataSpec((2, 2, 1), "uint8", 3, ("disc", "ring", "7"), (1, 1, 2))


class ModelRun(NamedTuple):
    options: object
    data: object


class ModelGraph(NamedTuple):
    input_specs: object
    outputs: object = ()

    @property
    def placeholders(self):
        return self.input_specs


class Generator(NamedTuple):
    """An open run: all pixels of an image are its first latent number, or its class / 3."""

    options: object
    data: object = SHAPES
    plugin: str = "gan"
    step: int = 500
    sha256: str = "abc"
    batch_sizes: object = ()
    run_folder: object = RunFolder("run")

    sampler = Trained.sampler
    sample_settings = Trained.sample_settings

    @property
    def plugins(self):
        if self.plugin == "gan":
            return Plugins(load("gan", "model"))
        return Plugins(make_plugin(Linear, self.plugin))

    @property
    def predictor(self):
        return self

    @property
    def run(self):
        return ModelRun(self.options, self.data)

    @property
    def graph(self):
        return ModelGraph(sampling.generator_inputs(self.run))

    def predict(self, inputs, position=0):
        self.batch_sizes.append(len(inputs["z"]))
        value = (inputs["z"][:, 0] + 1) / 2
        if self.options.conditional != "none":
            value = inputs["label"] / 3.0
        return {
            "image": np.ones([1] + list(self.data.shape))
            * value.reshape([-1] + [1] * len(self.data.shape))
        }

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.batch_sizes.append("closed")


def trained(conditional="none", **fields):
    options = gan_options(conditional=conditional, latent="uniform", latent_size=4)
    return Generator(options, batch_sizes=[], **fields)


@pytest.fixture
def sample(here, monkeypatch):
    """`sample(model, "-n", 4)` -> what the command printed; an error is raised."""

    def call(model, *argv):
        monkeypatch.setattr("toolkit.cli.common.open_trained", lambda *_: model)
        argv = ["run"] + [str(argument) for argument in argv]
        return CliRunner().invoke(sample_command, argv, catch_exceptions=False)

    return call


def pixels(path):
    with Image.open(str(path)) as picture:
        return np.asarray(picture)


# ----------------------------------------------------------------------------------------- outputs


def test_a_folder_gets_one_png_per_image(sample, here):
    result = sample(trained(), "-n", 3, "--out", "out")
    assert sorted(os.listdir("out")) == ["000000.png", "000001.png", "000002.png"]
    assert pixels("out/000000.png").shape == (2, 2)
    assert result.output == "out  3 images of step 500, seed 0\n"


def test_an_npz_has_the_images_as_bytes_and_their_inputs(sample, here):
    sample(trained("concat"), "-n", 5, "--out", "out.npz", "--class", "ring")
    with np.load("out.npz") as file:
        assert file["images"].dtype == np.uint8
        assert file["images"].shape == (5, 2, 2, 1)
        assert file["images"].ravel().tolist() == [85] * 20  # 1/3 of 255
        assert file["label"].tolist() == [1] * 5
        assert file["z"].shape == (5, 4)


def test_a_png_is_one_grid(sample, here):
    sample(trained(), "-n", 4, "--out", "out.png")
    assert pixels("out.png").shape == (2 * 4 + 2, 2 * 4 + 2)


def test_the_default_is_a_grid_in_the_run_named_by_seed_and_step(sample, here):
    result = sample(trained(), "--seed", 7)
    assert result.output.split()[0] == os.path.join("run", "samples", "seed-7-step-500.png")
    assert os.listdir("run/samples") == ["seed-7-step-500.png"]


@pytest.mark.parametrize("target", ["elsewhere", "absent"])
def test_the_default_is_not_written_through_a_link(sample, here, target):
    (here / "elsewhere").mkdir()
    (here / "run").mkdir()
    (here / "run" / "samples").symlink_to(here / target)
    with pytest.raises(UsageError, match="run/samples is a symbolic link"):
        sample(trained())
    assert not os.listdir("elsewhere") and not os.path.exists("absent")


def plan(model, count=None, seed=0, label=None, in_rows=False, **settings):
    return model.sampler().plan(count, seed, label, GanSampleOptions(**settings), in_rows)


def draw_inputs(model, *arguments, **settings):
    """The inputs of the generator, and the columns of their grid."""
    what = plan(model, *arguments, **settings)
    return samples.draw_inputs(what.request, model.run), what.columns


def test_each_request_has_its_own_file_name():
    model = trained("concat")
    plans = [
        (None, plan(model)),
        (9, plan(model, 9)),
        (None, plan(model, label=0)),
        (None, plan(model, truncation=0.5)),
        (None, plan(model, interpolate=True)),
    ]
    assert [file_name(what, count, 5) for count, what in plans] == [
        "seed-0-step-5.png",
        "seed-0-step-5-n-9.png",
        "seed-0-step-5-class-0.png",
        "seed-0-step-5-truncation-0.5.png",
        "seed-0-step-5-paths.png",
    ]


def test_json_is_one_object_that_describes_the_samples(sample, here):
    report = json.loads(sample(trained(), "-n", 2, "--out", "a.npz", "--json").output)
    assert report == {
        "run": "run",
        "out": "a.npz",
        "count": 2,
        "seed": 0,
        "label": None,
        "truncation": None,
        "interpolate": False,
        "plugin": "gan",
        "step": 500,
        "sha256": "abc",
    }


def test_images_are_generated_in_chunks_and_the_run_is_closed(sample, here):
    model = trained()
    sample(model, "-n", 1001, "--out", "a.npz")
    assert model.batch_sizes == [500, 500, 1, "closed"]


# ------------------------------------------------------------------------------------ what is drawn


def test_the_same_seed_gives_the_same_images_and_another_seed_others(sample, here):
    for out, seed in [("a.npz", 1), ("b.npz", 1), ("c.npz", 2)]:
        sample(trained(), "-n", 4, "--seed", seed, "--out", out)
    a, b, c = (np.load(name)["images"] for name in ("a.npz", "b.npz", "c.npz"))
    assert np.array_equal(a, b) and not np.array_equal(a, c)


def test_truncation_bounds_the_latent_numbers():
    inputs, _ = draw_inputs(trained(), 100, truncation=0.25)
    assert 0.2 < np.abs(inputs["z"]).max() <= 0.25


def test_a_grid_of_a_conditional_model_has_a_row_per_class():
    inputs, columns = draw_inputs(trained("concat"), in_rows=True)
    assert columns == 21  # 64 // 3
    assert inputs["label"].reshape(3, 21).tolist() == [[0] * 21, [1] * 21, [2] * 21]


def test_a_number_of_images_is_exact_and_mixed_classes_are_written_below_them():
    what = plan(trained("concat"), 5, in_rows=True)
    inputs = samples.draw_inputs(what.request, trained("concat").run)
    assert what.columns is None
    assert what.captions == ["disc", "ring", "7"]
    assert len(inputs["label"]) == 5


def test_interpolations_are_in_rows_of_eight_that_join():
    inputs, columns = draw_inputs(trained(), 24, 3, interpolate=True)
    random, _ = draw_inputs(trained(), 3, 3)
    assert columns == 8
    assert np.allclose(inputs["z"][::8], random["z"], atol=1e-6)


@pytest.mark.parametrize("text, number", [("disc", 0), ("1", 1), ("7", 2), ("2", 2)])
def test_a_class_is_chosen_by_its_name_or_else_by_its_number(text, number):
    assert class_number(text, SHAPES) == number


# --------------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize("text", ["3", "-1", "disk", "1.0"])
def test_an_unknown_class_is_refused_with_a_list_of_classes(text):
    expected = f"no class '{text}'.\nClasses: 0 to 2, or by name: disc, ring, 7."
    with pytest.raises(UsageError, match=expected):
        class_number(text, SHAPES)


def test_names_that_are_numbers_are_listed_as_a_range():
    digits = SHAPES._replace(num_classes=10, class_names=tuple("0123456789"))
    with pytest.raises(UsageError, match=r"Classes: 0 to 9\.$"):
        class_number("10", digits)


def test_a_class_of_an_unconditional_model_is_refused_with_a_hint(sample):
    with pytest.raises(UsageError, match="knows no classes(.|\n)*--conditional projection"):
        sample(trained(), "--class", 1)


def test_a_model_without_the_hook_is_refused(sample):
    with pytest.raises(UsageError, match="Plugin 'mine' generates no samples(.|\n)*'sample'"):
        sample(trained(plugin="mine"))


def test_a_folder_with_something_in_it_is_refused_and_left_alone(sample, here):
    os.mkdir("out")
    open("out/mine", "w").close()
    with pytest.raises(UsageError, match="out is not empty"):
        sample(trained(), "--out", "out")
    assert os.listdir("out") == ["mine"]


def test_a_file_is_overwritten(sample, here):
    for seed in (1, 2):
        sample(trained(), "-n", 1, "--seed", seed, "--out", "a.png")
        last = pixels("a.png")
    sample(trained(), "-n", 1, "--seed", 2, "--out", "b.png")
    assert np.array_equal(last, pixels("b.png"))


def test_other_endings_are_refused_with_a_list_of_endings(sample):
    with pytest.raises(UsageError, match=r"not written as \.jpg(.|\n)*\.npz"):
        sample(trained(), "--out", "a.jpg")


def test_a_grid_has_a_limit_and_a_folder_has_not():
    with pytest.raises(UsageError, match="50000 images are too many for a grid"):
        kind_of("a.png", 50000)
    assert kind_of("out", 50000) == "folder"


def test_examples_that_are_no_images_can_only_be_written_to_an_npz(sample, here):
    points = trained(data=DataSpec((2,), "float32"))
    with pytest.raises(UsageError, match=r"\[2\], which is no image(.|\n)*\.npz"):
        sample(points, "-n", 3, "--out", "points.png")
    assert not os.path.exists("points.png")
    sample(points, "-n", 3, "--out", "points.npz")
    with np.load("points.npz") as file:
        assert file["images"].shape == (3, 2) and file["images"].dtype.kind == "f"


@pytest.mark.parametrize("argv", [["-n", 0], ["-n", 1000001], ["--seed", -1]], ids=str)
def test_numbers_out_of_range_are_usage_errors(sample, argv):
    result = sample(trained(), *argv)
    assert result.exit_code == 2
    assert "range" in result.output


@pytest.mark.parametrize("text", ["0", "-1", "nan", "wide"])
def test_a_truncation_that_is_no_positive_number_is_refused(text):
    with pytest.raises(UsageError, match=r"'truncation' is '.*' \(flag --truncation\)"):
        resolve_class(GanSampleOptions, {"truncation": text}, are_flags=True)


def test_a_trained_run_is_sampled_the_same_way_each_time(here):
    small = {
        "network": "mlp",
        "width": 4,
        "norm_samples": 10,
        "evaluate": False,
        "best_metric": None,
    }
    settings = dict(small, data=write_bars("bars.npz"), steps=2, batch_size=4, sample_steps=0)
    toolkit.train("gan", "r", settings)
    for out in ("a.npz", "b.npz"):
        argv = ["r", "-n", "3", "--seed", "5", "--truncation", "0.5", "--out", out]
        assert CliRunner().invoke(sample_command, argv, catch_exceptions=False).exit_code == 0
    with np.load("a.npz") as a, np.load("b.npz") as b:
        assert a["images"].shape == (3, 6, 6, 1)
        assert all(np.array_equal(a[name], b[name]) for name in ("images", "z", "label"))
        assert np.abs(a["z"]).max() <= 0.5


# ------------------------------------------------------------------------------------- calibration


class TwoClasses(NamedTuple):
    """Data without a run: 40 training and 20 test images of 8x8 pixels, in two classes."""

    options: object
    splits: object
    data: object = DataSpec((8, 8, 1), "uint8", 2)

    def split(self, name):
        return self.splits.get(name)


@pytest.fixture
def data():
    """The splits that the data has; a test may change them."""
    random = np.random.RandomState(0)
    splits = {}
    for name, count in [("train", 40), ("test", 20)]:
        labels = np.arange(count) % 2
        light = 100 * labels[:, None, None, None]  # [N, 1, 1, 1]
        images = random.randint(0, 100, (count, 8, 8, 1)) + light
        splits[name] = Split(images.astype(np.uint8), labels)
    return splits


@pytest.fixture
def calibrate(data, monkeypatch):
    flags = {}

    def open_data(plugin, options):
        flags.update(options)
        return TwoClasses(gan_options(score_samples=100, **options), data)

    monkeypatch.setattr(toolkit, "open_data", open_data, raising=True)
    monkeypatch.setattr(calibration, "log_to_stderr", lambda text: None)

    def call(*argv):
        argv = ["calibrate", "--features", "pixels"] + list(argv)
        result = CliRunner().invoke(commands.gan, argv, catch_exceptions=False)
        return result.output, flags

    return call


def test_a_ruler_has_the_distance_of_each_damage_in_order(calibrate):
    report = json.loads(calibrate("--json")[0])
    distances = [mark["distance"] for mark in report["ruler"]]
    names = {mark["name"] for mark in report["ruler"]}
    assert distances == sorted(distances)
    assert {"real images", "one class missing", "Gaussian pixels"} <= names
    assert (report["n"], report["m"], report["data"]) == (40, 20, "mnist5k")
    assert report["features"]["name"] == "pixels, 5 principal components of 64"


@pytest.mark.parametrize("name", ["validation", "test"])
def test_a_ruler_has_the_features_of_the_scores_also_with_few_images(calibrate, data, name):
    data.update(test=data["train"], validation=data["train"])
    data[name] = Split(data["train"].features[:12], data["train"].labels[:12])
    plain = TwoClasses(gan_options(score_samples=100, features="pixels"), data)
    run = types.SimpleNamespace(options=plain.options, data=plain.data)
    with contextlib.closing(GanScorer(run, data.get, lambda text: None)) as scorer:
        expected = scorer.dependencies(data["test"])["features"]
    report = json.loads(calibrate("--json")[0])
    assert report["features"]["sha256"] == expected
    assert report["features"]["size"] == 3  # a quarter of the fewest real images


def test_the_floors_of_a_mark_are_its_distance_divided_by_the_floor(calibrate):
    report = json.loads(calibrate("--json")[0])
    for mark in report["ruler"]:
        assert mark["floors"] == pytest.approx(mark["distance"] / report["floor"])


def test_a_ruler_is_printed_as_a_table(calibrate):
    text = calibrate()[0].splitlines()
    assert text[0] == "mnist5k: 40 training images against 20 test images"
    name = "pixels, 5 principal components of 64"
    assert text[1].startswith(f"features {name}, F = 5, sha256 ")
    assert text[2] == "FD: Frechet distance from the test images"
    assert text[3].startswith(
        "floor: the FD that two sets of real images reach by sampling noise; "
    )
    assert text[5].split() == ["FD", "x", "floor", "damage"]
    assert any(line.endswith("  one class missing") for line in text[6:])


def test_equal_images_have_a_floor_of_zero_and_no_multiples_of_it(calibrate, data):
    for name, count in (("train", 40), ("test", 20)):
        data[name] = Split(np.full((count, 8, 8, 1), 9, np.uint8), np.arange(count) % 2)
    report = json.loads(calibrate("--json")[0])
    assert report["floor"] == 0 and {mark["floors"] for mark in report["ruler"]} == {None}
    lines = calibrate()[0].splitlines()[6:]
    assert {line.split()[1] for line in lines[: lines.index("")]} == {"-"}
    assert any(line.startswith("coverage says nothing here: ") for line in lines)


def test_calibrate_opens_the_data_that_its_flags_name(calibrate):
    _, flags = calibrate("--data", "images:x", "--image-size", "8", "--channels", "1")
    assert flags == {"data": "images:x", "image_size": 8, "channels": 1, "features": "pixels"}


def test_calibrate_has_every_flag_on_which_the_data_of_a_run_depends(calibrate):
    given = {
        **{"fit": "crop", "background": "black", "validation_share": "0.2", "test_share": "0.3"},
        **{"folds": "4", "fold": "1", "split_seed": "5", "label_column": "a,b"},
        **{"label_kind": "value", "image_column": "c", "feature_columns": "d,e"},
        **{"ignore_columns": "f", "split_column": "g", "missing": "drop", "categories": "one-hot"},
    }
    words = [word for name, text in given.items() for word in (f"--{name}".replace("_", "-"), text)]
    _, flags = calibrate(*words)
    assert flags == {"data": "mnist5k", "features": "pixels", **given}
    plain = {"data", "image_size", "channels"}
    assert plain | set(given) == set(extractor.DATA_OPTIONS)


@pytest.mark.parametrize("shape", [(40,), (40, 3), (40, 1)])
def test_labels_that_are_no_classes_make_a_ruler_without_classes(calibrate, data, shape):
    data["train"] = Split(data["train"].features, np.zeros(shape, np.float32))
    names = {mark["name"] for mark in json.loads(calibrate("--json")[0])["ruler"]}
    assert "a 5-tap blur" in names
    assert not names & {"one class missing", "each class's mean image"}


def test_too_few_images_make_no_ruler(calibrate, data):
    del data["test"]
    with pytest.raises(DataError, match="'test' has 0 images, and a ruler needs 10") as info:
        calibrate()
    assert "with --test-share" in info.value.hint


def test_examples_that_are_no_images_have_no_ruler(calibrate, data):
    data["train"] = Split(np.zeros((40, 3), np.float32))
    with pytest.raises(DataError, match=r"examples are \[3\], and a ruler needs images"):
        calibrate()
