"""Texts of strangers on terminals and in tables."""

import io
import sys
import unicodedata

import pytest

from toolkit.display.console import Console
from toolkit.display.escapes import escape_controls, escape_line, table_cell


@pytest.mark.parametrize(
    "text, escaped",
    [
        ("red\x1b[31m", r"red\x1b[31m"),
        ("back\rover", r"back\x0dover"),
        ("bell\x07 del\x7f nul\x00", r"bell\x07 del\x7f nul\x00"),
        ("gnp.\u202efdp mark\u200e", r"gnp.\u202efdp mark\u200e"),
        ("not UTF-8: \udcff", r"not UTF-8: \udcff"),
        ("two\nlines\tand a tab", "two\nlines\tand a tab"),
        ("Zürich 東京 😀 שלום a\\b \u200d", "Zürich 東京 😀 שלום a\\b \u200d"),
    ],
)
def test_control_characters_become_visible_and_letters_stay(text, escaped):
    assert escape_controls(text) == escaped


def test_no_control_character_of_unicode_is_left():
    every = "".join(map(chr, range(sys.maxunicode + 1)))
    rest = escape_controls(every).replace("\n", "").replace("\t", "")
    assert {unicodedata.category(character) for character in rest}.isdisjoint({"Cc", "Cs", "Zl"})
    directions = {unicodedata.bidirectional(character) for character in rest}
    assert directions.isdisjoint({"LRE", "RLE", "PDF", "LRO", "RLO", "LRI", "RLI", "FSI", "PDI"})


def test_a_text_of_one_line_stays_in_its_line():
    assert escape_line("cat\nError: x\t\r") == r"cat\nError: x\t\x0d"


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r", "  =", "\n=", " \t@", "\u00a0="])
def test_a_cell_that_a_spreadsheet_would_run_begins_with_an_apostrophe(start):
    assert table_cell(start + "1+1").startswith("'")


@pytest.mark.parametrize("text", ["cat", "a=b", "", "1-2", "x@y", "'quoted'", "/data/a.png"])
def test_other_cells_stay(text):
    assert table_cell(text) == text


def test_the_bar_draws_on_the_unescaped_stream_and_escapes_texts(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    guarded, raw = io.StringIO(), io.StringIO()
    guarded.isatty = raw.isatty = lambda: True
    guarded.unescaped = raw  # as the guarded stderr of a command has it
    console = Console(guarded)
    console.start(10, lambda: 5)
    console.log("run \x1b]0;title\x07 [red]x[/red]")
    console.show_metrics({"step": 5, "kind": "train", "lo\x1b[2Jss": 0.5})
    print("printed \x9b2J by a plugin", file=sys.stderr)
    console.stop()
    assert guarded.getvalue() == ""
    text = raw.getvalue()
    assert r"run \x1b]0;title\x07 [red]x[/red]" in text and r"printed \x9b2J by" in text
    assert "\x1b]0;" not in text and "\x1b[2Jss" not in text and "\x9b" not in text
    assert "\x1b[" in text  # of the bar itself
