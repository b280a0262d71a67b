"""Output of several processes as lines of one log."""

import pytest

from toolkit.cluster.output import MAX_LINE, LineSplitter, MergedLog


def lines(*pieces):
    splitter = LineSplitter()
    return sum([splitter.feed(piece) for piece in pieces], []) + splitter.close()


@pytest.mark.parametrize(
    "pieces, expected",
    [
        ([b"one\ntwo\n"], [b"one", b"two"]),
        ([b"o", b"ne\ntw", b"o"], [b"one", b"two"]),
        ([b"one\r\ntwo\r\n"], [b"one", b"two"]),
        ([b"one\r", b"\ntwo"], [b"one", b"two"]),
        ([b"10 %\r20 %\r", b"30 %\ndone\n"], [b"30 %", b"done"]),
        ([b"\n\n"], [b"", b""]),
        ([b"", b"  "], []),
        ([b"a\x1b[31mb\n"], [b"a\x1b[31mb"]),
    ],
    ids=str,
)
def test_output_is_split_into_lines(pieces, expected):
    assert lines(*pieces) == expected


def test_a_line_that_does_not_end_is_broken():
    assert lines(b"x" * (MAX_LINE + 1)) == [b"x" * MAX_LINE, b"x"]


def test_control_characters_and_bytes_that_are_no_text_are_shown(capsys):
    log = MergedLog(["chief", "worker 0"])
    log.add("chief", LineSplitter().feed(b"\x1b[31mred\x07\tend \xff\xe2\x80\xae\x00\n"))
    assert capsys.readouterr().err == "chief    | \\x1b[31mred\\x07\tend \\xff\\u202e\\x00\n"
