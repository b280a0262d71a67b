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
from typing import Any, Dict, Iterable, List, NamedTuple, Optional, Set

from toolkit import UsageError

from .standins import make_modules

ROOT = "tensorflow"
_GUARDS = {"AttributeError", "BaseException", "Exception", "ImportError", "ModuleNotFoundError"}
_SHOWN = 8  # names in the sentence of a refusal
Names = Dict[str, Optional[str]]  # name -> its path in TensorFlow; None: something else


class Missing(NamedTuple):
    """A name that this TensorFlow lacks.

    Args:
        name: such as "tf.contrib.crf".
        file: the path of the file that uses it first.
        line: from 1 on.
    """

    name: str
    file: str
    line: int


def missing_names(path: str) -> List[Missing]:
    """The names that a script and the modules of its folder use in vain, each once.

    A name is left out where the script may do without: where `try` catches its absence, in a branch
    of an `if`, and in a function that no file names.

    Args:
        path: of the script.

    Raises:
        UsageError: a file cannot be read, or is not in the syntax of this Python.
    """
    script = _Script(os.path.dirname(os.path.abspath(path)))
    script.load(os.path.abspath(path))
    found: Dict[str, Missing] = {}
    for use, function in script.uses:
        if use.name not in script.given and (not function or function in script.named):
            name = use.name.replace(ROOT, "tf", 1)
            found.setdefault(name, use._replace(name=name))
    return sorted(found.values(), key=lambda each: (each.file, each.line))


def refuse_missing_names(path: str) -> None:
    """Refuse a script that needs names which this TensorFlow lacks.

    Raises:
        UsageError: it does; the names are listed.
    """
    needed = missing_names(path)
    if needed:
        places = [f"{e.name} ({os.path.basename(e.file)}:{e.line})" for e in needed[:_SHOWN]]
        more = f" and {len(needed) - _SHOWN} more" if len(needed) > _SHOWN else ""
        raise UsageError(
            f"'{path}' uses names that this TensorFlow lacks and that have no stand-in: "
            f"{', '.join(places)}{more}.",
            hint="Run the script on TensorFlow 1.15, or write these lines by other means.",
        )


class _TensorFlow:
    """What is reachable from `tensorflow` while the stand-ins are installed."""

    def __init__(self) -> None:
        self._stand_ins = make_modules()

    def module(self, path: str) -> Optional[types.ModuleType]:
        """The module at a path; None if there is none."""
        path = _canonical(path)
        parent = path.rpartition(".")[0]
        if path in self._stand_ins or parent in self._stand_ins and parent != ROOT:
            return self._stand_ins.get(path)
        try:
            return importlib.import_module(path)
        except Exception:  # its file may fail in any way
            return None

    def first_missing(self, path: str) -> Optional[str]:
        """The part of a path up to the first name that does not exist; None if all do."""
        first, *parts = _canonical(path).split(".")
        owner: Any = self.module(first)
        for part in parts:
            if not isinstance(owner, (types.ModuleType, type)):
                return None  # the attributes of values are known to nobody
            first = f"{first}.{part}"
            try:
                owner = getattr(owner, part)
            except Exception:  # lazy modules raise more than AttributeError
                owner = self.module(first) if isinstance(owner, types.ModuleType) else None
                if owner is None:
                    return first
        return None


class _Script:
    """The files of a script, each read once."""

    def __init__(self, folder: str):
        self._folder, self.tensorflow = folder, _TensorFlow()
        self._names: Dict[str, Names] = {}  # path of a file -> the names that it binds
        self.named: Set[str] = set()  # every name and attribute that some file uses
        self.given: Set[str] = set()  # names that the script itself puts into modules
        self.uses: List[Any] = []  # missing names, each with the function that uses it

    def load(self, path: str) -> Names:
        """The names that a file binds, whose uses are noted."""
        if path in self._names:
            return self._names[path]
        names = self._names[path] = {}
        try:
            with open(path, "rb") as file:
                tree = ast.parse(file.read(), path)
        except (OSError, SyntaxError, ValueError) as error:
            raise UsageError(
                f"'{path}' cannot be read as Python: {error}.",
                hint="Code of Python 2 must be converted first, as by '2to3 -w'.",
            )
        aliases: List[Any] = []  # names, each with the value that it gets
        targets: Set[int] = set()  # the identities of the nodes of these names
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign) and all(isinstance(t, ast.Name) for t in node.targets):
                aliases += [(target, node.value) for target in node.targets]
                targets.update(map(id, node.targets))
            elif isinstance(node, (ast.Import, ast.ImportFrom)):
                self._import_tensorflow(node, names)
            elif id(node) not in targets:
                for name in _names_bound_by(node):
                    _bind(names, name)
            self.named.update(filter(None, (getattr(node, "id", ""), getattr(node, "attr", ""))))
        _Loader(self, path, names).visit(tree)
        for target, value in aliases:
            _bind(names, target.id, _resolve(value, names))
        attributes = (node for node in ast.walk(tree) if isinstance(node, ast.Attribute))
        stored = (node for node in attributes if isinstance(node.ctx, ast.Store))
        self.given.update(filter(None, (_resolve(node, names) for node in stored)))
        _Reader(self, path, names).visit(tree)
        return names

    def _import_tensorflow(self, node: Any, names: Names) -> None:
        """Bind what a statement imports of TensorFlow."""
        if isinstance(node, ast.Import):
            for alias in node.names:
                if _is_of_tensorflow(alias.name):
                    _bind(names, alias.asname or ROOT, alias.name if alias.asname else ROOT)
            return
        self.named.update(alias.name for alias in node.names)
        module = "" if node.level else node.module
        for alias in node.names if _is_of_tensorflow(module) else ():
            if alias.name == "*":
                found = self.tensorflow.module(module)
                public = getattr(found, "__all__", None) or [n for n in dir(found) if n[0] != "_"]
                for name in public:
                    _bind(names, name, f"{module}.{name}")
            else:
                _bind(names, alias.asname or alias.name, f"{module}.{alias.name}")

    def load_module(self, path: str, module: str, level: int) -> Optional[Names]:
        """The names of a module of the script's folder that a file imports; None for others."""
        folder = self._folder if not level else path
        for _ in range(level):
            folder = os.path.dirname(folder)
        base = os.path.join(folder, *module.split("."))
        for candidate in (base + ".py", os.path.join(base, "__init__.py")):
            if os.path.isfile(candidate):
                return self.load(candidate)
        return None


def _is_of_tensorflow(module: str) -> bool:
    return module.split(".")[0] == ROOT


def _canonical(path: str) -> str:
    """A path in TensorFlow, of which `compat.v1` is the whole."""
    return path.replace(ROOT + ".compat.v1", ROOT, 1)


def _names_bound_by(node: ast.AST) -> List[str]:
    """The names that a node of another kind than an import gives values that are unknown."""
    if isinstance(node, ast.Name):
        return [node.id] if isinstance(node.ctx, ast.Store) else []
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.ExceptHandler)
    if isinstance(node, kinds):
        return [node.name] if node.name else []
    return [node.arg] if isinstance(node, ast.arg) else []


def _bind(names: Names, name: str, value: Optional[str] = None) -> None:
    """A name that a file binds to different things, wherever, may be any of them."""
    value = value and _canonical(value)
    names[name] = value if names.get(name, value) == value else None


def _resolve(node: ast.AST, names: Names) -> Optional[str]:
    """The path in TensorFlow of a chain of attributes; None for all others."""
    if isinstance(node, ast.Attribute):
        owner = _resolve(node.value, names)
        return None if owner is None else _canonical(f"{owner}.{node.attr}")
    return names.get(node.id) if isinstance(node, ast.Name) else None


class _Reader(ast.NodeVisitor):
    """Checks the names that one file uses where it cannot do without."""

    def __init__(self, script: _Script, path: str, names: Names):
        self._script, self._path, self._names = script, path, names
        self._function: Optional[str] = None  # the outermost one around the present line

    def _check(self, name: str, line: int) -> None:
        missing = self._script.tensorflow.first_missing(name)
        if missing is not None:
            self._script.uses.append((Missing(missing, self._path, line), self._function))

    def _visit_all(self, nodes: Iterable[ast.AST]) -> None:
        for node in nodes:
            self.visit(node)

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            if _is_of_tensorflow(alias.name):
                self._check(alias.name, node.lineno)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        module = node.module or ""
        if not node.level and _is_of_tensorflow(module):
            for alias in node.names:
                name = module if alias.name == "*" else f"{module}.{alias.name}"
                self._check(name, node.lineno)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        path = _resolve(node, self._names)
        if path is None:
            self.visit(node.value)
        elif isinstance(node.ctx, ast.Load):
            self._check(path, node.lineno)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        former, self._function = self._function, self._function or ""  # methods have no name here
        self.generic_visit(node)
        self._function = former

    def visit_FunctionDef(self, node: Any) -> None:
        former = self._function
        defaults = [*node.args.defaults, *filter(None, node.args.kw_defaults)]
        self._visit_all([*node.decorator_list, *defaults])
        if former is None:
            self._function = "" if node.decorator_list else node.name  # a decorator may call it
        self._visit_all(node.body)
        self._function = former

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Try(self, node: ast.Try) -> None:
        if any(map(_catches_absence, node.handlers)):
            self._visit_all(node.finalbody)
        else:
            self.generic_visit(node)

    def visit_If(self, node: Any) -> None:
        self.visit(node.test)
        if "'__main__'" in ast.dump(node.test):
            self._visit_all(node.body)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self.visit(node.test)


class _Loader(ast.NodeVisitor):
    """Loads the modules of the script's folder that one file imports, and binds what they lend it.

    What a handler of `try` imports, for want of something else, is not loaded. It may be what a
    name is that this TensorFlow lacks.
    """

    def __init__(self, script: _Script, path: str, names: Names):
        self._script, self._path, self._names = script, path, names

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            if not _is_of_tensorflow(alias.name):
                self._script.load_module(self._path, alias.name, 0)
                _bind(self._names, alias.asname or alias.name.split(".")[0])

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        module, level = node.module or "", node.level or 0
        if not level and _is_of_tensorflow(module):
            return
        own = (self._script.load_module(self._path, module, level) if module else None) or {}
        for alias in node.names:
            if alias.name == "*":
                for name, value in own.items():
                    _bind(self._names, name, value)
            else:
                inner = f"{module}.{alias.name}" if module else alias.name
                self._script.load_module(self._path, inner, level)
                _bind(self._names, alias.asname or alias.name, own.get(alias.name))

    def visit_Try(self, node: ast.Try) -> None:
        for each in (*node.body, *node.orelse, *node.finalbody):
            self.visit(each)
        inside = (each for handler in node.handlers for each in ast.walk(handler))
        imports = (each for each in inside if isinstance(each, (ast.Import, ast.ImportFrom)))
        for alias in (alias for each in imports for alias in each.names):
            name = alias.asname or alias.name.split(".")[0]
            path = self._names.get(name)
            if path and self._script.tensorflow.first_missing(path):
                _bind(self._names, name)


def _catches_absence(handler: ast.ExceptHandler) -> bool:
    """Whether a handler catches the error of a name that does not exist."""
    caught = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(each is None or getattr(each, "id", None) in _GUARDS for each in caught)
