"""`toolkit plugins check NAME`: does a plugin keep the contracts of toolkit?"""

from __future__ import annotations

import sys
import tempfile
import time
from typing import Any, Sequence

import click

from ...errors import CheckFailed, UsageError
from ...plugins import is_name
from ..common import flag, model_flags, print_result, switch
from ..plugin_command import PluginCommand, Words
from ..plugin_options import NO_SELECTION, Selection, resolve
from .show import select_subject


def _select(words: Words) -> Selection:
    name = words.argument()
    if not name or (words.all("--help") and not is_name(name)):  # help executes what is installed
        return NO_SELECTION
    return select_subject(name, words)


@click.command(cls=PluginCommand, select=_select)
@click.argument("name")
@flag("--with extensions", "NAME", "Add an extension.", multiple=True, expose_value=False)
@flag("-k words", "WORD", "Only contracts named with it.", multiple=True)
@switch("-x --exitfirst is_short", "End at the first broken one.")
@model_flags
@click.pass_context
def check(
    ctx: click.Context,
    name: str,
    words: Sequence[str],
    is_short: bool,
    as_json: bool,
    **flags: Any,
) -> int:
    """Check what every plugin has to keep, on small data of its kind.

    NAME is a model plugin or an extension: installed, module:attribute or ./file.py. An extension
    is checked with a small model; 'check MODEL --with NAME' takes another one. Options of a run set
    what is checked. The exit code is 6 if a contract is broken.
    """
    from ...testing import Subject, contracts

    resolve(ctx.obj, flags, use_environment=False)  # refuses wrong values
    chosen = [c for c in contracts.ALL if not words or any(word in c.name for word in words)]
    if not chosen:
        raise UsageError(
            f"No contract is named with {' or '.join(words)}.",
            hint=f"Contracts: {', '.join(each.name for each in contracts.ALL)}.",
        )

    def report(result: contracts.Result) -> None:
        line = f"{result.status:8} {result.name}: {result.message or result.title}\n"
        if not as_json:
            sys.stdout.write(line)
            sys.stdout.flush()
        elif sys.stderr.isatty():
            sys.stderr.write(line)

    texts = {name: text for name, text in flags.items() if text is not None}
    start = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="toolkit-check-") as folder, Subject(
        ctx.obj.plugin, folder, ctx.obj.extensions, **texts
    ) as subject:
        results = contracts.check_contracts(subject, chosen, report, is_short)
        data = subject.data_kind
    seconds = time.perf_counter() - start
    counts = dict.fromkeys(("ok", "failed", "skipped"), 0)
    for result in results:
        counts[result.status] += 1
    text = ", ".join(f"{number} {status}" for status, number in counts.items())
    rows = [dict(result._asdict()) for result in results]
    facts = {"name": name, "data": data, "counts": counts, "contracts": rows}
    line = f"{len(results)} contracts in {seconds:.0f} s, on {data}: {text}"
    print_result(as_json, facts, [line])
    broken = [result.name for result in results if result.status == "failed"]
    if broken:
        raise CheckFailed(
            f"{name} breaks {len(broken)} of {len(results)} contracts: {', '.join(broken)}."
        )
    return 0
