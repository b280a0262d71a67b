"""Pytest fixtures that check a plugin: one test for each contract.

In `conftest.py`:

    pytest_plugins = ["toolkit.testing.fixtures"]

In a module of tests:

    @pytest.fixture(scope="module")
    def plugin():
        return "my_plugin"

    def test_a_contract_holds(contract):
        contract()

A test is skipped where a contract does not apply. `pytest -k resumes` selects contracts by name.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterator, List

import pytest

from . import contracts
from .subject import Subject


@pytest.fixture(scope="module")
def plugin() -> Any:
    """What is checked: a reference as on the command line, or an object with hooks.

    A module of tests overrides this fixture.
    """
    raise pytest.UsageError(
        "Define a fixture 'plugin' with scope='module' that returns the plugin to check."
    )


@pytest.fixture(scope="module")
def plugin_extensions() -> List[Any]:
    """The extensions with which the plugin is checked; none unless a module overrides this."""
    return []


@pytest.fixture(scope="module")
def plugin_options() -> Dict[str, Any]:
    """Options by name, also `data`; a module of tests may override this fixture."""
    return {}


@pytest.fixture(scope="module")
def subject(
    plugin: Any,
    plugin_extensions: List[Any],
    plugin_options: Dict[str, Any],
    tmp_path_factory: Any,
) -> Iterator[Subject]:
    """The plugin with runs of it, which the contracts share."""
    folder = tmp_path_factory.mktemp("contracts")
    with Subject(plugin, folder, plugin_extensions, **plugin_options) as subject:
        yield subject


@pytest.fixture(params=contracts.ALL, ids=lambda contract: contract.name)
def contract(request: Any, subject: Subject) -> Callable[[], None]:
    """A function that checks one contract; a test with this fixture runs once for each."""

    def check() -> None:
        result = contracts.check_contract(request.param, subject)
        if result.status == contracts.SKIPPED:
            pytest.skip(result.message)
        assert result.status == contracts.OK, result.message

    return check
