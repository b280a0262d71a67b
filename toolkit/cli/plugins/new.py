"""`toolkit plugins new NAME`: the folder of a new plugin."""

from __future__ import annotations

import importlib.util
import keyword
import os
import re
import secrets
import shutil
import string
import sys
from typing import Dict, Mapping, Optional

import click

from ...cli_options import json_option, print_json, resolve_output, writing_output
from ...errors import UsageError
from ...storage.folder import shell_argument

TEMPLATES = os.path.join(
    os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "templates"
)
SUFFIX = ".template"
_NAME = re.compile("[a-z][a-z0-9]*([-_][a-z0-9]+)*")


@click.command()
@click.argument("name")
@click.option(
    "--kind",
    type=click.Choice(["model", "extension", "command"]),
    default="model",
    help="What to start: a model plugin (default), an extension, or a command.",
)
@click.option("--out", metavar="DIR", help="The folder to write; default: NAME.")
@json_option
def new(name: str, kind: str, out: Optional[str], as_json: bool) -> None:
    """Write the folder of a new plugin, which works as it is.

    It has a pyproject.toml, a package with hooks and options, tests that pass, and a README.
    """
    _check_name(name, kind)
    folder = os.path.normpath(out or name)
    if os.path.lexists(folder):
        raise UsageError(f"{folder} exists.", hint="Choose another --out, or another name.")
    target = resolve_output(folder, is_folder=True)
    files = render(name, kind)
    with writing_output(folder):
        _write_folder(target, files)
    if as_json:
        return print_json({"folder": folder, "name": name, "kind": kind, "files": sorted(files)})
    _print_next_steps(name, kind, folder, files)
    return None


def render(name: str, kind: str) -> Dict[str, str]:
    """Return the files of a new plugin: path from its folder -> text.

    Args:
        name: of the plugin, as `toolkit run` will know it.
        kind: "model", "extension" or "command".
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
    root = os.path.join(TEMPLATES, kind)
    for folder, _, names in os.walk(root):
        for file_name in names:
            path = os.path.relpath(os.path.join(folder, file_name), root).replace(os.sep, "/")
            path = path[: -len(SUFFIX)]
            files[_place(path, identifier)] = _fill(f"{kind}/{path}", values)
    return files


def _place(path: str, identifier: str) -> str:
    """The path of a template in the new folder."""
    path = re.sub("^package/", f"toolkit_{identifier}/", path)
    return path.replace("tests/test_package.py", f"tests/test_{identifier}.py")


def _fill(template: str, values: Mapping[str, str]) -> str:
    with open(os.path.join(TEMPLATES, template + SUFFIX), encoding="utf-8") as file:
        return string.Template(file.read()).substitute(values)


def _check_name(name: str, kind: str) -> None:
    """Refuse a name that no package can have, or that an installed plugin has."""
    from ...plugins import list_commands, list_plugins
    from ..app import COMMANDS

    identifier = name.replace("-", "_")
    if not _NAME.fullmatch(name) or keyword.iskeyword(identifier):
        raise UsageError(
            f"'{name}' cannot be the name of a plugin.",
            hint="Write lower-case letters and digits, with - or _ between words: my-model.",
        )
    hint = "Choose another name."
    kinds = [("plugin", list_plugins()), ("command", list_commands())]
    for noun, entries in reversed(kinds) if kind == "command" else kinds:
        distributions = [entry.distribution for entry in entries if entry.name == name]
        if noun == kind and name in COMMANDS:
            distributions = ["toolkit"]
        if distributions:
            text = f"There is a {noun} '{name}' already, of {distributions[0]}."
            raise UsageError(text, hint=hint)
    package = f"toolkit_{identifier}"
    if name == "toolkit" or importlib.util.find_spec(package) is not None:
        package = "toolkit" if name == "toolkit" else package
        raise UsageError(
            f"There is a package '{package}' already, which the new one would hide.", hint=hint
        )


def _write_folder(target: str, files: Mapping[str, str]) -> None:
    """Write the files to a folder beside the target, then move it there as a whole."""
    temporary = f"{target}.part-{secrets.token_hex(2)}"
    try:
        for path, text in files.items():
            place = os.path.join(temporary, *path.split("/"))
            os.makedirs(os.path.dirname(place), exist_ok=True)
            with open(place, "w", encoding="utf-8") as file:
                file.write(text)
        os.rename(temporary, target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _print_next_steps(name: str, kind: str, folder: str, files: Mapping[str, str]) -> None:
    use = {
        "model": f"toolkit run --plugin {name}",
        "extension": f"toolkit run --plugin NAME --with {name}",
        "command": f"toolkit {name} --help",
    }[kind]
    rows = [
        ("wrote", f"{folder} ({len(files)} files; README.md explains each)"),
        ("next", f"pip install -e {shell_argument(folder)}"),
        ("", use),
        ("", f"toolkit plugins check {name}"),
    ]
    for label, text in rows:
        sys.stdout.write(f"{label:8}{text}\n")
