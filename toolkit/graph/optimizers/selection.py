"""Which group holds for a variable, and whether each group holds for one."""

from __future__ import annotations

from typing import Iterable, List, Optional, Sequence, Set

from ...errors import UsageError, suggest
from ...options.groups import Group, parse_group

MAX_NAMES = 12  # in a hint


def find_group(name: str, groups: Sequence[Group]) -> Optional[Group]:
    """The first group that fits the name of a variable; None if none does."""
    return next((group for group in groups if group.fits(name)), None)


def check_groups(groups: Sequence[Group], names: Sequence[str], trainer: str) -> None:
    """Check that each group holds for a variable.

    Args:
        groups: in their order.
        names: of the variables.
        trainer: who trains them, for messages: "the run trains".

    Raises:
        UsageError: a group does not.
    """
    holding = {find_group(name, groups) for name in names}
    for group in groups:
        if group not in holding:
            raise _idle_error(f"group '{group.pattern}'", group, names, trainer)


class UserGroups:
    """The groups and patterns of --freeze, --group and --decay-exclude, in this order.

    They hold for all updates of a step, so each of them has to fit in one of them.

    Attributes:
        groups: of --freeze, then of --group.
    """

    def __init__(self, options):
        flags = [("freeze", Group(pattern, frozen=True)) for pattern in options.freeze]
        flags += [("group", parse_group(text)) for text in options.group]
        self.groups: List[Group] = [group for _, group in flags]
        self._exclusions = [Group(pattern) for pattern in options.decay_exclude]
        self._flags = flags + [("decay-exclude", group) for group in self._exclusions]
        self.begin_step()

    def begin_step(self) -> None:
        """Forget the variables of the step before."""
        self._trained: Set[str] = set()
        self._updated: Set[str] = set()
        self._decaying: Set[str] = set()  # by settings, whether excluded or not

    def note(self, trained: Iterable[str], updated: Iterable[str] = ()) -> None:
        """Note names of variables: of those to be trained, and of those that a pass updates."""
        self._trained.update(trained)
        self._updated.update(updated)

    def note_decay(self, names: Iterable[str]) -> None:
        """Note names of variables that decay unless --decay-exclude excludes them."""
        self._decaying.update(names)

    @property
    def has_decay(self) -> bool:
        """Whether a variable of the step decays."""
        return not all(map(self.is_excluded, self._decaying))

    def is_excluded(self, name: str) -> bool:
        """Whether --decay-exclude excludes a variable from weight decay."""
        return find_group(name, self._exclusions) is not None

    def check(self) -> None:
        """Raise UsageError if one of them holds for no variable of the step."""
        names = sorted(self._trained)
        holding = [find_group(name, self.groups) for name in names]
        averages = [find_group(name, self.groups) for name in self._updated]
        holding += [group for group in averages if group and group.frozen]
        holding += [group for group in self._exclusions if any(map(group.fits, names))]
        for flag, group in self._flags:
            if group not in holding:
                raise _idle_error(f"--{flag} {group.pattern}", group, names, "the run trains")
        self._check_exclusions()

    def _check_exclusions(self) -> None:
        """Refuse exclusions from weight decay where nothing decays, and those of all that does."""
        if not self._exclusions:
            return
        patterns = ", ".join(group.pattern for group in self._exclusions)
        if not self._decaying:
            raise UsageError(
                f"--decay-exclude {patterns} has no effect: no variable decays without it.",
                hint="Set --weight-decay or --optimizer adamw, or leave --decay-exclude out.",
            )
        if not self.has_decay:
            raise UsageError(
                f"--decay-exclude {patterns} excludes all variables that decay, for example "
                f"'{min(self._decaying)}'.",
                hint="Exclude fewer, or set --weight-decay 0.",
            )


def _idle_error(subject: str, group: Group, names: Sequence[str], trainer: str) -> UsageError:
    """The error for a group that holds for none of the names."""
    fitting = [name for name in names if group.fits(name)]
    text = subject[0].upper() + subject[1:]
    if fitting:
        return UsageError(
            f"{text} has no effect: an earlier group holds for all variables that it fits, for "
            f"example '{fitting[0]}'."
        )
    folders = {name.rpartition("/")[0] + "/*" for name in names if "/" in name}
    candidates = sorted({*names, *folders})
    hint = suggest(group.pattern, candidates)
    if hint.startswith("Known") and len(candidates) > MAX_NAMES:
        hint = f"Known: {', '.join(candidates[:MAX_NAMES])}, ..."
    return UsageError(f"{text} fits no variable that {trainer}.", hint=hint)
