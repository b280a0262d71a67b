"""The command line: exit codes, streams, nearest names, run folders that are never overwritten."""

from __future__ import annotations

import contextlib
import json
import os
import select

import process_fixtures
import pytest
from file_fixtures import read_json
from linear_fixtures import LINEAR, Linear, write_bars

from toolkit import CheckFailed, RetryError, hookimpl
from toolkit.storage.run_folder import RunFolder


def test_results_go_to_stdout_and_plain_lines_with_the_time_left_to_stderr(cli, data):
    argv = ["run", "--plugin", LINEAR, "--data", data, "--steps", 3]
    result = cli(*argv, "--log-steps", "1", "--console-secs", "0").ok()
    assert [line.split()[0] for line in result.out.splitlines()] == ["done", "test", "page", "run"]
    assert [line.split()[0] for line in result.err.splitlines()[:3]] == ["run", "data", "step"]
    assert "\r" not in result.out + result.err and "\x1b" not in result.out + result.err
    lines = [line for line in result.err.splitlines() if "examples/s" in line]
    steps = [(line.split()[1], line.endswith(" s left")) for line in lines]
    assert steps == [("1/3", True), ("2/3", True), ("3/3", False)]


def test_a_shell_completes_commands_flags_and_words(cli, monkeypatch):
    monkeypatch.setenv("_TOOLKIT_COMPLETE", "bash_complete")
    cases = {"pre": "predict", "run gan --lear": "--learning-rate", "run gan --network d": "dcgan"}
    for words, found in cases.items():
        monkeypatch.setenv("COMP_WORDS", "toolkit " + words)
        monkeypatch.setenv("COMP_CWORD", str(len(words.split())))
        assert cli().out.split() == ["plain," + found]


class Faulty(Linear):
    """Fails while its graph is built, in the way that a test chooses."""

    error = ValueError("no such layer")

    @hookimpl
    def build(self, run):
        raise self.error


def fail(cli, error, *flags):
    Faulty.error = error
    data = write_bars("bars.npz")
    return cli("run", "--plugin", "test_cli:Faulty", "--data", data, "--steps", "2", *flags)


def test_a_plugin_may_choose_the_exit_code_by_its_error(cli):
    assert fail(cli, CheckFailed("Not good enough.")).code == 6
    assert fail(cli, RetryError("The disk is away.")).code == 138


def test_a_failed_start_leaves_no_run_folder(cli, here):
    fail(cli, ValueError("no such layer"))
    assert [path.name for path in here.iterdir()] == ["bars.npz"]


@pytest.mark.parametrize(
    "flags, variable, is_verbose",
    [([], "0", False), ([], "", False), ([], "1", True), (["-v"], "", True)],
)
def test_a_flag_or_a_variable_adds_the_traceback(cli, monkeypatch, flags, variable, is_verbose):
    monkeypatch.setenv("TOOLKIT_VERBOSE", variable)
    result = fail(cli, ValueError("no such layer"), *flags)
    assert result.code == 1 and "hook 'build': ValueError: no such layer" in result.err
    assert ("Traceback" in result.err) == ("raise self.error" in result.err) == is_verbose
    assert os.environ["TOOLKIT_VERBOSE"] == variable


@pytest.mark.parametrize("words", [[], ["data"], ["cache"], ["plugins"]], ids=str)
def test_without_a_command_its_help_is_shown_and_is_no_error(cli, words):
    result = cli(*words)
    assert (result.code, result.err) == (0, "")
    usage = " ".join(["Usage: toolkit", *words, "[OPTIONS]"])
    assert result.out.startswith(usage) and "Commands:" in result.out


@pytest.mark.parametrize(
    "argv, message",
    [
        (["trian"], "There is no command 'trian'."),
        (["train"], "Did you mean 'run'?\n"),  # of another tool
        (["run", "classifier", "--lr", "1"], "(Possible options: --learning-rate)"),
        (["run", "--help", "legnth"], "no help on 'legnth'.\nDid you mean 'length'?\n"),
        (["run", "--steps", "3", "gan"], "The plugin is the first word: toolkit run gan [OPTIONS]"),
        (["run", LINEAR, "batch_size=5"], "Options are flags: --batch-size 5\n"),
        (["run", "--network", "mlp"], "need its name first: toolkit run PLUGIN --network\n"),
        (["run"], "No plugin is named.\nWrite --plugin NAME; installed: "),
        (["run", "--plugin", LINEAR, "--gian", "3"], "--gain"),
        (["run", "--plugin", LINEAR, "--metric", "loss"], "(Possible options: --best-metric"),
        (["run", "--plugin", LINEAR, "--with", "emma"], "There is no extension 'emma'."),
        (["run", "--plugin", LINEAR, "--data", "mnist5"], "Did you mean 'mnist5k'?"),
        (
            ["run", "--plugin", LINEAR, "--data", "BARS", "--best-metric", "acuracy"],
            "Did you mean 'accuracy'?",
        ),
        (["run", "bars.npz"], "It is a path: name it with --data bars.npz, after a plugin."),
        (["run", LINEAR, "bars.npz"], "Data are named by a flag: --data bars.npz"),
        (["run", "./bars.np"], "Did you mean './bars.npz'?"),
        (["predict", "bras.npz", "x"], "Did you mean 'bars.npz'?"),
        (["adopt", "bras.npz"], "Did you mean 'bars.npz'?"),
        (["compare", "a", "b", "--page"], "Options: --metric, --level, --json"),
        (["cache", "rm"], "Commands: clear, list"),
        (["export", "r", "m.onnx"], "Name a folder; converters of that format read it."),
        (["evaluate"], "Usage: toolkit evaluate [OPTIONS] RUN"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_wrong_word_exits_2_with_the_way_out(cli, data, argv, message):
    result = cli.refuse(2, message, *(data if word == "BARS" else word for word in argv))
    assert result.out == "" and result.err.startswith("Error: ")


def test_help_shows_the_plugins_own_options_last(cli):
    text = cli("run", "--plugin", LINEAR, "--help", "all").out
    assert text.index("Optimisation:") < text.index("Plugin Linear:") < text.index("--gain")
    assert "factor on the features" in text and "times" in text


def test_force_moves_nothing_where_the_run_cannot_start(cli, here):
    (here / "r").mkdir()
    (here / "r" / "mine.txt").write_text("precious")
    argv = ["--plugin", LINEAR, "--data", "npz:none.npz", "--run-dir", "r", "--force"]
    cli.refuse(4, "none.npz", "run", *argv)
    assert os.listdir("r") == ["mine.txt"] and not list(here.glob("r.*"))


def test_a_resume_takes_no_option_and_no_plugin_from_the_environment(cli, trained, monkeypatch):
    monkeypatch.setenv("TOOLKIT_BATCH_SIZE", "4")
    monkeypatch.setenv("TOOLKIT_PLUGIN", "classifier")
    printed = cli("resume", trained / "run", "--print-config", "--json").json()
    assert (printed["batch_size"]["value"], printed["plugin"]["value"]) == (8, LINEAR)


def test_a_run_as_the_value_of_a_flag_is_not_the_run_to_resume(cli, trained, here):
    """Only the flags of its plugins say which argument is a value."""
    plugin, other = "linear_fixtures:Tabled", trained / "run"
    data = f"npz:{trained / 'bars.npz'}"
    flags = ["--steps", 2, "--steps-per-call", 1, "--no-evaluate", "--run-dir", "named"]
    assert cli("run", "--plugin", plugin, "--data", data, *flags).code == 0
    print_config = ["--print-config", "--json", "--trust", "--allow", "table"]
    for argv in (
        ["--table", other, "named"],
        ["named", "--table", other],
        ["--table", other, "--no-evaluate", "named"],
        ["--table", other, "--", "named"],
    ):
        printed = cli("resume", *print_config, *argv).ok().json()
        assert printed["plugin"]["value"] == plugin


def test_stderr_of_a_fresh_process_has_only_lines_of_the_toolkit(golden):
    folder = golden("--steps", 6) / "run"
    result = process_fixtures.run("resume", folder, "--steps", 8, fresh=True).ok()
    words = {line.split()[0] for line in result.err.splitlines()}
    waits = {word for word in words if word.endswith("ing")}  # shown where the machine is slow
    assert words - waits == {"run", "data", "step"}


def test_json_is_alone_on_stdout_also_where_tensorflow_may_write(golden):
    argv = ["resume", golden("--steps", 6) / "run", "--steps", 8, "--json", "-v"]
    summary = process_fixtures.run(*argv, fresh=True).json()
    assert (summary["steps"], summary["plugin"], summary["test"]["examples"]) == (8, "Linear", 13)


def test_a_bar_on_a_terminal_is_gone_at_the_end(data):
    pty = pytest.importorskip("pty")
    ours, theirs = pty.openpty()
    argv = ["run", "--plugin", LINEAR, "--data", data, "--steps", "2"]
    environment = dict(os.environ, TERM="xterm")
    process = process_fixtures.start(*argv, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    output = b""
    with contextlib.suppress(OSError):  # the other side is closed
        while select.select([ours], [], [], process_fixtures.PATIENCE)[0]:
            output += os.read(ours, 4096)
    os.close(ours)
    text = output.decode("utf-8", "replace")
    assert process.wait(process_fixtures.PATIENCE) == 0, text
    assert "done    reached step 2" in text and "Traceback" not in text
    assert "\x1b[2K" in text[: text.index("done    ")]  # the bar's line was cleared


@pytest.mark.parametrize(
    "argv",
    [["resume"], ["evaluate"], ["verify"], ["doctor"], ["report"], ["export", "model"]],
    ids=" ".join,
)
def test_a_run_of_version_0_1_is_refused_with_its_version(cli, trained, monkeypatch, argv):
    monkeypatch.chdir(trained)
    path = trained / "run" / "config.json"
    path.write_text(json.dumps(dict(read_json(path), input="auto", nan="stop")))
    os.remove("run/commits.jsonl")
    session = {"from": 0, "kept": [], "versions": {"toolkit": "0.1.0"}}
    RunFolder(str(trained / "run")).commits.add("session", **session)
    name, *more = argv
    result = cli(name, "run", *more)
    assert result.code == (6 if name == "doctor" else 5)
    text = "commits.jsonl is not of format 4; version 0.1.0 of the toolkit wrote it"
    assert text in result.out + result.err
    assert "Read the run with the version that wrote it" in result.out + result.err


@pytest.mark.parametrize(
    "flag, code, message",
    [
        ("--data", 2, "The data '' names no source."),
        ("--checkpoint", 5, "run has no checkpoint ''.\nIt has last, best and the steps 2, 4, 6."),
        ("--split", 2, "has no split ''."),
    ],
)
def test_an_empty_value_is_not_taken_for_the_default(
    cli, trained, monkeypatch, flag, code, message
):
    monkeypatch.chdir(trained)
    cli.refuse(code, message, "evaluate", "run", flag, "")
