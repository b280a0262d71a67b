"""`toolkit report`: the page of a run, or one page of several runs."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, List, Optional, Sequence, Tuple

import click

from .. import cli_options as shared
from ..display.waits import waiting
from ..errors import ToolkitError, UsageError
from ..files import atomic_write
from ..storage.run_folder import RunFolder
from .common import flag, output_flags, print_result

if TYPE_CHECKING:
    from ..comparison.record import Found, RunRecord


@click.command()
@click.argument("run_folders", metavar="RUN...", nargs=-1, required=True)
@flag("-o --output", "FILE", "The page, an HTML file [default RUN/report.html].")
@output_flags
def report(run_folders: Sequence[str], output: Optional[str], as_json: bool) -> None:
    """Write one HTML file that shows how a run went: result, curves, pictures, events, options.

    It opens from disk in any browser and loads nothing. Several runs, or a folder with runs, give
    one page that compares them. The folders of the runs are only read, except for
    RUN/report.html; the same folder gives the same bytes.
    """
    from ..comparison.record import read_runs
    from ..page.writer import PAGE

    path = None if output is None else shared.resolve_output(output, is_page=True)
    runs = read_runs(run_folders, shared.warn)
    if path is None and len(runs) > 1:
        raise UsageError(
            f"The page of {len(runs)} runs needs a name.", hint="Name it with -o FILE.html."
        )
    folder = RunFolder(runs[0].path)
    name, path = output or os.path.join(str(folder), PAGE), path or folder.file(PAGE)
    with waiting("Writing the page"):
        records, page, num_damaged = render_runs(runs)
    if num_damaged:
        shared.warn("damaged runs are left out; a note on the page names them")
    with shared.writing_output(name), atomic_write(path) as file:
        file.write(page)
    shown = [{"name": r.name, "status": r.status, "step": r.step} for r in records]
    facts, text = {"page": name, "bytes": len(page), "runs": shown}, f"{name} ({len(page):,} bytes)"
    print_result(as_json, facts, [("page", text)], width=8)


def render_runs(runs: Sequence[Found]) -> Tuple[List[RunRecord], bytes, int]:
    """The records of runs, the bytes of their page, and the number of runs that are damaged, for
    each of which the page has a note. If no run can be read, raises the error of the first one.
    """
    from ..comparison.comparison import compare
    from ..page.several import shorten
    from ..page.writer import MAX_RUNS, describe_page, render

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
    return records, render(content), len(errors)
