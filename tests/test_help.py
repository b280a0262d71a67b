"""Help that fits a screen, and the words of other tools."""

import pytest
from linear_fixtures import LINEAR

from toolkit.cli import app, plugin_command, plugin_options, run

INSTALLED = ["agreement", "classifier", "gan", "regressor"]


@pytest.mark.parametrize("words", [[], *([name] for name in INSTALLED)], ids=str)
def test_the_help_of_run_fits_a_screen_with_three_examples(cli, words):
    lines = cli.succeed("run", *words, "--help").out.splitlines()
    assert len(lines) <= 30 and max(map(len, lines)) <= 80
    assert sum(line.startswith("  toolkit run ") for line in lines) == 3


def test_the_short_help_shows_the_defaults_of_the_plugin(cli):
    usual, gan = (cli.succeed("run", *words, "--help").out for words in ([], ["gan"]))
    assert "passes over the training data [default 10.0]" in usual
    assert "steps, in place of --epochs [default 3000]" in gan
    assert "before its schedule [default 0.002]" in gan  # of its default preset
    assert "\nPlugin gan:\n  --preset " in gan


@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_a_topic_shows_its_group_alone(cli, flag):
    text = cli.succeed("run", flag, "length").out
    assert text.count(":\n") == 1 and "Length:\n  --steps N " in text


@pytest.mark.parametrize(
    "words, flags",
    [
        (["run", "--help", "all"], "--data --task --print-config --xla"),
        (["run", "--help", "classifier"], "--network --augment"),
        (["run", "classifier", "--help", "classifier"], "--network --augment"),
        (["run", "--help", "command"], "--plugin --force --pause-at"),
        (["resume", "--help", "Data"], "--data --batch-size"),
        (["search", "--help", "optimisation"], "--optimizer"),
    ],
)
def test_a_topic_has_its_flags(cli, words, flags):
    text = cli.succeed(*words).out
    assert set(flags.split()) <= set(text.split())
    assert ("--print-config" in text) == ("--pause-at" in text)


@pytest.mark.parametrize(
    "command, topics",
    [
        ("resume", "data, length,"),
        ("search", "command, data, length,"),
        ("plugins check", "data, length,"),
        ("data check", "data, machine, all."),
        ("data show", "data, augmentation, all."),
    ],
)
def test_other_commands_show_their_own_flags_and_the_topics(cli, command, topics):
    text = cli.succeed(*command.split(), "--help").out
    assert "--learning-rate" not in text and len(text.splitlines()) <= 30
    assert f"More: --help TOPIC, one of {topics}" in " ".join(text.split())


def test_a_run_after_help_is_no_topic(cli, trained):
    for path in (f"{trained}/run", "trained/gone"):
        assert cli.succeed("resume", "--help", path) == cli.succeed("resume", path, "--help")


def test_the_first_word_may_be_the_plugin(cli):
    rest = ["--steps", "3", "--print-config"]
    assert cli.succeed("run", LINEAR, *rest) == cli.succeed("run", "--plugin", LINEAR, *rest)


def test_words_of_other_tools_lead_to_what_exists():
    flags = {flag for param in run.run.params for flag in param.opts}
    for plugin in INSTALLED:
        selection = plugin_options.load_selection(plugin, [], {}, [])
        params = plugin_options.option_flags(selection.plugins)
        flags |= {flag for param in params for flag in param.opts}
    assert set(plugin_command.OTHER_NAMES.values()) <= flags
    assert not set(plugin_command.OTHER_NAMES) & flags
    assert set(app.OTHER_NAMES.values()) <= set(app.COMMANDS)
    assert not set(app.OTHER_NAMES) & set(app.COMMANDS)


@pytest.mark.parametrize(
    "path, value",
    [
        ("photos", "images:photos"),
        ("digits", "idx:digits"),
        ("./prices.csv", "table:./prices.csv"),
        ("arrays.npz", "npz:arrays.npz"),
        ("some.tfrecord", "tfrecord:some.tfrecord"),
    ],
)
def test_data_that_is_a_path_is_taken_for_what_it_holds(cli, here, path, value):
    if "." in path:
        (here / path).write_bytes(b"")
    else:
        (here / path).mkdir()
        name = "train-images-idx3-ubyte.gz" if path == "digits" else "a.png"
        (here / path / name).write_bytes(b"")
    printed = cli("run", LINEAR, "--data", path, "--print-config", "--json").json()
    assert printed["data"]["value"] == value


def test_a_folder_that_may_be_read_in_two_ways_is_refused_with_both(cli, here):
    for name in ("a.png", "labels.csv"):
        (here / name).write_bytes(b"")
    result = cli("run", LINEAR, "--data", ".", "--print-config")
    assert result.err == "Error: The data '.' may be images:. or table:./labels.csv.\nName one.\n"
    for number in range(4):
        (here / f"more-{number}.csv").write_bytes(b"")
    result = cli("run", LINEAR, "--data", ".", "--print-config")
    assert "or table:./more-1.csv or 2 more.\n" in result.err


def test_numbered_files_are_records_but_not_those_of_checkpoints(cli, here):
    (here / "a.ckpt.data-00000-of-00001").write_bytes(b"")
    command = ("run", LINEAR, "--data", ".", "--print-config", "--json")
    assert cli(*command).json()["data"]["value"] == "images:."
    (here / "fold-1-of-2").mkdir()
    assert cli(*command).json()["data"]["value"] == "images:."
    (here / "fold-1-of-2").rmdir()
    (here / "train-00000-of-00001").write_bytes(b"")
    assert cli(*command).json()["data"]["value"] == "tfrecord:./*-of-*"
