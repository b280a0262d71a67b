"""`toolkit plugins new NAME`: the folder of a new plugin."""

from __future__ import annotations

import ast
import importlib.util
import keyword
import os
import re
import secrets
import shutil
import string
from typing import Dict, Mapping, Optional

import click

from ...cli_options import json_option, resolve_output, writing_output
from ...errors import UsageError
from ...plugins import list_entries
from ...storage.run_folder import shell_argument
from ..common import flag, print_result

PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TEMPLATES = os.path.join(PACKAGE, "templates")
SUFFIX = ".template"
# What --from names -> the module or the package with its code, in the folder of the samples.
SAMPLES = {
    "vae": os.path.join("vae", "toolkit_vae"),
    "gan": os.path.join("plugins", "two_updates_gan.py"),
    "text": os.path.join("plugins", "sequences.py"),
    "segmentation": os.path.join("plugins", "segmentation.py"),
}
DEFAULT = "classifier"
_OTHERS = ("journal.py",)  # modules of samples that are no part of the plugin
_PATH = re.compile(r"samples/plugins/\w+\.py")  # of a sample, as its docstring names it
_NAME = re.compile("[a-z][a-z0-9]*([-_][a-z0-9]+)*")


@click.command()
@click.argument("name")
@flag(
    "--kind",
    "model|extension|command",
    "What to start: a model plugin, an extension, or a command.",
    click.Choice(["model", "extension", "command"]),
    default="model",
)
@flag(
    "--from sample",
    f"[{'|'.join([DEFAULT, *SAMPLES])}]",
    "The model to start from.",
    click.Choice([DEFAULT, *SAMPLES]),
    default=DEFAULT,
)
@flag("--out", "DIR", "The folder to write; default: NAME.")
@json_option
def new(name: str, kind: str, sample: str, out: Optional[str], as_json: bool) -> None:
    """Write the folder of a new plugin, which works as it is.

    It has a pyproject.toml, a package with hooks and options, tests that pass, and a README.
    """
    if kind != "model" and sample != DEFAULT:
        raise UsageError(f"--from {sample} is a model, and --kind is {kind}.", hint="Omit --kind.")
    _check_name(name, kind)
    folder = os.path.normpath(out or name)
    if os.path.lexists(folder):
        raise UsageError(f"{folder} exists.", hint="Choose another --out, or another name.")
    target = resolve_output(folder, is_folder=True)
    files = render(name, kind, sample)
    with writing_output(folder):
        temporary = f"{target}.part-{secrets.token_hex(2)}"  # beside it, then moved as a whole
        try:
            for path, text in files.items():
                place = os.path.join(temporary, *path.split("/"))
                os.makedirs(os.path.dirname(place), exist_ok=True)
                with open(place, "w", encoding="utf-8") as file:
                    file.write(text)
            os.rename(temporary, target)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    use = {"model": f"run --plugin {name}", "extension": f"run --plugin NAME --with {name}"}
    lines = [
        ("wrote", f"{folder} ({len(files)} files; README.md explains each)"),
        ("next", f"pip install -e {shell_argument(folder)}"),
        ("", f"toolkit {use.get(kind, f'{name} --help')}"),
    ]
    lines += [("", f"toolkit plugins check {name}")] if kind != "command" else []
    facts = {"folder": folder, "name": name, "kind": kind, "files": sorted(files)}
    print_result(as_json, facts, lines, width=8)


def render(name: str, kind: str, sample: str = DEFAULT) -> Dict[str, str]:
    """Return the files of a new plugin, path from its folder -> text. The kind is "model", which
    starts from a sample, "extension" or "command"; `toolkit run` will know it by the name.
    """
    identifier = name.replace("-", "_")
    values = {
        "name": name,
        "identifier": identifier,
        "identifier_flag": identifier.replace("_", "-"),
        "class_name": identifier.title().replace("_", ""),
    }
    files = {"setup.py": _fill("common/setup.py", values)}
    if kind != "command":
        files["tests/conftest.py"] = _fill("common/conftest.py", values)
    templates = kind if sample == DEFAULT else "sample"
    if sample != DEFAULT:
        modules = _read_sample(sample, name)
        docs = {path: ast.get_docstring(ast.parse(text)) for path, text in modules.items()}
        # The first paragraph of each docstring, in one line.
        titles = {p: " ".join((text or "").split("\n\n")[0].split()) for p, text in docs.items()}
        package = f"toolkit_{identifier}"
        rows = [f"| `{package}/{path}` | {title} |" for path, title in titles.items()]
        values.update(title=titles["__init__.py"], modules="\n".join(rows))
        files["pyproject.toml"] = _fill("model/pyproject.toml", values)
        files.update({f"{package}/{path}": text for path, text in modules.items()})
    root = os.path.join(TEMPLATES, templates)
    for folder, _, names in os.walk(root):
        for file_name in names:
            path = os.path.relpath(os.path.join(folder, file_name), root).replace(os.sep, "/")
            path = path[: -len(SUFFIX)]
            place = re.sub("^package/", f"toolkit_{identifier}/", path)
            place = place.replace("tests/test_package.py", f"tests/test_{identifier}.py")
            files[place] = _fill(f"{templates}/{path}", values)
    return files


def _read_sample(sample: str, name: str) -> Dict[str, str]:
    """Return the modules of a sample by their names in a package, for a plugin of another name.

    A wheel has them below the templates; elsewhere they are in the repository.
    """
    roots = (TEMPLATES, os.path.join(os.path.dirname(PACKAGE), "samples"))
    places = [os.path.join(root, SAMPLES[sample]) for root in roots]
    place = next(place for place in places if os.path.exists(place))
    paths = {"__init__.py": place}
    if os.path.isdir(place):
        modules = [each for each in sorted(os.listdir(place)) if each.endswith(".py")]
        paths = {each: os.path.join(place, each) for each in modules if each not in _OTHERS}
    texts = {}
    for module, path in paths.items():
        with open(path, encoding="utf-8") as file:
            texts[module] = _PATH.sub(name, file.read())
    return texts


def _fill(template: str, values: Mapping[str, str]) -> str:
    with open(os.path.join(TEMPLATES, template + SUFFIX), encoding="utf-8") as file:
        return string.Template(file.read()).substitute(values)


def _check_name(name: str, kind: str) -> None:
    """Refuse a name that no package can have, or that an installed plugin has."""
    from ..app import COMMANDS

    identifier = name.replace("-", "_")
    if not _NAME.fullmatch(name) or keyword.iskeyword(identifier):
        raise UsageError(
            f"'{name}' cannot be the name of a plugin.",
            hint="Write lower-case letters and digits, with - or _ between words: my-model. "
            "No name is a keyword of Python.",
        )
    entries = list_entries("command") + list_entries("model", "extension")
    entries = [entry for entry in entries if entry.name == name]
    package = f"toolkit_{identifier}"
    if kind == "command" and name in COMMANDS:
        text = f"There is a command '{name}' already, of toolkit."
    elif entries:
        noun = "command" if entries[0].kind == "command" else "plugin"
        text = f"There is a {noun} '{name}' already, of {entries[0].distribution}."
    elif name == "toolkit" or importlib.util.find_spec(package) is not None:
        package = "toolkit" if name == "toolkit" else package
        text = f"There is a package '{package}' already, which the new one would hide."
    else:
        return
    raise UsageError(text, hint="Choose another name.")
