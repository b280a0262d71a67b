"""Options as text: from the text of a flag to a value, and from a declaration to its help."""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Type, Union

from pydantic.fields import FieldInfo
from typing_extensions import Annotated, Literal, get_args, get_origin

from ..errors import UsageError
from .declaration import Options, declared


def from_text(annotation: Any, value: Any) -> Any:
    """Turn the text of a flag or variable into a value that pydantic accepts.

    Lists are written `1,2,3`, dicts `a=1,b=2`, a missing optional value `none`. A value that is no
    text is returned unchanged.
    """
    if not isinstance(value, str):
        return value
    if type(None) in get_args(annotation):
        if value.strip().lower() in ("none", ""):
            return None
        annotation = _without_none(annotation)
    if get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    origin = get_origin(annotation) or annotation
    if origin in (int, float, bool):
        return value.strip()  # earlier versions of pydantic do not
    if origin in (list, tuple):
        return _split(value)
    if origin is dict:
        pairs: Dict[str, str] = {}
        for part in _split(value):
            name, equals, text = (word.strip() for word in part.partition("="))
            if not equals:
                raise UsageError(f"'{part}' is not of the form name=value.")
            if pairs.setdefault(name, text) != text:
                raise UsageError(f"'{value}' sets {name} to {pairs[name]} and to {text}.")
        return pairs
    if origin is Literal:
        return next((a for a in get_args(annotation) if str(a) == value), value)
    return value


def format_value(value: Any) -> str:
    """Return an option's value as a person reads it."""
    if isinstance(value, dict):
        return ",".join(f"{name}={format_value(part)}" for name, part in value.items())
    if isinstance(value, (list, tuple)):
        return ",".join(map(str, value))
    try:
        return "none" if value is None else str(value)
    except ValueError:  # it has more digits than Python writes
        return "a large number"


def _without_none(annotation: Any) -> Any:
    return Union[tuple(a for a in get_args(annotation) if a is not type(None))]


def _split(text: str) -> List[str]:
    """Split at commas; one may end the text."""
    parts = [part.strip() for part in text.split(",")]
    if not parts[-1]:
        del parts[-1]
    if not all(parts):
        raise UsageError(f"'{text}' has nothing between two commas.")
    return parts


class Field(NamedTuple):
    """The description of an option for `--help` and `plugins show`."""

    name: str
    type: str  # as in `type_name`
    default: Any
    limits: str  # "0<=x<1"
    unit: str
    help: str
    group: str

    @property
    def is_list(self) -> bool:
        """Whether the value is a list, or pairs of a name and a value."""
        return self.type.endswith(",...")


def describe(cls: Type[Options]) -> List[Field]:
    """Return the options that a class declares, in order."""
    return [
        Field(
            name=name,
            type=type_name(field.annotation),
            default=field.default,
            limits=_describe_limits(field),
            unit=str(declared(cls, name).get("unit", "")),
            help=field.description or "",
            group=str(declared(cls, name).get("group", "")),
        )
        for name, field in cls.model_fields.items()
    ]


def _describe_limits(field: FieldInfo) -> str:
    """The limits as click writes them: `x>=1`, `0<=x<1`."""
    names = ("ge", "gt", "le", "lt")
    bounds = {n: getattr(part, n) for part in field.metadata for n in names if hasattr(part, n)}
    low = [(bounds[name], sign) for name, sign in (("ge", "="), ("gt", "")) if name in bounds]
    high = [f"x<{sign}{bounds[name]}" for name, sign in (("le", "="), ("lt", "")) if name in bounds]
    if low and high:
        return f"{low[0][0]}<{low[0][1]}{high[0]}"
    return f"x>{low[0][1]}{low[0][0]}" if low else "".join(high)


def type_name(annotation: Any) -> str:
    """Return a type as `--help` shows it: `int`, `a|b`, `int,...`, `name=float,...`."""
    origin, args = get_origin(annotation), get_args(annotation)
    if type(None) in args:
        return type_name(_without_none(annotation))
    if origin is Annotated:
        return type_name(args[0])
    if origin is Literal:
        return "|".join(str(a) for a in args)
    if origin in (list, tuple):
        return type_name(args[0]) + ",..."
    if origin is dict:
        return f"name={type_name(args[1])},..."
    if origin is Union:
        return "value"
    return getattr(annotation, "__name__", str(annotation))
