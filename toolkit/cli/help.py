"""Help that fits a screen: what most users need, and each group of options on demand.

`--help` shows a command's own flags, or the most used ones. `--help TOPIC` shows a group of
options: `data`, `optimisation`, ..., `command` for the command's own, the name of a plugin, or
`all`.
"""

from __future__ import annotations

import os
import re
from typing import Dict, Iterable, List, Mapping, NamedTuple, Sequence, Tuple

import click

from ..errors import UsageError, suggest
from ..options import format_value

ALL = "all"
OWN = "command"  # the topic of the flags that belong to no group
PLUGIN = "Plugin "  # what the titles of plugins' groups begin with
WIDTH = 78
HELP = re.compile("--help|-[a-z]*h[a-z]*")


class Section(NamedTuple):
    """The visible flags of a group.

    Attributes:
        title: of the group.
        flags: click's options, in their order.
    """

    title: str
    flags: List[click.Option]

    @property
    def topic(self) -> str:
        """The word after `--help` that shows this group."""
        if self.title.startswith(PLUGIN):
            return self.title[len(PLUGIN) :]
        return self.title.lower()


def split_topic(args: Sequence[str]) -> Tuple[List[str], str]:
    """Divide arguments into those without the topic, and the word that follows --help, or ""."""
    for position, word in enumerate(args):
        if HELP.fullmatch(word) and position + 1 < len(args):
            topic = args[position + 1]
            if not topic.startswith("-") and not _is_place(topic):
                return [*args[: position + 1], *args[position + 2 :]], topic
    return list(args), ""


def _is_place(word: str) -> bool:
    """Whether a word is a path or a run, as in `resume --help RUN`, and no topic."""
    return os.sep in word or os.path.exists(os.path.join(word, "config.json"))


def group_flags(ctx: click.Context, params: Iterable[click.Parameter]) -> List[Section]:
    """Return the visible flags by group: the command's own first, those of plugins last."""
    groups: Dict[str, List[click.Option]] = {OWN: []}
    for param in params:
        if isinstance(param, click.Option) and param.get_help_record(ctx) is not None:
            groups.setdefault(getattr(param, "group", OWN), []).append(param)
    sections = [Section(title, flags) for title, flags in groups.items()]
    return sorted(
        sections, key=lambda each: (each.title.startswith(PLUGIN), each.topic == "cluster")
    )


def write_topic(
    ctx: click.Context, formatter: click.HelpFormatter, sections: List[Section], topic: str
) -> None:
    """Write the flags of a group, or of all.

    Raises:
        UsageError: there is no such topic.
    """
    matches = [each for each in sections if topic.lower() in (each.topic.lower(), ALL)]
    if not matches:
        topics = [*(each.topic for each in sections), ALL]
        raise UsageError(
            f"There is no help on '{topic}'.",
            hint=suggest(topic, topics) or f"Topics: {', '.join(topics)}.",
        )
    for section in matches:
        with formatter.section("Options" if section.title == OWN else section.title):
            formatter.write_dl([_record(ctx, flag) for flag in section.flags])


def write_short(
    ctx: click.Context,
    formatter: click.HelpFormatter,
    sections: List[Section],
    most_used: Mapping[str, str],
) -> None:
    """Write what most users need, and the topics.

    Args:
        ctx: of the command.
        formatter: what to write to.
        sections: all flags.
        most_used: name -> a line, for each flag to show; without one, the command's own, whole.
    """
    if most_used:
        flags = {flag.name: flag for section in sections for flag in section.flags}
        with formatter.section("Most used"):
            rows = [(flags[name], text) for name, text in most_used.items()]
            formatter.write_dl([(_record(ctx, flag)[0], _line(flag, t)) for flag, t in rows])
    else:
        with formatter.section("Options"):
            formatter.write_dl([_record(ctx, flag) for flag in sections[0].flags])
    of_plugins = [section for section in sections if section.title.startswith(PLUGIN)]
    for section in of_plugins if most_used else ():
        _write_names(formatter, section, num_lines=3 if len(of_plugins) == 1 else 1)
    topics = [section.topic for section in sections if section.title != OWN or most_used]
    if topics:
        formatter.write_paragraph()
        formatter.write_text(f"More: --help TOPIC, one of {', '.join(topics)}, {ALL}.")


def _write_names(formatter: click.HelpFormatter, section: Section, num_lines: int) -> None:
    """Write the names of a plugin's flags in at most so many lines."""
    names = [flag.opts[0] for flag in section.flags]
    with formatter.section(section.title):
        count = len(names)
        while len(_names(names, count)) > num_lines * (WIDTH - 20):
            count -= 1
        formatter.write_text(_names(names, count))


def _names(names: Sequence[str], count: int) -> str:
    """The first names, and how many follow."""
    more = len(names) - count
    return " ".join(names[:count]) + (f" and {more} more" if more else "")


def _line(flag: click.Option, text: str) -> str:
    """The line of a flag in the short help: a text, and the default that holds with the plugin."""
    default = getattr(getattr(flag, "field", None), "default", None)
    return text if default is None else f"{text} [default {format_value(default)}]"


def _record(ctx: click.Context, flag: click.Option) -> Tuple[str, str]:
    record = flag.get_help_record(ctx)
    assert record is not None  # it is visible
    return record
