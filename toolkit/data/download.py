"""`mnist` and `fashion-mnist`: four files each, downloaded once, checked, and kept in the cache.

A broken transfer goes on where it stopped; a mirror that fails gives way to the next; a file counts
only when its SHA-256 is right.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import logging
import os
import zlib
from typing import Callable, List, NamedTuple, Optional, Sequence, Tuple

from ..errors import DataError
from ..files import sha256_of
from .cache import cache_folder
from .examples import Dataset
from .idx import open_idx

Progress = Callable[[str, int, int], None]
_TIMEOUT = (10, 30)  # seconds: to connect, and between two pieces
_CHUNK = 1 << 16


class RemoteFile(NamedTuple):
    name: str
    sha256: str  # of the file as mirrors serve it
    content_sha256: str = ""  # of what it unpacks to: a copy that was packed anew is as good


class RemoteSet(NamedTuple):
    mirrors: Tuple[str, ...]  # addresses of folders
    files: Tuple[RemoteFile, ...]
    class_names: Tuple[str, ...]


SETS = {
    "mnist": RemoteSet(
        mirrors=(
            "https://ossci-datasets.s3.amazonaws.com/mnist/",
            "https://storage.googleapis.com/cvdf-datasets/mnist/",
        ),
        files=(
            RemoteFile(
                "train-images-idx3-ubyte.gz",
                "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
                "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
            ),
            RemoteFile(
                "train-labels-idx1-ubyte.gz",
                "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
                "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
            ),
            RemoteFile(
                "t10k-images-idx3-ubyte.gz",
                "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
                "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
            ),
            RemoteFile(
                "t10k-labels-idx1-ubyte.gz",
                "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
                "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
            ),
        ),
        class_names=tuple("0123456789"),
    ),
    "fashion-mnist": RemoteSet(
        mirrors=(
            "https://storage.googleapis.com/tensorflow/tf-keras-datasets/",
            "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion/",
        ),
        files=(
            RemoteFile(
                "train-images-idx3-ubyte.gz",
                "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
            ),
            RemoteFile(
                "train-labels-idx1-ubyte.gz",
                "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
            ),
            RemoteFile(
                "t10k-images-idx3-ubyte.gz",
                "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
            ),
            RemoteFile(
                "t10k-labels-idx1-ubyte.gz",
                "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
            ),
        ),
        class_names=(
            "T-shirt/top",
            "Trouser",
            "Pullover",
            "Dress",
            "Coat",
            "Sandal",
            "Shirt",
            "Sneaker",
            "Bag",
            "Ankle boot",
        ),
    ),
}


def open_download(
    name: str,
    validation_share: float = 0.1,
    cache_dir: Optional[str] = None,
    progress: Optional[Progress] = None,
    mirrors: Optional[Sequence[str]] = None,
) -> Dataset:
    """The data set `name` of SETS, from the cache or from the first mirror that serves it soundly.

    mirrors: addresses of folders, instead of those of SETS. The environment's TOOLKIT_MIRRORS names
    some too, separated by spaces, each with a folder `name` below it.
    """
    folder = set_folder(name, cache_dir)
    for file in SETS[name].files:
        if not is_sound(os.path.join(folder, file.name), file):
            _fetch(name, file, folder, list(mirrors or _mirrors(name)), progress)
    return open_idx(folder, name, 0, validation_share, SETS[name].class_names)


def set_folder(name: str, cache_dir: Optional[str] = None) -> str:
    """Where the files of the data set `name` are kept, or may be placed by hand."""
    return os.path.join(cache_folder(cache_dir), name)


def is_cached(name: str, cache_dir: Optional[str] = None) -> bool:
    """Whether all files are in the cache (not whether they are sound, which takes longer)."""
    folder = set_folder(name, cache_dir)
    return all(os.path.isfile(os.path.join(folder, file.name)) for file in SETS[name].files)


def is_sound(path: str, file: RemoteFile) -> bool:
    """Whether the file is there with the right SHA-256, its own or that of its content."""
    if not os.path.isfile(path):
        return False
    if sha256_of(path) == file.sha256:
        return True
    return bool(file.content_sha256) and _content_sha256(path) == file.content_sha256


def _content_sha256(path: str) -> str:
    digest = hashlib.sha256()
    try:
        with gzip.open(path, "rb") as unpacked:
            for chunk in iter(lambda: unpacked.read(1 << 20), b""):
                digest.update(chunk)
    except (OSError, EOFError, zlib.error):
        return ""
    return digest.hexdigest()


def _mirrors(name: str) -> List[str]:
    given = os.environ.get("TOOLKIT_MIRRORS", "").split()
    return [f"{base.rstrip('/')}/{name}/" for base in given] or list(SETS[name].mirrors)


def _fetch(name: str, file: RemoteFile, folder: str, mirrors: List[str], progress) -> None:
    """Download one file from the first mirror that has it soundly."""
    import pooch
    import requests

    pooch.get_logger().setLevel(logging.WARNING)
    troubles = []
    for mirror in mirrors:
        if _try_mirror(mirror.rstrip("/") + "/" + file.name, file, folder, progress, failures):
            return
    raise DataError(
        f"{name}: expected {file.name} from one of {len(mirrors)} mirrors, found none that "
        f"serves it ({'; '.join(troubles)}).",
        hint=(
            f"Place {', '.join(each.name for each in SETS[name].files)} in {folder} by "
            "hand, or use --data mnist5k, which needs no network."
        ),
    )


def _try_mirror(
    url: str,
    file: RemoteFile,
    folder: str,
    progress: Optional[Progress],
    failures: List[str],
) -> bool:
    """Whether the download succeeded; if not, the reasons are added to `failures`."""
    import pooch
    import requests

    pooch.get_logger().setLevel(logging.WARNING)
    part = os.path.join(folder, file.name + ".part")
    # A part of another file, or of a bad transfer, fails the first attempt, which removes it.
    for _ in range(2 if os.path.exists(part) else 1):
        try:
            downloader = _ResumingDownloader(part, progress)
            pooch.retrieve(url, "sha256:" + file.sha256, file.name, folder, downloader=downloader)
            return True
        except (requests.RequestException, OSError, ValueError) as error:
            failures.append(f"{url}: {_reason(error)}")
            if not isinstance(error, ValueError):
                break
    return False


class _ResumingDownloader:
    """A downloader for pooch that continues where a `.part` file ends."""

    def __init__(self, part: str, progress: Optional[Progress]):
        self._part = part
        self._progress = progress

    def __call__(self, url: str, output_file: str, pooch) -> None:
        import requests

        done = os.path.getsize(self._part) if os.path.exists(self._part) else 0
        headers = {"Accept-Encoding": "identity"}  # the bytes of the file, not packed once more
        if done:
            headers["Range"] = f"bytes={done}-"
        with contextlib.closing(
            requests.get(url, headers=headers, stream=True, timeout=_TIMEOUT)
        ) as response:
            if response.status_code == 416:  # nothing after what we have: the hash will tell
                os.replace(self._part, output_file)
                return
            response.raise_for_status()
            resumed = response.status_code == 206
            self._receive(url, response, done if resumed else 0)
        os.replace(self._part, output_file)

    def _receive(self, url: str, response, done: int) -> None:
        length = response.headers.get("Content-Length")
        total = done + int(length) if length else 0
        with open(self._part, "ab" if done else "wb") as file:
            for chunk in response.iter_content(_CHUNK):
                file.write(chunk)
                done += len(chunk)
                if self._progress:
                    self._progress(os.path.basename(url), done, total)
        if total and done != total:
            raise OSError(f"the transfer stopped at {done:,} of {total:,} bytes")


def _reason(error: Exception) -> str:
    """The cause in a few words: what libraries say of a refused connection is a paragraph."""
    import requests

    if isinstance(error, requests.HTTPError):
        return f"HTTP {error.response.status_code}"
    if isinstance(error, requests.exceptions.ChunkedEncodingError):
        return "the transfer stopped"
    if isinstance(error, requests.Timeout):
        return "no answer in time"
    if isinstance(error, requests.ConnectionError):
        return "no connection"
    if isinstance(error, ValueError) and "hash" in str(error).lower():
        return "wrong SHA-256"
    return str(error).rstrip(".")
