"""The reference, for authors of plugins and on the site, is that of the sources."""

from __future__ import annotations

import importlib
import os
import re
import sys

import pytest
from file_fixtures import REPOSITORY

import toolkit
from toolkit import hookspecs
from toolkit.cli.app import COMMANDS
from toolkit.options import CoreOptions


@pytest.fixture(scope="module")
def docs():
    """Imports a module of the folder docs."""
    sys.path.insert(0, os.path.join(REPOSITORY, "docs"))
    yield importlib.import_module
    del sys.path[0]


@pytest.fixture(scope="module")
def generator(docs):
    """The module that writes the page for authors."""
    return docs("write_reference")


@pytest.fixture(scope="module")
def pages(docs):
    """The text of each page that the site has beside the documents."""
    return {name: "\n".join(make()) for name, make in docs("make_site").PAGES.items()}


def test_the_reference_is_up_to_date(generator):
    with open(generator.PATH, encoding="utf-8") as file:
        is_equal = file.read() == generator.make_page()
    assert is_equal, f"docs/plugins/reference.md is out of date: run '{generator.COMMAND}'"


def test_the_reference_has_each_hook_and_each_public_name(generator):
    page = generator.make_page()
    hooks = [n for n, f in vars(hookspecs).items() if hasattr(f, "toolkit_spec")]
    assert len(hooks) >= 20
    for name in hooks:
        assert f"\n#### {name}\n" in page, name
    for name in toolkit.__all__:
        assert f"\n| `{name}` | " in page, name


def test_the_site_has_each_command_option_and_public_name(pages):
    from toolkit_classifier.options import ClassifierOptions
    from toolkit_gan.options import GanOptions

    for command in COMMANDS:
        assert f"## toolkit {command}" in pages["commands.md"], command
    for name in {
        *CoreOptions.model_fields,
        *ClassifierOptions.model_fields,
        *GanOptions.model_fields,
    }:
        assert f"| `{name}`" in pages["options.md"], name
    names = set(re.findall(r"^###? (?:toolkit\.)?([\w.]+)$", pages["python.md"], re.M))
    elsewhere = {"tf", "API", "ONEDNN", "OptimizerArguments", "Run", "SampleRequest"}
    assert names >= {*toolkit.__all__, "Trained", "testing.train"} - elsewhere
    assert "#### SessionHook.on_step\n\n```text\n" in pages["python.md"]


def test_a_docstring_becomes_lists_of_its_arguments(generator):
    def scale(x, factor=2):
        """Multiply.

        Two lines.

        Args:
            x: a number,
                or several.
            factor: another.

        Returns:
            The product.

        Raises:
            ValueError: x is no number,
                and no text.
        """

    assert generator.describe_signature(scale) == "(x, factor=2)"
    assert generator.describe(scale).splitlines() == [
        "Multiply.",
        "",
        "Two lines.",
        "",
        "**Args:**",
        "",
        "- `x`: a number,",
        "  or several.",
        "- `factor`: another.",
        "",
        "**Returns:** The product.",
        "",
        "**Raises:**",
        "",
        "- `ValueError`: x is no number,",
        "  and no text.",
    ]
