"""The pages docs/starting.md and docs/pretrained.md do with weights what they say of them."""

import numpy as np
from page_fixtures import InProcess, Page

from toolkit import testing


def test_the_commands_of_the_page_freeze_what_it_says_and_train_it_later(here, cli, monkeypatch):
    page = Page("docs/starting.md", here)
    page.run_to(len(page.blocks), InProcess(cli, monkeypatch))
    digits, frozen, thawed = map(testing.tensors, ("runs/digits", "runs/frozen", "runs/thawed"))
    for kernel in [f"cnn/conv{number}/kernel" for number in range(1, 7)]:
        assert np.array_equal(digits[kernel], frozen[kernel])
    assert not np.array_equal(digits["cnn/norm1/gamma"], frozen["cnn/norm1/gamma"])
    assert not np.array_equal(digits["cnn/conv1/kernel"], thawed["cnn/conv1/kernel"])


def test_the_page_starts_from_the_file_freezes_one_layer_and_trains_the_next(
    here, cli, monkeypatch
):
    page = Page("docs/pretrained.md", here)
    page.run_to(len(page.blocks), InProcess(cli, monkeypatch))
    tensors, file = testing.tensors("runs/finetuned"), read_weights("base.h5")
    for name in ("conv1/kernel", "norm1/moving_mean", "norm1/moving_variance"):
        assert np.array_equal(tensors[name], file[name]), name
    change = np.abs(tensors["conv2/kernel"] - file["conv2/kernel"]).max()
    assert 0 < change < np.abs(file["conv2/kernel"]).max()


def read_weights(path):
    """Name of a variable -> array of a file of weights of Keras."""
    import h5py

    arrays = {}

    def keep(name, item):
        if isinstance(item, h5py.Dataset):
            arrays["/".join(name.split("/")[-2:]).partition(":")[0]] = item[()]

    with h5py.File(path, "r") as file:
        file.visititems(keep)
    return arrays
