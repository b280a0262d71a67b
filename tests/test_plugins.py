"""Plugins: listed by metadata, checked before anything is registered, called in order."""

import importlib
import inspect
import sys

import numpy as np
import pytest
from graph_fixtures import make_plugin
from linear_fixtures import Linear

from toolkit import (
    DataError,
    Split,
    ToolkitError,
    UsageError,
    check_features,
    check_image_size,
    hookimpl,
)
from toolkit.data.examples import describe
from toolkit.hookspecs import MODEL_HOOKS
from toolkit.plugins import Plugins, hook_names, list_plugins, load


def test_two_plugins_of_one_name_and_one_plugin_of_two_names_are_refused():
    listens = {"run_finished": hookimpl(lambda self: None)}
    ear, again = (type("Listener", (), listens)() for _ in range(2))
    for first, second, message in [
        ((ear, "ear"), (again, "ear"), "'ear' is named twice"),
        ((ear, "tiny"), (again, "other"), "'tiny' is named twice"),
        ((ear, "ear"), (ear, "other"), "^'ear' and 'other' are the same plugin.$"),
    ]:
        extensions = [make_plugin(*each, "extension") for each in (first, second)]
        with pytest.raises(UsageError, match=message):
            Plugins(make_plugin(Linear), extensions)


class Averaging(Linear):
    """A model plugin that brings an extension."""

    @hookimpl
    def default_extensions(self):
        return ["ema"]


def test_the_extensions_that_a_plugin_brings_are_loaded_and_not_recorded_as_named():
    plugins = Plugins(make_plugin(Averaging), [load("gradient-noise", "extension")])
    assert [plugin.name for plugin in plugins.all][1:] == ["ema", "gradient-noise"]
    assert [plugin.name for plugin in plugins.extensions] == ["gradient-noise"]
    names = [name for name, _ in plugins.options()]
    assert names[-2:] == ["ema", "gradient-noise"] and len(names) == len(set(names))


def test_an_extension_that_is_named_as_well_is_loaded_once():
    plugins = Plugins(make_plugin(Averaging), [load("ema", "extension")])
    assert [plugin.name for plugin in plugins.all][1:] == ["ema"] and not plugins.defaults


SOURCE = "from toolkit import hookimpl\n" + "".join(
    f"@hookimpl\ndef {hook}(): pass\n" for hook in MODEL_HOOKS
)


def distribution(site, name, points, module="", version="1.0"):
    """A folder as pip leaves one: metadata, entry points, and maybe a module."""
    folder = site / f"{name}-{version}.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (folder / "entry_points.txt").write_text(points)
    if module:
        (site / (module + ".py")).write_text(SOURCE)


def entry(name):
    return [e for e in list_plugins() if e.name == name]


def test_two_distributions_with_one_name_are_a_conflict_that_names_both(site, cli):
    distribution(site, "first-dist", "[toolkit.plugins]\nsame = first_module\n", "first_module")
    distribution(site, "other-dist", "[toolkit.plugins]\nsame = other_module\n", "other_module")
    assert [(e.distribution, e.state, e.reason) for e in sorted(entry("same"))] == [
        ("first-dist", "conflict", "also provided by other-dist"),
        ("other-dist", "conflict", "also provided by first-dist"),
    ]
    with pytest.raises(UsageError, match="'same' is provided by first-dist and by other-dist") as e:
        load("same")
    hint = "Uninstall one of them, or name one of first_module:, other_module: instead."
    assert e.value.hint == hint
    assert cli("plugins", "show", "same").code == 2


def test_one_distribution_seen_through_two_paths_is_one_plugin(site, here, monkeypatch):
    points = "[toolkit.plugins]\none = one_module\n"
    distribution(site, "one-dist", points, "one_module")
    distribution(here / "again", "one-dist", points, "one_module", "0.9")
    monkeypatch.syspath_prepend(str(here / "again"))
    assert [(e.version, e.state) for e in entry("one")] == [("0.9", "ok")]
    assert load("one").distribution == "one-dist 0.9"


def test_the_hint_for_an_extension_given_as_plugin_is_its_flag(site):
    distribution(site, "ext-dist", "[toolkit.extensions]\naverage = avg_module\n", "avg_module")
    with pytest.raises(UsageError, match="There is no plugin 'average'") as caught:
        load("average")
    assert caught.value.hint == "It is an extension: write --with average."


def test_a_file_with_the_name_of_an_imported_module_is_loaded_as_itself(here):
    (here / "json.py").write_text(
        SOURCE + "from typing import List as Rows\nfrom toolkit import Options, option\n"
        "class Mine(Options):\n    sizes: 'Rows[int]' = option([1], 'sizes', unit='units')\n"
        "@hookimpl\ndef options(): return Mine\n"
    )
    import json

    plugin = load("./json.py")
    assert sys.modules["json"] is json
    ((_, cls),) = Plugins(plugin).options()
    assert cls().sizes == [1]


def test_a_file_is_executed_once_until_it_changes(here):
    (here / "mine.py").write_text(SOURCE)
    module = load("./mine.py").object
    assert load(str(here / "mine.py")).object is module
    (here / "mine.py").write_text(SOURCE + "has_changed = True\n")
    assert load("./mine.py").object.has_changed


def test_a_file_that_fails_leaves_no_module(here):
    (here / "half_made.py").write_text("import absent_module\n")
    with pytest.raises(ToolkitError, match="No module named 'absent_module'"):
        load("./half_made.py")
    assert "half_made" not in sys.modules


def test_show_lists_hooks_and_options(cli):
    result = cli("plugins", "show", "linear_fixtures:Linear").ok()
    assert "options, build, call, loss, optimize, predict, metrics" in result.out
    assert "gain" in result.out and "times" in result.out


@pytest.mark.parametrize(
    "name, message",
    [
        ("clasifier", "There is no plugin 'clasifier'.\nDid you mean 'classifier'?"),
        ("absent.py", "There is no plugin file 'absent.py'."),
        ("./absent", "There is no plugin file './absent'."),
        (
            "linear_fixtures:Liner",
            "Module 'linear_fixtures' has no attribute 'Liner'.\nDid you mean 'Linear'?",
        ),
        ("absent_module:", "There is no module 'absent_module'"),
        ("a..b:", "names no module"),
    ],
)
def test_show_of_what_does_not_exist_exits_2(cli, name, message):
    result = cli.refuse(2, message, "plugins", "show", name)
    assert result.out == "" and result.err.startswith("Error: ")


PACKAGE = (
    SOURCE.replace("def loss(): pass", "def loss():\n    from .loss import total; return total()")
    + """
from toolkit import Options, option
class MyOptions(Options):
    gain: float = option(1.0, "gain", unit="times")
@hookimpl
def options(): return MyOptions
"""
)
SUBMODULES = {"options": "", "loss": "def total(): return 'total'\n", "call": ""}


@pytest.fixture(params=["first", "last", "never"])
def package(request, site):
    """The reference of a package whose submodules have hooks' names.

    The package imports them itself before it defines its hooks, or afterwards, or leaves that to
    its hooks and to the tests.
    """
    name = f"package_that_imports_{request.param}"
    imports = f"from . import {', '.join(SUBMODULES)}\n"
    first, last = (imports * (request.param == place) for place in ("first", "last"))
    (site / name).mkdir()
    for module, text in dict(SUBMODULES, __init__=first + PACKAGE + last).items():
        (site / name / f"{module}.py").write_text(text)
    return name + ":"


def check_hooks_of_package(plugins):
    names = ["options", "build", "call", "loss", "optimize", "predict"]
    assert hook_names(plugins.model) == names
    arguments = dict.fromkeys(["model", "features", "labels", "outputs", "run"])
    assert plugins.call_hook("loss", **arguments) == "total"
    ((_, options_class),) = plugins.options()
    assert options_class().gain == 1.0


def test_a_submodule_with_a_hooks_name_does_not_replace_the_hook(package):
    plugins = Plugins(load(package))
    check_hooks_of_package(plugins)
    for module in SUBMODULES:
        importlib.import_module(package.rstrip(":") + "." + module)
    replaced = "first" not in package  # otherwise the definition of the hook came last
    assert inspect.ismodule(plugins.model.object.call) == replaced
    check_hooks_of_package(plugins)


def test_lazy_modules_imports_a_submodule_when_it_is_first_used(site):
    (site / "lazy_package").mkdir()
    (site / "lazy_package" / "__init__.py").write_text(
        "from toolkit import LazyModules\nmodules = LazyModules(__name__)\n"
        "def part(): return modules.part.ANSWER\n"
    )
    (site / "lazy_package" / "part.py").write_text("ANSWER = 42\n")
    package = importlib.import_module("lazy_package")
    function = package.part
    assert "lazy_package.part" not in sys.modules
    assert (function(), function()) == (42, 42)  # the second call finds a module named `part`
    with pytest.raises(ImportError, match="lazy_package.nothing"):
        package.modules.nothing  # noqa: B018


@pytest.mark.parametrize(
    "shape, message",
    [
        ((7, 8, 1), "needs images of 8 x 8 pixels or more, but the data has 7 x 8."),
        ((30, 7, 1), "needs images of 8 x 8 pixels or more, but the data has 30 x 7."),
        ((64,), "needs images [H, W, C], but an example of the data has shape [64]."),
    ],
)
def test_examples_that_are_no_images_or_too_small_are_refused(shape, message):
    assert check_image_size((8, 8, 1), 8, "Network 'cnn'", "Set network=mlp") is None
    with pytest.raises(UsageError) as caught:
        check_image_size(shape, 8, "Network 'cnn'", "Set network=mlp")
    assert caught.value.message == f"Network 'cnn' {message}"
    assert caught.value.hint.startswith("Set network=mlp")


@pytest.mark.parametrize(
    "features, text",
    [
        ({"a": np.zeros((2, 3)), "b": np.zeros((2, 3))}, "the data has the features a, b"),
        (np.zeros((2, 3), np.int32), "the features of the data are int32 3"),
        (np.array(["a b", "c d"]), "the features of the data are text"),
    ],
)
def test_features_of_another_kind_are_refused_in_one_sentence(features, text):
    with pytest.raises(DataError) as error:
        check_features(describe(Split(features)), "A network")
    assert text in error.value.message and error.value.hint
