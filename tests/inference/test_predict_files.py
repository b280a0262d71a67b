"""Predict on files: nothing about their pixels, types and endings is guessed."""

import errno
import gzip
import os
from types import SimpleNamespace

import numpy as np
import pytest
from file_fixtures import save_image, trained_on, write_idx

from toolkit.data.arrays import npz
from toolkit.data.column import Component
from toolkit.data.records import record_files
from toolkit.data.spec import DataSpec
from toolkit.errors import DataError, UsageError
from toolkit.inference.predict import expand_paths, invert, look_inverted, read_examples
from toolkit.run_data import border_means

LIGHT, DARK = 230, 20  # of paper, or of ink
PAPER_IS_DARK = {"border": 0.02, "mean": 0.2}
IMAGES = DataSpec((6, 6, 1), "uint8")


def light_on_dark(count=1):
    images = np.full((count, 6, 6, 1), DARK, np.uint8)
    images[:, 2:4, 2:4] = LIGHT
    return images


def read(paths, **more):
    """The pixels that the files give, and the lines of the log."""
    lines = []
    examples = read_examples(trained_on(IMAGES, ink=PAPER_IS_DARK), paths, log=lines.append, **more)
    return examples.inputs, lines


WRITERS = {
    "png": lambda images: [save_image(f"idx_{i}.png", one[..., 0]) for i, one in enumerate(images)],
    "npz": lambda images: np.savez("some.npz", x=images) or ["some.npz"],
    "idx": lambda images: write_idx("some.idx3", images[..., 0]) or ["some.idx3"],
}


@pytest.mark.parametrize("kind", list(WRITERS))
def test_files_that_look_inverted_keep_their_pixels_and_give_one_warning(here, kind):
    images = 255 - light_on_dark(3)
    paths = WRITERS[kind](images)
    pixels, lines = read(paths)
    assert np.array_equal(pixels, images)
    (line,) = lines
    assert line.startswith("warning: light and dark look swapped in ") and paths[0] in line
    assert line.endswith("add --invert to swap them")
    inverted, lines = read(paths, is_inverted=True)
    assert np.array_equal(inverted, 255 - images) and lines == []
    paths = WRITERS[kind](255 - images)
    _, (line,) = read(paths, is_inverted=True)
    assert "look swapped after --invert in " in line and paths[0] in line
    assert line.endswith("omit --invert")


@pytest.mark.parametrize(
    "inverted, brightness, is_warned",
    [
        (2, PAPER_IS_DARK, False),
        (3, PAPER_IS_DARK, True),
        (5, None, False),
        (5, {"border": 0.5, "mean": 0.5}, False),  # the paper of the training images is not clear
    ],
)
def test_a_warning_needs_most_images_and_a_clear_paper(inverted, brightness, is_warned):
    images = light_on_dark(5)
    images[:inverted] = 255 - images[:inverted]
    assert border_means(images).tolist() == [255 - DARK] * inverted + [DARK] * (5 - inverted)
    assert look_inverted(images, brightness) == is_warned


def test_neither_alpha_nor_numbers_that_are_no_images_are_inverted(here):
    images = np.random.RandomState(0).randint(0, 256, (2, 6, 6, 4)).astype(np.uint8)
    result = invert(images)
    assert np.array_equal(result[..., 3], images[..., 3])
    assert np.array_equal(result[..., :3], 255 - images[..., :3])
    np.savez("v.npz", x=np.zeros([3, 4], np.float32))
    with pytest.raises(UsageError, match="The model is not fed images of bytes"):
        read_examples(trained_on(DataSpec((4,), "float32")), ["v.npz"], is_inverted=True)


def test_the_inputs_of_a_generator_are_not_inverted(here):
    specs = {"code": ("float32", [2]), "label": ("int32", [])}
    graph = SimpleNamespace(takes_examples=False, input_specs=specs)
    model = SimpleNamespace(predictor=SimpleNamespace(graph=graph), stored=IMAGES)
    np.savez("codes.npz", code=np.ones([2, 2], np.float32), label=np.zeros(2, np.int32))
    assert read_examples(model, ["codes.npz"]).inputs["code"].shape == (2, 2)
    with pytest.raises(UsageError, match="The model is not fed images"):
        read_examples(model, ["codes.npz"], is_inverted=True)


@pytest.mark.parametrize("name", ["a-idx3-ubyte.gz", "a.idx", "digits"])
def test_an_idx_file_is_known_by_its_ending_or_its_first_bytes(here, name):
    images = light_on_dark(3)
    write_idx("plain", images[..., 0])
    content = (here / "plain").read_bytes()
    (here / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    pixels, _ = read([name])
    assert np.array_equal(pixels, images)


@pytest.mark.parametrize("name", ["X_train", "train_images", "test_x"])
def test_an_array_has_one_of_the_names_of_training_data(here, name):
    np.savez("some.npz", y_train=np.zeros(3), **{name: light_on_dark(3)})
    assert np.array_equal(read(["some.npz"])[0], light_on_dark(3))


@pytest.mark.parametrize("number", [1.5, 2**33])
def test_a_number_that_the_integers_of_the_model_do_not_have_is_refused(here, number):
    np.savez("v.npz", x=[[3, number]])
    with pytest.raises(DataError, match="v.npz has the number .*, which is no int32"):
        read_examples(trained_on(DataSpec((2,), "int32")), ["v.npz"])


def test_a_pipe_is_called_what_it_is(here):
    os.mkfifo("pipe.png")
    with pytest.raises(DataError, match="pipe.png: is not a regular file"):
        read(["pipe.png"])


def test_what_may_not_be_read_is_named(here, monkeypatch):
    def refuse(path, *_):
        raise PermissionError(errno.EACCES, "Permission denied", path)

    np.savez("x.npz", x=light_on_dark())
    os.mkdir("photos")
    with monkeypatch.context() as patch:  # the superuser may read anything
        patch.setattr(record_files, "open_regular_file", refuse)
        patch.setattr(npz, "open", refuse, raising=False)
        patch.setattr(os, "scandir", refuse)
        with pytest.raises(DataError, match="x.npz: Permission denied"):
            read(["x.npz"])
        with pytest.raises(DataError, match="photos: Permission denied"):
            expand_paths(["photos"])


def test_texts_are_read_from_npz_files_and_numbers_are_no_texts(here):
    np.savez("texts.npz", x=np.array(["a soup", "très bon"]))
    np.savez("numbers.npz", x=np.arange(2.0))
    components = (("features", Component((), "string", "text")),)
    model = trained_on(DataSpec((), "string", components=components))
    assert read_examples(model, ["texts.npz"]).inputs.tolist() == ["a soup", "très bon"]
    with pytest.raises(DataError, match=r"expected examples \[\] string, found \[\] float64"):
        read_examples(model, ["numbers.npz"])
