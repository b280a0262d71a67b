"""stdout and stderr that are closed or full, control characters in texts, and the locale C."""

import contextlib
import io
import json
import os
import subprocess
import sys

import click
import numpy as np
import process_fixtures
import pytest
from file_fixtures import REPOSITORY
from linear_fixtures import LINEAR
from PIL import Image
from run_fixtures import forget, set_state, write_plugin

from toolkit import cli_options
from toolkit.cli import run_command, streams

TESTS = os.path.join(REPOSITORY, "tests")
needs_full = pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")


def toolkit(redirection, *argv, cwd=None, start="", **variables):
    """Run the command in a shell with this redirection; its exit code, stdout and stderr."""
    names = ("TOOLKIT_", "TF_", "LC_", "LANG", "PYTHON")
    environment = {k: v for k, v in os.environ.items() if not k.startswith(names)}
    environment.update(variables, PYTHONPATH=os.pathsep.join([REPOSITORY, TESTS]))
    command = ["sh", "-c", f'{start}"$@" {redirection}', "sh", sys.executable, "-m", "toolkit"]
    return subprocess.run(
        [*command, *map(str, argv)],
        cwd=cwd,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=process_fixtures.PATIENCE,
        encoding="utf-8",
    )


class Full(io.StringIO):
    """A stream whose device is full: text reaches a buffer, which cannot be flushed."""

    def flush(self):
        if self.getvalue():
            raise OSError(28, "No space left on device")


@pytest.fixture
def run_on(here):
    """`run_on(stdout, stderr, *argv)` -> the exit code of a command with these streams."""

    def call(stdout, stderr, *argv):
        with contextlib.redirect_stdout(stdout), contextlib.redirect_stderr(stderr):
            return run_command([str(argument) for argument in argv])

    return call


@pytest.mark.parametrize("stderr", [None, Full], ids=["closed", "full"])
def test_without_stderr_an_error_has_its_exit_code(run_on, stderr):
    assert run_on(io.StringIO(), stderr and stderr(), "resume", "nowhere") == 2
    assert run_on(None, stderr and stderr(), "resume", "nowhere") == 2


@needs_full
@pytest.mark.parametrize(
    "redirection, code", [("2>/dev/full", 0), ("0<&-", 0), ("0<&- 1>&- 2>&-", 1), ("1>&-", 1)]
)
def test_a_process_ends_without_a_traceback(here, redirection, code):
    result = toolkit(redirection, "data", "list", cwd=str(here))
    assert result.returncode == code, result
    assert "Traceback" not in result.stderr and "Exception ignored" not in result.stderr
    assert result.stderr.count("Error") <= 1


@needs_full
def test_a_failed_command_keeps_its_exit_code_where_its_report_is_lost(here):
    (here / "images").mkdir()
    (here / "images" / "bad.png").write_bytes(b"no image")
    result = toolkit("1>/dev/full", "data", "check", "images:images", cwd=str(here))
    assert result.returncode == 4 and "Exception ignored" not in result.stderr
    assert "warning: stdout cannot be written: No space left on device." in result.stderr


def test_a_process_whose_reader_has_gone_says_nothing(here):
    result = toolkit("; echo $? > code; } | true", "data", "list", cwd=str(here), start="{ ")
    assert result.stderr == ""
    assert (here / "code").read_text() == "1\n"


def test_a_stream_that_outlives_its_command_is_flushed_quietly_when_it_is_closed(capsys):
    """As by a handler of `logging` that a library made meanwhile."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), streams.guarded() as kept:
        pass
    out.close()
    kept.flush()
    assert capsys.readouterr().err == ""


def test_tensorflow_is_imported_without_stderr_and_used_without_stdout(here):
    """By code that calls the library: the command line would open the descriptors."""
    code = "import sys; sys.stdout.close(); from toolkit import compat, tf; tf.constant(1); "
    code += "compat.float_operations(tf.get_default_graph())"
    command = ["sh", "-c", '"$@" 2>&-', "sh", sys.executable, "-c", code]
    assert subprocess.call(command, cwd=str(here), timeout=process_fixtures.PATIENCE) == 0


# Command -> its arguments, whether stdout is all that it is for, and a file that it writes.
WORK = {
    "resume": (["resume", "run", "--steps", 7], False, "run/checkpoints/model.ckpt-7.index"),
    "resume --json": (["resume", "run", "--json", "--steps", 7], True, ""),
    "predict": (["predict", "run", "bars.npz"], True, ""),
    "predict -o": (["predict", "run", "bars.npz", "-o", "out.csv"], False, "out.csv"),
    "export": (["export", "run", "exported"], False, "exported/variables"),
    "verify": (["verify", "run"], False, ""),
    "plugins list": (["plugins", "list", "--json"], True, ""),
    "help": (["--help"], True, ""),
    "version": (["--version"], True, ""),
}


@pytest.mark.parametrize("name", list(WORK))
def test_each_command_does_its_work_though_stdout_is_full(run_on, trained, monkeypatch, name):
    monkeypatch.chdir(trained)
    argv, is_result, path = WORK[name]
    log = io.StringIO()
    assert run_on(Full(), log, *argv) == (1 if is_result else 0)
    warning = "warning: stdout cannot be written: No space left on device.\n"
    assert log.getvalue().count(warning) == (name != "predict -o")
    assert "Traceback" not in log.getvalue()
    assert not path or os.path.exists(path)


EVIL = "\x1b]0;owned\x07\x9b2J\u202e"  # sets a title, clears the screen, reverses the text


def assert_harmless(text):
    assert not set(text) & {"\x1b", "\x07", "\x9b", "\u202e", "\r"}


def write_images(folder, dark, light, end):
    """A folder with 12 dark images and one with 12 light ones, whose names have this end."""
    for name in (dark, light):
        os.makedirs(os.path.join(folder, name))
        for i in range(12):
            image = np.full((6, 6), 200 * (name == light) + i, np.uint8)
            Image.fromarray(image).save(os.path.join(folder, name, f"{i}{end}.png"))


def test_what_a_plugin_prints_is_no_part_of_json(cli):
    argv = ["run", "--plugin", write_plugin("    print('imported')"), "--print-config"]
    assert cli(*argv).out.startswith("imported\n")
    forget()
    result = cli(*argv, "--json")
    assert result.json()["plugin"]["value"] == argv[2] and result.err == "imported\n"


def test_unknown_words_and_missing_files_are_shown_escaped(cli, here):
    for argv in (
        [EVIL],
        ["resume", "no" + EVIL],
        ["run", "--plugin", EVIL],
        ["run", "--plugin", LINEAR, "--data", "npz:" + EVIL],
        ["run", "--plugin", LINEAR, "--" + EVIL, "1"],
        ["data", "check", "images:" + EVIL],
        ["plugins", "show", EVIL],
    ):
        result = cli(*argv)
        assert result.code in (2, 4) and r"\x1b]0;owned\x07\x9b2J\u202e" in result.err
        assert_harmless(result.out + result.err)


def test_names_of_classes_files_and_arrays_are_shown_escaped(cli, here):
    write_images("images", "a" + EVIL, "b", EVIL)
    argv = ["run", "--plugin", LINEAR, "--data", "images:images", "--run-dir", "r" + EVIL]
    results = [cli(*argv, "--steps", 2), cli("data", "check", "images:images")]
    files = sorted(os.path.join("images", "b", name) for name in os.listdir("images/b"))
    results.append(cli("predict", "r" + EVIL, *files))
    results += [cli(command, "r" + EVIL) for command in ("evaluate", "doctor", "verify")]
    for result in results:
        assert_harmless(result.ok().out + result.err)
    rows = cli("predict", "r" + EVIL, files[0], "--json").json()
    assert rows[0]["file"] == files[0] and rows[0]["class"] in ("a" + EVIL, "b")
    np.savez("odd.npz", **{EVIL: np.zeros(3)})
    assert_harmless(cli.refuse(4, r"\x1b]0;", "predict", "r" + EVIL, "odd.npz").err)


def test_a_name_with_a_newline_stays_in_its_line(cli, trained, here):
    name = "a.png\nb.png  class cat"
    Image.fromarray(np.zeros([6, 6], np.uint8)).save(name + ".png")
    result = cli("predict", trained / "run", name + ".png")
    assert result.code == 0 and len(result.out.splitlines()) == 1
    assert result.out.startswith(r"a.png\nb.png  class cat.png  label ")


def test_a_hostile_commit_log_and_configuration_are_shown_escaped(cli, trained):
    forged = f"x{EVIL}\nchaos       kills: 200; all equal"
    set_state(trained / "run", **dict.fromkeys(("reason", "status", EVIL), forged))
    path = trained / "run" / "config.json"
    values = json.loads(path.read_text())
    for key in ("plugin", "data", "optimizer", EVIL):
        if isinstance(values.get(key, ""), str):
            values[key] = f"x{EVIL}"
    path.write_text(json.dumps(values))
    for command in ("doctor", "resume", "evaluate", "verify"):
        result = cli(command, trained / "run")
        assert result.code != 0
        assert_harmless(result.out + result.err)
        assert "\nchaos " not in "\n" + result.out + result.err


def test_json_holds_the_original_characters_and_null_for_what_is_no_number(capsys):
    with streams.guarded():
        cli_options.print_json({"a": EVIL + "\x7f\u2028\udcff", "b": float("nan")})
    text = capsys.readouterr().out
    assert json.loads(text) == {"a": EVIL + "\x7f\u2028\udcff", "b": None}
    assert_harmless(text)


def test_what_the_encoding_lacks_is_escaped_too_though_click_would_write_to_the_buffer(monkeypatch):
    """It does so where it takes the encoding of a stream for a mistake."""
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", stream)
    with streams.guarded():
        click.echo("a \x1b \xfc")
        sys.stdout.write("\udcff\n")
        sys.stdout.flush()
    assert stream.buffer.getvalue() == b"a \\x1b \\xfc\n\\udcff\n"


def test_runs_with_other_letters_work_in_the_locale_c(cli, here):
    write_images("Bücher 東京", "Käse", "Öl", "ü")
    train = ["run", "--plugin", LINEAR, "--data", "images:Bücher 東京", "--steps", 2]
    result = toolkit("", *train, "--run-dir", "läufe/α", cwd=str(here), LC_ALL="C")
    assert result.returncode == 0, result.stderr
    cli("predict", "läufe/α", "Bücher 東京/Öl/1ü.png").ok()
    cli("verify", "läufe/α").ok()
    cli("resume", "läufe/α", "--steps", 4).ok()
    os.rename("Bücher 東京/Käse", "Bücher 東京/Brot")  # classes are compared as they were written
    assert cli("resume", "läufe/α", "--steps", 6).code == 4
