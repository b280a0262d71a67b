"""The reference for authors of plugins is that of the sources."""

from __future__ import annotations

import importlib.util
import os

import pytest
from file_fixtures import REPOSITORY

import toolkit
from toolkit import hookspecs


@pytest.fixture(scope="module")
def generator():
    """The module that writes the page."""
    path = os.path.join(REPOSITORY, "docs", "write_reference.py")
    spec = importlib.util.spec_from_file_location("write_reference", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


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
