"""`toolkit plugins check` and `toolkit plugins show`."""

import pytest
from file_fixtures import read_json
from linear_fixtures import LINEAR, write_bars

from toolkit.testing import contracts

EXTENSION = """
from toolkit import Options, hookimpl, option

class FactorOptions(Options):
    factor: float = option(1.0, "factor of the loss")

@hookimpl
def options():
    return FactorOptions

@hookimpl(wrapper=True)
def loss(run):
    losses = yield
    return losses * run.options.factor
"""
ONE_STEP = ["--steps", 1, "--steps-per-call", 1, "--no-evaluate", "--run-dir", "run"]
ZERO = "an-extension-at-zero-strength-changes-nothing"


def test_each_contract_has_a_line_and_the_last_line_counts_them(cli, monkeypatch):
    names = ["options-have-types-and-help", "the-global-step-advances-by-one", ZERO]
    monkeypatch.setattr(contracts, "ALL", [each for each in contracts.ALL if each.name in names])
    result = cli("plugins", "check", LINEAR)
    lines = result.out.splitlines()
    assert result.code == 0 and len(lines) == 4
    assert lines[0].startswith("ok       options-have-types-and-help: Each option has a type")
    assert lines[2].startswith(f"skipped  {ZERO}: no extension is checked")
    assert lines[3].startswith("3 contracts in ")
    assert lines[3].endswith(", on synthetic images: 2 ok, 0 failed, 1 skipped")


def test_contracts_are_chosen_by_a_word_and_the_first_broken_one_may_be_the_last(cli):
    argv = ["plugins", "check", "faulty_plugins:NoHelp", "-k", "options-"]
    for more, first_words in (([], ["failed", "ok"]), (["-x"], ["failed"])):
        text = f"NoHelp breaks 1 of {len(first_words)} contracts: options-have-types-and-help."
        result = cli.refuse(6, text, *argv, *more)
        assert [line.split()[0] for line in result.out.splitlines()[:-1]] == first_words
    result = cli.refuse(2, "No contract is named with lorns.", *argv[:2], LINEAR, "-k", "lorns")
    assert "learns-eight-examples" in result.err


def test_the_help_has_the_flags_of_an_installed_plugin(cli):
    assert "--network" in cli("plugins", "check", "classifier", "--help", "classifier").out


@pytest.mark.parametrize(
    "argv, code, text",
    [
        (["check", "clasifier"], 2, "Did you mean 'classifier'?"),
        (["check", LINEAR, "--gain", "x"], 2, "gain"),
        (["show", "classifier", "--network", "mlp"], 2, "No such option"),  # of a summary
        (["show", "classifier", "--with", "ema"], 2, "--with is set, but --summary is not."),
        (["show", "--summary"], 2, "Missing argument 'NAME'"),
        (["show", "classifier", "--summary", "--with", "absent"], 2, "no extension 'absent'."),
        (["show", "classifier", "--summary", "--data", "npz:absent.npz"], 4, "absent.npz"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_mistake_is_one_sentence(cli, argv, code, text):
    cli.refuse(code, text, "plugins", *argv)


def test_show_names_the_place_of_each_hook_and_which_it_wraps(cli, here):
    (here / "factor.py").write_text(EXTENSION)
    facts = cli("plugins", "show", "./factor.py", "--json").json()
    assert facts["kind"] == "extension"
    rows = [(row["hook"], row["wraps"], row["place"]) for row in facts["implementations"]]
    path = str(here / "factor.py")
    assert rows == [("options", False, f"{path}:7"), ("loss", True, f"{path}:11")]
    assert f"loss     wraps  {path}:11" in cli("plugins", "show", "./factor.py").out


def test_the_summary_has_each_variable_and_the_sizes(cli, here):
    data = write_bars(here / "bars.npz")
    out = cli("plugins", "show", LINEAR, "--summary", "--data", data).out
    assert "linear/w  36x3   108" in out and "linear/b  3      3" in out
    assert "linear  111" in out
    assert "111 parameters in 2 variables: 111 are trained, 0 are not" in out
    assert "VARIABLE  SHAPE  PARAMETERS" in out and "HOOK" not in out and "OPTION" not in out


def test_the_summary_takes_the_flags_of_a_run_and_is_that_of_the_manifest(cli, here):
    flags = ["--data", write_bars(here / "bars.npz"), "--freeze", "*/bias", "--network", "mlp"]
    flags += ["--with", "ema", "--batch-size", 8]
    facts = cli.succeed("plugins", "show", "classifier", "--summary", "--json", *flags).json()
    cli.succeed("run", "--plugin", "classifier", *flags, *ONE_STEP)
    assert read_json("run", "manifest.json")["model"] == facts["model"]
    parameters = facts["model"]["parameters"]
    assert sum(each["numbers"] for each in facts["variables"]) == parameters
    assert sum(each["parameters"] for each in facts["scopes"].values()) == parameters
