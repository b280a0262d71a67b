"""Which names of TensorFlow a script uses that this TensorFlow lacks, found before it runs.

The script and the modules of its folder that it imports are parsed, not run. A chain such as
`tf.contrib.layers.conv2d` is followed from its import, through aliases, as far as modules and
classes go. A name that a file binds to several things is left alone, and so is one without which
the script may do. Nothing is patched.
"""

from __future__ import annotations

import ast
import importlib
import os
import types
from typing import Any, Dict, Iterable, Iterator, List, Optional, Set, Tuple

from toolkit import UsageError

from .standins import make_modules

ROOT = "tensorflow"
_GUARDS = {"AttributeError", "BaseException", "Exception", "ImportError", "ModuleNotFoundError"}
_SHOWN = 8  # names in the sentence of a refusal
_BINDING = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.ExceptHandler)
Names = Dict[str, Optional[str]]  # name -> its path in TensorFlow; None: something else


def refuse_missing_names(path: str) -> None:
    """Refuse a script that needs names which this TensorFlow lacks.

    Raises:
        UsageError: it does; the names are listed.
    """
    needed = missing_names(path)
    if needed:
        places = [f"{n} ({os.path.basename(file)}:{line})" for n, file, line in needed[:_SHOWN]]
        more = f" and {len(needed) - _SHOWN} more" if len(needed) > _SHOWN else ""
        raise UsageError(
            f"'{path}' uses names that this TensorFlow lacks and that have no stand-in: "
            f"{', '.join(places)}{more}.",
            hint="Run the script on TensorFlow 1.15, or write these lines by other means.",
        )


def missing_names(path: str) -> List[Tuple[str, str, int]]:
    """The names that a script and the modules of its folder use in vain, each once.

    A name is left out where the script may do without: where `try` catches its absence, in a branch
    of an `if`, and in a function that no file names.

    Args:
        path: of the script.

    Returns:
        Names such as "tf.contrib.crf", each with the file and the line, from 1 on, of its first
        use; in the order of files and lines.

    Raises:
        UsageError: a file cannot be read, or is not in the syntax of this Python.
    """
    tensorflow, trees = _TensorFlow(), _read_files(os.path.abspath(path))
    named: Set[str] = set()  # every name and attribute that some file uses
    given: Set[Optional[str]] = set()  # names that the script itself puts into modules
    uses: List[Any] = []
    bound: Dict[str, Names] = {}  # path of a file -> the names that it binds
    for file, tree in trees.items():
        names = _bind_names(os.path.abspath(path), file, trees, bound)
        for node in ast.walk(tree):
            named.add(getattr(node, "id", getattr(node, "attr", "")))
            if isinstance(node, ast.alias):
                named.add(node.name)
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                given.add(_resolve(node, names))
        found = _find_uses(tree, names)
        uses += [(tensorflow.first_missing(_canonical(use)), file, *place) for use, *place in found]
    shown: Dict[str, Tuple[str, str, int]] = {}
    for missing, file, line, function in uses:
        if missing and missing not in given and (not function or function in named):
            name = missing.replace(ROOT, "tf", 1)
            shown.setdefault(name, (name, file, line))
    return sorted(shown.values(), key=lambda each: each[1:])


class _TensorFlow:
    """What is reachable from `tensorflow` while the stand-ins are installed."""

    def __init__(self) -> None:
        self._stand_ins = make_modules()

    def _module(self, path: str) -> Optional[types.ModuleType]:
        """The module at a path; None if there is none."""
        parent = path.rpartition(".")[0]
        if path in self._stand_ins or parent in self._stand_ins and parent != ROOT:
            return self._stand_ins.get(path)
        try:
            return importlib.import_module(path)
        except Exception:  # its file may fail in any way
            return None

    def first_missing(self, path: str) -> Optional[str]:
        """The part of a path up to the first name that does not exist; None if all do."""
        first, *parts = path.split(".")
        owner: Any = self._module(first)
        for part in parts:
            if not isinstance(owner, (types.ModuleType, type)):
                return None  # the attributes of values are known to nobody
            first = f"{first}.{part}"
            try:
                owner = getattr(owner, part)
            except Exception:  # lazy modules raise more than AttributeError
                owner = self._module(first) if isinstance(owner, types.ModuleType) else None
                if owner is None:
                    return first
        return None


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
            modules: List[str] = []
            if isinstance(node, ast.Import):
                modules = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                own = [node.module] if node.module else []
                modules = [*own, *(".".join([*own, alias.name]) for alias in node.names)]
            for module in modules:
                left += _places(script, path, module, getattr(node, "level", 0))
    return trees


def _places(script: str, path: str, module: str, level: Optional[int]) -> List[str]:
    """Where a module that a file imports may be in the folder of the script."""
    folder = path if level else script
    for _ in range(level or 1):
        folder = os.path.dirname(folder)
    base = os.path.join(folder, *module.split("."))
    return [base + ".py", os.path.join(base, "__init__.py")]


def _is_of_tensorflow(module: Optional[str]) -> bool:
    return (module or "").split(".")[0] == ROOT


def _bind_names(
    script: str, path: str, trees: Dict[str, ast.AST], bound: Dict[str, Names]
) -> Names:
    """The names that a file binds; None for one that it binds to different things, wherever.

    Args:
        script: its path.
        path: of the file.
        trees: of all files, by path.
        bound: the names of files that are known already; those of this one are added.
    """
    if path in bound:
        return bound[path]
    names = bound[path] = {}
    imports: List[Any] = []
    aliases: List[Any] = []
    others: List[ast.AST] = []
    targets: Set[ast.AST] = set()  # of the aliases

    def bind(name: str, value: Optional[str] = None) -> None:
        names[name] = value if names.get(name, value) == value else None

    for node in ast.walk(trees[path]):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            imports.append(node)
        elif isinstance(node, ast.Assign) and all(isinstance(t, ast.Name) for t in node.targets):
            aliases.append(node)
            targets.update(node.targets)
        else:
            others.append(node)
    for node in imports:
        if isinstance(node, ast.Import):
            for alias in node.names:
                name = alias.name if alias.asname else alias.name.split(".")[0]
                is_ours = _is_of_tensorflow(name)
                bind(alias.asname or name, _canonical(name) if is_ours else None)
        elif not node.level and _is_of_tensorflow(node.module):
            for alias in node.names:
                bind(alias.asname or alias.name, _canonical(f"{node.module}.{alias.name}"))
        else:
            files = _places(script, path, node.module or "", node.level)
            own = [_bind_names(script, f, trees, bound) for f in files if f in trees]
            lent = own[0] if own else {}
            for alias in node.names:
                if alias.name == "*":
                    for name, value in lent.items():
                        bind(name, value)
                else:
                    bind(alias.asname or alias.name, lent.get(alias.name))
    for node in others:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            if node not in targets:
                bind(node.id)
        elif isinstance(node, ast.arg):
            bind(node.arg)
        elif isinstance(node, _BINDING) and node.name:
            bind(node.name)
    for node in aliases:
        for target in node.targets:
            bind(target.id, _resolve(node.value, names))
    return names


def _canonical(path: str) -> str:
    """A path in TensorFlow, of which `compat.v1` is the whole."""
    return path.replace(ROOT + ".compat.v1", ROOT, 1)


def _resolve(node: ast.AST, names: Names) -> Optional[str]:
    """The path in TensorFlow of a chain of attributes; None for all others."""
    if isinstance(node, ast.Attribute):
        owner = _resolve(node.value, names)
        return None if owner is None else _canonical(f"{owner}.{node.attr}")
    return names.get(node.id) if isinstance(node, ast.Name) else None


def _find_uses(node: Any, names: Names, function: Optional[str] = None) -> Iterator[Any]:
    """The paths in TensorFlow that code cannot do without, each with its line and its function.

    Args:
        node: of the code.
        names: that the file binds.
        function: the outermost one around the node; None or "" if nothing has to name it.
    """
    children: Iterable[Any] = ast.iter_child_nodes(node)
    if isinstance(node, ast.Import):
        paths = [alias.name for alias in node.names]
        yield from ((path, node.lineno, function) for path in filter(_is_of_tensorflow, paths))
    elif isinstance(node, ast.ImportFrom) and not node.level and _is_of_tensorflow(node.module):
        for alias in node.names:
            yield f"{node.module}.{alias.name}".replace(".*", ""), node.lineno, function
    elif isinstance(node, ast.Attribute) and _resolve(node, names) is not None:
        children = []
        if isinstance(node.ctx, ast.Load):
            yield _resolve(node, names), node.lineno, function
    elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        defaults = [*node.args.defaults, *filter(None, node.args.kw_defaults)]
        for each in (*node.decorator_list, *defaults):  # where the function is defined
            yield from _find_uses(each, names, function)
        children = node.body
        if function is None:
            function = "" if node.decorator_list else node.name  # a decorator may call it
    elif isinstance(node, ast.ClassDef):
        function = function or ""  # nothing names methods here
    elif isinstance(node, ast.Try) and any(map(_catches_absence, node.handlers)):
        children = node.finalbody
    elif isinstance(node, ast.If) and "'__main__'" in ast.dump(node.test):
        children = node.body
    elif isinstance(node, (ast.If, ast.IfExp)):
        children = [node.test]
    for child in children:
        yield from _find_uses(child, names, function)


def _catches_absence(handler: ast.ExceptHandler) -> bool:
    """Whether a handler catches the error of a name that does not exist."""
    caught = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(each is None or getattr(each, "id", None) in _GUARDS for each in caught)
