"""`toolkit plugins show NAME`."""

from __future__ import annotations

from typing import Any, Dict, Iterator, List

import click

from ...display.numbers import format_count
from ...display.table import format_table
from ...errors import ToolkitError, UsageError
from ...options import describe
from ...plugins import (
    HOOKS,
    Plugins,
    choose,
    hook_names,
    implementations,
    is_name,
    list_plugins,
    load,
    place_of,
)
from ..common import flag, model_flags, print_result, switch
from ..plugin_command import PluginCommand, Words, select_named
from ..plugin_options import (
    NO_SELECTION,
    Selection,
    load_selection,
    option_flags,
    resolve,
)

TINY_MODEL = "toolkit.testing.tiny:TinyModel"  # `toolkit.testing` would import TensorFlow


def find_kind(name: str) -> str:
    """Return the kind of the plugin that a reference names: "model" or "extension"."""
    if is_name(name):
        kinds = [entry.kind for entry in list_plugins() if entry.name == name]
        return kinds[0] if kinds else "model"
    try:
        return "extension" if hook_names(load(name, "extension")) else "model"
    except ToolkitError:
        return "model"  # whose loading reports what is wrong


def select_subject(name: str, words: Words) -> Selection:
    """Load a plugin, an extension with a small model, and what --with and --config name."""
    for reference in (name, TINY_MODEL):
        choose(reference)
    named = select_named(words._replace(values={**words.values, "--plugin": [""]}))
    files = [] if words.all("--with") else words.all("--config")
    origins = dict.fromkeys(named.extensions, files[-1]) if files else {}
    model, extensions = name, named.extensions
    if find_kind(name) == "extension":
        model, extensions = TINY_MODEL, [name, *extensions]
    return load_selection(model, extensions, origins, named.layers)


def _select(words: Words) -> Selection:
    name = words.argument()
    if not name or words.all("--help"):
        return NO_SELECTION
    unused = [] if words.all("--summary") else [w for w in ("--with", "--config") if words.all(w)]
    if unused:
        raise UsageError(f"{unused[0]} is set, but --summary is not.", hint="Add --summary.")
    return select_subject(name, words) if words.all("--summary") else NO_SELECTION


@click.command(
    cls=PluginCommand,
    select=_select,
    plugin_flags=lambda plugins: option_flags(plugins) if plugins else [],
)
@click.argument("name")
@switch(
    "--summary",
    "Build the model, and list its variables; takes the flags of 'toolkit run', too.",
)
@flag("--with extensions", "NAME", "Add an extension.", multiple=True, expose_value=False)
@flag("--config", "FILE", "TOML or JSON file with options.", multiple=True, expose_value=False)
@model_flags
@click.pass_context
def show(ctx: click.Context, name: str, summary: bool, as_json: bool, **flags: Any) -> None:
    """Show the hooks and options of a plugin; with --summary its model.

    NAME is a plugin as for --plugin or --with of 'toolkit run'. --summary builds the graph of a run
    with the same flags, and trains nothing.
    """
    facts = _describe(name)
    if summary:
        from ...training.setup import summarize_model

        resolved = resolve(ctx.obj, flags, use_environment=False)
        # The variables in the order in which the model creates them, and its sizes.
        facts.update(summarize_model(ctx.obj.plugins, resolved))
    print_result(as_json, facts, _describe_facts(facts))


def _describe(name: str) -> Dict[str, Any]:
    """Load a plugin, and return what is to be known of it."""
    entries = [entry for entry in list_plugins() if entry.name == name]
    kind = find_kind(name)
    facts: Dict[str, Any] = {"name": name, "kind": kind, "distribution": "", "version": ""}
    if entries:
        facts.update(distribution=entries[0].distribution, version=entries[0].version)
    plugin = load(name, kind)
    functions = [each for each in implementations(plugin) if each.hook in HOOKS]
    functions.sort(key=lambda each: HOOKS.index(each.hook))
    places = [
        {"hook": each.hook, "wraps": each.is_wrapper, "place": place_of(each.function, plugin)}
        for each in functions
    ]
    fields = [field for _, cls in Plugins(plugin).options() for field in describe(cls)]
    options = [dict(field._asdict()) for field in fields]
    hooks = hook_names(plugin)
    return dict(facts, file=plugin.file, hooks=hooks, implementations=places, options=options)


# ------------------------------------------------------------------------------------------- print


def _describe_facts(facts: Dict[str, Any]) -> Iterator[str]:
    """The lines of `_describe`, with a model those of `summarize_model` in place of the options."""
    for key in ("name", "kind", "distribution", "version", "file"):
        if facts[key]:
            yield f"{key:13}{facts[key]}"
    if "variables" in facts:
        yield from _describe_model(facts["variables"], facts["scopes"], facts["model"])
        return
    if facts["hooks"]:
        places = facts["implementations"]
        rows = [(each["hook"], "wraps" if each["wraps"] else "", each["place"]) for each in places]
        yield f"{'hooks':13}{', '.join(facts['hooks'])}"
        yield from ["", *format_table(("HOOK", "", "PLACE"), rows)]
    if facts["options"]:
        keys = ("name", "type", "default", "limits", "unit", "help")
        table = [
            ["none" if f[key] is None else str(f[key]) for key in keys] for f in facts["options"]
        ]
        header = ("OPTION", "TYPE", "DEFAULT", "LIMITS", "UNIT", "")
        yield from ["", *format_table(header, table)]


def _describe_model(
    variables: List[Dict[str, Any]], scopes: Dict[str, Dict[str, int]], model: Dict[str, int]
) -> Iterator[str]:
    """The variables, the size of each scope, and the size of the model."""
    rows = []
    for each in variables:
        shape = "x".join(map(str, each["shape"])) or "scalar"
        note = "" if each["is_trained"] else "not trained"
        rows.append((each["name"], shape, f"{each['numbers']:,}", each["dtype"], note))
    yield from ["", *format_table(("VARIABLE", "SHAPE", "PARAMETERS", "TYPE", ""), rows)]
    keys = ("parameters", "trainable", "variables")
    sizes = [(name, *(f"{counts[key]:,}" for key in keys)) for name, counts in scopes.items()]
    yield from ["", *format_table(("SCOPE", "PARAMETERS", "TRAINED", "VARIABLES"), sizes), ""]
    total, trained = model["parameters"], model["trainable"]
    size = sum(each["bytes"] for each in variables)
    count = format_count(model["variables"], "variable", mark=",")
    yield (
        f"{total:,} parameters in {count}: {trained:,} are trained, "
        f"{total - trained:,} are not; {size:,} bytes"
    )
