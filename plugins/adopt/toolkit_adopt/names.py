"""Which names of TensorFlow a script uses that this TensorFlow lacks, found before it runs.

The script and the modules of its folder that it imports are parsed, not run. A chain such as
`tf.contrib.layers.conv2d` is followed from its import in the file, or a name for such a chain, as
far as modules and classes go. A name that a file binds to several things is left alone, and so is
one without which the script may do; where it does not, the stand-ins say the same when it runs.
"""

from __future__ import annotations

import ast
import importlib
import os
import types
from typing import Any, Dict, Iterator, List, Optional, Tuple

from toolkit import UsageError

from .standins import make_modules
from .standins.libraries import lacking

ROOT = "tensorflow"
_SHOWN = 8  # names in the sentence of a refusal
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
Names = Dict[str, Optional[str]]  # name -> its path in TensorFlow; None: something else


def refuse_missing_names(path: str) -> None:
    """Raise UsageError, with a list, if a script needs names that this TensorFlow lacks."""
    needed = missing_names(path)
    if needed:
        places = [f"{n} ({os.path.basename(file)}:{line})" for n, file, line in needed[:_SHOWN]]
        more = f" and {len(needed) - _SHOWN} more" if len(needed) > _SHOWN else ""
        raise UsageError(
            f"'{path}' uses names that this TensorFlow lacks and that have no stand-in: "
            f"{', '.join(places)}{more}.",
            hint="TensorFlow 1.15 has those of tf.contrib; older ones (tf.mul) must be replaced.",
        )


def missing_names(path: str) -> List[Tuple[str, str, int]]:
    """The names that a script and the modules of its folder use in vain, such as "tf.contrib.gan".

    Each comes once, with the file and line of its first use, and in that order. Left out are names
    without which the script may do: within `try`, in a branch of an `if`, and in a function or
    method that is named in such branches alone, or nowhere. Raises UsageError if a file cannot be
    read, or is not in the syntax of this Python.
    """
    modules, trees = make_modules(), _read_files(os.path.abspath(path))
    bound = {file: _bind_names(tree) for file, tree in trees.items()}
    named = set()  # of what is the files' own
    # What the stand-ins, and the script itself, put into modules.
    given: Any = {f"{getattr(owner, '__name__', '')}.{name}" for owner, name, _ in lacking()}
    for file, tree in trees.items():
        code = [node for node in _walk_beside_branches(tree) if not _resolve(node, bound[file])]
        named |= {getattr(node, "id", getattr(node, "attr", "")) for node in code}
        named |= {node.name for node in code if isinstance(node, ast.alias)}
    found: Dict[Optional[str], Tuple[str, int]] = {}  # missing name -> where it is used first
    for file, tree in trees.items():
        names = bound[file]
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                given.add(_resolve(node, names))
        for use, line in _uses(tree, names, named):
            found.setdefault(_first_missing(use, modules, given), (file, line))
    left = [(name, *place) for name, place in found.items() if name and name not in given]
    shown = [(name.replace(ROOT, "tf", 1), file, line) for name, file, line in left]
    return sorted(shown, key=lambda each: each[1:])


def _read_files(script: str) -> Dict[str, ast.AST]:
    """The syntax trees, by path, of a script and of the modules beside it that it imports.

    What a handler of `try` imports, for want of something else, is not read.
    """
    trees: Dict[str, ast.AST] = {}
    left = [script]
    while left:
        path = left.pop(0)
        if path in trees or not os.path.isfile(path):
            continue
        try:
            with open(path, "rb") as file:
                trees[path] = tree = ast.parse(file.read(), path)
        except (OSError, SyntaxError, ValueError) as error:
            raise UsageError(
                f"'{path}' cannot be read as Python: {error}.",
                hint="Code of Python 2 must be converted first, as by '2to3 -w'.",
            )
        handlers = [node for node in ast.walk(tree) if isinstance(node, ast.ExceptHandler)]
        skipped = {node for handler in handlers for node in ast.walk(handler)}
        for node in (node for node in ast.walk(tree) if node not in skipped):
            if not isinstance(node, (ast.Import, ast.ImportFrom)):
                continue
            level, start = getattr(node, "level", 0), getattr(node, "module", "") or ""
            folder = path if level else script
            for _ in range(level or 1):
                folder = os.path.dirname(folder)
            for name in filter(None, [start, *(f"{start}.{alias.name}" for alias in node.names)]):
                base = os.path.join(folder, *name.split("."))
                left += [base + ".py", os.path.join(base, "__init__.py")]
    return trees


def _bind_names(tree: ast.AST) -> Names:
    """The names that a file binds, by its imports first; None for what is bound to several."""
    names: Names = {}
    assignments = [node for node in ast.walk(tree) if isinstance(node, ast.Assign)]
    aliases = [node for node in assignments if all(isinstance(t, ast.Name) for t in node.targets)]
    targets = {target for node in aliases for target in node.targets}

    def bind(name: str, value: Optional[str] = None) -> None:
        names[name] = value if names.get(name, value) == value else None

    for node in ast.walk(tree):
        for alias in node.names if isinstance(node, (ast.Import, ast.ImportFrom)) else ():
            first = alias.name.split(".")[0]
            path = alias.name if alias.asname else first
            if isinstance(node, ast.ImportFrom):
                path = "" if node.level else f"{node.module}.{alias.name}"
            bind(alias.asname or first, _in_tensorflow(path))
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node not in targets:
            bind(node.id)
        elif isinstance(node, ast.arg):
            bind(node.arg)
        elif isinstance(node, (*_DEFINITIONS, ast.ClassDef)):
            bind(node.name)
    for each in aliases:
        for target in each.targets:
            bind(getattr(target, "id", ""), _resolve(each.value, names))
    return names


def _in_tensorflow(path: str) -> Optional[str]:
    """A path in TensorFlow, of which `compat.v1` is the whole; None for another path."""
    is_ours = path.split(".")[0] == ROOT
    return path.replace(ROOT + ".compat.v1", ROOT, 1) if is_ours else None


def _resolve(node: ast.AST, names: Names) -> Optional[str]:
    """The path in TensorFlow of a chain of attributes; None for all others."""
    if isinstance(node, ast.Attribute):
        owner = _resolve(node.value, names)
        return None if owner is None else _in_tensorflow(f"{owner}.{node.attr}")
    return names.get(node.id) if isinstance(node, ast.Name) else None


def _uses(node: Any, names: Names, named: Any) -> Iterator[Tuple[str, int]]:
    """The paths in TensorFlow that code cannot do without, each with its line.

    `names` are bound by the file; `named` are the names and attributes of the files beside
    branches, without which no function is sure to be called.
    """
    children: Any = _beside_branches(node)
    path = _resolve(node, names)
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        if getattr(node, "level", 0):  # of the script's own package
            return
        start = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
        for alias in node.names:
            imported = _in_tensorflow(f"{start}{alias.name}".replace(".*", ""))
            if imported is not None:
                yield imported, node.lineno
    elif isinstance(node, ast.Attribute) and path is not None:
        children = []
        if isinstance(node.ctx, ast.Load):
            yield path, node.lineno
    elif isinstance(node, _DEFINITIONS):  # without annotations
        defaults = [*node.args.defaults, *filter(None, node.args.kw_defaults)]
        is_used = node.name in named or node.name.startswith("__")
        children = [*node.decorator_list, *defaults, *(node.body if is_used else [])]
    elif isinstance(node, ast.Try):
        children = [*node.orelse, *node.finalbody]
    for child in children:
        yield from _uses(child, names, named)


def _beside_branches(node: Any) -> Any:
    """The parts of some code, but for the branches of an `if` on anything else than __main__."""
    if not isinstance(node, (ast.If, ast.IfExp)):
        return ast.iter_child_nodes(node)
    return node.body if "'__main__'" in ast.dump(node.test) else [node.test]


def _walk_beside_branches(node: Any) -> Iterator[Any]:
    yield node
    for child in _beside_branches(node):
        yield from _walk_beside_branches(child)


def _first_missing(path: str, modules: Dict[str, types.ModuleType], given: Any) -> Optional[str]:
    """The part of a path, from "tensorflow" on, up to the first name that does not exist and is not
    given; None if all do. The modules are those of `make_modules`, which come before the installed.
    """
    first, *parts = path.split(".")
    owner: Any = modules.get(first) or importlib.import_module(first)
    for part in parts:
        if not isinstance(owner, (types.ModuleType, type)):
            return None  # the attributes of values are known to nobody
        if f"{owner.__name__}.{part}" in given:  # to a module that may have several names
            return None
        first = f"{first}.{part}"
        try:
            owner = getattr(owner, part)
        except Exception:  # lazy modules raise more than AttributeError
            try:  # a module that nobody has imported yet, whose file may fail in any way
                owner = modules.get(first) or importlib.import_module(first)
            except Exception:
                return first
    return None
