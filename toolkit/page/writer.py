"""Write a page: one HTML file with its style, pictures and script, which needs no other file.

The bytes are a function of the folders of the runs, of this version of the toolkit and, where
pictures are encoded again, of the version of Pillow.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import pathlib
from typing import Any, Dict, Optional, Sequence

from .. import __version__
from ..comparison.record import RunRecord, read_record
from ..files import atomic_write
from .pictures import Album
from .run import describe_run
from .several import describe_comparison, describe_search, draw_shared_curves, shorten
from .values import clean_text, format_count

PAGE = "report.html"  # in the folder of a run
MAX_RUNS = 50
_ASSETS = pathlib.Path(__file__).resolve().parent / "assets"


def write_run_page(folder: str, path: str) -> None:
    """Write the page of a run that has ended, also while its process still locks the folder.

    Raises ToolkitError if the folder contains no run, or a damaged one; OSError.
    """
    write_page(path, [read_record(folder, is_training=False)])


def write_page(path: str, *content: Any, **more: Any) -> None:
    """Write a page; the further arguments are those of `describe_page`. Raises OSError."""
    text = render(describe_page(*content, **more))
    with atomic_write(path) as file:
        file.write(text)


def describe_page(
    records: Sequence[RunRecord],
    comparison: Optional[Dict[str, Any]] = None,
    search: Optional[Dict[str, Any]] = None,
    title: str = "",
) -> Dict[str, Any]:
    """What a page says, for the templates: of one or more runs, the first `MAX_RUNS`; with the
    values of `compare`, or the contents of the table.json of a search. `title` is by default the
    name of the run.
    """
    is_one = len(records) == 1 and search is None
    runs = [describe_run(record, Album(record.path, is_one)) for record in records[:MAX_RUNS]]
    for run, short in zip(runs, shorten([run["name"] for run in runs])):
        run["name"] = short
    left_out = f"Of {len(records):,} runs, the first {MAX_RUNS} are shown."
    name = records[0].name if len(records) == 1 else format_count(len(records), "run")
    groups = (comparison or {}).get("groups") or [[place] for place in range(len(runs))]
    names, curves = [run["name"] for run in runs], [run["curves"] for run in runs]
    return {
        "title": title or name,
        "toolkit": __version__,
        "is_one": is_one,
        "run": runs[0],
        "runs": runs,
        "comparison": describe_comparison(records, comparison) if comparison else None,
        "search": describe_search(search) if search else None,
        "charts": [] if is_one else draw_shared_curves(names, curves, groups),
        "notes": [left_out] if len(records) > MAX_RUNS else [],
    }


def render(content: Dict[str, Any]) -> bytes:
    """The bytes of a page with the values of `describe_page`."""
    style, script = ((_ASSETS / name).read_text("utf-8") for name in ("page.css", "page.js"))
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")
    text = _page_template().render(content, style=style, script=script, script_hash=digest)
    return text.encode("utf-8", "backslashreplace")


@functools.lru_cache(maxsize=None)
def _page_template() -> Any:
    """The template of a page. To compile it takes longer than to render it: once in a process."""
    import jinja2

    def clean(value: Any) -> Any:
        """What of a run is shown: harmless, and of a length that has room."""
        return clean_text(value, 600) if type(value) is str else value

    templates = jinja2.Environment(
        loader=jinja2.FileSystemLoader(str(_ASSETS)),
        autoescape=True,
        finalize=clean,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return templates.get_template("page.html")
