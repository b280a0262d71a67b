"""How the core and plugins declare an option: `option`, and the base class `Options`."""

from __future__ import annotations

from typing import Any, ClassVar, Mapping

import pydantic


def option(default: Any, help: str, *, unit: str = "", group: str = "", **limits: Any) -> Any:
    """Declare one option of an `Options` class.

    default: the value when nothing else says one. help: one line, without a full stop. unit: what
    a number counts ("steps", "seconds"). group: the heading in `--help`. limits: pydantic's `ge`,
    `gt`, `le`, `lt`, `min_length`, `max_length`, `pattern`.
    """
    extra = {"unit": unit, "group": group}
    return pydantic.Field(default, description=help, json_schema_extra=extra, **limits)


class Options(pydantic.BaseModel):
    """The base of every options class.

    core_defaults: gives core options another default. presets: name -> values of options that go
    together; a class that has some declares an option `preset`, whose value names one of them.
    Anything that is given by name overrules a preset.
    """

    model_config = pydantic.ConfigDict(
        extra="forbid", frozen=True, validate_default=True, protected_namespaces=()
    )

    core_defaults: ClassVar[Mapping[str, Any]] = {}
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {}

    @property
    def batches_per_step(self) -> int:
        """How many batches a step takes: its features are [batch_size * batches_per_step, ...]."""
        return 1

    @pydantic.field_validator("*")
    @classmethod
    def _fits_in_64_bits(cls, value):
        for number in value if isinstance(value, list) else [value]:
            if isinstance(number, int) and not -(2**63) <= number < 2**63:
                raise ValueError("should be less than 2^63 in size")
        return value
