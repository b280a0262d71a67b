"""The optimizers of one update: one for each learning rate, by the groups of its variables."""

from __future__ import annotations

import math
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Set

import numpy as np

from ...compat import tf
from ...errors import ToolkitError, UsageError, suggest
from ...options.groups import Group, parse_group
from .objects import (
    TrainOptimizer,
    adapt,
    default_weight_decay,
    is_optimizer,
    make_optimizer,
)
from .schedules import Schedule

SCHEDULE_OPTIONS = frozenset(["schedule", "warmup_steps", "decay_steps", "decay_rate"])
# Options of the core that the settings of an update may replace.
RATE_OPTIONS = SCHEDULE_OPTIONS | {"optimizer", "optimizer_args", "learning_rate"}


class Settings(NamedTuple):
    """What a plugin sets for its updates of one name; None for what the core's options say.

    The fields are the arguments of `Run.gradients`.
    """

    optimizer: Any = None
    optimizer_args: Optional[Mapping[str, Any]] = None
    learning_rate: Any = None
    schedule: Optional[Schedule] = None
    groups: Sequence[Group] = ()


class Part(NamedTuple):
    """The variables of an update that one optimizer changes, at one learning rate."""

    optimizer: TrainOptimizer
    variables: List[Any]
    weight_decays: Dict[str, float]  # by the names of the variables that decay
    group: str  # the pattern of the group with this rate; "" for the rest


# ------------------------------------------------------------------------------------------ groups


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
            f"example '{fitting[0]}'.",
            hint="Leave it out, or let the earlier one fit less.",
        )
    folders = {name.rpartition("/")[0] + "/*" for name in names if "/" in name}
    hint = suggest(group.pattern, {*names, *folders})
    return UsageError(f"{subject} fits no variable that {trainer}.", hint=hint)


class UserGroups:
    """The groups and patterns of --freeze, --group and --decay-exclude, in this order.

    They hold for all updates of a step, so each of them has to fit in one of them.
    """

    def __init__(self, options):
        flags = [("freeze", Group(pattern, frozen=True)) for pattern in options.freeze]
        flags += [("group", parse_group(text)) for text in options.group]
        self.groups: List[Group] = [group for _, group in flags]
        self.exclusions = [Group(pattern) for pattern in options.decay_exclude]
        self._flags = flags + [("decay-exclude", group) for group in self.exclusions]
        self.trained: Set[str] = set()  # the names of the variables to be trained in the step
        self.updated: Set[str] = set()  # of those that a pass updates

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


# ---------------------------------------------------------------------------------- of one update


class UpdateOptimizers:
    """The optimizers of the updates of one name in a step. The groups of the options come before
    those of the plugin's settings.

    `present_rate` is from a full rate, or None for that of settings or options, to the rate of the
    step, float32 scalar tensors.
    """

    def __init__(
        self,
        name: str,
        settings: Settings,
        options: Any,
        user_groups: UserGroups,
        present_rate: Callable[[Any], Any],
    ):
        self.name, self.settings = name, settings
        self.frozen: Set[str] = set()  # names of variables to be trained that stay as they are
        self.has_object = is_optimizer(settings.optimizer)  # which has a rate of its own
        self._subject = f"the update '{name}'" if name else "the update"
        self._options, self._user_groups = options, user_groups
        self._present_rate = present_rate
        self._groups = self._check_settings()
        self.freezes = any(group.frozen for group in self._groups)
        self._rate_groups = [group for group in self._groups if group.learning_rate is not None]
        self._adapters: Dict[int, TrainOptimizer] = {}  # number of a group with a rate, or 0
        self._has_common_rate = False
        self.has_decay = False  # whether one of the variables decays

    @property
    def used_options(self) -> Set[str]:
        """Those of RATE_OPTIONS that the updates use."""
        optimizer, arguments, rate, schedule, _ = self.settings
        uses = {
            "optimizer": optimizer is None,
            "optimizer_args": optimizer is None and arguments is None,
            "learning_rate": rate is None and self._has_common_rate,
            **dict.fromkeys(SCHEDULE_OPTIONS, not callable(schedule)),
        }
        uses["schedule"] = schedule is None
        return set() if self.has_object else {name for name, is_used in uses.items() if is_used}

    # ------------------------------------------------------------------------- the ops of an update

    def select(self, variables: Sequence[Any]) -> List[Any]:
        """Those of the variables that are not frozen. Raises UsageError if a group of the plugin
        fits none.
        """
        names = [v.op.name for v in variables]
        self._user_groups.trained.update(names)
        for group in self.settings.groups:
            if all(find_group(name, self.settings.groups) != group for name in names):
                subject, trainer = f"Group '{group.pattern}'", f"{self._subject} trains"
                raise idle_error(subject, group, names, trainer)
        self.frozen |= {name for name in names if self.is_frozen(name)}
        return [v for v in variables if v.op.name not in self.frozen]

    def is_frozen(self, name: str) -> bool:
        """Whether a variable stays as it is."""
        group = find_group(name, self._groups)
        return group is not None and group.frozen

    def compute_gradients(self, loss: tf.Tensor, variables: Sequence[Any]):
        """Pairs of a gradient, None where the loss does not depend on it, and its variable."""
        number = self._number(variables[0]) if variables else 0
        return self._adapter(number).compute_gradients(loss, variables)

    def parts(self, variables: Sequence[Any]) -> List[Part]:
        """Divide the variables by their learning rates."""
        numbers = [self._number(v) for v in variables]
        self._has_common_rate |= 0 in numbers
        decays = {v.op.name: self._weight_decay(v) for v in variables}
        parts = []
        for number in sorted(set(numbers)):
            adapter = self._adapter(number)
            members = [v for v, n in zip(variables, numbers) if n == number]
            own = {v.op.name: decays[v.op.name] for v in members if decays[v.op.name]}
            self.has_decay |= bool(own)
            if own and adapter.learning_rate is None:
                raise UsageError(
                    f"The optimizer of {self._subject} does not say its learning rate, on which "
                    "weight decay depends.",
                    hint="Pass a function from the learning rate to the optimizer, or set "
                    "--weight-decay 0.",
                )
            pattern = self._rate_groups[number - 1].pattern if number else ""
            parts.append(Part(adapter, members, own, pattern))
        return parts

    def _weight_decay(self, variable: Any) -> float:
        """The decay of a variable per unit of learning rate."""
        if variable.shape.ndims < 2 or find_group(variable.op.name, self._user_groups.exclusions):
            return 0.0
        group = find_group(variable.op.name, self._groups)
        if group is not None and group.weight_decay is not None:
            return group.weight_decay
        if self._options.weight_decay is not None:
            return float(self._options.weight_decay)
        optimizer = self.settings.optimizer
        name = self._options.optimizer if optimizer is None else optimizer
        return default_weight_decay(name) if isinstance(name, str) else 0.0

    def _number(self, variable: Any) -> int:
        """The number, from 1, of the group with a rate of its own that holds for a variable; 0 for
        the rest, of which a group without a rate shares the optimizer.
        """
        group = find_group(variable.op.name, self._groups)
        return self._rate_groups.index(group) + 1 if group in self._rate_groups else 0

    def _adapter(self, number: int) -> TrainOptimizer:
        """The optimizer of the group of a number, made once."""
        if number not in self._adapters:
            scope = optimizer_scope(self.name) + (f"group_{number}/" if number else "")
            base = self._rate_groups[number - 1].learning_rate if number else None
            self._adapters[number] = self._make_adapter(scope, base)
        return self._adapters[number]

    def _make_adapter(self, scope: str, base: Optional[float]) -> TrainOptimizer:
        optimizer, arguments, *_ = self.settings
        is_named = optimizer is None or isinstance(optimizer, str)
        if self.has_object or not (is_named or callable(optimizer)):
            return adapt(optimizer, scope)  # refuses what is none
        rate = self._present_rate(base)
        if callable(optimizer):
            made = optimizer(rate)
            if not is_optimizer(made):
                raise UsageError(
                    f"The function 'optimizer' of {self._subject} returned {made!r:.100}, "
                    "expected an optimizer."
                )
            return adapt(made, scope, rate)
        is_option = optimizer is None and arguments is None
        if arguments is None:
            arguments = self._options.optimizer_args if optimizer is None else {}
        name = self._options.optimizer if optimizer is None else optimizer
        try:
            return adapt(make_optimizer(name, rate, arguments), scope, rate)
        except UsageError as error:
            error.option = "optimizer_args" if is_option else ""
            raise

    # ------------------------------------------------------------------------------- wrong settings

    def check_same(self, settings: Settings) -> None:
        """Refuse other settings for a further update of the name, which has one optimizer.

        Functions and objects may be made for each update; the first are those that count.
        """
        for name, first, value in zip(Settings._fields, self.settings, settings):
            plain = (type(None), str, int, float, dict, list, tuple)
            is_same = first == value or (name == "groups" and list(first) == list(value))
            if isinstance(first, plain) and isinstance(value, plain) and not is_same:
                raise ToolkitError(
                    f"Two calls for {self._subject} set {name} to {first!r} and to {value!r}.",
                    hint="Updates of one name have one optimizer: set the same, or name them "
                    "differently.",
                )

    def _check_settings(self) -> List[Group]:
        """The groups that hold, in their order. Refuses settings without effect beside others."""
        optimizer, arguments, rate, schedule, groups = self.settings
        is_number = isinstance(rate, (int, float, np.number)) and not isinstance(rate, bool)
        if not (rate is None or tf.is_tensor(rate) or is_number and 0 < rate < math.inf):
            raise UsageError(
                f"For {self._subject}, learning_rate is {rate!r:.100}.",
                hint="Give a positive number, or a scalar tensor.",
            )
        if not all(isinstance(group, Group) for group in groups):
            raise UsageError(
                f"For {self._subject}, groups is {groups!r:.100}.",
                hint="Give a list of toolkit.Group.",
            )
        groups = [*self._user_groups.groups, *groups]
        rates = [rate, schedule, *(group.learning_rate for group in groups)]
        idle = ""
        if arguments and not (optimizer is None or isinstance(optimizer, str)):
            idle = "optimizer_args is set, but only a named optimizer takes it"
        elif self.has_object and any(value is not None for value in rates):
            idle = "a learning rate, schedule or group's rate is set beside an object with its own"
        if idle:
            raise UsageError(
                f"For {self._subject}, {idle}.",
                hint="Pass a name, or a function from the learning rate to the optimizer.",
            )
        return groups


def optimizer_scope(name: str) -> str:
    """The scope of an optimizer's own variables: absolute, the same in a loop and outside."""
    return f"optimizer/{name}/" if name else "optimizer/"
