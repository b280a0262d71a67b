"""Names say what a thing is or does: no name is a participle that leaves out its noun."""

import ast
import re

import pytest
from test_imports import sources

LEFTOVER = re.compile(
    "_*(asked|begun|chosen|drawn|found|given|going|gone|held|kept|looked|made|meant|opened|put"
    "|said|seen|shown|spoken|taken|told|took|wanted|went)_*",
    re.IGNORECASE,
)


def names(tree):
    """(line number, name) of each function, class, parameter, attribute and variable it defines."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.lineno, node.name
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.attr


@pytest.mark.parametrize("folder", ["toolkit", "plugins", "samples"])
def test_no_name_is_a_bare_participle(folder):
    places = [
        f"{path}:{number}: {name}"
        for path, text in sources(folder)
        for number, name in names(ast.parse(text))
        if LEFTOVER.fullmatch(name)
    ]
    assert places == []
