"""What `toolkit gan-league` trains by `toolkit search`: presets of the GAN, and other plugins."""

from __future__ import annotations

import os
import re
import shlex
from typing import Any, List, NamedTuple, Sequence, Set

from toolkit_gan.presets import PRESETS

from toolkit import UsageError

AUTO = "auto"  # the value of --preset that lets the data choose
BUDGETS = ("--steps", "--epochs", "--examples")
_SEARCH_FLAGS = ("--search-dir", "--vary", "--sampler")  # which the tournament sets
_COMMON_FLAGS = (
    *_SEARCH_FLAGS,
    *("--trials", "--halving", "--rungs", "--plugin"),
    *("--seed", "--seeds", "--workers", "--dry-run", "--json"),
    *BUDGETS,
    *("--data", "--image-size", "--channels", "--fit", "--background", "--label-column"),
    *("--label-kind", "--image-column", "--feature-columns", "--ignore-columns", "--split-column"),
    *("--missing", "--categories", "--validation-share", "--test-share", "--folds", "--fold"),
    *("--split-seed", "--features", "--quick-samples", "--score-samples"),
)


class Rival(NamedTuple):
    """A plugin that competes, each preset of the GAN by itself.

    Attributes:
        name: in the table.
        flag: by which the user named it.
        words: of its search, beside those of all.
    """

    name: str
    flag: str
    words: Sequence[str]

    @property
    def folder(self) -> str:
        """The name of the folder of its search."""
        return re.sub(r"[^\w.=]+", "-", self.name)

    @property
    def is_preset(self) -> bool:
        """Whether `--presets` named it."""
        return self.flag.startswith("--presets ")


def parse_rivals(presets: str, plugins: Sequence[str], least: int) -> List[Rival]:
    """Return what the values of `--presets` and `--plugin` name.

    Args:
        presets: their names, separated by commas; "" for all.
        plugins: of the form "REFERENCE" or "REFERENCE --flag value ...".
        least: the number of presets that are needed.

    Raises:
        UsageError: a preset is unknown, a text has no reference, or a flag that must be equal for
            all.
    """
    parts = [name.strip() for name in presets.split(",") if name.strip()] or list(PRESETS)
    names = list(dict.fromkeys(parts))
    if len(names) < least or not {AUTO, *PRESETS}.issuperset(names):
        number = {1: "one or more", 2: "two or more"}[least]
        raise UsageError(
            f"--presets is '{presets}', expected {number} of {', '.join([AUTO, *PRESETS])}.",
            hint="Leave it out for all.",
        )
    rivals = [
        Rival(name, f"--presets '{name}'", ["--plugin", "gan", "--preset", name]) for name in names
    ]
    rivals += map(_parse_plugin, plugins)
    hint = "Name each plugin once, or with other flags: --plugin 'NAME --flag value'."
    check_distinct("--plugin", rivals, hint)
    return rivals


def check_distinct(flag: str, competitors: Sequence[Any], hint: str) -> None:
    """Check that no two competitors have the same folder.

    Args:
        flag: that names the competitors.
        competitors: each with a name and a folder.
        hint: of the error.

    Raises:
        UsageError: two have the same.
    """
    folders: Set[str] = set()
    for each in competitors:
        if each.folder in folders:
            raise UsageError(f"Two values of {flag} are called '{each.name}'.", hint=hint)
        folders.add(each.folder)


def _parse_plugin(text: str) -> Rival:
    reference, _, rest = f" {text}".partition(" --")
    try:
        flags = shlex.split(f"--{rest}") if rest else []
    except ValueError as error:
        raise UsageError(f"--plugin '{text}' cannot be read: {error}.") from None
    reference = reference.strip()
    if not reference:
        raise UsageError(
            f"--plugin '{text}' names no plugin.", hint="Write --plugin 'NAME --flag value'."
        )
    for flag in flags:
        if flag.partition("=")[0] in _COMMON_FLAGS:
            raise UsageError(
                f"--plugin '{text}': {flag.partition('=')[0]} is equal for all in a tournament.",
                hint="Set it for all, outside of the quotes, or leave it out.",
            )
    stem = os.path.basename(reference)
    stem = stem[: -len(".py")] if stem.endswith(".py") else stem
    words = ["--plugin", reference, "--with", "image-scores", *flags]
    return Rival(" ".join([stem, *flags]), f"--plugin '{text}'", words)


def check_flags(flags: Sequence[str]) -> None:
    """Check that flags for all are none that the tournament sets. Raises UsageError."""
    for flag in (word.partition("=")[0] for word in flags):
        if flag in (*_SEARCH_FLAGS, "--preset"):
            raise UsageError(
                f"{flag} is what the tournament sets itself.",
                hint="Choose presets with --presets A,B; use 'toolkit search' to vary other "
                "options.",
            )


def sets_budget(flags: Sequence[str]) -> bool:
    """Whether flags of `toolkit search` set another budget than CPU minutes."""
    return any(flag.partition("=")[0] in BUDGETS for flag in flags)
