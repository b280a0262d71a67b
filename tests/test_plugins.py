"""Plugins: found by metadata, refused before anything is registered, asked in order."""

from __future__ import annotations

import os
import sys

import pytest
from graph_fixtures import make_plugin
from linear_fixtures import Linear

from toolkit import Options, ToolkitError, UsageError, hookimpl, option
from toolkit.plugins import Plugins, implemented, installed, load

ME = os.path.abspath(__file__)


def line_of(function):
    return f"{ME}:{function.__code__.co_firstlineno}"


# ---------------------------------------------------------------------- refused before registration


def test_a_default_is_refused_because_pluggy_would_never_pass_the_argument():
    class Bad(Linear):
        @hookimpl
        def build(self, run=None):
            return run

    with pytest.raises(UsageError) as caught:
        make_plugin(Bad, "bad")
    assert caught.value.message == (
        f"Hook 'build' of plugin 'bad' ({line_of(Bad.build)}) gives 'run' a default,"
        " so it would never be passed."
    )
    assert caught.value.hint == "Leave the default out."


def test_star_arguments_are_refused_with_the_arguments_there_are():
    class Bad(Linear):
        @hookimpl
        def call(self, *args):
            return args

    class Worse(Linear):
        @hookimpl
        def call(self, **rest):
            return rest

    for cls in (Bad, Worse):
        with pytest.raises(UsageError, match="Hook 'call' of plugin 'bad' .* takes \\*") as caught:
            make_plugin(cls, "bad")
        assert caught.value.hint == "It may take model, features, labels, run."


def test_an_unknown_argument_is_told_with_plugin_hook_and_place():
    class Bad(Linear):
        @hookimpl
        def loss(self, logits):
            return logits

    with pytest.raises(UsageError) as caught:
        make_plugin(Bad, "bad")
    assert caught.value.message == (
        f"Hook 'loss' of plugin 'bad' ({line_of(Bad.loss)}) takes an unknown argument 'logits'."
    )
    assert caught.value.hint == "It may take model, features, labels, outputs, run."


def test_a_refused_plugin_leaves_nothing_half_registered():
    class Bad(Linear):
        @hookimpl
        def run_finished(self, sumary):
            pass

    with pytest.raises(UsageError, match="'sumary'"):
        make_plugin(Bad)
    # The same name is free, and the class's good hooks answer to nobody.
    assert Plugins(make_plugin(Linear)).has("build")
    assert not Plugins(make_plugin(Linear)).has("run_finished")


def test_a_misspelt_hook_is_told_with_the_nearest_one():
    class Bad(Linear):
        @hookimpl
        def metric(self, labels):
            return {}

    with pytest.raises(UsageError, match="Hook 'metric' of plugin 'bad' .* is unknown") as caught:
        make_plugin(Bad, "bad")
    assert caught.value.hint == "Did you mean 'metrics'?"
    assert line_of(Bad.metric) in caught.value.message


def test_an_optional_hook_of_another_version_is_taken_silently():
    class Newer(Linear):
        @hookimpl(optionalhook=True)
        def hook_of_the_future(self):
            return 1

    assert Plugins(make_plugin(Newer)).model.name == "tiny"


def test_missing_model_hooks_are_named():
    class Half:
        @hookimpl
        def build(self):
            return 1

    with pytest.raises(
        UsageError, match="lacks the model hooks call, loss, optimize, predict"
    ) as e:
        make_plugin(Half, "half")
    assert e.value.hint == "A model plugin implements build, call, loss, optimize, predict."
    assert f"Plugin 'half' ({ME})" in e.value.message


def test_an_unmarked_function_is_told_to_be_marked():
    class Unmarked(Linear):
        def predict(self, outputs):
            return outputs

    with pytest.raises(UsageError, match="lacks the model hook predict") as caught:
        make_plugin(Unmarked)
    assert caught.value.hint == "Mark the function 'predict' with @toolkit.hookimpl."


def test_an_extension_may_not_take_the_model_plugins_place():
    class Thief:
        @hookimpl
        def predict(self, outputs):
            return outputs

    with pytest.raises(UsageError, match="Hook 'predict' .* takes the model plugin's place") as e:
        make_plugin(Thief, "thief", "extension")
    assert "wrapper=True" in e.value.hint


def test_a_model_plugin_may_not_wrap_its_own_hook():
    class Selfish(Linear):
        @hookimpl(wrapper=True)
        def predict(self, outputs):
            return (yield)

    with pytest.raises(UsageError, match="Hook 'predict' of plugin 'tiny' .* wraps itself"):
        make_plugin(Selfish)


def test_two_plugins_of_one_name_are_refused():
    with pytest.raises(UsageError, match="'linear' is named twice"):
        Plugins(make_plugin(Linear, "linear"), [make_plugin(Linear, "linear", "model")])


def test_the_same_extension_twice_is_refused():
    class Listener:
        @hookimpl
        def run_finished(self):
            pass

    twice = [make_plugin(Listener, "ear", "extension"), make_plugin(Listener, "ear", "extension")]
    with pytest.raises(UsageError, match="'ear' is named twice"):
        Plugins(make_plugin(Linear), twice)


# ------------------------------------------------------------------------------------------- asking


@pytest.mark.parametrize("hook", ["build", "call", "loss", "optimize", "predict"])
def test_a_model_hook_that_forgets_its_return_is_named_with_its_line(hook):
    forgets = {hook: hookimpl(lambda self: None)}
    plugin = make_plugin(type("Forgets", (Linear,), dict(forgets, __module__=__name__)), "forgets")
    with pytest.raises(ToolkitError) as caught:
        Plugins(plugin).ask(
            hook, **dict.fromkeys(["model", "features", "labels", "outputs", "losses", "run"])
        )
    place = line_of(forgets[hook])
    assert caught.value.message == f"Hook '{hook}' of plugin 'forgets' returned None ({place})."
    assert caught.value.exit_code == 1


def test_a_fault_in_a_hook_is_told_with_plugin_hook_and_line():
    class Faulty(Linear):
        @hookimpl
        def build(self, run):
            return 1 / 0

    with pytest.raises(ToolkitError) as caught:
        Plugins(make_plugin(Faulty, "faulty")).ask("build", run=None)
    line = Faulty.build.__code__.co_firstlineno + 2
    assert caught.value.message == (
        "Plugin 'faulty' failed in its hook 'build': ZeroDivisionError: division by zero"
        f" ({ME}:{line})."
    )
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_a_fault_of_an_extension_is_told_as_the_extensions(here):
    (here / "upset.py").write_text(
        "from toolkit import hookimpl\n@hookimpl\ndef run_finished():\n    raise KeyError('x')\n"
    )
    asked = Plugins(make_plugin(Linear), [load("./upset.py", "extension")])
    with pytest.raises(
        ToolkitError, match="Plugin 'upset' failed in its hook 'run_finished': KeyE"
    ):
        asked.ask("run_finished", run=None, summary={})


def test_a_toolkit_error_of_a_plugin_passes_as_it_is():
    class Strict(Linear):
        @hookimpl
        def build(self, run):
            raise UsageError("Too small.", hint="Grow.")

    with pytest.raises(UsageError, match="^Too small.\nGrow.$"):
        Plugins(make_plugin(Strict)).ask("build", run=None)


def wrapper(letter):
    class Wraps:
        @hookimpl(wrapper=True)
        def predict(self, outputs):
            answer = yield
            return f"{letter}({answer})"

    return make_plugin(Wraps, letter, "extension")


def test_the_wrapper_that_is_named_later_runs_outside():
    class Plain(Linear):
        @hookimpl
        def predict(self):
            return "x"

    asked = Plugins(make_plugin(Plain), [wrapper("a"), wrapper("b")])
    assert asked.ask("predict", model=None, features=None, outputs=None, run=None) == "b(a(x))"


def test_the_additive_hooks_of_all_plugins_answer():
    class Counts:
        @hookimpl
        def metrics(self):
            return {"count": 1}

    class Measures(Linear):
        @hookimpl
        def metrics(self):
            return {"size": 2}

    asked = Plugins(make_plugin(Measures), [make_plugin(Counts, "counts", "extension")])
    nothing = dict.fromkeys(["model", "features", "labels", "outputs", "run"])
    assert {"count": 1} in asked.ask("metrics", **nothing)
    assert {"size": 2} in asked.ask("metrics", **nothing)


def test_the_hooks_of_a_plugin_are_found_by_their_marks():
    found = set(implemented(make_plugin(Linear)))
    assert found == {"options", "build", "call", "loss", "optimize", "predict", "metrics"}


# ------------------------------------------------------------------------------------------ options


class Steps(Options):
    steps: int = option(1, "steps of my own", unit="steps")


class Gain(Options):
    gain: float = option(1.0, "gain", unit="times")


def with_options(cls, name, base=Linear, kind="model"):
    return make_plugin(
        type("P", (base,), {"options": hookimpl(lambda self: cls), "__module__": __name__}),
        name,
        kind,
    )


def test_an_option_of_the_core_declared_again_names_both_owners():
    from toolkit.options import merge

    with pytest.raises(
        UsageError, match="Option 'steps' of plugin 'a' is .* of the core"
    ) as caught:
        merge(Plugins(with_options(Steps, "a")).options())
    assert "core_defaults" in caught.value.hint


def test_an_option_declared_by_two_plugins_names_both_owners():
    from toolkit.options import merge

    both = Plugins(with_options(Gain, "a"), [with_options(Gain, "b", object, "extension")])
    with pytest.raises(UsageError, match="Option 'gain' of plugin 'b' is .* of plugin 'a'"):
        merge(both.options())


def test_options_that_are_no_options_class_are_refused():
    with pytest.raises(ToolkitError, match="Hook 'options' of plugin 'a' returned {'gain': 1}"):
        Plugins(with_options({"gain": 1}, "a")).options()


# ------------------------------------------------------------------------------------------ finding

SOURCE = """
from toolkit import hookimpl
@hookimpl
def build(): return 'built'
@hookimpl
def call(): return {}
@hookimpl
def loss(): return 0
@hookimpl
def optimize(): return 0
@hookimpl
def predict(): return {}
"""


def distribution(site, name, points, module="", version="1.0"):
    """A folder as pip leaves one: metadata, entry points, and maybe a module."""
    folder = site / f"{name}-{version}.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (folder / "entry_points.txt").write_text(points)
    if module:
        (site / (module + ".py")).write_text(SOURCE)


@pytest.fixture
def site(here, monkeypatch):
    folder = here / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    return folder


def entry(name):
    return [e for e in installed() if e.name == name]


def test_an_installed_plugin_is_found_by_its_name(site):
    distribution(site, "one-dist", "[toolkit.plugins]\none = one_module\n", "one_module")
    found = load("one")
    assert (found.name, found.distribution) == ("one", "one-dist 1.0")
    assert Plugins(found).ask("build", run=None) == "built"


def test_listing_reads_metadata_and_imports_nothing(site):
    distribution(site, "one-dist", "[toolkit.extensions]\none = one_module\n", "one_module")
    (found,) = entry("one")
    assert found[:6] == ("one", "extension", "one_module", "one-dist", "1.0", "ok")
    assert "one_module" not in sys.modules


def test_two_distributions_with_one_name_are_a_conflict_that_names_both(site, cli):
    distribution(site, "first-dist", "[toolkit.plugins]\nsame = first_module\n", "first_module")
    distribution(site, "other-dist", "[toolkit.plugins]\nsame = other_module\n", "other_module")
    assert [(e.distribution, e.state, e.reason) for e in sorted(entry("same"))] == [
        ("first-dist", "conflict", "also offered by other-dist"),
        ("other-dist", "conflict", "also offered by first-dist"),
    ]
    with pytest.raises(UsageError, match="'same' is offered by first-dist and by other-dist") as e:
        load("same")
    assert "first_module:, other_module:" in e.value.hint
    assert cli("plugins", "show", "same").code == 1


def test_the_hint_of_a_conflict_works(site):
    distribution(site, "first-dist", "[toolkit.plugins]\nsame = first_module\n", "first_module")
    distribution(site, "other-dist", "[toolkit.plugins]\nsame = other_module\n", "other_module")
    assert load("other_module:").file.endswith("other_module.py")


def test_one_distribution_seen_through_two_paths_is_one_plugin(site, here, monkeypatch):
    for folder in (site, here / "again"):
        distribution(folder, "one-dist", "[toolkit.plugins]\none = one_module\n", "one_module")
    monkeypatch.syspath_prepend(str(here / "again"))
    assert [e.state for e in entry("one")] == ["ok"]


def test_an_entry_point_without_a_module_is_listed_as_broken(site, cli):
    distribution(site, "gone-dist", "[toolkit.plugins]\ngone = gone_module\n")
    (found,) = entry("gone")
    assert (found.state, found.reason) == ("broken", "module 'gone_module' cannot be found")
    listed = cli("plugins", "list")
    assert listed.code == 0
    assert "broken: module 'gone_module' cannot be found" in listed.out
    assert cli("plugins", "show", "gone").code == 1
    with pytest.raises(ToolkitError, match="gone_module"):
        load("gone")


def test_a_plugin_that_cannot_be_imported_is_told_with_its_line(site):
    distribution(site, "ill-dist", "[toolkit.plugins]\nill = ill_module\n")
    (site / "ill_module.py").write_text("x = 1\nraise RuntimeError('no GPU')\n")
    with pytest.raises(ToolkitError, match="'ill' cannot be imported: RuntimeError: no GPU") as e:
        load("ill")
    assert "ill_module.py:2" in e.value.message
    assert e.value.exit_code == 1


def test_a_broken_plugin_does_not_stand_in_the_way_of_another(site):
    distribution(site, "gone-dist", "[toolkit.plugins]\ngone = gone_module\n")
    distribution(site, "one-dist", "[toolkit.plugins]\none = one_module\n", "one_module")
    assert load("one").name == "one"


def test_an_unknown_name_is_told_with_the_nearest(site):
    distribution(site, "one-dist", "[toolkit.plugins]\nautoenc = one_module\n", "one_module")
    with pytest.raises(UsageError, match="There is no plugin 'autoenk'") as caught:
        load("autoenk")
    assert caught.value.hint == "Did you mean 'autoenc'?"


def test_an_extension_in_the_place_of_a_plugin_is_told_where_it_goes(site):
    distribution(site, "ext-dist", "[toolkit.extensions]\naverage = avg_module\n", "avg_module")
    with pytest.raises(UsageError, match="There is no plugin 'average'") as caught:
        load("average")
    assert caught.value.hint == "It is an extension: write --with average."


# ----------------------------------------------------------------------- files and module:attribute


def test_a_file_is_a_plugin_named_by_its_stem(here):
    (here / "mine.py").write_text(SOURCE)
    found = load("./mine.py")
    assert (found.name, found.file) == ("mine", str(here / "mine.py"))
    assert list(found.sha256()) == ["mine.py"]
    assert Plugins(found).ask("build", run=None) == "built"


def test_a_file_may_import_its_neighbour(here):
    (here / "neighbour_of_mine.py").write_text("ANSWER = 42\n")
    (here / "importer.py").write_text(SOURCE + "from neighbour_of_mine import ANSWER\n")
    assert load("importer.py").object.ANSWER == 42


def test_a_file_with_the_name_of_an_imported_module_is_loaded_as_itself(here):
    (here / "json.py").write_text(
        SOURCE + "from typing import List as Rows\nfrom toolkit import Options, option\n"
        "class Mine(Options):\n    sizes: 'Rows[int]' = option([1], 'sizes', unit='units')\n"
        "@hookimpl\ndef options(): return Mine\n"
    )
    import json

    found = load("./json.py")
    assert sys.modules["json"] is json
    ((_, cls),) = Plugins(found).options()
    assert cls().sizes == [1]


def test_a_file_that_is_not_there_is_told(here):
    with pytest.raises(UsageError, match="There is no plugin file './nothing.py'"):
        load("./nothing.py")


def test_a_module_and_attribute_name_a_plugin(here):
    (here / "pack_of_mine.py").write_text(
        "class Inner:\n" + SOURCE.replace("\n", "\n    ").replace("()", "(self)")
    )
    found = load("pack_of_mine:Inner")
    assert (found.name, found.reference) == ("Inner", "pack_of_mine:Inner")
    assert Plugins(found).ask("build", run=None) == "built"


def test_a_module_without_an_attribute_is_itself_the_plugin(here):
    (here / "whole_module.py").write_text(SOURCE)
    assert load("whole_module:").name == "whole_module"


def test_an_unknown_attribute_is_told_with_the_nearest():
    with pytest.raises(
        UsageError, match="Module 'linear_fixtures' has no attribute 'Liner'"
    ) as caught:
        load("linear_fixtures:Liner")
    assert caught.value.hint == "Did you mean 'Linear'?"


def test_an_unknown_module_is_told():
    with pytest.raises(UsageError, match="There is no module 'no_such_module'"):
        load("no_such_module:Thing")


def test_a_package_is_hashed_file_by_file(here):
    package = here / "pkg_of_mine"
    package.mkdir()
    (package / "__init__.py").write_text(SOURCE)
    (package / "part.py").write_text("")
    hashes = load("pkg_of_mine:").sha256()
    assert sorted(hashes) == ["pkg_of_mine/__init__.py", "pkg_of_mine/part.py"]
    empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert hashes["pkg_of_mine/part.py"] == empty


# --------------------------------------------------------------------------------- the command line


def test_show_tells_hooks_and_options(cli):
    shown = cli("plugins", "show", "linear_fixtures:Linear")
    assert shown.code == 0
    assert "options, build, call, loss, optimize, predict, metrics" in shown.out
    assert "gain" in shown.out and "times" in shown.out


def test_show_of_an_unknown_name_exits_2_with_the_nearest(cli):
    shown = cli("plugins", "show", "clasifier")
    assert shown.code == 2 and shown.out == ""
    assert "There is no plugin 'clasifier'.\nDid you mean 'classifier'?" in shown.err


@pytest.mark.parametrize("reference", [":", ".a:", "a..b:", "a b:c"])
def test_what_names_no_module_is_a_mistake_of_usage(reference):
    with pytest.raises(UsageError, match="names no module"):
        load(reference)


def test_a_plugin_that_is_no_python_is_told_by_its_line_alone(tmp_path):
    path = tmp_path / "bad.py"
    path.write_text("x = 1\ndef build(\n")
    with pytest.raises(ToolkitError, match="cannot be imported: SyntaxError: ") as told:
        load(str(path))
    assert "(bad.py, line " in told.value.message and "frozen" not in told.value.message
