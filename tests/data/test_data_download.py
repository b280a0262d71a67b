"""Downloads, from a server on this machine alone."""

import functools
import gzip
import hashlib
import http.server
import os
import threading

import numpy as np
import pytest
from data_fixtures import idx_bytes, numbered_images

from toolkit.data import download
from toolkit.data.sources import list_sources, open_data
from toolkit.errors import DataError

NAMES = [
    "{}-{}-ubyte.gz".format(*pair)
    for pair in (
        ("train", "images-idx3"),
        ("train", "labels-idx1"),
        ("t10k", "images-idx3"),
        ("t10k", "labels-idx1"),
    )
]


class Handler(http.server.BaseHTTPRequestHandler):
    """Serves `files`; notes each request in `log`; `broken` names are cut short."""

    def __init__(self, files, log, broken, *args):
        self.files, self.log, self.broken = files, log, broken
        super().__init__(*args)

    def do_GET(self):
        name = self.path.rsplit("/", 1)[-1]
        asked = self.headers.get("Range")
        self.log.append((self.path, asked))
        if name not in self.files:
            return self.send_error(404)
        content = self.files[name]
        start = int(asked[6:-1]) if asked else 0
        if start and start >= len(content):
            return self.send_error(416)
        self.send_response(206 if asked else 200)
        self.send_header("Content-Length", str(len(content) - start))
        self.end_headers()
        end = len(content) // 2 if name in self.broken else len(content)
        self.wfile.write(content[start:end])

    def log_message(self, *args):
        pass


@pytest.fixture
def serve():
    """`serve(files)` -> (the server's address, its log, the set of names that it cuts short)."""
    servers = []

    def start(files):
        log, broken = [], set()
        handler = functools.partial(Handler, files, log, broken)
        server = http.server.HTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_port}/", log, broken

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.fixture
def files(monkeypatch, tmp_path):
    """Four tiny files that stand for those of mnist, with their SHA-256 in its table."""
    monkeypatch.setenv("TOOLKIT_CACHE", str(tmp_path))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    made = {}
    for name, count in zip(NAMES, (20, 20, 5, 5)):
        array = numbered_images(count) if "images" in name else np.arange(count, dtype="u1") % 10
        made[name] = gzip.compress(idx_bytes(array))
    remote = tuple(
        download.RemoteFile(
            name,
            hashlib.sha256(made[name]).hexdigest(),
            hashlib.sha256(gzip.decompress(made[name])).hexdigest(),
        )
        for name in NAMES
    )
    table = download.DATASETS["mnist"]._replace(files=remote, mirrors=("http://127.0.0.1:9/",))
    monkeypatch.setitem(download.DATASETS, "mnist", table)
    return made


def test_files_are_fetched_once_and_progress_is_told(files, serve, tmp_path):
    address, log, _ = serve(files)
    told = []
    data = download.open_download(
        "mnist", progress=lambda *done: told.append(done), mirrors=[address]
    )
    assert [len(data.splits[name]) for name in ("train", "validation", "test")] == [18, 2, 5]
    assert (NAMES[0], len(files[NAMES[0]]), len(files[NAMES[0]])) in told
    assert data.spec.num_classes == 10 and sorted(os.listdir(str(tmp_path / "mnist"))) == sorted(
        NAMES
    )
    download.open_download("mnist", mirrors=[address])
    assert len(log) == 4
    assert [row["offline"] for row in list_sources() if row["value"] == "mnist"] == [True]


def test_the_environment_names_mirrors(files, serve, monkeypatch):
    address, log, _ = serve(files)
    monkeypatch.setenv("TOOLKIT_MIRRORS", "http://127.0.0.1:9 " + address)
    assert len(open_data("mnist").splits["test"]) == 5
    assert log[0][0] == "/mnist/" + NAMES[0]


def test_a_mirror_that_fails_gives_way_to_the_next(files, serve):
    wrong = dict(files, **{NAMES[1]: b"another file"})
    del wrong[NAMES[0]]
    first, _, _ = serve(wrong)
    second, log, _ = serve(files)
    assert len(download.open_download("mnist", mirrors=[first, second]).splits["test"]) == 5
    assert [path for path, _ in log] == ["/" + NAMES[0], "/" + NAMES[1]]


def test_a_part_is_continued_where_it_ends(files, serve, tmp_path, monkeypatch):
    monkeypatch.setattr(download, "_CHUNK", 8)
    address, log, broken = serve(files)
    broken.add(NAMES[0])
    with pytest.raises(DataError, match="the transfer stopped"):
        download.open_download("mnist", mirrors=[address])
    size = (tmp_path / "mnist" / (NAMES[0] + ".part")).stat().st_size
    assert len(files[NAMES[0]]) // 2 - 8 < size <= len(files[NAMES[0]]) // 2
    broken.clear()
    download.open_download("mnist", mirrors=[address])
    assert log[1] == ("/" + NAMES[0], f"bytes={size}-")


@pytest.mark.parametrize("extra", [b"", b"and more than all of it"])
def test_a_bad_part_is_dropped_and_fetched_anew(files, serve, tmp_path, extra):
    address, log, _ = serve(files)
    (tmp_path / "mnist").mkdir()
    bad = b"not the beginning" + (files[NAMES[0]] + extra if extra else b"")
    (tmp_path / "mnist" / (NAMES[0] + ".part")).write_bytes(bad)
    download.open_download("mnist", mirrors=[address])
    assert log[0][1] and log[1] == ("/" + NAMES[0], None)


def test_a_wrong_checksum_is_never_kept(files, serve, tmp_path):
    address, _, _ = serve(dict(files, **{NAMES[0]: b"forged"}))
    with pytest.raises(DataError, match="wrong SHA-256") as error:
        download.open_download("mnist", mirrors=[address])
    assert error.value.exit_code == 4 and os.listdir(str(tmp_path / "mnist")) == []


def test_a_corrupt_cached_file_is_fetched_again(files, serve, tmp_path):
    address, log, _ = serve(files)
    download.open_download("mnist", mirrors=[address])
    (tmp_path / "mnist" / NAMES[2]).write_bytes(b"rotten")
    download.open_download("mnist", mirrors=[address])
    assert [path for path, _ in log[4:]] == ["/" + NAMES[2]]


def test_a_copy_that_was_packed_anew_is_as_good(files, tmp_path):
    (tmp_path / "mnist").mkdir()
    for name in NAMES:
        content = gzip.compress(gzip.decompress(files[name]), compresslevel=0)
        (tmp_path / "mnist" / name).write_bytes(content)
    assert len(open_data("mnist").splits["test"]) == 5


def test_offline_the_message_says_where_to_place_which_files(files, tmp_path):
    with pytest.raises(DataError, match="no connection") as error:
        open_data("mnist")
    assert all(name in error.value.hint for name in NAMES)
    assert str(tmp_path / "mnist") in error.value.hint and "mnist5k" in error.value.hint


def test_published_checksums_are_whole_and_distinct():
    sums = [file.sha256 for each in download.DATASETS.values() for file in each.files]
    assert len(set(sums)) == 8 and all(len(value) == 64 for value in sums)
    mirrors = [mirror for each in download.DATASETS.values() for mirror in each.mirrors]
    assert all(mirror.startswith("https://") for mirror in mirrors)


@pytest.mark.skipif("not os.environ.get('TOOLKIT_TEST_MNIST')", reason="no full MNIST given")
def test_the_full_mnist_passes_as_a_placed_copy():
    folder = os.environ["TOOLKIT_TEST_MNIST"]
    known = download.DATASETS["mnist"].files
    assert all(download.is_intact(os.path.join(folder, file.name), file) for file in known)
