"""Which group holds for a variable, and whether each group holds for one."""

from __future__ import annotations

from typing import List, Optional, Sequence, Set

from ...errors import UsageError, suggest
from ...options.groups import Group, parse_group


def find_group(name: str, groups: Sequence[Group]) -> Optional[Group]:
    """The first group that fits the name of a variable; None if none does."""
    return next((group for group in groups if group.fits(name)), None)


def idle_error(subject: str, group: Group, names: Sequence[str], trainer: str) -> UsageError:
    """The error for a group, the subject, that holds for none of the variables of these names,
    which the trainer trains: "the run trains".
    """
    fitting = [name for name in names if group.fits(name)]
    if fitting:
        return UsageError(
            f"{subject} has no effect: an earlier group holds for all variables that it fits, for "
            f"example '{fitting[0]}'."
        )
    folders = {name.rpartition("/")[0] + "/*" for name in names if "/" in name}
    hint = suggest(group.pattern, {*names, *folders})
    return UsageError(f"{subject} fits no variable that {trainer}.", hint=hint)


class UserGroups:
    """The groups and patterns of --freeze, --group and --decay-exclude, in this order.

    They hold for all updates of a step, so each of them has to fit in one of them.

    Attributes:
        groups: of --freeze, then of --group.
        trained, updated, decaying: the names of variables of the step: of those to be trained, of
            those that a pass updates, and of those that decay unless --decay-exclude excludes them.
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
        self.trained: Set[str] = set()
        self.updated: Set[str] = set()
        self.decaying: Set[str] = set()

    @property
    def has_decay(self) -> bool:
        """Whether a variable of the step decays."""
        return not all(map(self.is_excluded, self.decaying))

    def is_excluded(self, name: str) -> bool:
        """Whether --decay-exclude excludes a variable from weight decay."""
        return find_group(name, self._exclusions) is not None

    def check(self) -> None:
        """Raise UsageError if a flag has no effect on the variables of the step."""
        names = sorted(self.trained)
        for flag, group in self._flags:
            if flag == "decay-exclude":
                members = [name for name in names if group.fits(name)]
            else:
                members = [name for name in names if find_group(name, self.groups) == group]
            averages = [name for name in self.updated if find_group(name, self.groups) == group]
            if not members and not (group.frozen and averages):
                raise idle_error(f"--{flag} {group.pattern}", group, names, "the run trains")
            if group.weight_decay and not any(
                name in self.decaying and not self.is_excluded(name) for name in members
            ):
                raise UsageError(
                    f"Group '{group.pattern}' has the weight decay {group.weight_decay}, but none "
                    f"of its variables decays, for example '{members[0]}'.",
                    hint="Variables of fewer than two dimensions, and those of --decay-exclude, "
                    "do not decay.",
                )
        if self._exclusions and not self.decaying:
            patterns = ", ".join(group.pattern for group in self._exclusions)
            raise UsageError(
                f"--decay-exclude {patterns} has no effect: no variable decays without it.",
                hint="Set --weight-decay or --optimizer adamw, or leave --decay-exclude out.",
            )
