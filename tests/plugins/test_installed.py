"""Installed plugins: what is wrong with one is said without an import, and harms no other."""

import os
import re
import sys

import pytest
from file_fixtures import REPOSITORY
from test_imports import modules_after
from test_plugins import SOURCE, distribution

from toolkit import ToolkitError, UsageError
from toolkit.plugins import list_plugins, load
from toolkit.plugins.entry_points import find_unmet

sys.path.append(os.path.join(REPOSITORY, "benchmarks"))
import help_time  # noqa: E402


def offer(site, target, source=None, name="one", requires=(), dist="one-dist"):
    """A distribution that offers a model plugin; its source goes to the module of the target."""
    distribution(site, dist, f"[toolkit.plugins]\n{name} = {target}\n")
    metadata = site / f"{dist}-1.0.dist-info" / "METADATA"
    lines = "".join(f"Requires-Dist: {text}\n" for text in requires)
    metadata.write_text(metadata.read_text() + lines)
    if source is not None:
        path = site.joinpath(*target.partition(":")[0].split("."))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.with_suffix(".py").write_text(source)


def state_of(name):
    (entry,) = [entry for entry in list_plugins() if entry.name == name]
    return f"{entry.state}: {entry.reason}" if entry.reason else entry.state


@pytest.mark.parametrize(
    "target, source, state",
    [
        ("one_module", SOURCE, "ok"),
        ("one_package.inner.deep", SOURCE, "ok"),
        ("absent_module:Model", None, "broken: module 'absent_module' cannot be found"),
    ],
)
def test_the_list_looks_for_the_module_without_importing_it(site, target, source, state):
    offer(site, target, source)
    assert state_of("one") == state
    assert not {"one_module", "one_package"} & set(sys.modules)


def test_a_distribution_that_has_lost_its_metadata_is_not_installed(cli, site):
    offer(site, "one_module", SOURCE)
    (site / "one-dist-1.0.dist-info" / "METADATA").unlink()
    assert "one   " not in cli.succeed("plugins", "list").out


@pytest.mark.parametrize("target", ["absent_module:Model", "one_package.absent:Model", "one"])
def test_an_entry_point_that_names_no_module_is_to_blame(site, target):
    if "." in target:
        offer(site, "one_package.inner", SOURCE, name="two", dist="two-dist")
    offer(site, target)
    module = target.partition(":")[0]
    with pytest.raises(ToolkitError) as caught:
        load("one")
    assert str(caught.value) == (
        "Plugin 'one' cannot be imported: its entry point, of one-dist 1.0, names the module "
        f"'{module}', which does not exist.\n"
        "Reinstall one-dist, or correct the entry point in its pyproject.toml."
    )


def test_a_missing_submodule_of_a_package_is_named(site):
    offer(site, "one_package.part", "")
    (site / "one_package" / "part.py").unlink()
    assert state_of("one") == "broken: module 'one_package.part' cannot be found"
    (site / "one_package").rmdir()
    (site / "one_package.py").write_text("")
    assert state_of("one") == "broken: module 'one_package.part' cannot be found"


MET = ["toolkit>=0.2", "toolkit (>=0.1,<1)", "toolkit>=99; extra == 'test'", "toolkit-other>=99"]
MET += ["toolkit @ https://host/toolkit.whl"]
UNMET = ["toolkit>=0.2.1", "toolkit~=0.1.0"]


@pytest.mark.parametrize("requirement", MET + UNMET)
def test_a_requirement_is_compared_with_this_version(requirement):
    assert (find_unmet(["numpy>=99", requirement], "0.2.0") == "") == (requirement in MET)


def test_a_requirement_that_is_none_breaks_its_own_plugin_alone():
    assert find_unmet(["toolkit>=0.2 &"]) == "needs 'toolkit>=0.2 &', which is no requirement"


def test_a_plugin_that_needs_another_toolkit_is_refused_with_both_versions(site):
    offer(site, "one_module", SOURCE, requires=["numpy", "toolkit (>=99)"])
    assert state_of("one").startswith("broken: needs toolkit>=99, this is 0.2")
    with pytest.raises(UsageError) as caught:
        load("one")
    assert "Plugin 'one' of one-dist 1.0 needs toolkit>=99, this is " in caught.value.message
    assert caught.value.hint == "Install that version of toolkit, or another one of one-dist."


@pytest.mark.parametrize(
    "source, message, hint",
    [
        (
            "from toolkit import hookimp",
            "ImportError: cannot import name 'hookimp' from 'toolkit'",
            "Did you mean 'hookimpl'? This is toolkit 0.2",
        ),
        (
            "from toolkit import Curriculum",
            "ImportError: cannot import name 'Curriculum' from 'toolkit'",
            "This is toolkit 0.2",
        ),
        (
            "from toolkit.graph.run import gone",
            "ImportError: cannot import name 'gone' from 'toolkit.graph.run'",
            "'toolkit.graph.run' is internal; plugins import from 'toolkit' alone.",
        ),
        (
            "import module_that_is_missing.part",
            "ModuleNotFoundError: No module named 'module_that_is_missing'",
            "Install what provides 'module_that_is_missing'.",
        ),
        ("raise SystemExit(0)", "it ended the process (0) ({here}:1)", "does not end the process"),
        ("\nimport json.nothing", "No module named 'json.nothing' ({here}:2)", "provides 'json'"),
        ("import json\njson.loads('')", "JSONDecodeError: Expecting value: line 1", ""),
    ],
)
def test_a_failing_import_names_the_line_of_the_plugin_and_the_way_out(site, source, message, hint):
    offer(site, "one_module", source)
    with pytest.raises(ToolkitError) as caught:
        load("one")
    assert caught.value.exit_code == 1
    assert message.format(here=site / "one_module.py") in caught.value.message
    assert f"({site / 'one_module.py'}:" in caught.value.message
    assert hint in caught.value.hint


def test_the_help_imports_only_the_modules_of_commands_of_fifty_plugins(cli, site):
    help_time.write_distributions(str(site), 50)
    text = cli("--help").out
    assert re.search(r"many_005\s+Do something", text)
    assert re.search(r"many_000\s+broken: Command 'many_000' cannot be", text)
    (modules,) = modules_after([["--help"]], site)
    assert not [name for name in modules if name.startswith("many_") and "_command" not in name]
    assert not {"tensorflow", "numpy", "pydantic", "toolkit.compat"} & modules
