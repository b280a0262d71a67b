"""The reports of one evaluation: all are written, or none. The seal at the end of a run has the
hashes of those of its test.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import shutil
import tempfile
from typing import Any, Dict, Iterator, List, Optional, Tuple

from ..errors import RetryError, UsageError
from ..files import TEMPORARY_PREFIX, sha256_of, sync
from .checkpoint_store import REPORTS
from .jsonl import digest_of, find_damage
from .run_folder import RunFolder

EXAMPLES = "examples.npz"  # in a folder of reports: the name of a metric -> values [N]


class ReportFolder:
    """A folder for reports, from `open_report_folder`."""

    def __init__(self, path: str, omission: str = ""):
        self.path = path  # of the empty folder to write to
        self.place = ""  # in the run folder, once the reports are complete; "" if none are kept
        self.omission = omission  # why none is kept though one was to be, as a clause


@contextlib.contextmanager
def open_report_folder(run: Optional[RunFolder], name: str) -> Iterator[ReportFolder]:
    """A folder to write reports to, which becomes `reports/NAME` of the run when the block ends.

    Earlier reports of this name are replaced. If they are part of the run's seal and differ, they
    stay, and a hash of the new ones is appended to the name. Reports are omitted if the run folder
    cannot be written, and without a run. Raises RetryError if the temporary folder cannot be
    written, either.
    """
    parent, omission = "", ""
    if run is not None:
        try:
            parent = os.path.join(
                run.make_subfolder(REPORTS), TEMPORARY_PREFIX + secrets.token_hex(8)
            )
            os.mkdir(parent)
        except (OSError, UsageError) as error:
            reason = error.message if isinstance(error, UsageError) else error.strerror
            parent, omission = "", f"{run.file(REPORTS)} cannot be written: {reason}".rstrip(".")
    if run is None or not parent:
        try:
            temporary = tempfile.TemporaryDirectory(prefix="toolkit-reports-")
        except OSError as error:
            message = f"The temporary folder cannot be written: {error.strerror}."
            raise RetryError(message) from None
        with temporary as path:
            yield ReportFolder(path, omission)
        return
    try:
        with run.writing():
            os.mkdir(os.path.join(parent, name))
        reports = ReportFolder(os.path.join(parent, name))
        yield reports
        with run.writing():
            reports.place = _publish(run, reports.path, name)
    finally:
        shutil.rmtree(parent, ignore_errors=True)
        with contextlib.suppress(OSError):  # it has other reports
            os.rmdir(run.file(REPORTS))


def _publish(run: RunFolder, path: str, name: str) -> str:
    """Move complete reports to their place in the run folder, and return it; '' if none."""
    run.commits.invalidate_cache()  # the run may have been sealed during the evaluation
    contents = _read_contents(path)
    if not contents:
        return ""
    place = os.path.join(REPORTS, name)
    seal = run.commits.seal()
    start = place.replace(os.sep, "/") + "/"
    is_sealed = seal is not None and any(n.startswith(start) for n in seal.values["reports"])
    if is_sealed and _read_contents(run.file(place)) not in ([], contents):
        place += "-" + hashlib.sha256(repr(contents).encode("utf-8")).hexdigest()[:6]
    target = run.file(place)
    if _read_contents(target) == contents:
        return place
    for folder, _, names in os.walk(path):
        for each in [*(os.path.join(folder, name) for name in names), folder]:
            sync(each)
    if os.path.lexists(target):
        os.rename(target, os.path.join(os.path.dirname(path), "former"))
    os.rename(path, target)
    sync(run.file(REPORTS))
    return place


def _read_contents(path: str) -> List[Tuple[str, str]]:
    """The path and the SHA-256 of each file below a folder, sorted; [] for a link or no folder."""
    paths = [] if os.path.islink(path) else _list_files(path)
    paths = [each for each in paths if not os.path.islink(each)]
    return sorted((os.path.relpath(each, path), sha256_of(each)) for each in paths)


def _list_files(path: str) -> List[str]:
    return [os.path.join(folder, name) for folder, _, names in os.walk(path) for name in names]


# ---------------------------------------------------------------------------------------- the seal


def hash_reports(folder: RunFolder, place: str) -> Dict[str, Any]:
    """The size and hash of each file below a folder of reports ('' for none), by its path in the
    run folder with "/".
    """
    paths = _list_files(folder.file(place)) if place else []
    names = {os.path.relpath(path, folder.path).replace(os.sep, "/"): path for path in paths}
    return {name: dict(digest_of(names[name])._asdict()) for name in sorted(names)}


def find_report_faults(folder: RunFolder, seal: Dict[str, Any]) -> List[str]:
    """The reports that are not as they were sealed, a clause each."""
    faults = []
    for name, digest in sorted(seal["reports"].items()):
        fault = find_damage(folder.file(*name.split("/")), digest["sha256"], digest["bytes"])
        faults += [f"{name} {fault}"] if fault else []
    return faults
