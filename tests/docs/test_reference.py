"""The reference, for authors of plugins and on the site, is that of the sources."""

import importlib
import os
import re
import sys

import pytest
from file_fixtures import REPOSITORY, read_text

import toolkit
from toolkit import hookspecs
from toolkit.cli.app import COMMANDS
from toolkit.options import CoreOptions


@pytest.fixture(scope="module")
def site():
    """The module that writes the reference of the site, by that of the page for authors."""
    sys.path.insert(0, os.path.join(REPOSITORY, "docs"))
    yield importlib.import_module("make_site")
    del sys.path[0]


def test_the_reference_is_up_to_date(site):
    generator = sys.modules["write_reference"]
    is_equal = read_text(generator.PATH) == generator.make_page()
    assert is_equal, f"docs/plugins/reference.md is out of date: run '{generator.COMMAND}'"


def test_the_reference_has_each_hook(site):
    hooks = {n for n, f in vars(hookspecs).items() if hasattr(f, "toolkit_spec")}
    assert len(hooks) >= 20
    page = sys.modules["write_reference"].make_page()
    assert hooks <= set(re.findall(r"^#### (\w+)$", page, re.M))


def test_the_site_has_each_command_option_and_public_name(site):
    from toolkit_classifier.options import ClassifierOptions
    from toolkit_gan.options import GanOptions
    from toolkit_image_scores.options import ImageScoresOptions

    pages = {name: "\n".join(make()) for name, make in site.PAGES.items()}
    commands = set(re.findall(r"^## toolkit ([\w-]+)", pages["commands.md"], re.M))
    assert commands >= set(COMMANDS)
    classes = CoreOptions, ClassifierOptions, GanOptions, ImageScoresOptions
    options = set(re.findall(r"^\| `(\w+)`", pages["options.md"], re.M))
    assert options >= {name for each in classes for name in each.model_fields}
    names = set(re.findall(r"^####? (?:toolkit\.)?([\w.]+)$", pages["python.md"], re.M))
    names |= set(re.findall(r"^## toolkit\.(\w+)$", pages["python.md"], re.M))
    elsewhere = {"tf", "OptimizerArguments", "Run", "SampleRequest"}
    assert names >= {*toolkit.__all__, "Trained", "SessionHook.on_step"} - elsewhere
