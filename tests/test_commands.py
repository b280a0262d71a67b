"""Commands that installed packages add: listed with their help, called like the core's."""

import sys

import pytest
from test_plugins import distribution

from toolkit.cli.app import _find_driven
from toolkit.errors import UsageError

SOURCE = '''
import sys
import click
from toolkit import CheckFailed, DataError

@click.command()
@click.argument("name")
def greet(name):
    """Greet somebody by name.

    More of it.
    """
    if name == "nobody":
        raise DataError("Nobody is there.", hint="Name somebody.")
    if name == "fault":
        raise ValueError("no such name")
    if name.startswith("exit"):
        sys.exit({"exit": None, "exit 3": 3}.get(name, name))
    click.echo("hello " + name)
    return 6 if name == "six" else 0

@click.group()
def tools():
    """Tools of many kinds."""

@tools.command()
def count():
    """Count."""
    click.echo("1 2 3")

@click.command(hidden=True)
def secret():
    """Not listed."""

number = 3
'''


@pytest.fixture
def offer(site):
    """`offer("greet = added_commands:greet")`: a distribution with that command of a source."""

    def call(*points, name="one-dist", source=SOURCE):
        distribution(site, name, "[toolkit.commands]\n" + "\n".join(points) + "\n")
        (site / "added_commands.py").write_text(source)

    return call


def test_a_driver_gets_the_commands_for_its_runs_alone(here):
    for name, config in (("core", "{}"), ("driven", '{"driver": "stranger"}')):
        (here / name).mkdir()
        (here / name / "config.json").write_text(config)
        (here / name / "commits.jsonl").write_text("")
    with pytest.raises(UsageError, match="'stranger'"):
        _find_driven("resume", ["--json", "driven", "x"])
    for words in (["core", "--init-from", "driven"], ["--init-from", "driven", "core"]):
        assert _find_driven("resume", words) is None


def section(text):
    """The lines below the heading of added commands."""
    _, heading, rest = text.partition("Commands of plugins:\n")
    return [line.split(None, 1) for line in rest.splitlines() if line] if heading else []


def test_help_lists_added_commands_under_a_heading_with_their_short_help(cli, offer):
    before = section(cli("--help").out)
    offer("greet = added_commands:greet", "tools = added_commands:tools")
    rows = section(cli("--help").out)
    assert [row for row in rows if row not in before] == [
        ["greet", "Greet somebody by name."],
        ["tools", "Tools of many kinds."],
    ]


def test_a_hidden_command_is_not_listed_but_may_be_called(cli, offer):
    offer("secret = added_commands:secret")
    assert "secret" not in cli("--help").out
    assert cli("secret").code == 0


@pytest.mark.parametrize(
    "target, source, code, message",
    [
        ("no_such_module_here:x", "", 1, "No module named 'no_such_module_here'"),
        ("added_commands:missing", SOURCE, 2, "has no attribute 'missing'"),
        ("added_commands:number", SOURCE, 1, "is 3, expected a click command"),
        ("added_commands:x", "raise RuntimeError('no GPU')", 1, "RuntimeError: no GPU"),
        ("added_commands:x", "import sys; sys.exit(3)", 1, "it ended the process (3)"),
    ],
    ids=["module", "attribute", "no command", "fault", "exit"],
)
def test_a_broken_command_is_listed_with_the_reason_and_fails_when_it_is_called(
    cli, offer, target, source, code, message
):
    offer("broken = " + target, source=source)
    text = " ".join(cli("--help").ok().out.split())
    assert "broken broken: " in text and message in text
    assert cli.refuse(code, message, "broken").err.startswith("Error: ")


def test_a_command_that_two_packages_offer_is_refused(cli, offer):
    offer("greet = added_commands:greet")
    offer("greet = added_commands:greet", name="two-dist")
    words = "Command 'greet' of one-dist is also provided by two-dist.\nUninst"
    cli.refuse(2, words, "greet", "you")


def test_plugins_list_shows_the_commands_without_importing_them(cli, offer):
    offer("greet = added_commands:greet")
    rows = cli("plugins", "list", "--json").json()
    (row,) = [row for row in rows if row["name"] == "greet"]
    assert (row["kind"], row["distribution"], row["state"]) == ("command", "one-dist", "ok")
    assert "added_commands" not in sys.modules


def test_an_added_command_is_called_by_its_name(cli, offer):
    offer("hail = added_commands:greet", "tools = added_commands:tools")
    assert cli("hail", "you")[:2] == (0, "hello you\n")
    assert cli("tools", "count")[:2] == (0, "1 2 3\n")
    assert "Usage: toolkit hail [OPTIONS] NAME" in cli("hail", "--help").out


@pytest.mark.parametrize(
    "argv, code, message",
    [
        (["greet", "six"], 6, ""),
        (["greet", "nobody"], 4, "Error: Nobody is there.\nName somebody.\n"),
        (["greet"], 2, "Missing argument 'NAME'"),
        (["greet", "fault"], 1, "Error: Command 'greet' failed: ValueError: no such name ("),
        (["greet", "exit"], 0, ""),
        (["greet", "exit 3"], 3, ""),
        (["greet", "exit \x1b"], 1, "Error: exit \\x1b\n"),
        (["gret", "you"], 2, "There is no command 'gret'.\nDid you mean 'greet'?"),
    ],
    ids=["code", "toolkit error", "usage", "fault", "exit", "exit 3", "exit text", "misspelt"],
)
def test_an_added_command_has_the_exit_codes_and_messages_of_the_core(
    cli, offer, argv, code, message
):
    offer("greet = added_commands:greet")
    cli.refuse(code, message, *argv)


def test_a_name_of_the_core_stays_the_cores(cli, offer):
    offer("data = added_commands:greet")
    assert "mnist5k" in cli("data", "list").out
    assert "data" not in [name for name, _ in section(cli("--help").out)]
