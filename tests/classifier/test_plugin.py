"""The plugin as a whole: its hooks, its options, and what importing it costs."""

from __future__ import annotations

import importlib
import inspect

import process_fixtures
import pytest
import toolkit_classifier as plugin
from classifier_fixtures import options
from toolkit_classifier.options import ClassifierOptions

from toolkit import UsageError
from toolkit.plugins import hook_names, load

MODEL_HOOKS = ["build", "call", "loss", "optimize", "predict"]
HOOKS = ["options", *MODEL_HOOKS, "metrics", "example_metrics", "metric_directions", "evaluated"]


def test_all_hooks_are_implemented_and_remain_so_when_their_modules_are_imported():
    assert hook_names(load("classifier")) == HOOKS
    for name in ("losses", "metrics", "networks", "options", "reports"):
        importlib.import_module("toolkit_classifier." + name)
    assert inspect.ismodule(plugin.metrics) and inspect.ismodule(plugin.options)
    assert hook_names(load("classifier")) == HOOKS


def test_importing_the_plugin_and_reading_its_options_imports_no_tensorflow():
    code = (
        "import sys, toolkit_classifier as p\n"
        "assert p.options().__name__ == 'ClassifierOptions'\n"
        "assert not {name.split('.')[0] for name in sys.modules} & {'tensorflow', 'tf_keras'}"
    )
    assert process_fixtures.run(fresh=True, statements=code).code == 0


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


def test_lists_are_parsed_from_text():
    assert options(hidden="256,64").hidden == [256, 64]
    assert options(class_weights="1,0.5").class_weights == "1,0.5"
