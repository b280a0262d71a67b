"""The optimizers of one update: one for each learning rate, by the groups of its variables."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Set

import numpy as np

from ...compat import tf
from ...errors import ToolkitError, UsageError
from ...options.groups import Group
from .adapters import Adapter, adapt, is_optimizer
from .names import default_weight_decay, make_optimizer
from .schedules import Schedule
from .selection import UserGroups, check_groups, find_group

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
    """The variables of an update that one optimizer changes, at one learning rate.

    Attributes:
        optimizer: an adapter.
        learning_rate: float32 scalar tensor; None where an object does not say it.
        variables: the variables.
        weight_decays: name of a variable -> its decay, of those that decay.
        group: the pattern of the group with this rate; "" for the rest.
    """

    optimizer: Adapter
    learning_rate: Any
    variables: List[Any]
    weight_decays: Dict[str, float]
    group: str


class UpdateOptimizers:
    """The optimizers of the updates of one name in a step.

    Args:
        name: of the updates.
        settings: of the plugin.
        options: the core's options.
        user_groups: of the options; they come before the plugin's.
        present_rate: from a full rate, or None for that of settings or options, to the rate of the
            step, float32 scalar tensors.

    Attributes:
        frozen: the names of the variables to be trained that stay as they are.
    """

    def __init__(
        self,
        name: str,
        settings: Settings,
        options,
        user_groups: UserGroups,
        present_rate: Callable[[Any], Any],
    ):
        self.name = name
        self.settings = settings
        self._options = options
        self._user_groups = user_groups
        self._present_rate = present_rate
        self._check_types()
        self._groups = [*user_groups.groups, *settings.groups]
        self._rate_groups = [group for group in self._groups if group.learning_rate is not None]
        self._adapters: Dict[int, Adapter] = {}  # number of a group with a rate, or 0
        self.frozen: Set[str] = set()
        self._has_common_rate = False
        self._check()

    @property
    def has_object(self) -> bool:
        """Whether the plugin passed an optimizer object, which has a rate of its own."""
        return is_optimizer(self.settings.optimizer)

    @property
    def has_idle_rate(self) -> bool:
        """Whether groups with a learning rate of their own hold for all variables."""
        rates = self.has_object or self.settings.learning_rate is not None
        return not rates and not self._has_common_rate and bool(self._adapters)

    @property
    def is_undecayed_adamw(self) -> bool:
        """Whether the optimizer is adamw, and its weight decay was set to 0."""
        is_adamw = default_weight_decay(self._optimizer_name()) > 0
        return is_adamw and self._options.weight_decay == 0

    @property
    def freezes(self) -> bool:
        """Whether a group freezes variables."""
        return any(group.frozen for group in self._groups)

    @property
    def schedule(self) -> str:
        """The name of the schedule that the learning rate follows; "" if it follows none."""
        schedule = self.settings.schedule
        if self.has_object or callable(schedule):
            return ""
        return str(schedule or self._options.schedule)

    def check_same(self, settings: Settings) -> None:
        """Refuse other settings for a further update of the name, which has one optimizer.

        Functions and objects may be made for each update; the first are those that count.
        """
        for name, first, value in zip(Settings._fields, self.settings, settings):
            if _is_plain(first) and _is_plain(value) and _as_list(first) != _as_list(value):
                raise ToolkitError(
                    f"Two calls for {self._subject()} set {name} to {first!r} and to {value!r}.",
                    hint="Updates of one name have one optimizer: set the same, or name them "
                    "differently.",
                )

    @property
    def used_options(self) -> Set[str]:
        """Those of RATE_OPTIONS that the updates use."""
        optimizer, arguments, rate, schedule, _ = self.settings
        if self.has_object:
            return set()
        used: Set[str] = set()
        if optimizer is None:
            used |= {"optimizer"} | ({"optimizer_args"} if arguments is None else set())
        if rate is None and self._has_common_rate:
            used.add("learning_rate")
        if not callable(schedule):
            used |= SCHEDULE_OPTIONS
        return used - ({"schedule"} if schedule is not None else set())

    def select(self, variables: Sequence[Any]) -> List[Any]:
        """Those of the variables that are not frozen.

        Raises:
            UsageError: a group of the plugin fits none.
        """
        names = [v.op.name for v in variables]
        self._user_groups.note(names)
        check_groups(self.settings.groups, names, f"{self._subject()} trains")
        self.frozen |= {name for name in names if self.is_frozen(name)}
        return [v for v in variables if v.op.name not in self.frozen]

    def is_frozen(self, name: str) -> bool:
        """Whether a variable stays as it is."""
        group = find_group(name, self._groups)
        return group is not None and group.frozen

    def compute_gradients(self, loss, variables):
        """Pairs of a gradient, None where the loss does not depend on it, and its variable."""
        number = self._number(variables[0]) if variables else 0
        return self._adapter(number).compute_gradients(loss, variables)

    def parts(self, variables: Sequence[Any]) -> List[Part]:
        """Divide the variables by their learning rates."""
        numbers = [self._number(v) for v in variables]
        self._check_decays(variables)
        self._user_groups.note_decay(v.op.name for v in variables if self._full_decay(v))
        self._has_common_rate |= 0 in numbers
        return [
            self._part(number, [v for v, n in zip(variables, numbers) if n == number])
            for number in sorted(set(numbers))
        ]

    def _part(self, number: int, variables: List[Any]) -> Part:
        adapter = self._adapter(number)
        decays = {v.op.name: self._weight_decay(v) for v in variables}
        decays = {name: decay for name, decay in decays.items() if decay}
        if decays and adapter.learning_rate is None:
            raise UsageError(
                f"The optimizer of {self._subject()} does not say its learning rate, on which "
                "weight decay depends.",
                hint="Pass a function from the learning rate to the optimizer, or set "
                "--weight-decay 0.",
            )
        pattern = self._rate_groups[number - 1].pattern if number else ""
        return Part(adapter, adapter.learning_rate, variables, decays, pattern)

    def _number(self, variable) -> int:
        """The number, from 1, of the group with a rate of its own that holds for a variable; 0 for
        the rest, of which a group without a rate shares the optimizer.
        """
        group = find_group(variable.op.name, self._groups)
        if group is None or group.learning_rate is None:
            return 0
        return self._rate_groups.index(group) + 1

    def _adapter(self, number: int) -> Adapter:
        if number not in self._adapters:
            self._adapters[number] = self._make_adapter(number)
        return self._adapters[number]

    def _make_adapter(self, number: int) -> Adapter:
        scope = optimizer_scope(self.name) + (f"group_{number}/" if number else "")
        optimizer = self.settings.optimizer
        if self.has_object:
            return adapt(optimizer, scope)
        rate = self._present_rate(self._rate_groups[number - 1].learning_rate if number else None)
        if callable(optimizer):
            return adapt(self._call(optimizer, rate), scope, rate)
        arguments = self.settings.optimizer_args
        is_option = arguments is None and optimizer is None
        if arguments is None:
            arguments = self._options.optimizer_args if optimizer is None else {}
        name = self._options.optimizer if optimizer is None else optimizer
        try:
            return adapt(make_optimizer(name, rate, arguments), scope, rate)
        except UsageError as error:
            error.option = "optimizer_args" if is_option else ""
            raise

    def _call(self, function: Callable[[Any], Any], rate) -> Any:
        optimizer = function(rate)
        if is_optimizer(optimizer):
            return optimizer
        raise UsageError(
            f"The function 'optimizer' of {self._subject()} returned {optimizer!r:.100}, "
            "expected an optimizer."
        )

    def _weight_decay(self, variable) -> float:
        """The decay of a variable per unit of learning rate."""
        is_excluded = self._user_groups.is_excluded(variable.op.name)
        return 0.0 if is_excluded else self._full_decay(variable)

    def _full_decay(self, variable) -> float:
        """As `_weight_decay`, without --decay-exclude; 0 for vectors and scalars."""
        if variable.shape.ndims < 2:
            return 0.0
        group = find_group(variable.op.name, self._groups)
        if group is not None and group.weight_decay is not None:
            return group.weight_decay
        if self._options.weight_decay is not None:
            return float(self._options.weight_decay)
        return default_weight_decay(self._optimizer_name())

    def _optimizer_name(self) -> str:
        """The name of the optimizer; "" for an object or a function."""
        optimizer = self.settings.optimizer
        optimizer = self._options.optimizer if optimizer is None else optimizer
        return optimizer if isinstance(optimizer, str) else ""

    def _check_decays(self, variables: Sequence[Any]) -> None:
        """Refuse a group with a weight decay of which no variable decays."""
        for group in self._groups:
            members = [v for v in variables if find_group(v.op.name, self._groups) is group]
            if group.weight_decay and members and not any(map(self._weight_decay, members)):
                raise UsageError(
                    f"Group '{group.pattern}' has the weight decay {group.weight_decay}, but none "
                    f"of its variables decays, for example '{members[0].op.name}'.",
                    hint="Variables of fewer than two dimensions, and those of --decay-exclude, "
                    "do not decay.",
                )

    def _check(self) -> None:
        """Refuse settings that have no effect together."""
        optimizer, arguments, rate, schedule, _ = self.settings
        is_name = optimizer is None or isinstance(optimizer, str)
        if not is_name and not callable(optimizer):
            adapt(optimizer, optimizer_scope(self.name))
        if not is_name and arguments:
            raise self._no_effect("optimizer_args", "only a named optimizer takes it")
        if self.has_object:
            rates = {f"the rate of group '{g.pattern}'": g.learning_rate for g in self._groups}
            for subject, value in dict(rates, learning_rate=rate, schedule=schedule).items():
                if value is not None:
                    raise self._no_effect(subject, "the optimizer object has a rate of its own")

    def _check_types(self) -> None:
        """Refuse groups and a learning rate that are none."""
        rate, groups = self.settings.learning_rate, self.settings.groups
        if isinstance(groups, str) or not all(isinstance(group, Group) for group in groups):
            raise self._error("groups", groups, "toolkit.Group objects")
        if rate is None or tf.is_tensor(rate):
            return
        if not isinstance(rate, (int, float, np.number)) or not 0 < rate < float("inf"):
            raise self._error("learning_rate", rate, "a positive number")

    def _error(self, name: str, value: Any, expected: str) -> UsageError:
        return UsageError(f"For {self._subject()}, {name} is {value!r}, expected {expected}.")

    def _no_effect(self, subject: str, reason: str) -> UsageError:
        return UsageError(
            f"For {self._subject()}, {subject} is set, but {reason}.",
            hint="Pass a name, or a function from the learning rate to the optimizer.",
        )

    def _subject(self) -> str:
        return f"the update '{self.name}'" if self.name else "the update"


def _is_plain(value: Any) -> bool:
    """Whether a setting can be compared with another one."""
    types = (type(None), str, int, float, dict, list, tuple)
    return isinstance(value, types)


def _as_list(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def optimizer_scope(name: str) -> str:
    """The scope of an optimizer's own variables: absolute, the same in a loop and outside."""
    return f"optimizer/{name}/" if name else "optimizer/"


def rates_to_log(parts: Sequence[Part]) -> Dict[str, Any]:
    """`learning_rate`, or `learning_rate/PATTERN` of a group, by name."""
    return {
        "learning_rate" + (part.group and f"/{part.group}"): tf.convert_to_tensor(
            part.learning_rate
        )
        for part in parts
        if part.learning_rate is not None
    }
