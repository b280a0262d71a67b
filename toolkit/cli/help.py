"""Help that fits a screen: what most users need, and each group of options on demand.

`--help` shows a command's own flags, or the most used ones. `--help TOPIC` shows a group of
options: `data`, `optimisation`, ..., `command` for the command's own, the name of a plugin, or
`all`.
"""

from __future__ import annotations

import os
import re
from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple

import click

from ..errors import UsageError, suggest
from ..options import format_value

ALL = "all"
OWN = "command"  # the topic of the flags that belong to no group
PLUGIN = "Plugin "  # what the titles of plugins' groups begin with
WIDTH = 78
HELP = re.compile("--help|-[a-z]*h[a-z]*")

Sections = Dict[str, List[click.Option]]  # the visible flags of each group, by its title


class ShortCommand(click.Command):
    """A command whose help shows its own flags, and those of a group on demand.

    Args:
        most_used: name -> a line, for each flag that the short help shows; by default the
            command's own flags.
        is_short: whether the help leaves out the flags of groups.

    Attributes:
        topic: the word after --help.
    """

    def __init__(
        self,
        *args: Any,
        most_used: Optional[Mapping[str, str]] = None,
        is_short: bool = True,
        **kwargs: Any,
    ):
        super().__init__(*args, **kwargs)
        self._most_used, self.is_short = most_used or {}, is_short
        self.topic = ""

    def get_help_option_names(self, ctx: click.Context) -> List[str]:
        # Click keeps the flags of the first context that asks, which may be none of `toolkit`.
        return ["-h", "--help"]

    def make_context(
        self, info_name: Optional[str], args: List[str], *more: Any, **extra: Any
    ) -> click.Context:
        args, self.topic = split_topic(args)
        return super().make_context(info_name, args, *more, **extra)

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if not self.topic:
            super().format_help_text(ctx, formatter)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections = group_flags(ctx, self.get_params(ctx))
        if self.topic or not self.is_short:
            write_topic(ctx, formatter, sections, self.topic or ALL)
        else:
            write_short(ctx, formatter, sections, self._most_used)


def split_topic(args: Sequence[str]) -> Tuple[List[str], str]:
    """Divide arguments into those without the topic, and the word that follows --help, or ""."""
    for place, word in enumerate(args[:-1]):
        topic = args[place + 1]
        # A path or a run, as in `resume --help RUN`, is no topic.
        is_place = os.sep in topic or os.path.exists(os.path.join(topic, "config.json"))
        if HELP.fullmatch(word) and not topic.startswith("-") and not is_place:
            return [*args[: place + 1], *args[place + 2 :]], topic
    return list(args), ""


def group_flags(ctx: click.Context, params: Iterable[click.Parameter]) -> Sections:
    """Return the visible flags by group: the command's own first, those of plugins last."""
    groups: Sections = {OWN: []}
    for param in params:
        if isinstance(param, click.Option) and param.get_help_record(ctx) is not None:
            groups.setdefault(getattr(param, "group", OWN), []).append(param)
    titles = sorted(groups, key=lambda title: (title.startswith(PLUGIN), title == "Cluster"))
    return {title: groups[title] for title in titles}


def _topic_of(title: str) -> str:
    """The word after `--help` that shows a group."""
    return title[len(PLUGIN) :] if title.startswith(PLUGIN) else title.lower()


def write_topic(
    ctx: click.Context, formatter: click.HelpFormatter, sections: Sections, topic: str
) -> None:
    """Write the flags of a group, or of all. Raises UsageError if there is no such topic."""
    topics = {title: _topic_of(title) for title in sections}
    titles = [title for title in sections if topic.lower() in (topics[title].lower(), ALL)]
    if not titles:
        known = [*topics.values(), ALL]
        hint = suggest(topic, known) or f"Topics: {', '.join(known)}."
        raise UsageError(f"There is no help on '{topic}'.", hint=hint)
    for title in titles:
        with formatter.section("Options" if title == OWN else title):
            formatter.write_dl([_record(ctx, flag) for flag in sections[title]])


def write_short(
    ctx: click.Context,
    formatter: click.HelpFormatter,
    sections: Sections,
    most_used: Mapping[str, str],
) -> None:
    """Write what most users need, and the topics.

    Args:
        ctx: of the command.
        formatter: what to write to.
        sections: all flags.
        most_used: name -> a line, for each flag to show; without one, the command's own, whole.
    """
    flags = {flag.name: flag for section in sections.values() for flag in section}
    rows = [] if most_used else [_record(ctx, flag) for flag in sections[OWN]]
    for name, text in most_used.items():  # with the default that holds with the plugin
        default = getattr(getattr(flags[name], "field", None), "default", None)
        text += "" if default is None else f" [default {format_value(default)}]"
        rows.append((_record(ctx, flags[name])[0], text))
    with formatter.section("Most used" if most_used else "Options"):
        formatter.write_dl(rows)
    of_plugins = [title for title in sections if title.startswith(PLUGIN)] if most_used else []
    for title in of_plugins:
        names = [flag.opts[0] for flag in sections[title]]
        with formatter.section(title):  # in at most so many lines
            count, size = len(names), (3 if len(of_plugins) == 1 else 1) * (WIDTH - 20)
            while len(_shorten(names, count)) > size:
                count -= 1
            formatter.write_text(_shorten(names, count))
    topics = [_topic_of(title) for title in sections if title != OWN or most_used]
    if topics:
        formatter.write_paragraph()
        formatter.write_text(f"More: --help TOPIC, one of {', '.join(topics)}, {ALL}.")


def _shorten(names: Sequence[str], count: int) -> str:
    """The first names, and how many follow."""
    more = len(names) - count
    return " ".join(names[:count]) + (f" and {more} more" if more else "")


def _record(ctx: click.Context, flag: click.Option) -> Tuple[str, str]:
    record = flag.get_help_record(ctx)
    assert record is not None  # it is visible
    return record
