"""`mnist` and `fashion-mnist`: four files each, downloaded once into the cache and verified.

If a mirror fails, the next one is tried; a file is used only if its SHA-256 is correct.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import logging
import os
import zlib
from typing import Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ...display.waits import waiting
from ...errors import DataError
from ...files import sha256_of
from ..examples import Dataset
from ..files.cache import cache_folder, one_process_at_a_time
from ..reading_options import Settings
from .idx import open_idx

_TIMEOUT = (10, 30)  # seconds: to connect, and between two chunks


class RemoteDataset(NamedTuple):
    """The files of a data set, and the folders that serve them.

    Attributes:
        mirrors: URLs of folders.
        files: name -> its SHA-256 as mirrors serve it, and perhaps that of its uncompressed
            content, for copies that were compressed again.
        class_names: in the order of the labels.
    """

    mirrors: Tuple[str, ...]
    files: Mapping[str, Sequence[str]]
    class_names: Tuple[str, ...]


_NAMES = tuple(
    f"{name}-ubyte.gz"
    for name in ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1")
)

DATASETS: Dict[str, RemoteDataset] = {
    "mnist": RemoteDataset(
        (
            "https://ossci-datasets.s3.amazonaws.com/mnist/",
            "https://storage.googleapis.com/cvdf-datasets/mnist/",
        ),
        {
            _NAMES[0]: (
                "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
                "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
            ),
            _NAMES[1]: (
                "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
                "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
            ),
            _NAMES[2]: (
                "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
                "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
            ),
            _NAMES[3]: (
                "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
                "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
            ),
        },
        tuple("0123456789"),
    ),
    "fashion-mnist": RemoteDataset(
        (
            "https://storage.googleapis.com/tensorflow/tf-keras-datasets/",
            "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion/",
        ),
        {
            _NAMES[0]: ("3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",),
            _NAMES[1]: ("a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",),
            _NAMES[2]: ("346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",),
            _NAMES[3]: ("67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",),
        },
        (
            *("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat"),
            *("Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
        ),
    ),
}


def open_download(settings: Settings, mirrors: Optional[Sequence[str]] = None) -> Dataset:
    """Open a data set from the cache; files that are missing or damaged are downloaded first.

    Users may also place the files into its folder of the cache by hand.

    Args:
        settings: with a key of DATASETS as the path.
        mirrors: URLs of folders with the files; None for those of TOOLKIT_MIRRORS in the
            environment (URLs separated by spaces, each with a folder `name`), or else of DATASETS.

    Raises:
        DataError: no mirror serves a correct file.
    """
    name = settings.path
    folder = os.path.join(cache_folder(), name)
    if not mirrors:
        urls = os.environ.get("TOOLKIT_MIRRORS", "").split()
        mirrors = [f"{url.rstrip('/')}/{name}/" for url in urls] or DATASETS[name].mirrors
    for file, digests in DATASETS[name].files.items():
        path = os.path.join(folder, file)
        if is_intact(path, digests):
            continue
        with one_process_at_a_time(folder):
            _download(name, file, folder, mirrors)
    local = settings._replace(path=folder, file_index=None)
    return open_idx(local, DATASETS[name].class_names)


def is_intact(path: str, digests: Sequence[str]) -> bool:
    """Whether the file exists and its SHA-256, or that of its content, is correct."""
    is_file = os.path.isfile(path)
    if not is_file or sha256_of(path) == digests[0]:
        return is_file
    with contextlib.suppress(OSError, EOFError, zlib.error), gzip.open(path, "rb") as content:
        return hashlib.sha256(content.read()).hexdigest() in digests[1:]
    return False


def _download(name: str, file: str, folder: str, mirrors: Sequence[str]) -> None:
    """Download one file from the first mirror that serves it with the correct SHA-256.

    Nothing happens if another process has downloaded it.
    """
    import pooch
    import requests

    pooch.get_logger().setLevel(logging.WARNING)
    failures: List[str] = []
    for mirror in mirrors:
        url = mirror.rstrip("/") + "/" + file
        digest = "sha256:" + DATASETS[name].files[file][0]
        downloader = pooch.HTTPDownloader(timeout=_TIMEOUT)
        try:
            with waiting(f"Downloading {file}"):
                pooch.retrieve(url, digest, file, folder, None, downloader)
            return
        except (requests.RequestException, OSError, ValueError) as error:
            reason = "wrong SHA-256" if type(error) is ValueError else str(error)
            if isinstance(error, requests.RequestException):  # whose texts are paragraphs
                status = getattr(error.response, "status_code", "")
                reason = f"{type(error).__name__} {status}".rstrip()
            failures.append(f"{url}: {reason}")
    raise DataError(
        f"{name}: expected {file} from one of {len(mirrors)} mirrors, found none that "
        f"serves it ({'; '.join(failures)}).",
        hint=(
            f"Place {', '.join(DATASETS[name].files)} in {folder} by "
            "hand, or use --data mnist5k, which needs no network."
        ),
    )
