"""Predict on files: the test files score as the run's test did, and nothing is guessed."""

from __future__ import annotations

import gzip
import json
import os

import numpy as np
import pytest
from file_fixtures import read_json
from generator_fixtures import GENERATOR
from linear_fixtures import LINEAR, write_bars
from PIL import Image

from toolkit.cli import run_command
from toolkit.data.arrays.idx import write_idx
from toolkit.data.column import Component
from toolkit.data.spec import DataSpec
from toolkit.errors import DataError, UsageError
from toolkit.inference.predict import invert, look_inverted, read_examples
from toolkit.run_data import border_means

LIGHT, DARK = 230, 20  # of paper, or of ink
PAPER_IS_DARK = {"border": 0.02, "mean": 0.2}
IMAGES = DataSpec((6, 6, 1), "uint8")

# A plugin of a third party whose model sees other features than are stored.
CONVERTING = """
import numpy as np
from linear_fixtures import Linear
from toolkit import hookimpl

class Converting(Linear):
    @hookimpl
    def convert(self, features, labels):
        doubled = np.asarray(features, np.float32).mean(axis=-1, keepdims=True) / 128.0 - 1.0
        return doubled, labels

plugin = Converting()
for name in ("options", "build", "call", "loss", "optimize", "predict", "metrics", "convert"):
    globals()[name] = getattr(plugin, name)
"""


def blobs(count, seed, channels=1):
    """uint8 [count, 6, 6, channels] of two classes; each fourth image is dark on light.

    Returns:
        The images and their labels [count].
    """
    random = np.random.RandomState(seed)
    labels = np.arange(count) * 7 % 2
    images = random.randint(0, 30, (count, 6, 6, channels)).astype(np.uint8)
    for i, label in enumerate(labels):
        images[i, 1 + 2 * label : 3 + 2 * label, 1:5] = LIGHT
    images[3::4] = 255 - images[3::4]
    return images, labels


def write_idx_files(folder):
    for stem, count in (("train", 60), ("t10k", 30)):
        images, labels = blobs(count, count)
        write_idx(str(folder / f"{stem}-images-idx3-ubyte"), images[..., 0])
        write_idx(str(folder / f"{stem}-labels-idx1-ubyte"), labels.astype(np.uint8))
    return f"idx:{folder}", [folder / "t10k-images-idx3-ubyte"], labels


def write_npz_file(folder):
    (train, train_labels), (test, labels) = blobs(60, 60), blobs(30, 30)
    arrays = {"x_train": train, "y_train": train_labels, "x_test": test, "y_test": labels}
    np.savez(str(folder / "data.npz"), **arrays)
    np.savez(str(folder / "test.npz"), x=test)
    return f"npz:{folder}/data.npz", [folder / "test.npz"], labels


def write_image_files(folder, channels, factor=1):
    """PNGs in a folder for each class, enlarged by a factor; the names contain "idx"."""
    paths = []
    for split, count in (("train", 60), ("test", 30)):
        images, labels = blobs(count, count, channels)
        for i, (image, label) in enumerate(zip(images, labels)):
            path = folder / split / f"class {label}" / f"img_idx_{i:04d}.png"
            os.makedirs(str(path.parent), exist_ok=True)
            large = image.repeat(factor, axis=0).repeat(factor, axis=1)
            Image.fromarray(large[..., 0] if channels == 1 else large).save(str(path))
            if split == "test":
                paths.append(path)
    return f"images:{folder}", paths, labels


SOURCES = {
    "idx": write_idx_files,
    "npz": write_npz_file,
    "grey images": lambda folder: write_image_files(folder, 1),
    "colour images": lambda folder: write_image_files(folder, 3),
    "large images": lambda folder: write_image_files(folder, 1, factor=2),
}


@pytest.fixture
def train_on(cli, here):
    """`train_on(source, plugin)` -> the test files, their labels, the run's test accuracy."""

    def call(source, plugin, *argv):
        folder = here / "data"
        folder.mkdir()
        data, files, labels = SOURCES[source](folder)
        (here / "converting.py").write_text(CONVERTING)
        if source == "large images":
            argv += ("--image-size", 6)
        argv += ("--steps", 12, "--batch-size", 20, "--run-dir", "r", "--best-metric", "none")
        argv += ("--steps-per-call", 1)
        result = cli("run", "--plugin", plugin, "--data", data, "--json", *argv)
        assert result.code == 0, result.err
        return files, labels, json.loads(result.out)["test"]["metrics"]["accuracy"]

    return call


@pytest.mark.parametrize(
    "source, plugin",
    [*((source, LINEAR) for source in SOURCES), ("colour images", "./converting.py")],
)
def test_the_test_files_have_the_accuracy_of_the_runs_test(cli, train_on, source, plugin):
    files, labels, accuracy = train_on(source, plugin)
    result = cli("predict", "r", *files, "--json")
    assert result.code == 0 and "inverted" not in result.err, result.err
    rows = json.loads(result.out)
    assert np.mean([row["label"] for row in rows] == labels) == pytest.approx(accuracy, abs=1e-7)
    evaluation = json.loads(cli("evaluate", "r", "--json").out)
    assert evaluation["metrics"]["accuracy"] == accuracy


def train_on_digits():
    argv = ["--data", "mnist5k", "--network", "mlp", "--steps", "60", "--run-dir", "r"]
    assert run_command(["run", "--plugin", "classifier", *argv]) == 0


@pytest.mark.parametrize("kind", ["idx", "npz", "images"])
def test_files_of_the_digits_have_the_accuracy_of_the_classifiers_test(
    cli, here, made_once, monkeypatch, kind
):
    from toolkit.data.sources import open_data

    monkeypatch.chdir(made_once(train_on_digits))
    split = open_data("mnist5k").splits["test"]
    if kind == "idx":
        write_idx("t10k-images-idx3-ubyte", split.features[..., 0])
        files = ["t10k-images-idx3-ubyte"]
    elif kind == "npz":
        np.savez("test.npz", x=split.features)
        files = ["test.npz"]
    else:
        files = [f"{i:04d}.png" for i in range(len(split))]
        for path, image in zip(files, split.features):
            Image.fromarray(image[..., 0]).save(path)
    rows = json.loads(cli("predict", "r", *files, "--json").out)
    accuracy = read_json("r", "manifest.json")["summary"]["test"]["metrics"]["accuracy"]
    predicted = np.array([row["label"] for row in rows])
    assert np.mean(predicted == split.labels) == pytest.approx(accuracy, abs=1e-7)


# ------------------------------------------------------------------------------------------- invert


def save(path, array):
    Image.fromarray(array).save(str(path))
    return str(path)


def light_on_dark(count=1):
    images = np.full((count, 6, 6, 1), DARK, np.uint8)
    images[:, 2:4, 2:4] = LIGHT
    return images


def read(paths, **more):
    """The pixels that the files give, and the lines of the log."""
    lines = []
    examples = read_examples(paths, IMAGES, log=lines.append, brightness=PAPER_IS_DARK, **more)
    return examples.inputs, lines


@pytest.mark.parametrize("kind", ["png", "npz", "idx"])
def test_files_that_look_inverted_keep_their_pixels_and_give_one_warning(here, kind):
    images = 255 - light_on_dark(3)
    if kind == "png":
        paths = [save(f"{i}.png", image[..., 0]) for i, image in enumerate(images)]
    elif kind == "npz":
        np.savez("some.npz", x=images)
        paths = ["some.npz"]
    else:
        write_idx("some.idx3", images[..., 0])
        paths = ["some.idx3"]
    pixels, lines = read(paths)
    assert np.array_equal(pixels, images)
    (line,) = lines
    assert line.startswith("warning: light and dark look swapped in ") and paths[0] in line
    assert line.endswith("add --invert to swap them")
    inverted, lines = read(paths, is_inverted=True)
    assert np.array_equal(inverted, 255 - images) and lines == []


def test_a_needless_inversion_gives_the_reverse_warning(here):
    _, lines = read([save("a.png", light_on_dark()[0, ..., 0])], is_inverted=True)
    (line,) = lines
    assert "look swapped after --invert in a.png" in line and line.endswith("omit --invert")


def test_a_few_images_of_the_other_kind_give_no_warning():
    images = light_on_dark(5)
    images[:2] = 255 - images[:2]
    assert not look_inverted(images, PAPER_IS_DARK)
    images[2] = 255 - images[2]
    assert look_inverted(images, PAPER_IS_DARK)


@pytest.mark.parametrize("brightness", [None, {"border": 0.5, "mean": 0.5}])
def test_without_a_clear_paper_in_the_training_images_there_is_no_warning(brightness):
    assert not look_inverted(255 - light_on_dark(), brightness)


def test_the_alpha_of_an_image_is_not_inverted():
    images = np.random.RandomState(0).randint(0, 256, (2, 6, 6, 4)).astype(np.uint8)
    result = invert(images)
    assert np.array_equal(result[..., 3], images[..., 3])
    assert np.array_equal(result[..., :3], 255 - images[..., :3])


def test_numbers_that_are_no_images_are_not_inverted(here):
    np.savez("v.npz", x=np.zeros([3, 4], np.float32))
    with pytest.raises(UsageError, match="only images of bytes can be inverted"):
        read_examples(["v.npz"], DataSpec((4,), "float32"), is_inverted=True)


def test_the_inputs_of_a_generator_are_not_inverted(cli, here):
    argv = ["--data", write_bars("bars.npz"), "--steps", 2, "--run-dir", "r"]
    assert cli("run", "--plugin", GENERATOR, *argv).code == 0
    np.savez("codes.npz", code=np.ones([2, 2], np.float32), label=np.zeros(2, np.int32))
    assert cli("predict", "r", "codes.npz").code == 0
    result = cli("predict", "r", "codes.npz", "--invert")
    assert result.code == 2 and "The model is not fed images.\nOmit --invert." in result.err


def test_the_border_of_each_image_is_measured():
    images = np.concatenate([light_on_dark(), 255 - light_on_dark()])
    assert border_means(images).tolist() == [DARK, 255 - DARK]


# ----------------------------------------------------------------------------------- kinds of files


@pytest.mark.parametrize("name", ["img_idx_0003.png", "idx.png", "my-idx3-ubyte.png"])
def test_an_image_may_have_any_name(here, name):
    image = light_on_dark()
    pixels, _ = read([save(name, image[0, ..., 0])])
    assert np.array_equal(pixels, image)


@pytest.mark.parametrize(
    "name", ["a-idx3-ubyte", "a-idx3-ubyte.gz", "a.idx", "a.idx3", "digits", "digits.gz", "x.bin"]
)
def test_an_idx_file_is_known_by_its_ending_or_its_first_bytes(here, name):
    images = light_on_dark(3)
    write_idx("plain", images[..., 0])
    content = (here / "plain").read_bytes()
    (here / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    pixels, _ = read([name])
    assert np.array_equal(pixels, images)


def test_what_is_no_file_is_called_what_it_is(here):
    os.mkdir("folder.png")
    os.mkfifo("pipe.png")
    for name, message in (
        ("folder.png", "folder.png is a folder"),
        ("pipe.png", "pipe.png: is not a regular file"),
        ("none.png", "none.png: no such file"),
    ):
        with pytest.raises(DataError, match=message):
            read([name])


def test_texts_are_read_from_npz_files_and_numbers_are_no_texts(tmp_path):
    texts, numbers = str(tmp_path / "texts.npz"), str(tmp_path / "numbers.npz")
    np.savez(texts, x=np.array(["a soup", "très bon"]))
    np.savez(numbers, x=np.arange(2.0))
    spec = DataSpec((), "string", components=(("features", Component((), "string", "text")),))
    examples = read_examples([texts], spec)
    assert examples.inputs.tolist() == ["a soup", "très bon"]
    with pytest.raises(DataError, match=r"expected examples \[\] string, found \[\] float64"):
        read_examples([numbers], spec)
