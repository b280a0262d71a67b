"""Downloads, from a local server."""

import concurrent.futures
import functools
import gzip
import hashlib
import http.server
import os
import threading

import numpy as np
import process_fixtures
import pytest
from data_fixtures import idx_bytes, numbered_images, refusal_of

from toolkit.data.arrays import download
from toolkit.data.sources import open_data
from toolkit.errors import DataError

KINDS = "images-idx3-ubyte.gz", "labels-idx1-ubyte.gz"
NAMES = [f"{split}-{kind}" for split in ("train", "t10k") for kind in KINDS]


@pytest.fixture
def files(monkeypatch, tmp_path):
    """Four tiny files in place of those of mnist, with their SHA-256 in its table."""
    monkeypatch.setenv("TOOLKIT_CACHE", str(tmp_path))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(download, "_TIMEOUT", process_fixtures.PATIENCE)
    contents = {}
    for name, count in zip(NAMES, (20, 20, 5, 5)):
        array = numbered_images(count) if "images" in name else np.arange(count, dtype="u1") % 10
        contents[name] = gzip.compress(idx_bytes(array))
    pairs = {name: (content, gzip.decompress(content)) for name, content in contents.items()}
    remote = {name: [hashlib.sha256(c).hexdigest() for c in pairs[name]] for name in pairs}
    table = download.DATASETS["mnist"]._replace(files=remote, mirrors=("http://127.0.0.1:9/",))
    monkeypatch.setitem(download.DATASETS, "mnist", table)
    return contents


@pytest.fixture
def log(files, tmp_path, monkeypatch):
    """The names that the one mirror was asked for, which serves the files in the folder served."""
    names, root = [], tmp_path / "served"
    (root / "mnist").mkdir(parents=True)
    for name, content in files.items():
        (root / "mnist" / name).write_bytes(content)

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_request(self, *arguments):
            names.append(os.path.basename(self.path))

    handler = functools.partial(Handler, directory=str(root))
    with http.server.HTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        monkeypatch.setenv("TOOLKIT_MIRRORS", f"http://127.0.0.1:{server.server_port}")
        yield names
        server.shutdown()


def test_runs_that_start_together_share_a_download(files, log):
    with concurrent.futures.ThreadPoolExecutor(4) as pool:  # flock separates threads as well
        for data in pool.map(open_data, ["mnist"] * 4):
            assert len(data.splits["test"]) == 5
    assert sorted(log) == sorted(files)


def test_files_are_downloaded_once_unless_one_is_damaged(log, tmp_path):
    data = open_data("mnist")
    assert [len(data.splits[name]) for name in ("train", "validation", "test")] == [18, 2, 5]
    assert data.spec.num_classes == 10
    assert sorted(os.listdir(str(tmp_path / "mnist"))) == sorted(NAMES)
    open_data("mnist")
    assert len(log) == 4
    (tmp_path / "mnist" / NAMES[2]).write_bytes(b"rotten")
    open_data("mnist")
    assert log[4:] == [NAMES[2]]


def test_the_next_mirror_is_tried_if_one_fails(log, monkeypatch):
    monkeypatch.setenv("TOOLKIT_MIRRORS", "http://127.0.0.1:9 " + os.environ["TOOLKIT_MIRRORS"])
    assert len(open_data("mnist").splits["test"]) == 5
    assert log[0] == NAMES[0]


def test_a_file_with_a_wrong_checksum_is_not_stored(log, tmp_path):
    (tmp_path / "served" / "mnist" / NAMES[0]).write_bytes(b"forged")
    assert "wrong SHA-256" in refusal_of(open_data, "mnist")
    assert os.listdir(str(tmp_path / "mnist")) == []


def test_a_copy_that_was_compressed_again_is_accepted(files, tmp_path):
    (tmp_path / "mnist").mkdir()
    for name in NAMES:
        content = gzip.compress(gzip.decompress(files[name]), compresslevel=0)
        (tmp_path / "mnist" / name).write_bytes(content)
    assert len(open_data("mnist").splits["test"]) == 5


def test_without_a_network_the_message_names_the_files_and_their_folder(files, tmp_path):
    with pytest.raises(DataError, match=r"no answer \(ConnectionError\)") as error:
        open_data("mnist")
    assert all(name in error.value.hint for name in NAMES)
    assert str(tmp_path / "mnist") in error.value.hint and "mnist5k" in error.value.hint


@pytest.mark.skipif("not os.environ.get('TOOLKIT_TEST_MNIST')", reason="TOOLKIT_TEST_MNIST unset")
def test_the_checksums_are_those_of_the_full_mnist():
    folder = os.environ["TOOLKIT_TEST_MNIST"]
    files = download.DATASETS["mnist"].files
    assert all(download.is_intact(os.path.join(folder, name), files[name]) for name in files)
