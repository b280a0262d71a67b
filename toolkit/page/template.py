"""The HTML file of a page, from the files in `assets/`: markup, style and scripts in one text."""

from __future__ import annotations

import html
import os
import string

_ASSETS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "assets")
# In the order in which they are joined; each uses only names of those before it, or calls later.
_SCRIPTS = ("elements.js", "pictures.js", "charts.js", "run.js", "several.js", "page.js")


def fill_template(title: str, data: str, pictures: str, summary: str) -> str:
    """The text of a page.

    Args:
        title: The plain title of the window.
        data: The JSON of the page, in which "<" and the line separators of Unicode are escaped.
        pictures: HTML of the blocks `<script type="text/plain" id="picture-N" ...>`.
        summary: HTML that a browser without JavaScript shows.
    """
    template = string.Template(_read_asset("page.html"))
    script = "".join(_shorten(_read_asset(name)) for name in _SCRIPTS)
    return template.substitute(
        title=html.escape(title),
        style=_shorten(_read_asset("page.css")),
        summary=summary,
        data=data,
        pictures=pictures,
        script=script,
    )


def _shorten(text: str) -> str:
    """A style or a script without its indentation, empty lines and lines of comments."""
    lines = [line.strip() for line in text.splitlines()]
    return "".join(line + "\n" for line in lines if line and not line.startswith("//"))


def _read_asset(name: str) -> str:
    with open(os.path.join(_ASSETS, name), encoding="utf-8") as file:
        return file.read()
