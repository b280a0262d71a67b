"""How the core and plugins declare an option: `option`, and the base class `Options`."""

from __future__ import annotations

import math
from typing import (
    Any,
    ClassVar,
    Dict,
    List,
    Mapping,
    Optional,
    Sequence,
    Set,
    Tuple,
    Type,
    Union,
)

import pydantic

from ..errors import suggest

AUTO = "auto"  # as the name of a preset: the data choose it
LIMITS = ("ge", "gt", "le", "lt", "min_length", "max_length", "pattern")
PathForm = Union[bool, str, Sequence[str]]  # see the parameter `path` of `option`


def option(
    default: Any,
    help: str,
    *,
    unit: str = "",
    group: str = "",
    affects_result: bool = True,
    resume_may_change: Optional[bool] = None,
    used_if: Optional[Mapping[str, Any]] = None,
    path: PathForm = False,
    words: Sequence[str] = (),
    **limits: Any,
) -> Any:
    """Declare one option of an `Options` class.

    Args:
        default: the value unless another one is set.
        help: one line, without a full stop.
        unit: what a number counts ("steps", "seconds").
        group: the heading in `--help`.
        affects_result: whether what a run computes depends on the value: its tensors and its
            evaluations. Sessions that differ in other options alone are bit-identical.
        resume_may_change: whether `toolkit resume` accepts another value without `--allow`. By
            default it does where the option does not affect the result.
        used_if: other options by name, each with the value, or the tuple of values, under which
            this option has an effect. A value that is set by name without one is noted at the
            start of a run. See also `Options.idle_options`.
        path: True if the value is the path of a file or folder; a tuple of prefixes, such as
            ("npz:",), if a path follows one of them; "reference" if the value names a plugin, which
            may be a file; "weights" if `@STEP` may follow the path. A relative path in a
            configuration file starts at the folder of the file, and the paths of a run are still
            valid after a move.
        words: values that are words with a meaning of their own, although `path` is True.
        limits: pydantic's `ge`, `gt`, `le`, `lt`, `min_length`, `max_length`, `pattern`.

    Raises:
        TypeError: a limit is none of these.
    """
    for name in limits:
        if name not in LIMITS:
            raise TypeError(f"option has no limit '{name}'. {suggest(name, LIMITS)}")
    extra: Dict[str, Any] = {
        "unit": unit,
        "group": group,
        "affects_result": affects_result,
        "resume_may_change": (
            not affects_result if resume_may_change is None else resume_may_change
        ),
        "used_if": {
            name: tuple(values) if isinstance(values, (list, tuple)) else (values,)
            for name, values in (used_if or {}).items()
        },
        "path": path if isinstance(path, (bool, str)) else tuple(path),
        "words": tuple(words),
    }
    return pydantic.Field(default, description=help, json_schema_extra=extra, **limits)


class Options(pydantic.BaseModel):
    """The base of every options class.

    Attributes:
        core_defaults: other defaults for options of the core, by name.
        presets: values of options that belong together, by the name of the preset. A class with
            presets declares an option whose value names one of them. A value that is set by name
            takes precedence over the preset's. A class with `choose_preset` declares that the
            option may be "auto", too; until the data are open, the first preset then counts.
        preset_option: the name of that option.
        zero_strength: of an extension's class: values of its options at which it changes no number
            of a run; {} if it never does. `toolkit plugins check` compares the runs. None if there
            are no such values.
    """

    model_config = pydantic.ConfigDict(
        extra="forbid", frozen=True, validate_default=True, protected_namespaces=()
    )

    core_defaults: ClassVar[Mapping[str, Any]] = {}
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    preset_option: ClassVar[str] = "preset"
    zero_strength: ClassVar[Optional[Mapping[str, Any]]] = None

    @property
    def batches_per_step(self) -> int:
        """The number of batches in a step: features are [batch_size * batches_per_step, ...]."""
        return 1

    @classmethod
    def choose_preset(cls, data: Any, num_examples: int) -> Tuple[str, str]:
        """Choose the preset of a run by its data, where the option of presets is "auto".

        A class that overrides this method may have no preset with a value on which the opening of
        the data depends. The run saves the name: a resume and an evaluation do not ask again.

        Args:
            data: the `DataSpec` of the training examples.
            num_examples: how many there are.

        Returns:
            The name of the preset, and the reason, which completes "preset NAME, because ...".
        """
        raise NotImplementedError

    def idle_options(self) -> Dict[str, str]:
        """Return the options whose values have no effect, each with the reason.

        The reason completes a sentence: "--clip-limit has no effect: clip is none". By default
        these are the options whose `used_if` is not satisfied. A class that overrides this method
        adds to the result of `super().idle_options()`.
        """
        reasons = {}
        for name, condition in conditions(type(self)).items():
            values = {other: getattr(self, other) for other in condition}
            clauses = [
                f"{other} is {_format(value)}"
                for other, value in values.items()
                if value not in condition[other]
            ]
            reasons.update({name: " and ".join(clauses)} if clauses else {})
        return reasons

    @pydantic.field_validator("*")
    @classmethod
    def _check_value(cls, value: Any, info: pydantic.ValidationInfo) -> Any:
        """Refuse blank text, for example of a variable that a script did not set; integers beyond
        64 bits; and numbers that are not finite.
        """
        default = cls.model_fields[str(info.field_name)].default
        if isinstance(value, str) and isinstance(default, str) and default and not value.strip():
            raise ValueError("should not be empty")
        parts = list(value.values()) if isinstance(value, dict) else value
        for number in parts if isinstance(parts, (list, tuple)) else [parts]:
            if isinstance(number, int) and not -(2**63) <= number < 2**63:
                raise ValueError("should be less than 2^63 in size")
            if isinstance(number, float) and not math.isfinite(number):
                raise ValueError("should be a finite number")
        return value


class SampleOptions(Options):
    """The base of what the hook `sample_options` returns."""

    @property
    def columns(self) -> Optional[int]:
        """The samples in a row of a grid; None for a square grid, or a row for each class."""
        return None

    def file_words(self) -> List[str]:
        """Return words that tell the default files of different settings apart."""
        words = []
        for name, field in type(self).model_fields.items():
            value = getattr(self, name)
            text = f"{value:g}" if isinstance(value, float) else str(value)
            if value != field.default:
                words.append(name if value is True else f"{name}-{text.replace('/', '-')}")
        return words


def declared(cls: Type[Options], name: str) -> Mapping[str, Any]:
    """Return what the declaration of an option says beside its type; {} if there is none."""
    extra = cls.model_fields[name].json_schema_extra if name in cls.model_fields else None
    return extra if isinstance(extra, dict) else {}


def result_options(cls: Type[Options]) -> Set[str]:
    """Return the names of the options that affect the result of a run."""
    return {n for n in cls.model_fields if declared(cls, n).get("affects_result", True)}


def changeable_options(cls: Type[Options]) -> Set[str]:
    """Return the names of the options that a resume may change without `--allow`."""
    return {n for n in cls.model_fields if declared(cls, n).get("resume_may_change", False)}


def conditions(cls: Type[Options]) -> Dict[str, Mapping[str, Any]]:
    """Return the `used_if` of each option that declares one; see `option`."""
    found = {name: declared(cls, name).get("used_if") for name in cls.model_fields}
    return {name: condition for name, condition in found.items() if condition}


def _format(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return "none" if value is None else str(value)
