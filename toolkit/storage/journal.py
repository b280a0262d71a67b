"""The journal of a run whose steps a driver makes: what its program was given, call by call.

Its bytes are the driver's. Here they are appended, hashed as they grow, and cut back by a resume to
the length that a commit recorded in its file `model.ckpt-STEP.driver.json`, which is one of the
files of the checkpoint and thereby covered by the commit log.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from typing import IO, Any, Dict, Iterator, Optional, Tuple

from ..errors import CheckpointError
from ..files import atomic_write, open_regular_file, open_without_links, sync, write_json
from .commit_log import Checkpoint
from .jsonl import FileDigest, read_json
from .run_folder import RunFolder

JOURNAL = "journal.bin"
_STATE = ".driver.json"  # after the prefix of a checkpoint
_CHUNK = 1 << 20  # bytes


class Journal:
    """An append-only file of a run folder. `cut_back` opens it for writing."""

    def __init__(self, folder: RunFolder):
        self.path = folder.file(JOURNAL)
        self._folder = folder
        self._file: Optional[IO[bytes]] = None
        self._size, self._sha256 = 0, hashlib.sha256()

    def cut_back(self, position: Optional[FileDigest]) -> None:
        """Remove what follows a position (None: all), and append there from now on. Raises
        CheckpointError if the file is not what it was at the position.
        """
        size = position.bytes if position else 0
        with self._folder.writing():
            flags = os.O_RDWR | os.O_CREAT
            file = os.fdopen(open_without_links(self.path, flags), "r+b")
            self._sha256 = _hash_start(file, size)
            if position is not None and self._sha256.hexdigest() != position.sha256:
                file.close()
                raise CheckpointError(
                    f"{self.path} is not what it was when the checkpoint was committed.",
                    hint="Copy the file back, or start a new run in another folder.",
                    path=self.path,
                )
            file.truncate(size)
            file.seek(size)
        self._file, self._size = file, size

    def append(self, data: bytes) -> None:
        """Add bytes; they are on the disk after `make_durable`."""
        assert self._file is not None, "the journal is not open"
        with self._folder.writing():
            self._file.write(data)
        self._size += len(data)
        self._sha256.update(data)

    def make_durable(self) -> FileDigest:
        """Wait until all bytes are on the disk, and return the size and the hash of the file."""
        if self._file is not None:
            with self._folder.writing():
                self._file.flush()
                sync(self.path)
        return FileDigest(self._size, self._sha256.hexdigest())

    def open(self) -> IO[bytes]:
        """The file from its beginning, to read."""
        if self._file is not None:
            self._file.flush()
        return open_regular_file(self.path)

    def close(self) -> None:
        """Write what is left, and close the file."""
        if self._file is not None:
            with self._folder.writing():
                self._file.close()
            self._file = None


def write_state(prefix: str, position: FileDigest, values: Dict[str, Any]) -> None:
    """Write the driver's own values, as JSON has them, and the position of the journal beside the
    checkpoint whose files have this path prefix.
    """
    write_json(prefix + _STATE, {"journal": dict(position._asdict()), "values": values})


def has_state(checkpoint: Checkpoint) -> bool:
    """Whether a driver made the step of a checkpoint."""
    return os.path.basename(checkpoint.path) + _STATE in checkpoint.files


def read_state(checkpoint: Checkpoint) -> Tuple[FileDigest, Dict[str, Any]]:
    """The size and the hash of the journal at a checkpoint, and the driver's own values. Raises
    CheckpointError.
    """
    state = read_json(checkpoint.path + _STATE)
    return FileDigest(**state["journal"]), state["values"]


def copy_journal(folder: RunFolder, target: RunFolder, checkpoint: Checkpoint) -> None:
    """Copy the journal up to a checkpoint to another run folder."""
    with open_regular_file(folder.file(JOURNAL)) as file, atomic_write(target.file(JOURNAL)) as new:
        for chunk in _chunks(file, read_state(checkpoint)[0].bytes):
            new.write(chunk)


def find_journal_fault(folder: RunFolder, checkpoint: Checkpoint) -> str:
    """What is wrong with the journal up to a checkpoint, as a clause; "" if nothing is."""
    position, _ = read_state(checkpoint)
    with contextlib.suppress(OSError):
        with open_regular_file(folder.file(JOURNAL)) as file:
            if _hash_start(file, position.bytes).hexdigest() == position.sha256:
                return ""
        return f"{JOURNAL} is not what it was at step {checkpoint.step}"
    return f"{JOURNAL} cannot be read"


def _hash_start(file: IO[bytes], size: int) -> Any:
    """A hashlib object with the first bytes of a file."""
    digest = hashlib.sha256()
    for chunk in _chunks(file, size):
        digest.update(chunk)
    return digest


def _chunks(file: IO[bytes], size: int) -> Iterator[bytes]:
    """The first bytes of a file, part by part."""
    while size > 0:
        chunk = file.read(min(size, _CHUNK))
        if not chunk:
            break
        yield chunk
        size -= len(chunk)
