"""Write the sources of the site into build/pages: the documents, and a reference from the code.

python docs/make_site.py && mkdocs build --strict

The documents keep their places, so their links hold as in the repository. What they link to is
copied, too. The reference has what click, the declarations of options and docstrings say.
"""

from __future__ import annotations

import glob
import inspect
import os
import re
import shutil

import click
from write_reference import describe, describe_class, describe_signature, table

import toolkit
from toolkit import errors, testing
from toolkit.cli import help as cli_help
from toolkit.cli.app import app
from toolkit.cli.plugin_options import option_flags
from toolkit.options import changeable_options, format_value, merge
from toolkit.plugins import Plugins, list_entries, list_plugins, load
from toolkit.storage import run_folder

REPOSITORY = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FOLDER = os.path.join(REPOSITORY, "build", "pages")
DOCUMENTS = ("*.md", "docs/site.css", "docs/**/*.md", "samples/**/*.md", "benchmarks/**/*.md")
OTHERS = {entry.name for entry in list_entries("command") if entry.distribution != "toolkit"}
LINK = re.compile(r"\]\(([^):#]+)[#)]")


def main():
    shutil.rmtree(FOLDER, ignore_errors=True)
    for path in find_files():
        target = os.path.join(FOLDER, path)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        shutil.copy(os.path.join(REPOSITORY, path), target)
    for name, make in PAGES.items():
        target = os.path.join(FOLDER, "docs", "reference", name)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with open(target, "w", encoding="utf-8") as file:
            file.write("\n".join(make()))


def find_files():
    """The paths of the documents, and of the files to which they link."""
    paths = set()
    for pattern in DOCUMENTS:
        for page in glob.glob(os.path.join(REPOSITORY, pattern), recursive=True):
            with open(page, encoding="utf-8") as file:
                links = LINK.findall(file.read())
            paths.update([page, *(os.path.join(os.path.dirname(page), link) for link in links)])
    return sorted(os.path.relpath(path, REPOSITORY) for path in paths if os.path.isfile(path))


# ---------------------------------------------------------------------------------- commands


def make_commands():
    yield "# Commands\n"
    yield "Those that train or continue a run take its [options](options.md), too.\n"
    yield from describe_commands(app, click.Context(app, info_name="toolkit"))


def describe_commands(group, parent):
    """The commands of a group that the toolkit ships, each with its own flags."""
    for name in group.list_commands(parent):
        command = group.get_command(parent, name)
        context = click.Context(command, parent=parent, info_name=name)
        if command.hidden or name in OTHERS:
            continue
        if isinstance(command, click.Group):
            yield from describe_commands(command, context)
            continue
        usage = [context.command_path, *command.collect_usage_pieces(context)]
        yield f"## {context.command_path}\n\n{text_block(' '.join(usage))}"
        yield inspect.cleandoc(command.help).replace("\b\n", "") + "\n"
        examples = [each.format(plugin="classifier") for each in getattr(command, "_examples", ())]
        yield text_block("\n".join(examples)) if examples else ""
        sections = cli_help.group_flags(context, command.get_params(context))
        for title, flags in sections.items():
            head = ("flag", "" if title == cli_help.OWN else title)
            yield table(head, [(code(flag), cell(text)) for _, (flag, text) in flags])


# ----------------------------------------------------------------------------------- options


def make_options():
    yield "# Options\n"
    yield (
        "An option is a flag of `toolkit run`, a key of a `--config` file, and a variable: "
        "`--batch-size 32`, `batch_size = 32`, `TOOLKIT_BATCH_SIZE=32`. Those marked with * may "
        "change on a resume without `--allow`.\n"
    )
    yield from list_options(option_flags(None), changeable_options(merge([])))
    for kind in ("model", "extension"):
        for entry in list_plugins():
            if entry.distribution == "toolkit" and entry.kind == kind:
                yield from describe_plugin(entry)


def describe_plugin(entry):
    """The options of a plugin, and its defaults for those of the core."""
    plugins = Plugins(load(entry.name, entry.kind), [])
    classes = plugins.options()
    yield f"## {entry.kind.capitalize()} {entry.name}\n"
    values = {name: value for _, cls in classes for name, value in cls.core_defaults.items()}
    defaults = ", ".join(f"`{name}` {format_value(value)}" for name, value in values.items())
    yield f"Other defaults than above: {defaults}.\n" if defaults else ""
    flags = [flag for flag in option_flags(plugins) if flag.group == f"Plugin {entry.name}"]
    yield from list_options(flags, changeable_options(merge(classes)), level="")


def list_options(flags, changeable, level="## "):
    """A table for each group of options; level: of its heading, "" for none."""
    for title, members in cli_help.group_flags(click.Context(app), flags).items():
        rows = [describe_option(flag.field, changeable) for flag, _ in members]
        yield f"{level}{title}\n" if level and rows else ""
        yield table(("option", "type", "default", ""), rows) if rows else ""


def describe_option(field, changeable):
    limits = "; ".join(part for part in (field.unit, field.limits) if part)
    default = "" if field.default in (None, [], {}) else code(format_value(field.default))
    name = code(field.name) + (" \\*" if field.name in changeable else "")
    type = code(field.type).replace("|", "` `")
    return name, type, default, cell(field.help + (f" [{limits}]" if limits else ""))


# -------------------------------------------------------------------------------------- rest


def make_codes():
    yield "# Exit codes and files of a run\n"
    yield text_block(inspect.cleandoc(errors.__doc__))
    yield "[Troubleshooting](../troubleshooting.md) goes from a message to its way out.\n"
    yield text_block(inspect.cleandoc(run_folder.__doc__))
    yield "[Runs](../runs.md) says more about each file.\n"


def make_names():
    """Every public function, class and error, and the members of the public modules."""
    yield "# Python\n"
    yield (
        "`from toolkit import NAME`; importing `toolkit` imports no TensorFlow. [Hooks, `Run` and "
        "`SampleRequest`](../plugins/reference.md) are on a page of their own.\n"
    )
    values = {name: getattr(toolkit, name) for name in toolkit.__all__ if name != "tf"}
    for name in ("Run", "SampleRequest"):
        del values[name]
    kinds = {"Functions": inspect.isfunction, "Classes": is_plain_class, "Errors": is_error}
    for title, fits in kinds.items():
        yield f"## {title}\n"
        for name in sorted(name for name, value in values.items() if fits(value)):
            yield from describe_name(name, values[name])
    modules = {name: value for name, value in values.items() if inspect.ismodule(value)}
    for name, module in {**modules, "testing": testing}.items():
        yield f"## toolkit.{name}\n\n{describe(module)}\n"
        for member in members_of(module):
            yield from describe_name(f"{name}.{member}", getattr(module, member))


def is_error(value):
    return inspect.isclass(value) and issubclass(value, Exception)


def is_plain_class(value):
    return inspect.isclass(value) and not is_error(value)


def members_of(module):
    """The names that a public module offers."""
    if hasattr(module, "__all__"):
        return module.__all__
    functions = inspect.getmembers(module, inspect.isfunction)
    return [n for n, each in functions if each.__module__ == module.__name__ and n[0] != "_"]


def describe_name(name, value):
    """A class with its members, or a function; nothing for another value."""
    if inspect.isclass(value):
        yield from describe_class(value, name, name, level="###")
    elif inspect.isfunction(value):
        yield f"### {name}\n\n{text_block(name + describe_signature(value))}\n{describe(value)}\n"


def text_block(text):
    return f"```text\n{text}\n```\n"


def code(text):
    return f"`{text}`" if text else ""


def cell(text):
    """A text in a table."""
    return text.replace("|", "\\|").replace("<", "&lt;")


PAGES = {
    "commands.md": make_commands,
    "options.md": make_options,
    "codes.md": make_codes,
    "python.md": make_names,
}

if __name__ == "__main__":
    main()
