"""Which names of TensorFlow a script uses that this TensorFlow lacks, found before it runs.

The script and the modules of its folder that it imports are parsed, not run. A chain such as
`tf.contrib.layers.conv2d` is followed from its import, through aliases, as far as modules and
classes go. Nothing is patched.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import os
import types
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Set, Union

from toolkit import UsageError

from .standins import make_modules

ROOT = "tensorflow"
_GUARDS = {"AttributeError", "BaseException", "Exception", "ImportError", "ModuleNotFoundError"}
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_SHOWN = 8  # names in the sentence of a refusal


class Missing(NamedTuple):
    """A name that this TensorFlow lacks.

    Args:
        name: such as "tf.contrib.crf".
        file: the path of the file that uses it first.
        line: from 1 on.
        conditional: whether the script may do without: the name is used in a branch of an `if`, or
            in a function that no file names.
    """

    name: str
    file: str
    line: int
    conditional: bool = False


def missing_names(path: str) -> List[Missing]:
    """The names that a script and the modules of its folder use in vain, each once.

    A name is left out where `try` catches its absence, or where an `if` asks TensorFlow for its
    version or its attributes.

    Args:
        path: of the script.

    Raises:
        UsageError: a file cannot be read, or is not in the syntax of this Python.
    """
    found = _Script(os.path.dirname(os.path.abspath(path))).read(os.path.abspath(path))
    by_name: Dict[str, Missing] = {}
    for each in found:
        if each.name not in by_name or (by_name[each.name].conditional and not each.conditional):
            by_name[each.name] = each
    return sorted(by_name.values(), key=lambda each: (each.file, each.line))


def refuse_missing_names(path: str) -> None:
    """Refuse a script that needs names which this TensorFlow lacks.

    Raises:
        UsageError: it does, and not only under a condition; the names are listed.
    """
    needed = [each for each in missing_names(path) if not each.conditional]
    if needed:
        places = [f"{e.name} ({os.path.basename(e.file)}:{e.line})" for e in needed[:_SHOWN]]
        more = f" and {len(needed) - _SHOWN} more" if len(needed) > _SHOWN else ""
        raise UsageError(
            f"'{path}' uses names that this TensorFlow lacks and that have no stand-in: "
            f"{', '.join(places)}{more}.",
            hint="Run the script on TensorFlow 1.15, or write these lines by other means.",
        )


class _TensorFlowNames:
    """What is reachable from `tensorflow` while the stand-ins are installed."""

    def __init__(self) -> None:
        self._modules = make_modules()

    def module(self, path: str) -> Optional[types.ModuleType]:
        """The module of an import statement; None if there is none."""
        path = path.replace(ROOT + ".compat.v1", ROOT, 1)
        if path in self._modules:
            return self._modules[path]
        parent = path.rpartition(".")[0]
        if parent in self._modules and parent != ROOT:
            return None  # of a stand-in
        try:
            return importlib.import_module(path)
        except Exception:  # its file may fail in any way
            return None

    def first_missing(self, path: str) -> Optional[str]:
        """The part of a path up to the first name that does not exist; None if all do."""
        path = path.replace(ROOT + ".compat.v1", ROOT, 1)
        parts = path.split(".")
        owner: Any = self.module(ROOT)
        for count, part in enumerate(parts[1:], 2):
            if not isinstance(owner, (types.ModuleType, type)):
                return None  # the attributes of values are known to nobody
            prefix = ".".join(parts[:count])
            try:
                owner = getattr(owner, part)
            except Exception:  # lazy modules raise more than AttributeError
                found = self.module(prefix) if isinstance(owner, types.ModuleType) else None
                if found is None:
                    return prefix
                owner = found
        return None

    def public(self, path: str) -> List[str]:
        """The names that `from path import *` binds."""
        module = self.module(path)
        names = getattr(module, "__all__", None) or [n for n in dir(module) if n[0] != "_"]
        return list(names) if module is not None else []


Bindings = Dict[str, Optional[str]]  # name -> its path in TensorFlow; None: something else


class _Script:
    """The files of a script, each read once."""

    def __init__(self, folder: str):
        self.folder = folder
        self.tensorflow = _TensorFlowNames()
        self.globals: Dict[str, Bindings] = {}  # path of a file -> its global names
        self.named: Set[str] = set()  # every name and attribute that some file uses
        self.given: Set[str] = set()  # names that the script itself puts into modules
        self._uses: List[Any] = []

    def read(self, path: str) -> Iterator[Missing]:
        """What the script at a path and its modules lack."""
        self.load(path)
        for name, file, line, conditional, function in self._uses:
            if name in self.given:
                continue
            is_idle = function is not None and function not in self.named
            yield Missing(name.replace(ROOT, "tf", 1), file, line, conditional or is_idle)

    def load(self, path: str) -> Bindings:
        """The global names of a file, whose uses are noted."""
        if path not in self.globals:
            bindings = self.globals[path] = {}
            try:
                with open(path, "rb") as file:
                    tree = ast.parse(file.read(), path)
            except (OSError, SyntaxError, ValueError) as error:
                raise UsageError(
                    f"'{path}' cannot be read as Python: {error}.",
                    hint="Code of Python 2 must be converted first, as by '2to3 -w'.",
                )
            for node in ast.walk(tree):
                if isinstance(node, ast.Name):
                    self.named.add(node.id)
                elif isinstance(node, ast.Attribute):
                    self.named.add(node.attr)
                elif isinstance(node, ast.ImportFrom):
                    self.named.update(alias.name for alias in node.names)
            _Reader(self, path, bindings).read(tree)
        return self.globals[path]

    def local(self, path: str, module: str, level: int) -> Optional[str]:
        """The file of a module of the script's folder, imported by a file; None for others."""
        folder = self.folder
        if level:
            folder = path
            for _ in range(level):
                folder = os.path.dirname(folder)
        base = os.path.join(folder, *module.split("."))
        for candidate in (base + ".py", os.path.join(base, "__init__.py")):
            if os.path.isfile(candidate):
                return candidate
        return None

    def use(self, name: str, path: str, line: int, conditional: bool, function: Any) -> None:
        """Note a name that is missing."""
        self._uses.append((name, path, line, conditional, function))


class _Reader(ast.NodeVisitor):
    """Reads one file in the order of its lines."""

    def __init__(self, script: _Script, path: str, bindings: Bindings):
        self._script, self._path = script, path
        self._scopes = [bindings]
        self._conditional = False
        self._function: Optional[str] = None  # the outermost one around the present line
        self._guarded: Optional[List[str]] = None  # in a `try`: the names that are missing

    def read(self, tree: ast.Module) -> None:
        """Read the whole file: functions last, as they are called when all globals are bound."""
        self._later: List[Any] = []
        for statement in tree.body:
            self.visit(statement)
        while self._later:
            self._later.pop(0)()

    # ------------------------------------------------------------------------------------ binding

    def _bind(self, name: str, value: Optional[str]) -> None:
        """A name that is bound twice to different things may be either."""
        scope = self._scopes[-1]
        scope[name] = value if scope.get(name, value) == value else None

    def _resolve(self, node: ast.AST) -> Optional[str]:
        """The path in TensorFlow of a chain of attributes; None for all others."""
        if isinstance(node, ast.Attribute):
            owner = self._resolve(node.value)
            return None if owner is None else f"{owner}.{node.attr}"
        if isinstance(node, ast.Name):
            for scope in reversed(self._scopes):
                if node.id in scope:
                    return scope[node.id]
        return None

    def _check(self, name: str, line: int) -> None:
        missing = self._script.tensorflow.first_missing(name)
        if missing is None:
            return
        if self._guarded is not None:
            self._guarded.append(missing)
        else:
            function = self._function
            self._script.use(missing, self._path, line, self._conditional, function)

    # ------------------------------------------------------------------------------------ imports

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            top = alias.name.split(".")[0]
            if top == ROOT:
                self._check(alias.name, node.lineno)
                self._bind(alias.asname or top, alias.name if alias.asname else top)
            else:
                self._load(alias.name, 0)
                self._bind(alias.asname or top, None)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        module, tensorflow = node.module or "", self._script.tensorflow
        if node.level == 0 and module.split(".")[0] == ROOT:
            for alias in node.names:
                if alias.name == "*":
                    self._check(module, node.lineno)
                    for name in tensorflow.public(module):
                        self._bind(name, f"{module}.{name}")
                else:
                    self._check(f"{module}.{alias.name}", node.lineno)
                    self._bind(alias.asname or alias.name, f"{module}.{alias.name}")
            return
        bindings = self._load(module, node.level) if module else {}
        for alias in node.names:
            if alias.name == "*":
                for name, value in bindings.items():
                    self._bind(name, value)
                continue
            self._load(f"{module}.{alias.name}" if module else alias.name, node.level)
            self._bind(alias.asname or alias.name, bindings.get(alias.name))

    def _load(self, module: str, level: int) -> Bindings:
        path = self._script.local(self._path, module, level)
        return {} if path is None else self._script.load(path)

    # ---------------------------------------------------------------------------- names and values

    def visit_Attribute(self, node: ast.Attribute) -> None:
        path = self._resolve(node)
        if path is None:
            self.visit(node.value)
        elif isinstance(node.ctx, ast.Load):
            self._check(path, node.lineno)
        else:
            self._script.given.add(path)

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Store):
            self._bind(node.id, None)

    def visit_Assign(self, node: ast.Assign) -> None:
        self.visit(node.value)
        path = self._resolve(node.value)
        for target in node.targets:
            if isinstance(target, ast.Name):
                self._bind(target.id, path)
            else:
                self.visit(target)

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        if node.name:
            self._bind(node.name, None)
        self.generic_visit(node)

    # ----------------------------------------------------------------------------------- functions

    def _visit_function(self, node: Union[ast.FunctionDef, ast.AsyncFunctionDef]) -> None:
        for each in [*node.decorator_list, *node.args.defaults, *node.args.kw_defaults]:
            if each is not None:
                self.visit(each)
        self._bind(node.name, None)
        is_inner = self._function is not None or node.decorator_list
        scopes, conditional, guarded = list(self._scopes), self._conditional, self._guarded
        is_method = len(scopes) > 1 and self._function is None
        function = self._function if is_inner or is_method else node.name

        def read() -> None:
            former = self._scopes, self._conditional, self._function, self._guarded
            self._scopes = [*scopes, dict.fromkeys(_parameters(node.args))]
            self._conditional, self._function, self._guarded = conditional, function, guarded
            for statement in node.body:
                self.visit(statement)
            self._scopes, self._conditional, self._function, self._guarded = former

        self._later.append(read)

    visit_FunctionDef = _visit_function
    visit_AsyncFunctionDef = _visit_function

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._scopes.append(dict.fromkeys(_parameters(node.args)))
        self.visit(node.body)
        self._scopes.pop()

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for each in [*node.decorator_list, *node.bases, *node.keywords]:
            self.visit(each)
        self._bind(node.name, None)
        self._scopes.append({})
        for statement in node.body:
            self.visit(statement)
        self._scopes.pop()

    # ---------------------------------------------------------------------------------- conditions

    def visit_Try(self, node: ast.Try) -> None:
        if not any(_catches_absence(handler) for handler in node.handlers):
            self.generic_visit(node)
            return
        outer, self._guarded = self._guarded, []
        for statement in node.body:
            self.visit(statement)
        is_missing, self._guarded = bool(self._guarded), outer
        followed: Sequence[ast.AST] = node.handlers if is_missing else node.orelse
        for each in followed:
            self.visit(each)
        for statement in node.finalbody:
            self.visit(statement)

    def visit_If(self, node: ast.If) -> None:
        self._visit_condition(node, [node.body, node.orelse])

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self._visit_condition(node, [[node.body], [node.orelse]])

    def _visit_condition(self, node: Any, branches: List[List[Any]]) -> None:
        self.visit(node.test)
        text = ast.dump(node.test)
        former = self._conditional, self._guarded
        if "hasattr" in text or "version" in text.lower():
            self._guarded = []
        self._conditional = self._conditional or "'__main__'" not in text
        for statement in [each for branch in branches for each in branch]:
            self.visit(statement)
        self._conditional, self._guarded = former


def _parameters(arguments: ast.arguments) -> Set[str]:
    """The names of the parameters of a function."""
    every = [*arguments.args, *arguments.kwonlyargs, *getattr(arguments, "posonlyargs", [])]
    every += [each for each in (arguments.vararg, arguments.kwarg) if each is not None]
    return {each.arg for each in every}


def _catches_absence(handler: ast.ExceptHandler) -> bool:
    """Whether a handler catches the error of a name that does not exist."""
    if handler.type is None:
        return True
    caught = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(getattr(each, "id", None) in _GUARDS for each in caught)
