"""A cache folder that cannot be written: one sentence with the place and the way out."""

import pytest

import toolkit
from toolkit.data.arrays.download import open_download
from toolkit.data.decoded import Decoded
from toolkit.data.readers.mapped import map_rows
from toolkit.data.reading_options import Settings
from toolkit.errors import RetryError


def train_the_classifier_of_the_scores(folder):
    toolkit.cached_run("classifier")


def decode_images(folder):
    map_rows(Decoded(lambda row: b"", (9, 2, 3, 1), identity="a"), toolkit.cache_folder())


@pytest.mark.parametrize("place", ["file", "file/cache"])
@pytest.mark.parametrize(
    "call",
    [
        lambda folder: open_download(Settings("mnist"), mirrors=["http://127.0.0.1:9/"]),
        train_the_classifier_of_the_scores,
        decode_images,
    ],
    ids=["download", "train", "decode"],
)
def test_a_cache_that_cannot_be_written_is_named_before_work_is_done(
    tmp_path, monkeypatch, place, call
):
    monkeypatch.setattr(toolkit.api, "train", lambda *_, **__: pytest.fail("trained"))
    monkeypatch.setenv("TOOLKIT_CACHE", str(tmp_path / place))
    (tmp_path / "file").write_text("the user's own")
    with pytest.raises(RetryError) as error:
        call(tmp_path)
    assert error.value.exit_code == 138 and "TOOLKIT_CACHE" in error.value.hint
    assert error.value.message.startswith(f"The cache cannot be written: {tmp_path / place}")
    assert (tmp_path / "file").read_text() == "the user's own"
