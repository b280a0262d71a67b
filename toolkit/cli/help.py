"""Help that fits a screen: what most users need, and each group of options on demand.

`--help` shows a command's own flags, or the most used ones. `--help TOPIC` shows a group of
options: `data`, `optimisation`, ..., `command` for the command's own, the name of a plugin, or
`all`.
"""

from __future__ import annotations

import os
import re
import textwrap
from typing import Any, Dict, Iterable, List, Mapping, Optional, Tuple

import click

from ..errors import UsageError, suggest
from ..options import format_value

ALL = "all"
OWN = "command"  # the topic of the flags that belong to no group
PLUGIN = "Plugin "  # what the titles of plugins' groups begin with
WIDTH = 78
HELP = re.compile("--help|-[a-z]*h[a-z]*")

Row = Tuple[str, str]  # a flag with what stands for its value, and its help
Sections = Dict[str, List[Tuple[click.Option, Row]]]  # the visible flags by the title of a group


class ShortCommand(click.Command):
    """A command whose help shows its own flags, and those of a group on demand. `most_used` has a
    line for each flag that the short help shows, by default the command's own flags.
    """

    def __init__(
        self,
        *args: Any,
        most_used: Optional[Mapping[str, str]] = None,
        **kwargs: Any,
    ):
        super().__init__(*args, **kwargs)
        self._most_used = most_used or {}
        self.topic = ""  # the word after --help

    def get_help_option_names(self, ctx: click.Context) -> List[str]:
        # Click keeps the flags of the first context that asks, which may be none of `toolkit`.
        return ["-h", "--help"]

    def make_context(
        self, info_name: Optional[str], args: List[str], *more: Any, **extra: Any
    ) -> click.Context:
        self.topic = ""
        for place, word in enumerate(args[:-1]):
            topic = args[place + 1]
            # A path or a run, as in `resume --help RUN`, is no topic.
            is_place = os.sep in topic or os.path.exists(os.path.join(topic, "config.json"))
            if HELP.fullmatch(word) and not topic.startswith("-") and not is_place:
                args, self.topic = [*args[: place + 1], *args[place + 2 :]], topic
                break
        return super().make_context(info_name, args, *more, **extra)

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if not self.topic:
            super().format_help_text(ctx, formatter)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections = group_flags(ctx, self.get_params(ctx))
        topics = {t: t[len(PLUGIN) :] if t.startswith(PLUGIN) else t.lower() for t in sections}
        if not self.topic:
            self._write_short(formatter, sections)
            names = [topics[title] for title in sections if title != OWN or self._most_used]
            if names:
                formatter.write_paragraph()
                formatter.write_text(f"More: --help TOPIC, one of {', '.join(names)}, {ALL}.")
            return
        topic = self.topic.lower()
        titles = [title for title in sections if topic in (topics[title].lower(), ALL)]
        if not titles:
            known = [*topics.values(), ALL]
            hint = suggest(self.topic, known) or f"Topics: {', '.join(known)}."
            raise UsageError(f"There is no help on '{self.topic}'.", hint=hint)
        for title in titles:
            with formatter.section("Options" if title == OWN else title):
                formatter.write_dl([row for _, row in sections[title]])

    def _write_short(self, formatter: click.HelpFormatter, sections: Sections) -> None:
        """Write the most used flags and the names of the plugins' flags, or else the own flags."""
        if not self._most_used:
            with formatter.section("Options"):
                formatter.write_dl([row for _, row in sections[OWN]])
            return
        flags = {flag.name: (flag, row) for rows in sections.values() for flag, row in rows}
        rows = []
        for name, text in self._most_used.items():  # with the default that holds with the plugin
            flag, (form, _) = flags[name]
            default = getattr(getattr(flag, "field", None), "default", None)
            text += "" if default is None else f" [default {format_value(default)}]"
            rows.append((form, text))
        with formatter.section("Most used"):
            formatter.write_dl(rows)
        of_plugins = [title for title in sections if title.startswith(PLUGIN)]
        size = (3 if len(of_plugins) == 1 else 1) * (WIDTH - 20)
        for title in of_plugins:
            names = " ".join(flag.opts[0] for flag, _ in sections[title])
            with formatter.section(title):
                text = textwrap.shorten(
                    names, size, placeholder=" and more", break_on_hyphens=False
                )
                formatter.write_text(text)


def group_flags(ctx: click.Context, params: Iterable[click.Parameter]) -> Sections:
    """Return the visible flags by group: the command's own first, those of plugins last."""
    groups: Sections = {OWN: []}
    for param in params:
        row = param.get_help_record(ctx)
        if isinstance(param, click.Option) and row is not None:
            groups.setdefault(getattr(param, "group", OWN), []).append((param, row))
    titles = sorted(groups, key=lambda title: (title.startswith(PLUGIN), title == "Cluster"))
    return {title: groups[title] for title in titles}
