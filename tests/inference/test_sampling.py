"""The hook `sample`, `toolkit sample` and `Trained.sample`, with small models that generate."""

from __future__ import annotations

import functools
import os
from types import SimpleNamespace

import numpy as np
import pytest
from linear_fixtures import Linear

import toolkit
from toolkit import SampleOptions, SampleRequest, ToolkitError, UsageError, hookimpl, option, tf
from toolkit.data.spec import DataSpec
from toolkit.inference.sample_options import sample_options_class
from toolkit.inference.sampling import Sampler
from toolkit.plugins import Plugin, Plugins


class Settings(SampleOptions):
    scale: float = option(1.0, "Factor on the noise", gt=0)
    is_dark: bool = option(False, "Draw in black")


class Generator(Linear):
    """An image is its noise, moved by its class."""

    @hookimpl
    def sample_options(self):
        return Settings

    @hookimpl
    def inputs(self, run):
        return {"noise": ("float32", [6, 6, 1]), "label": ("int32", [])}

    @hookimpl
    def call(self, model, features, run):
        if run.mode != "predict":
            return Linear.call(self, model, features, run)
        shift = tf.cast(features["label"], tf.float32)[:, None, None, None]
        return {"image": features["noise"] / 8 + shift / 4}

    @hookimpl
    def predict(self, outputs, run):
        return {"image": outputs["image"]} if run.mode == "predict" else outputs

    @hookimpl
    def sample(self, request, run):
        for part in request.parts():
            noise = part.uniform("noise", [6, 6, 1]) * request.options.scale
            labels = part.labels
            if labels is None:
                labels = (3 * part.uniform("label", [])).astype(np.int32)
            yield {
                "images": part.predict({"noise": noise, "label": labels})["image"],
                "label": labels,
            }


class Autoencoder(Linear):
    """Is fed images, and generates them from codes: the output `code` of `call`, with noise."""

    @hookimpl
    def call(self, model, features, run):
        outputs = Linear.call(self, model, features, run)
        code = tf.identity(outputs["flat"][:, :2])
        noise = run.uniform("noise", [tf.shape(code)[0], 1])
        return dict(outputs, code=code, image=tf.concat([code, noise], 1)[:, :, None, None])

    @hookimpl
    def predict(self, outputs):
        return {"image": outputs["image"]}

    @hookimpl
    def sample(self, request):
        for part in request.parts():
            code = part.uniform("code", [2])
            yield {"images": part.predict({"code": code})["image"], "code": code}


@hookimpl
def draw_words(self, request):
    """The hook `sample` of a model that generates no images."""
    for part in request.parts():
        yield {"words": (100 * part.uniform("words", [5])).astype(np.int32)}


@pytest.fixture
def runs(golden):
    """A function from a class of this module to the folder of a run of it."""

    @functools.lru_cache(maxsize=None)
    def run_of(name):
        flags = ["--steps", 1, "--batch-size", 4, "--no-evaluate", "--best-metric", "none"]
        flags += ["--eval-batch-size", 7]
        return str(golden(*flags, plugin=f"test_sampling:{name}", name=name) / "run")

    return run_of


@pytest.fixture
def generator(runs):
    with toolkit.open_trained(runs("Generator"), trust=True) as trained:
        yield trained


def test_a_setting_may_not_have_the_name_of_a_flag():
    class Odd(SampleOptions):
        seed: int = option(0, "another seed")

    plugin = Generator()
    plugin.sample_options = hookimpl(lambda: Odd)
    with pytest.raises(ToolkitError, match="has the setting 'seed', a name that"):
        sample_options_class(Plugins(Plugin.from_object(plugin)))


def test_a_sample_is_the_same_for_any_number_of_samples_and_any_parts():
    for draw in (SampleRequest.normal, SampleRequest.uniform):
        many = draw(SampleRequest(1203, seed=4), "z", [2])
        assert many.dtype == np.float32 and many.shape == (1203, 2)
        assert np.array_equal(draw(SampleRequest(7, seed=4), "z", [2]), many[:7])
        for size in (1, 30, 100, 500):
            parts = SampleRequest(1203, seed=4).parts(size)
            assert np.array_equal(np.concatenate([draw(p, "z", [2]) for p in parts]), many)
    request = SampleRequest(5, labels=np.array([4, 3, 2, 1, 0]))
    assert [part.labels.tolist() for part in request.parts(2)] == [[4, 3], [2, 1], [0]]


def test_numbers_differ_by_seed_and_name_and_have_their_distribution():
    request = SampleRequest(4000, seed=1)
    z = request.normal("z", [3])
    assert abs(z.mean()) < 0.03 and abs(z.std() - 1) < 0.03
    u = request.uniform("u", [3])
    assert u.min() >= 0 and u.max() < 1 and abs(u.mean() - 0.5) < 0.01
    assert not np.array_equal(z, request.normal("y", [3]))
    assert not np.array_equal(z, SampleRequest(4000, seed=2).normal("z", [3]))
    assert len(np.unique(z)) > 11000  # no block repeats another


def test_labels_without_classes_have_no_rows():
    graph, data = SimpleNamespace(input_specs={"label": ()}), DataSpec((6, 6, 1), "float32")
    sampler = Sampler(None, SimpleNamespace(graph=graph, run=SimpleNamespace(data=data)))
    plan = sampler.plan(None, 0, None, SampleOptions(), in_rows=True)
    assert (plan.request.count, plan.request.labels, plan.columns) == (64, None, None)


def test_samples_are_arrays_by_name_with_images_as_bytes(generator):
    arrays = generator.sample(1001, seed=3)
    assert list(arrays) == ["images", "label"]
    assert arrays["images"].shape == (1001, 6, 6, 1) and arrays["images"].dtype == np.uint8
    noise = SampleRequest(1001, 3).uniform("noise", [6, 6, 1])
    shift = arrays["label"][:, None, None, None] / 4
    assert np.abs(arrays["images"] - 255 * (noise / 8 + shift)).max() <= 0.51
    few = generator.sample(3, seed=3)
    assert all(np.array_equal(arrays[name][:3], few[name]) for name in few)


def test_a_class_holds_for_all_samples(generator):
    assert generator.sample(5, label=2)["label"].tolist() == [2] * 5


@pytest.mark.parametrize("seed", [-1, 2**32])
def test_a_seed_that_numpy_does_not_have_is_refused(generator, seed):
    with pytest.raises(UsageError, match=f"The seed is {seed}, not from 0 to 4294967295"):
        generator.sample(1, seed=seed)


def test_settings_of_the_plugin_are_typed(generator):
    plain, dark = generator.sample(4), generator.sample(4, scale="0.0001")
    assert (dark["images"] < plain["images"]).any()
    with pytest.raises(UsageError, match="'scale' is -1 .*greater than 0"):
        generator.sample(4, scale=-1)
    with pytest.raises(UsageError, match="no setting 'scal'(.|\n)*Did you mean 'scale'"):
        generator.sample(4, scal=1)


def test_a_model_that_is_fed_examples_generates_from_tensors_of_its_outputs(runs):
    with toolkit.open_trained(runs("Autoencoder"), trust=True) as trained:
        images = np.zeros([3, 6, 6, 1], np.uint8)
        assert trained.predict(images)["image"].shape == (3, 3, 1, 1)
        arrays, few = trained.sample(1003, seed=1), trained.sample(9, seed=1)
        other = trained.sample(9, seed=2)
    assert np.array_equal(arrays["images"][:9], few["images"])
    pixels = arrays["images"][:, :, 0, 0] / 255
    assert np.abs(pixels[:, :2] - arrays["code"]).max() < 0.003
    # What `call` draws follows from the seed and the place of the sample as well.
    assert len(np.unique(pixels[:, 2])) > 200
    assert not np.array_equal(pixels[:9, 2], other["images"][:, 2, 0, 0] / 255)


def test_outputs_that_do_not_decide_the_prediction_are_refused(runs, monkeypatch):
    values = {"logits": np.zeros([2, 3], np.float32)}
    call = hookimpl(lambda self, request: [request.predict(values)])
    monkeypatch.setattr(Autoencoder, "sample", call)
    trained = toolkit.open_trained(runs("Autoencoder"), trust=True)
    with trained, pytest.raises(ToolkitError, match="cannot predict from logits alone"):
        trained.sample(2)


def test_a_grid_has_a_row_for_each_class_by_default(cli, runs):
    run = runs("Generator")
    report = cli("sample", run, "--json").json()
    assert report["count"] == 63 and report["label"] is None and report["scale"] == 1.0
    assert os.path.basename(report["out"]) == "seed-0-step-1.png"
    assert os.path.exists(report["out"])


def test_settings_are_flags_in_the_help_and_parts_of_the_default_name(cli, runs):
    argv = ("sample", runs("Generator"), "-n", "2", "--scale", "0.5", "--is-dark", "--class", "1")
    result = cli.succeed(*argv)
    name = "seed-0-step-1-n-2-class-1-scale-0.5-is_dark.png"
    assert os.path.basename(result.out.split("  ")[0]) == name
    assert "--scale X" in cli("sample", runs("Generator"), "--trust", "--help").out
    assert "--count" in cli("sample", "--help").out


def test_what_a_model_cannot_sample_is_refused(cli, run, monkeypatch):
    cli.refuse(2, "generates no samples: it has no hook 'sample'.", "sample", run)
    monkeypatch.setattr(Linear, "sample", draw_words, raising=False)
    cli.refuse(2, "The model knows no classes.", "sample", run, "--class", "1", "--out", "a.npz")


def test_an_unknown_setting_is_one_sentence_with_those_of_the_plugin(cli, runs):
    result = cli.refuse(2, "No such option", "sample", runs("Generator"), "--truncation", "1")
    assert "--truncation" in result.err and ", --scale, --is-dark" in result.err
    cli.refuse(2, "nowhere does not exist", "sample", "nowhere", "--truncation", "1")


def test_samples_that_are_no_images_are_written_to_an_npz_alone(cli, run, monkeypatch):
    monkeypatch.setattr(Linear, "sample", draw_words, raising=False)
    words = "The model generates words int32 [5], which is no image.\nWrite"
    cli.refuse(2, words, "sample", run, "-n", "3", "--out", "a.png")
    assert not os.path.exists("a.png")
    result = cli.succeed("sample", run, "-n", "3", "--out", "a.npz")
    assert result.out == "a.npz  3 samples of step 6, seed 0\n"
    with np.load("a.npz") as file:
        assert file["words"].shape == (3, 5)


def rows(count):
    return {"images": np.zeros([count, 2, 2, 1])}


@pytest.mark.parametrize(
    "result, message",
    [
        (None, "returned NoneType, expected an iterable of dicts"),
        ([rows(2)], "yielded 2 samples, expected 4"),
        (
            dict(rows(4), label=np.zeros(3)),
            r"yielded images \[4, 2, 2, 1\], label \[3\], expected as many rows of each",
        ),
        ([np.zeros(4)], "yielded ndarray, expected a dict"),
        (
            [rows(2), {"image": np.zeros([2, 2, 2, 1])}],
            r"yielded images uint8 \[2, 2, 1\], then image float64 \[2, 2, 1\]",
        ),
        ((1 / 0 for _ in [0]), "in its hook 'sample': ZeroDivisionError"),
    ],
)
def test_a_wrong_hook_is_one_sentence(run, monkeypatch, result, message):
    answers = [rows(4), result]
    sample = hookimpl(lambda self, request: answers.pop(0))
    monkeypatch.setattr(Linear, "sample", sample, raising=False)
    with toolkit.open_trained(str(run)) as model:
        assert model.sample(4)["images"].shape == (4, 2, 2, 1)  # one dict of all is enough
        with pytest.raises(ToolkitError, match=message):
            model.sample(4)
