"""The reports of one evaluation: all are written, or none."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import secrets
import shutil
import tempfile
from typing import Iterator, Tuple

from ..errors import UsageError
from ..files import TEMPORARY_PREFIX, sha256_of, sync
from .folder_lock import FolderLock
from .run_folder import RunFolder

REPORTS = "reports"
EXAMPLES = "examples.npz"  # in a folder of reports: the name of a metric -> values [N]
EXAMPLE_MEANS = "example_means"  # in the result: the name of a metric -> their exact mean
_ATTEMPTS = 10  # to lock a new folder before a resume deletes it


class ReportFolder:
    """A folder for reports, from `open_report_folder`.

    Attributes:
        path: of the empty folder to write to.
        place: the path of the reports in the run folder once they are complete; '' if there are
            none, or if they could not be kept.
        omission: why no report is kept, as a clause; '' if they are kept.
    """

    def __init__(self, path: str, omission: str = ""):
        self.path = path
        self.place = ""
        self.omission = omission


@contextlib.contextmanager
def open_report_folder(run: RunFolder, name: str) -> Iterator[ReportFolder]:
    """A folder to write reports to, which becomes `reports/NAME` of the run when the block ends.

    Earlier reports of this name are replaced. If they are part of the run's seal and differ, they
    stay, and a hash of the new ones is appended to the name. Reports are omitted if the run folder
    cannot be written.
    """
    try:
        parent, lock = _make_locked_folder(run)
    except (OSError, UsageError) as error:
        reason = error.message if isinstance(error, UsageError) else error.strerror
        with tempfile.TemporaryDirectory(prefix="toolkit-reports-") as path:
            yield ReportFolder(path, f"{run.file(REPORTS)} cannot be written: {reason}".rstrip("."))
        return
    try:
        with run.writing():
            os.mkdir(os.path.join(parent, name))
        reports = ReportFolder(os.path.join(parent, name))
        yield reports
        with run.writing():
            reports.place = _publish(run, reports.path, name)
    finally:
        lock.release()
        shutil.rmtree(parent, ignore_errors=True)
        with contextlib.suppress(OSError):  # it has other reports
            os.rmdir(run.file(REPORTS))


def _make_locked_folder(run: RunFolder) -> Tuple[str, FolderLock]:
    """A new, locked folder in `reports`: a resume deletes the temporary folders of dead processes,
    even one that is not locked yet.
    """
    for _ in range(_ATTEMPTS):
        lock = None
        with contextlib.suppress(FileNotFoundError, BlockingIOError):
            path = os.path.join(
                run.make_subfolder(REPORTS), TEMPORARY_PREFIX + secrets.token_hex(8)
            )
            os.mkdir(path)
            lock = FolderLock(path)
            lock.acquire(create=False)
            if lock.is_in_place():
                return path, lock
        if lock is not None:
            lock.release()
    raise OSError(errno.EBUSY, "another process removes what is written there")


def _publish(run: RunFolder, path: str, name: str) -> str:
    """Move complete reports to their place in the run folder, and return it; '' if none."""
    run.commits.invalidate_cache()  # the run may have been sealed during the evaluation
    contents = _read_contents(path)
    if not contents:
        return ""
    place = os.path.join(REPORTS, name)
    if _read_contents(run.file(place)) not in ([], contents) and _is_sealed(run, place):
        place += "-" + hashlib.sha256(repr(contents).encode("utf-8")).hexdigest()[:6]
    target = run.file(place)
    if _read_contents(target) == contents:
        return place
    _make_durable(path)
    if os.path.lexists(target):
        os.rename(target, os.path.join(os.path.dirname(path), "former"))
    os.rename(path, target)
    sync(run.file(REPORTS))
    return place


def _is_sealed(run: RunFolder, place: str) -> bool:
    """Whether reports are part of the seal at the end of the run."""
    seal = run.commits.seal()
    names = seal.values["reports"] if seal else {}
    return any(name.startswith(place.replace(os.sep, "/") + "/") for name in names)


def _read_contents(path: str) -> object:
    """The SHA-256 of each file below a folder by its path, sorted; [] for a link or no folder."""
    if os.path.islink(path):
        return []
    return sorted(
        (os.path.relpath(os.path.join(folder, name), path), sha256_of(os.path.join(folder, name)))
        for folder, _, names in os.walk(path)
        for name in names
        if not os.path.islink(os.path.join(folder, name))
    )


def _make_durable(path: str) -> None:
    """Wait until all files below a folder are on the disk."""
    for folder, _, names in os.walk(path):
        for name in names:
            sync(os.path.join(folder, name))
        sync(folder)
