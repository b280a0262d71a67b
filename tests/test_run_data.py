"""The examples of a run as its plugins see them: counts, ranges, hashes."""

import numpy as np
import pytest
from linear_fixtures import Linear
from PIL import Image

import toolkit
from toolkit import DataError, Decoded, Split, ToolkitError, check_features, hookimpl, testing
from toolkit.options import CoreOptions
from toolkit.plugins import Plugin, Plugins
from toolkit.run_data import open_from_options, open_other_data, open_run_data


def run_data_of(plugin, **options):
    return open_run_data(Plugins(Plugin.from_object(plugin, "model")), CoreOptions(**options))


def write_npz(path, features, labels):
    np.savez(str(path), x=features, y=labels)
    return f"npz:{path}"


class WithoutClassZero(Linear):
    @hookimpl
    def filter(self, labels):
        return labels != 0


class Swapped(WithoutClassZero):
    @hookimpl
    def convert(self, features, labels):
        return features, 3 - labels


IMAGES = np.random.RandomState(0).randint(0, 256, (400, 4, 4)).astype(np.uint8)


@pytest.mark.parametrize(
    "plugin, counts",
    [
        (Linear, (81, 81, 81, 81)),
        (WithoutClassZero, (0, 81, 81, 81)),
        (Swapped, (81, 81, 81, 0)),
    ],
)
def test_classes_are_counted_as_training_sees_them(tmp_path, plugin, counts):
    data = write_npz(tmp_path / "d.npz", IMAGES, np.arange(400) % 4)
    spec = run_data_of(plugin(), data=data).spec
    assert (spec.class_counts, spec.value_range) == (counts, ())  # bytes have no range


@pytest.mark.parametrize("scale, shift", [(1, 0), (2, -1)])
def test_the_range_of_float_images_is_known(tmp_path, scale, shift):
    images = IMAGES[..., np.newaxis] / 255.0 * scale + shift
    data = write_npz(tmp_path / "d.npz", images.astype(np.float32), np.arange(400) % 4)
    value_range = run_data_of(Linear(), data=data).spec.value_range
    assert value_range == pytest.approx((shift, scale + shift))


ONE_STEP = ["--steps", 1, "--steps-per-call", 1, "--no-evaluate"]
CLASSIFIER = ["classifier", "--network", "mlp"]


@pytest.mark.parametrize(
    "words, channels, value, text",
    [
        (CLASSIFIER + ["--augment", "photos"], 1, 255, "A classifier needs"),
        (CLASSIFIER, 5, -3, "A classifier needs"),
        (["gan"], 1, 255, "float images with values from 0 to 1"),
    ],
)
def test_float_images_beyond_0_and_1_are_refused(cli, here, words, channels, value, text):
    images = np.random.RandomState(0).rand(200, 12, 12, channels).astype(np.float32)
    images[:, 0, :3, 0] = 0, 1, value
    data = write_npz(here / "d.npz", images, np.arange(200) % 4)
    result = cli.refuse(4, text, "run", "--data", data, "--steps", 2, "--plugin", *words)
    assert f"values from {min(value, 0)} to {max(value, 1)}" in result.err
    assert "\n" in result.err.strip()  # a hint


def test_nan_in_the_float_images_of_a_plugin_is_refused():
    class Unfinished(Linear):
        @hookimpl
        def data(self, split):
            images = np.full((6, 4, 4, 1), 0.5, np.float32)
            images[4, 0, 0, 0] = np.nan
            return Split(images, np.arange(6) % 3) if split == "train" else None

    with pytest.raises(DataError, match="from nan to nan"):
        check_features(run_data_of(Unfinished()).spec, "A network")


class Drawn(Linear):
    """Linear on examples that the plugin draws itself."""

    seed = 0

    @hookimpl
    def data(self, split):
        if split == "validation":
            return None
        random = np.random.RandomState(Drawn.seed)
        return Split(random.randint(0, 256, (60, 4, 4)).astype(np.uint8), np.arange(60) % 3)


def test_a_resume_on_other_data_of_a_plugin_is_refused(tmp_path, monkeypatch):
    run, options = str(tmp_path / "run"), {"batch_size": 8, "steps_per_call": 1, "evaluate": False}
    toolkit.train(Drawn(), run, {"steps": 1, **options})
    monkeypatch.setattr(Drawn, "seed", 1)
    with pytest.raises(DataError, match="test has SHA-256"):
        toolkit.train(Drawn(), run, {"steps": 2, **options})


def test_other_images_get_the_width_and_height_of_the_models(tmp_path):
    for number, shape in enumerate([(24, 16), (9, 30)]):
        (tmp_path / "ab"[number]).mkdir()
        Image.new("L", shape, number).save(str(tmp_path / "ab"[number] / "1.png"))
    options = CoreOptions(data=f"images:{tmp_path}", image_size="24x16")
    stored = open_from_options(options).spec
    assert stored.shape == (16, 24, 1)
    plugins = Plugins(Plugin.from_object(Linear, "model"))
    other = open_other_data(plugins, options, f"images:{tmp_path}", stored)
    assert other.splits["train"].take(slice(None))[0].shape == (2, 16, 24, 1)


class Counting(Linear):
    """Linear on float images of its own; counts the calls of `convert`."""

    positions = []

    @hookimpl
    def data(self, split):
        images = np.linspace(0, 1, 8 * 16, dtype=np.float32).reshape(8, 4, 4, 1)
        return Split(images, np.arange(8) % 3) if split == "train" else None

    @hookimpl
    def convert(self, features, labels):
        self.positions.append(int(round(features.mean() * 8 - 0.5)))
        return features, labels


def test_a_resident_reader_shares_the_examples_that_the_hooks_returned(tmp_path, monkeypatch):
    monkeypatch.setattr(Counting, "positions", [])
    options = {"steps": 4, "batch_size": 4, "steps_per_call": 2, "evaluate": False}
    testing.train("test_run_data:Counting", str(tmp_path / "run"), best_metric="none", **options)
    assert sorted(Counting.positions) == [0, *range(8)]  # the first one tells the form


def test_a_fault_of_convert_has_the_position_in_the_split(monkeypatch):
    class Failing(Counting):
        @hookimpl
        def filter(self, labels):
            return labels != 0

        @hookimpl
        def convert(self, features, labels):
            return features if features.max() == 1 else features[:, :, 0], labels

    monkeypatch.setattr("toolkit.data.normalization.CHUNK_BYTES", 1)
    monkeypatch.setattr("toolkit.run_data.RESIDENT_LIMIT", 0)
    with pytest.raises(ToolkitError, match="for example 7 but .* for example 1"):
        run_data_of(Failing(), normalize="yes")


@pytest.mark.parametrize("reader", ["stream", "mapped"])
def test_what_a_plugin_decodes_is_known_by_its_identity(tmp_path, monkeypatch, reader):
    monkeypatch.setenv("TOOLKIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("toolkit.data.readers.mapped._QUICK_ROWS", 1)
    identity, labels, decoded = ["first"], np.arange(30) % 3, []

    def decode(row):
        decoded.append(row)
        return np.zeros([6, 6, 1])

    class Reading(Linear):
        @hookimpl
        def data(self, split):
            rows = {"train": slice(0, 20), "test": slice(20, 30)}.get(split)
            images = Decoded(decode, (30, 6, 6, 1), identity=identity[0])
            return rows and Split(images, labels, index=np.arange(30)[rows])

    def sha256():
        return run_data_of(Reading(), reader=reader).dataset.sha256

    first = sha256()
    assert sha256() == first and first["train"] != first["test"]
    assert not decoded or len(decoded) == 30
    identity[0] = "second"
    second = sha256()
    assert second["train"] != first["train"] and second["test"] != first["test"]
    labels[29] = 2 - labels[29]
    third = sha256()
    assert third["train"] == second["train"] and third["test"] != second["test"]
