"""Options as text: from the text of a flag to a value, and from a declaration to its help."""

from __future__ import annotations

from typing import Any, List, NamedTuple, Tuple

from typing_extensions import Literal, get_args, get_origin

from ..errors import UsageError


def from_text(annotation: Any, value: Any) -> Any:
    """Turn the text of a flag or variable into what pydantic takes; leave other values as they are.

    Lists read `1,2,3`, dicts `a=1,b=2`, an optional value `none`.
    """
    if not isinstance(value, str):
        return value
    origin, args = get_origin(annotation), get_args(annotation)
    if type(None) in args:
        if value.strip().lower() in ("none", ""):
            return None
        annotation = next(a for a in args if a is not type(None))
        origin, args = get_origin(annotation), get_args(annotation)
    if origin in (list, tuple) or annotation in (list, tuple):
        return [part.strip() for part in value.split(",") if part.strip()]
    if origin is dict or annotation is dict:
        return dict(_pair(part) for part in value.split(",") if part.strip())
    if origin is Literal:
        return next((a for a in args if str(a) == value), value)
    return value


def _pair(text: str) -> Tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise UsageError(f"'{text}' is not of the form name=value.")
    return name.strip(), value.strip()


class Field(NamedTuple):
    """One option as `--help`, `plugins show` and the docs print it."""

    name: str
    type: str
    default: Any
    limits: str
    unit: str
    help: str
    group: str


def describe(cls: type) -> List[Field]:
    """The options that a class declares, in order."""
    return [_describe(name, field) for name, field in cls.model_fields.items()]


def _describe(name: str, field: Any) -> Field:
    extra = field.json_schema_extra or {}
    limits = []
    for part in field.metadata:
        for limit, sign in (("ge", ">="), ("gt", ">"), ("le", "<="), ("lt", "<")):
            bound = getattr(part, limit, None)
            if bound is not None:
                limits.append(f"{sign} {bound}")
    return Field(
        name=name,
        type=type_name(field.annotation),
        default=field.default,
        limits=" and ".join(limits),
        unit=extra.get("unit", ""),
        help=field.description or "",
        group=extra.get("group", ""),
    )


def type_name(annotation: Any) -> str:
    """What `--help` shows as the type: `int`, `a|b`, `int,...`."""
    origin, args = get_origin(annotation), get_args(annotation)
    if type(None) in args:
        return type_name(next(a for a in args if a is not type(None)))
    if origin is Literal:
        return "|".join(str(a) for a in args)
    if origin in (list, tuple):
        return type_name(args[0]) + ",..."
    if origin is dict:
        return f"name={type_name(args[1])},..."
    return getattr(annotation, "__name__", str(annotation))
