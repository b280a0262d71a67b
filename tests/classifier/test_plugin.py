"""The plugin as a whole: its hooks, its options, and what importing it costs."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pluggy
import pytest
import toolkit_classifier as plugin
from classifier_fixtures import options
from toolkit_classifier.settings import ClassifierOptions

from toolkit import UsageError, hookspecs

HOOKS = ["build", "call", "evaluated", "loss", "metrics", "optimize", "options", "predict"]


def registered():
    manager = pluggy.PluginManager(hookspecs.PROJECT)
    manager.add_hookspecs(hookspecs)
    manager.register(plugin)
    manager.check_pending()
    return sorted(caller.name for caller in manager.get_hookcallers(plugin))


def test_all_hooks_are_found_and_found_again_after_their_modules_were_loaded():
    from toolkit_classifier import measures, networks, reports  # noqa: F401

    assert registered() == HOOKS
    assert registered() == HOOKS


def test_no_module_takes_the_name_of_a_hook():
    assert not [name for name in HOOKS if not inspect.isfunction(getattr(plugin, name))]


def test_importing_the_plugin_and_reading_its_options_imports_no_tensorflow():
    code = "import sys, toolkit_classifier as p; p.options(); sys.exit('tensorflow' in sys.modules)"
    assert subprocess.call([sys.executable, "-c", code]) == 0


def test_every_option_has_a_line_of_help_without_a_full_stop():
    for name, field in ClassifierOptions.model_fields.items():
        assert field.description and not field.description.endswith("."), name


@pytest.mark.parametrize(
    "name, value",
    [
        ("network", "vgg"),
        ("hidden", "0"),
        ("hidden", ""),
        ("dropout", "1"),
        ("label_smoothing", "1"),
        ("class_weights", "1,x"),
        ("class_weights", "0,0"),
        ("class_weights", "1,-1"),
        ("class_weights", "1,nan"),
        ("shift", "-1"),
        ("zoom", "0.9"),
        ("top_k", "0"),
    ],
)
def test_a_value_out_of_range_is_refused_with_its_name(name, value):
    with pytest.raises(UsageError, match=f"Option '{name}' is"):
        options(**{name: value})


def test_lists_are_read_from_text():
    assert options(hidden="256,64").hidden == [256, 64]
    assert options(class_weights="1,0.5").class_weights == "1,0.5"
