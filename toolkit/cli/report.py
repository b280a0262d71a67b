"""`toolkit report`: the page of a run, or one page of several runs."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING, List, Optional, Sequence, Tuple

import click

from .. import cli_options as shared
from ..display.escapes import escape_line
from ..display.waits import waiting
from ..errors import InterruptedRun, RetryError, ToolkitError, UsageError
from ..storage.run_folder import RunFolder
from .cluster_flags import Seconds

if TYPE_CHECKING:
    from ..comparison.record import RunRecord

DEFAULT_SECS = 5.0


@click.command()
@click.argument("run_folders", metavar="RUN...", nargs=-1, required=True)
@click.option(
    "-o",
    "--output",
    default=None,
    metavar="FILE",
    help="The page, an HTML file [default RUN/report.html].",
)
@click.option(
    "--watch", is_flag=True, help="Write the page again while the run trains, until it ends."
)
@click.option(
    "--every",
    type=Seconds(0.2),
    metavar="S",
    help=f"With --watch: how often to look for changes [default {DEFAULT_SECS:g}].",
)
@shared.json_option
@shared.verbose_option
def report(
    run_folders: Tuple[str, ...],
    output: Optional[str],
    watch: bool,
    every: Optional[float],
    as_json: bool,
) -> int:
    """Write one HTML file that shows how a run went: result, curves, pictures, events, options.

    It opens from disk in any browser and loads nothing. Several runs, or a folder with runs, give
    one page that compares them. The folders of the runs are only read, except for
    RUN/report.html; the same folder gives the same bytes.
    """
    from ..comparison.record import read_runs
    from ..page.writer import PAGE

    if every is not None and not watch:
        raise UsageError("--every has no effect without --watch.", hint="Add --watch.")
    path = None if output is None else shared.resolve_output(output, is_page=True)
    runs = [RunFolder(run.path) for run in read_runs(run_folders, shared.warn)]
    if path is None and len(runs) > 1:
        raise UsageError(
            f"The page of {len(runs)} runs needs a name.", hint="Name it with -o FILE.html."
        )
    name = output or os.path.join(str(runs[0]), PAGE)
    page = _Page(run_folders, name, path or runs[0].file(PAGE))
    if watch:
        page.watch(runs, DEFAULT_SECS if every is None else every)
    else:
        page.write()
    size = len(page.bytes)
    if as_json:
        facts = [{"name": r.name, "status": r.status, "step": r.step} for r in page.records]
        shared.print_json({"page": name, "bytes": size, "runs": facts})
        return 0
    with shared.optional_output():
        sys.stdout.write(escape_line(f"page    {name} ({size:,} bytes)") + "\n")
    return 0


def _say(text: str) -> None:
    sys.stderr.write(escape_line(text) + "\n")
    sys.stderr.flush()


class _Page:
    """A page that is written, perhaps several times.

    Args:
        folders: with the runs, as the user named them.
        name: of the page, for messages.
        path: of the page.

    Attributes:
        bytes: what was written last.
        records: of the runs, as they were then.
    """

    def __init__(self, folders: Sequence[str], name: str, path: str):
        self._folders, self._name, self._path = list(folders), name, path
        self.bytes = b""
        self.records: List[RunRecord] = []

    def write(self, refresh_secs: Optional[float] = None) -> None:
        """Write the page, unless it has these contents already; `refresh_secs`: how often a browser
        reads it again, None for never. Raises UsageError if it cannot be written.
        """
        from ..files import atomic_write

        with waiting("Writing the page"):
            self.records, text, num_damaged = render_runs(self._folders, refresh_secs)
        if num_damaged and not self.bytes:
            shared.warn("damaged runs are left out; a note on the page names them")
        if text != self.bytes or not os.path.exists(self._path):
            with shared.writing_output(self._name):
                os.stat(os.path.dirname(self._path))  # it must not be created again
                with atomic_write(self._path) as file:
                    file.write(text)
        self.bytes = text

    def watch(self, runs: Sequence[RunFolder], secs: float) -> None:
        """Write the page until no process trains one of the runs. Raises InterruptedRun."""
        try:
            is_announced = False
            while any(run.is_locked() for run in runs):
                self._leave_out_missing()
                try:
                    self.write(secs)
                except RetryError as error:  # a full disk, say: the run goes on
                    shared.warn(error.message)
                except UsageError as error:
                    # A run that begins a session may have removed the temporary file of the page.
                    is_removed = isinstance(error.__cause__, FileNotFoundError)
                    if not (is_removed and os.path.isdir(os.path.dirname(self._path))):
                        raise
                if not is_announced:
                    _say(f"Watching; the page is {self._name}.")
                    is_announced = True
                time.sleep(secs)
            self._leave_out_missing()
            self.write()
        except KeyboardInterrupt:
            steps = ", ".join(f"{record.step:,}" for record in self.records)
            text = f"Interrupted; {self._name} is as of {f'step {steps}' if steps else 'before'}."
            raise InterruptedRun(text) from None
        for record in self.records:
            _say(f"{record.name} is {record.status}.")

    def _leave_out_missing(self) -> None:
        """Go on without the folders that have vanished, unless none is left."""
        present = [folder for folder in self._folders if os.path.isdir(folder)]
        for folder in set(self._folders) - set(present) if present else ():
            shared.warn(f"{folder} no longer exists, and is left out")
            self._folders.remove(folder)


def render_runs(
    folders: Sequence[str], refresh_secs: Optional[float] = None
) -> Tuple[List[RunRecord], bytes, int]:
    """The records of runs, the bytes of their page, and the number of runs that are damaged, for
    each of which the page has a note.

    Args:
        folders: with the runs, as the user named them.
        refresh_secs: how often a browser reads the page again; None for never.

    Raises:
        ToolkitError: no run can be read; that of the first one.
    """
    from ..comparison.comparison import compare
    from ..comparison.record import read_runs
    from ..page.several import shorten
    from ..page.writer import MAX_RUNS, describe_page, render

    runs = read_runs(folders)
    names = shorten([run.name for run in runs])
    names = names if len(runs) > 1 else [os.path.basename(runs[0].path)]
    records = [run.record._replace(name=name) for run, name in zip(runs, names) if run.record]
    errors = {run.name: run.error for run in runs if run.error is not None}
    if not records:
        raise next(iter(errors.values()))
    notes = [f"{name} is left out: {error.message}" for name, error in errors.items()]
    comparison = None
    if len(records) > 1:
        try:
            comparison = compare(records[:MAX_RUNS])
        except ToolkitError as error:
            notes.append(f"The runs are not compared: {error.message}")
    content = describe_page(records, comparison)
    content["notes"] += notes
    return records, render(dict(content, refresh=refresh_secs)), len(errors)
