"""Write a page: one HTML file with its data, pictures and script, which needs no other file.

The bytes are a function of the folders of the runs, of this version of the toolkit and, where there
are pictures, of the version of Pillow.
"""

from __future__ import annotations

import html
import json
from typing import Any, Dict, List, Optional, Sequence, Tuple

from ..comparison.record import RunRecord, read_record
from ..errors import ToolkitError
from ..files import atomic_write, to_json_value
from .content import MAX_RUNS, Content, describe_page
from .pictures import Picture, as_base64
from .template import fill_template
from .values import clean_text

PAGE = "report.html"  # in the folder of a run


def write_run_page(folder: str, path: str) -> None:
    """Write the page of a run that has ended, also while its process still locks the folder.

    Args:
        folder: of the run.
        path: of the file, which is replaced.

    Raises:
        ToolkitError: the folder contains no run, or a damaged one.
        OSError: the file cannot be written.
    """
    write_page(path, [read_record(folder, is_training=False)])


def render_runs(
    folders: Sequence[str],
    names: Sequence[Optional[str]],
    refresh_secs: Optional[float] = None,
) -> Tuple[List[RunRecord], bytes]:
    """The records of runs, and the bytes of their page, which has a note for each that is damaged.

    Args:
        folders: of the runs.
        names: of the runs on the page; None for that of the folder.
        refresh_secs: how often a browser reads the page again; None for never.

    Raises:
        ToolkitError: no run can be read; that of the first one.
    """
    records: List[RunRecord] = []
    errors: List[ToolkitError] = []
    notes: List[str] = []
    for folder, name in zip(folders, names):
        try:
            records.append(read_record(folder, name))
        except ToolkitError as error:
            errors.append(error)
            notes.append(clean_text(f"{name or folder} is left out: {error.message}"))
    if not records:
        raise errors[0]
    comparison, note = _compare(records)
    content = describe_page(records, comparison)
    content.values["notes"] += [*notes, *([note] if note else [])]
    if refresh_secs is not None:
        content.values["refresh"] = refresh_secs
    return records, render(content)


def _compare(records: Sequence[RunRecord]) -> Tuple[Optional[Dict[str, Any]], str]:
    """The comparison of several runs, or why there is none."""
    from ..comparison.comparison import compare

    if len(records) < 2:
        return None, ""
    try:
        return compare(records[:MAX_RUNS]).as_json(), ""
    except ToolkitError as error:
        return None, clean_text(f"The runs are not compared: {error.message}")


def write_page(
    path: str,
    records: Sequence[RunRecord],
    comparison: Optional[Dict[str, Any]] = None,
    search: Optional[Dict[str, Any]] = None,
    title: str = "",
) -> None:
    """Write a page; the arguments are those of `describe_page`. Raises OSError."""
    text = render(describe_page(records, comparison, search, title))
    with atomic_write(path) as file:
        file.write(text)


def render(content: Content) -> bytes:
    """The bytes of a page."""
    values = content.values
    data = embed_json(values)
    pictures = "\n".join(_picture_block(n, picture) for n, picture in enumerate(content.pictures))
    text = fill_template(values["title"], data, pictures, _summarize(values))
    return text.encode("utf-8", "backslashreplace")


def embed_json(values: Any) -> str:
    """JSON in ASCII that cannot end the element of HTML in which it is."""
    text = json.dumps(to_json_value(values), separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _picture_block(number: int, picture: Picture) -> str:
    return (
        f'<script type="text/plain" id="picture-{number}" data-type="{picture.type}" '
        f'data-width="{picture.width}" data-height="{picture.height}">'
        f"{as_base64(picture.data)}</script>"
    )


def _summarize(values: Dict[str, Any]) -> str:
    """HTML for a browser without JavaScript: the first screen of each run as text."""
    parts: List[str] = [f"<h1>{html.escape(values['title'])}</h1>"]
    for run in values["runs"]:
        status, worst = run["status"], run["worst"]
        numbers = ", ".join(f"{each['name']} {each['text']}" for each in run["headline"])
        lines = [f"{status['word']}: {status['text']}", numbers, worst["text"], run["again"]]
        text = "".join(f"<p>{html.escape(line)}</p>" for line in lines if line)
        parts.append(f"<h2>{html.escape(run['name'])}</h2>{text}")
    parts.append("<p>The curves and tables of this page need JavaScript.</p>")
    return "\n".join(parts)
