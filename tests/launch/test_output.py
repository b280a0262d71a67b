"""Output of several processes as lines of one log, and the progress bar of one of them."""

import pytest

from toolkit.launch.output import MAX_LINE, LineSplitter, MergedLog


def lines(*pieces, is_terminal=False):
    splitter = LineSplitter(is_terminal)
    outputs = [splitter.feed(piece) for piece in pieces] + [splitter.close()]
    return [line for output in outputs for line in output.lines]


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


def test_a_line_that_does_not_end_is_broken_between_characters():
    text = "é".encode() * MAX_LINE
    first, *others = lines(b"x" + text)
    assert len(first) == MAX_LINE - 1
    assert b"".join([first, *others]) == b"x" + text


def test_on_a_terminal_what_ends_with_a_return_is_a_drawing():
    splitter = LineSplitter(is_terminal=True)
    assert splitter.feed(b"before\n\x1b[Jstep 1/9\r") == ([b"before"], b"\x1b[Jstep 1/9")
    assert splitter.feed(b"\x1b[J\r\x1b[2Kstep 2/9\r").drawing == b"\x1b[2Kstep 2/9"
    assert splitter.feed(b"\x1b[J\r\x1b[2Ka line\nstep 2/9\r") == ([b"a line"], b"step 2/9")


def test_a_bar_that_ends_leaves_no_line():
    splitter = LineSplitter(is_terminal=True)
    splitter.feed(b"step 2/9\r")
    output = splitter.feed(b"\x1b[J\r\x1b[2Kstep 9/9\r\n\r\x1b[1A\x1b[2K")
    assert (output.lines, output.drawing) == ([], b"")
    assert splitter.feed(b"after\n").lines == [b"after"]


def new_log():
    return MergedLog(["chief", "worker 0"])


def test_names_are_aligned(capsys):
    log = new_log()
    log.write("chief", "a")
    log.write("worker 0", "")
    log.write("launch", "b")
    assert capsys.readouterr().err == "chief    | a\nworker 0 |\nlaunch   | b\n"


def test_control_characters_and_bytes_that_are_no_text_are_shown(capsys):
    log = new_log()
    log.add("chief", LineSplitter().feed(b"\x1b[31mred\x07\tend \xff\xe2\x80\xae\x00\n"))
    assert capsys.readouterr().err == ("chief    | \\x1b[31mred\\x07\tend \\xff\\u202e\\x00\n")


def test_results_have_no_prefix(capsys):
    log = new_log()
    log.write_result("done    9 steps\n")
    assert capsys.readouterr() == ("done    9 steps\n", "")


def test_a_bar_stays_below_the_lines_of_others(capsys):
    log = new_log()
    log.is_terminal = True
    log.draw("chief", b"\x1b[2Kstep \x1b[31m1\x1b[0m\x07")
    log.write("worker 0", "hello")
    bar = "chief    | step \x1b[31m1\x1b[0m\\x07\x1b[0m\r"
    erase = "\r\x1b[J"
    assert capsys.readouterr().err == f"{erase}{bar}{erase}worker 0 | hello\n{bar}"
    log.draw("chief", b"")
    log.write("worker 0", "bye")
    assert capsys.readouterr().err == f"{erase}{erase}worker 0 | bye\n"
