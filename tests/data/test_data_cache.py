"""A cache folder that cannot be written: one sentence with the place and the way out."""

from __future__ import annotations

import gzip
import os

import pytest
from data_fixtures import idx_bytes, numbered_images

import toolkit
from toolkit.data.arrays import idx
from toolkit.data.arrays.download import open_download
from toolkit.errors import RetryError


@pytest.fixture(params=["a file", "below a file"])
def cache(request, tmp_path, monkeypatch):
    """The path of a cache folder that cannot be created."""
    (tmp_path / "file").write_text("the user's own")
    path = tmp_path / "file" if request.param == "a file" else tmp_path / "file" / "cache"
    monkeypatch.setenv("TOOLKIT_CACHE", str(path))
    yield str(path)
    assert (tmp_path / "file").read_text() == "the user's own"


def assert_names_the_way_out(error, place):
    assert error.exit_code == 138
    assert error.message.startswith(f"The cache cannot be written: {place}")
    assert "TOOLKIT_CACHE" in error.hint


def test_a_large_compressed_file_that_cannot_be_unpacked_into_the_cache_is_refused(
    cache, tmp_path, monkeypatch
):
    monkeypatch.setattr(idx, "UNPACK_LIMIT", 0)
    path = str(tmp_path / "train.gz")
    with gzip.open(path, "wb") as file:
        file.write(idx_bytes(numbered_images(4)))
    with pytest.raises(RetryError) as error:
        idx.read_idx(path)
    assert_names_the_way_out(error.value, cache)


def test_a_download_without_a_place_is_refused_before_a_mirror_is_tried(cache):
    with pytest.raises(RetryError) as error:
        open_download("mnist", mirrors=["http://127.0.0.1:9/"])
    assert_names_the_way_out(error.value, cache)


def test_the_classifier_of_the_scores_is_not_trained_without_a_place(cache, monkeypatch):
    from toolkit_gan.scores import extractor

    monkeypatch.setattr(toolkit, "train", lambda *_, **__: pytest.fail("trained"))
    with pytest.raises(RetryError) as error:
        folder = os.path.join(toolkit.cache_folder(), "features", "classifier-0")
        extractor.train_into_cache(folder, "classifier", {})
    assert_names_the_way_out(error.value, cache)
