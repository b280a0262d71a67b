"""Which module imports what: checked in the sources and in fresh processes."""

import ast
import functools
import importlib.util
import json
import os
import re
from pathlib import Path

from file_fixtures import REPOSITORY, read_text
from process_fixtures import run
from synthetic_runs import write_run

# Texts in which the core may use a plugin's name: examples and descriptions for people.
EXAMPLES_WITH_PLUGINS = {
    "toolkit/__init__.py": ["Train image classifiers and GANs"],
    "toolkit/cli/app.py": [
        "Train image classifiers and GANs",
        "Start with: toolkit run classifier",
    ],
    # What `plugins new --from` names: samples, and the small model of the templates.
    "toolkit/cli/plugins/new.py": ['"gan": os.path.join', 'DEFAULT = "classifier"'],
}
# Packages that take a tenth of a second or 10 MB to import, and that only a few commands need.
HEAVY = {"tensorflow", "tf_keras", "sklearn", "scipy", "matplotlib", "pandas", "PIL", "mlxtend"}
VERSION_BRANCH = re.compile(
    r"\bsys\.version_info\b|\btf\.__version__\b|\bVERSION_FAMILY\b|\btf\.VERSION\b"
)


def sources(*folders):
    """(path from the repository, text) of each Python file."""
    for folder in folders:
        for path in sorted(Path(REPOSITORY, folder).rglob("*.py")):
            yield os.path.relpath(str(path), REPOSITORY), read_text(path)


@functools.lru_cache(maxsize=None)
def imports(path, text):
    """(absolute module, imported names) of each import anywhere in a file."""
    return list(find_imports(path, text))


def find_imports(path, text):
    package = os.path.dirname(path).split(os.sep)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, []
        elif isinstance(node, ast.ImportFrom):
            start = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join(start + ([node.module] if node.module else []))
            yield module, [alias.name for alias in node.names]


ARRAYS = {"numpy", "pydantic", "rich"}  # what the help does without, besides
SCORES = """
import importlib, pkgutil, toolkit_image_scores
for module in pkgutil.iter_modules(toolkit_image_scores.__path__):
    importlib.import_module("toolkit_image_scores." + module.name)
"""
OF_A_RUN = ("resume", "evaluate", "predict", "export", "sample")
# The words of a command, or other code, and the modules that are not imported after it. One process
# runs all of them in this order, so that each also lacks what the later ones lack.
WITHOUT = [
    ("import toolkit", HEAVY | ARRAYS),
    (["--version"], HEAVY | ARRAYS),
    (
        ["plugins", "list"],
        HEAVY | {"numpy", "toolkit_classifier", "toolkit_gan", "toolkit_regressor"},
    ),
    (["--help"], HEAVY | {"numpy"}),
    *(([command, "--help"], HEAVY | {"numpy"}) for command in OF_A_RUN),
    ("import toolkit_classifier; toolkit_classifier.options()", HEAVY),
    ("from toolkit.data.sources import open_data; open_data('mnist5k')", HEAVY | {"pooch"}),
    (["run", "--help"], HEAVY),
    (["run", "--plugin", "classifier", "--help"], HEAVY),
    (["run", "--plugin", "classifier", "--augment", "none", "--print-config"], HEAVY),
    (["plugins", "show", "classifier"], HEAVY),
    (["plugins", "show", "gan"], HEAVY),
    (["data", "list"], HEAVY),
    (["data", "check", "mnist5k"], HEAVY),
    (["report", "run"], {"tensorflow", "tf_keras"}),
    (["runs", "."], {"tensorflow", "tf_keras"}),
    (["compare", "run", "other"], {"tensorflow", "tf_keras"}),
    (SCORES, {"tensorflow", "tf_keras"}),
]
REPORT_MODULES = """
import contextlib, io, json, sys

imported = []
for code in json.loads(sys.argv[1]):
    with contextlib.redirect_stdout(io.StringIO()):
        exec(code, {})
    imported.append(list(sys.modules))
print(json.dumps(imported))
"""


def modules_after(rows, folder, fresh=True):
    """The modules that a process has imported after each of some rows."""
    call = "from toolkit.cli import run_command; assert run_command({!r}) == 0"
    codes = [row if isinstance(row, str) else call.format(row) for row in rows]
    result = run(json.dumps(codes), statements=REPORT_MODULES, fresh=fresh, cwd=str(folder))
    return [set(names) for names in result.ok().json()]


def test_what_only_prints_or_reads_imports_no_tensorflow_and_nothing_heavy(here):
    write_run("run"), write_run("other", seed=2)
    for (row, without), modules in zip(WITHOUT, modules_after([row for row, _ in WITHOUT], here)):
        assert not without & modules, f"{row} imports {sorted(without & modules)}"


def test_training_imports_nothing_that_only_reports_need(here):
    row = ["run", "--plugin", "classifier", "--network", "mlp", "--steps", "1", "--no-evaluate"]
    (modules,) = modules_after([row], here, fresh=False)
    assert "tensorflow" in modules
    assert not {"sklearn", "matplotlib", "mlxtend", "pandas", "pooch"} & modules


def test_type_checkers_find_each_public_name_where_it_is_loaded_from():
    import toolkit

    path = os.path.join("toolkit", "__init__.py")
    text = dict(sources("toolkit"))[path]
    typed = {name: module for module, names in imports(path, text) for name in names}
    for name in ("annotations", "TYPE_CHECKING", "Any", "List"):
        del typed[name]
    assert typed == toolkit._HOME


PATCHING = os.path.join("plugins", "adopt", "")  # replaces functions of TensorFlow for scripts


def test_only_compat_imports_tensorflow_and_reads_a_version():
    compat = os.path.join("toolkit", "compat.py")
    peers = os.path.join("gan-league", "benchmark", "peers")  # programs of other libraries
    for path, text in sources("toolkit", "plugins", "samples"):
        if peers in path:
            continue
        modules = [module for module, _ in imports(path, text)]
        has_tensorflow = any(re.match(r"(tensorflow|tf_keras|keras)\b", name) for name in modules)
        assert has_tensorflow == (path == compat) or path.startswith(PATCHING), path
        if path != compat and os.sep + "tests" + os.sep not in path:
            assert not VERSION_BRANCH.search(text), path


# What a package may import of another one, on which it depends: the names that are public there.
PUBLIC_NAMES = {
    "toolkit_gan.options": {"GanOptions"},
    "toolkit_gan.presets": {"PRESETS"},
    "toolkit_agreement": {"MAX_FILTERS", "MIN_IMAGES", "train_once"},
    "toolkit_image_scores.options": {"ImageScoresOptions"},
    "toolkit_image_scores.report": {"short"},
    "toolkit_image_scores.scorer": {"ImageScorer"},
    "toolkit_image_scores.sets": {"even_positions", "read_images"},
}


def test_plugins_import_public_names_of_toolkit_and_of_each_other():
    import toolkit

    folders = os.listdir(os.path.join(REPOSITORY, "plugins"))
    packages = [name.replace("-", "_") for name in folders]
    for path, text in sources("plugins", "samples"):
        if os.sep + "tests" + os.sep in path:
            continue
        for module, names in imports(path, text):
            if module.split(".")[0] == "toolkit":
                assert module == "toolkit", f"{path} imports {module}"
                assert set(names) <= set(toolkit.__all__), f"{path} imports {names}"
            other = re.match(r"toolkit_(\w+)", module)
            if other and other.group(1) in packages:
                is_own = path.split(os.sep)[1].replace("-", "_") == other.group(1)
                assert is_own or set(names) <= PUBLIC_NAMES.get(module, set()), path


def test_what_the_benchmarks_import_from_the_project_exists():
    for path, text in sources("benchmarks"):
        for module, names in imports(path, text):
            if module.split(".")[0] in ("toolkit", "toolkit_classifier", "toolkit_gan"):
                namespace = importlib.import_module(module)
                for name in names:
                    is_there = hasattr(namespace, name)
                    is_there = is_there or importlib.util.find_spec(f"{module}.{name}")
                    assert is_there, f"{path} imports {name} from {module}"


def test_the_core_names_no_plugin():
    for path, text in sources("toolkit"):
        for example in EXAMPLES_WITH_PLUGINS.get(path.replace(os.sep, "/"), []):
            assert example in text, f"the exception for {path} is out of date"
            text = text.replace(example, "")
        match = re.search(r"(?i)\b(toolkit_)?(classifiers?|gans?)\b", text)
        assert not match, f"{path} names '{match and match.group(0)}'"


def table():
    """Module or package of the core -> what it may import, as docs/design/imports.md says."""
    text = read_text(REPOSITORY, "docs", "design", "imports.md")
    lines = text.partition("| module | may import |\n")[2].partition("\n\n")[0].splitlines()
    rows = {}
    for line in lines[1:]:
        left, right = line.strip("|").split("|")[:2]
        allowed = set(re.findall(r"[a-z_]+", right)) - {"nothing"}
        for name in re.findall(r"[a-z_]+", left):
            assert name not in rows, f"{name} has two rows"
            rows[name] = allowed
    return rows


def layer(module):
    """`toolkit.training.loop` -> `training`; `toolkit` itself -> `__init__`."""
    return (module.split(".") + ["__init__"])[1]


def imported_layers():
    """Layer -> the layers of the core that it imports, and where."""
    folder = os.path.join(REPOSITORY, "toolkit")
    known = {name[:-3] if name.endswith(".py") else name for name in os.listdir(folder)}
    graph = {}
    for path, text in sources("toolkit"):
        own = layer(path[:-3].replace(os.sep, "."))
        edges = graph.setdefault(own, {})
        for module, names in imports(path, text):
            if module == "toolkit":
                targets = [n if n in known else "__init__" for n in names if n != "__version__"]
            elif module.startswith("toolkit."):
                targets = [layer(module)]
            else:
                continue
            edges.update((target, path) for target in targets if target != own)
    return graph


def test_each_module_of_the_core_has_a_row_and_imports_only_what_the_row_allows():
    rows, graph = table(), imported_layers()
    public = {"__init__", "__main__"}  # the public names; the command
    assert set(graph) - public == set(rows) - public
    for name in set(graph) - public:
        for target, path in graph[name].items():
            assert target in rows[name], f"{path} imports {target}"


def check_no_circle(graph):
    """Fail where some of a graph, name -> names, lead back to themselves."""
    left = dict(graph)
    while left:
        free = [name for name, targets in left.items() if not set(targets) & set(left)]
        assert free, f"a circle among {sorted(left)}"
        for name in free:
            del left[name]


def test_imports_of_the_core_point_one_way():
    graph = imported_layers()
    graph.pop("__init__")
    check_no_circle(graph)


def test_no_files_import_each_other_in_a_circle():
    """Imports for types alone are left out, and the public names of `toolkit/__init__.py`."""
    files = {path[: -len(".py")].replace(os.sep, "."): path for path, _ in sources("toolkit")}
    graph = {}
    for path, text in sources("toolkit"):
        text = re.sub(r"(?m)^if TYPE_CHECKING:\n(    .*\n|\n)*", "", text)
        targets = set()
        for module, names in imports(path, text):
            targets |= {module, *(f"{module}.{name}" for name in names)} & set(files)
        graph[path] = {files[target] for target in targets} - {path}
    check_no_circle(graph)
