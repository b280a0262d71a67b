"""How the core and plugins declare an option: `option`, and the base class `Options`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Dict, Mapping, Optional, Sequence, Set, Type

import pydantic


def option(
    default: Any,
    help: str,
    *,
    unit: str = "",
    group: str = "",
    affects_result: bool = True,
    resume_may_change: Optional[bool] = None,
    aliases: Sequence[str] = (),
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
        aliases: earlier names of the option. They still work everywhere; a use is reported.
        limits: pydantic's `ge`, `gt`, `le`, `lt`, `min_length`, `max_length`, `pattern`.
    """
    extra: Dict[str, Any] = {
        "unit": unit,
        "group": group,
        "affects_result": affects_result,
        "resume_may_change": (
            not affects_result if resume_may_change is None else resume_may_change
        ),
        "aliases": list(aliases),
    }
    return pydantic.Field(default, description=help, json_schema_extra=extra, **limits)


class Options(pydantic.BaseModel):
    """The base of every options class.

    Attributes:
        core_defaults: other defaults for options of the core, by name.
        presets: values of options that belong together, by the name of the preset. A class with
            presets declares an option `preset`, whose value names one of them. A value that is set
            by name takes precedence over the preset's.
    """

    model_config = pydantic.ConfigDict(
        extra="forbid", frozen=True, validate_default=True, protected_namespaces=()
    )

    core_defaults: ClassVar[Mapping[str, Any]] = {}
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {}

    @property
    def batches_per_step(self) -> int:
        """The number of batches in a step: features are [batch_size * batches_per_step, ...]."""
        return 1

    @pydantic.field_validator("*")
    @classmethod
    def _fits_in_64_bits(cls, value: Any) -> Any:
        for number in value if isinstance(value, list) else [value]:
            if isinstance(number, int) and not -(2**63) <= number < 2**63:
                raise ValueError("should be less than 2^63 in size")
        return value

    if not TYPE_CHECKING:  # a type checker shall know the declared options alone

        def __getattr__(self, name: str) -> Any:
            """Read an option by an earlier name."""
            current = alias_names(type(self)).get(name)
            return super().__getattr__(name) if current is None else getattr(self, current)


def alias_names(cls: Type[Options]) -> Dict[str, str]:
    """Return the present name of each earlier option name."""
    return {
        alias: name
        for name in cls.model_fields
        for alias in _declared(cls, name).get("aliases", ())
    }


def current_names(cls: Type[Options], values: Mapping[str, Any]) -> Dict[str, Any]:
    """Return saved values under the present names of their options."""
    aliases = alias_names(cls)
    return {aliases.get(name, name): value for name, value in values.items()}


def result_options(cls: Type[Options]) -> Set[str]:
    """Return the names of the options that affect the result of a run."""
    return {n for n in cls.model_fields if _declared(cls, n).get("affects_result", True)}


def changeable_options(cls: Type[Options]) -> Set[str]:
    """Return the names of the options that a resume may change without `--allow`."""
    return {n for n in cls.model_fields if _declared(cls, n).get("resume_may_change", False)}


def _declared(cls: Type[Options], name: str) -> Mapping[str, Any]:
    extra = cls.model_fields[name].json_schema_extra
    return extra if isinstance(extra, dict) else {}
