"""What competes in `toolkit gan-league`: presets of the GAN, other plugins, and programs."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from typing import List, NamedTuple

from toolkit_gan.presets import PRESETS

from toolkit import UsageError

AUTO = "auto"  # the value of --preset that lets the data choose
BUDGETS = ("--steps", "--epochs", "--examples")
TOURNAMENT_FLAGS = ("--search-dir", "--vary", "--sampler")  # which the tournament sets
_COMMON_FLAGS = (
    *TOURNAMENT_FLAGS,
    *("--trials", "--halving", "--plugin"),
    *("--seed", "--seeds", "--workers", "--dry-run", "--json"),
    *BUDGETS,
    *("--data", "--image-size", "--channels", "--fit", "--background", "--skip-damaged"),
    *("--label-column", "--label-kind", "--image-column", "--feature-columns", "--ignore-columns"),
    *("--split-column", "--missing", "--categories", "--validation-share", "--test-share"),
    *("--folds", "--fold", "--split-seed", "--features", "--quick-samples", "--score-samples"),
)


class Rival(NamedTuple):
    """A preset of the GAN, another plugin, or a program."""

    name: str  # in the table
    flag: str  # by which the user named it
    words: List[str]  # of its search, beside those of all; of a program, its command

    @property
    def folder(self) -> str:
        """The name of the folder of its search or of its runs."""
        return re.sub(r"[^\w.=]+", "-", self.name)

    @property
    def is_preset(self) -> bool:
        """Whether `--presets` named it."""
        return self.flag.startswith("--presets ")


def parse_presets(text: str) -> List[Rival]:
    """Return the presets that the value of `--presets` names, separated by commas; "" for all.
    Raises UsageError if one is unknown.
    """
    names = [name.strip() for name in text.split(",") if name.strip()] or list(PRESETS)
    if not {AUTO, *PRESETS}.issuperset(names):
        raise UsageError(
            f"--presets is '{text}', expected some of {', '.join([AUTO, *PRESETS])}.",
            hint="Leave it out for all.",
        )
    return [
        Rival(name, f"--presets '{name}'", ["--plugin", "gan", "--preset", name])
        for name in dict.fromkeys(names)
    ]


def parse_plugin(text: str) -> Rival:
    """Return the plugin that a value of `--plugin` names, "REFERENCE --flag value ...". Raises
    UsageError if it has no reference, or a flag that must be equal for all.
    """
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
    for flag in (word.partition("=")[0] for word in flags):
        if flag in _COMMON_FLAGS:
            raise UsageError(
                f"--plugin '{text}': {flag} is equal for all in a tournament.",
                hint="Set it for all, outside of the quotes, or leave it out.",
            )
    stem = re.sub(r"\.py$", "", os.path.basename(reference))
    words = ["--plugin", reference, "--with", "image-scores", *flags]
    return Rival(" ".join([stem, *flags]), f"--plugin '{text}'", words)


def parse_program(text: str) -> Rival:
    """Return the program that a value of `--program` names, "NAME=COMMAND". Raises UsageError if it
    has no name or no command, or what it calls is missing.
    """
    name, _, command = (part.strip() for part in text.partition("="))
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise UsageError(f"--program '{text}' cannot be read: {error}.") from None
    has_name = bool(re.search(r"\w", name))
    if not (has_name and words):
        raise UsageError(
            f"--program '{text}' has no {'command' if has_name else 'name'}.",
            hint="Write --program 'NAME=COMMAND', such as --program 'mine=python3 mine.py'.",
        )
    if shutil.which(words[0]) is None:
        raise UsageError(
            f"--program '{name}': there is no program '{words[0]}' that can be executed.",
            hint="Write its path, or for a script its interpreter first: 'NAME=python3 FILE'.",
        )
    return Rival(name, f"--program '{name}'", words)
