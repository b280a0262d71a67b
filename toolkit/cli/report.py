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
from ..errors import InterruptedRun, ToolkitError, UsageError
from ..storage.run_folder import RunFolder

if TYPE_CHECKING:
    from ..comparison.record import RunRecord

WATCH_SECS = 5.0  # between two looks for changes


@click.command()
@click.argument("run_folders", metavar="RUN...", nargs=-1, required=True)
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    help="The page, an HTML file [default RUN/report.html].",
)
@click.option(
    "--watch", is_flag=True, help="Write the page again while the run trains, until it ends."
)
@shared.json_option
@shared.verbose_option
def report(
    run_folders: Tuple[str, ...],
    output: Optional[str],
    watch: bool,
    as_json: bool,
) -> int:
    """Write one HTML file that shows how a run went: result, curves, pictures, events, options.

    It opens from disk in any browser and loads nothing. Several runs, or a folder with runs, give
    one page that compares them. The folders of the runs are only read, except for
    RUN/report.html; the same folder gives the same bytes.
    """
    from ..comparison.record import read_runs
    from ..page.writer import PAGE

    path = None if output is None else shared.resolve_output(output, is_page=True)
    runs = [RunFolder(run.path) for run in read_runs(run_folders, shared.warn)]
    if path is None and len(runs) > 1:
        raise UsageError(
            f"The page of {len(runs)} runs needs a name.", hint="Name it with -o FILE.html."
        )
    name, path = output or os.path.join(str(runs[0]), PAGE), path or runs[0].file(PAGE)
    if watch:
        records, page = _watch(run_folders, runs, name, path)
    else:
        records, page = _write(run_folders, name, path)
    if as_json:
        facts = [{"name": r.name, "status": r.status, "step": r.step} for r in records]
        shared.print_json({"page": name, "bytes": len(page), "runs": facts})
        return 0
    with shared.optional_output():
        sys.stdout.write(escape_line(f"page    {name} ({len(page):,} bytes)") + "\n")
    return 0


def _say(text: str) -> None:
    sys.stderr.write(escape_line(text) + "\n")
    sys.stderr.flush()


def _write(
    folders: Sequence[str], name: str, path: str, refresh_secs: Optional[float] = None
) -> Tuple[List[RunRecord], bytes]:
    """Write the page; return the records of the runs, and the page.

    Args:
        folders: with the runs, as the user named them.
        name: of the page, for messages.
        path: of the page.
        refresh_secs: how often a browser reads it again; None for never.
    """
    from ..files import atomic_write

    with waiting("Writing the page"):
        records, page, num_damaged = render_runs(folders, refresh_secs)
    if num_damaged and refresh_secs is None:
        shared.warn("damaged runs are left out; a note on the page names them")
    with shared.writing_output(name):
        os.stat(os.path.dirname(path))  # it must not be created again
        with atomic_write(path) as file:
            file.write(page)
    return records, page


def _watch(
    folders: Sequence[str], runs: Sequence[RunFolder], name: str, path: str
) -> Tuple[List[RunRecord], bytes]:
    """Write the page until no process trains one of the runs. Raises InterruptedRun."""
    records: List[RunRecord] = []
    message = ""
    try:
        while any(run.is_locked() for run in runs):
            try:
                records, _ = _write(_present(folders), name, path, WATCH_SECS)
                now = f"Watching; the page is {name}."
            except ToolkitError as error:  # a full disk, say: the run goes on
                if isinstance(error, UsageError) and not message:
                    raise
                now = f"warning: {error.message}"
            if now != message:
                _say(now)
            message = now
            time.sleep(WATCH_SECS)
        records, page = _write(_present(folders), name, path)
    except KeyboardInterrupt:
        steps = ", ".join(f"{record.step:,}" for record in records)
        text = f"Interrupted; {name} is as of {f'step {steps}' if steps else 'before'}."
        raise InterruptedRun(text) from None
    for record in records:
        _say(f"{record.name} is {record.status}.")
    return records, page


def _present(folders: Sequence[str]) -> Sequence[str]:
    """The folders without those that are gone, unless all are."""
    return [folder for folder in folders if os.path.isdir(folder)] or folders


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
