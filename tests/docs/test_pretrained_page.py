"""The plugin of docs/pretrained.md starts from its file, and leaves alone what it freezes."""

from __future__ import annotations

import numpy as np
from page_fixtures import InProcess, Page

from toolkit import testing


def test_the_page_starts_from_the_file_freezes_one_layer_and_trains_the_next(
    here, cli, monkeypatch
):
    page = Page("docs/pretrained.md", here)
    page.run_to(len(page.blocks), InProcess(cli, monkeypatch))
    tensors, file = testing.tensors("runs/finetuned"), read_file("base.h5")
    for name in ("conv1/kernel", "norm1/moving_mean", "norm1/moving_variance"):
        assert np.array_equal(tensors[name], file[name]), name
    change = np.abs(tensors["conv2/kernel"] - file["conv2/kernel"]).max()
    assert 0 < change < np.abs(file["conv2/kernel"]).max()


def read_file(path):
    """Name of a variable -> array of a file of weights of Keras."""
    import h5py

    arrays = {}

    def keep(name, item):
        if isinstance(item, h5py.Dataset):
            arrays["/".join(name.split("/")[-2:]).partition(":")[0]] = item[()]

    with h5py.File(path, "r") as file:
        file.visititems(keep)
    return arrays
