"""`tf.contrib.training.HParams`: options as attributes."""

from __future__ import annotations

import json
import re
from typing import Any, Dict, Tuple

_CLAUSE = re.compile(r"([a-zA-Z][\w.]*)\s*=\s*(?:\[([^\]]*)\]|([^,\[]*))(?:$|,\s*)")


def _read_bool(text: str) -> bool:
    return text in ("true", "True") or (text not in ("false", "False") and bool(int(text)))


class HParams:
    """Options by name; what else is set as an attribute is none.

    Args:
        values: a number, text, boolean or list each.
    """

    def __init__(self, **values: Any):
        self._kinds: Dict[str, Tuple[Any, bool]] = {}  # name -> type of each value, if in a list
        for name, value in values.items():
            self.add_hparam(name, value)

    def add_hparam(self, name: str, value: Any) -> None:
        """Add an option, whose type is that of its value.

        Raises:
            ValueError: there is an attribute of this name, or the value is an empty list.
        """
        if hasattr(self, name):
            raise ValueError(f"HParams has {name!r} already.")
        is_list = isinstance(value, (list, tuple))
        if is_list and not value:
            raise ValueError(f"The list {name!r} of HParams has no value, and so no type.")
        self._kinds[name] = type(value[0] if is_list else value), is_list
        setattr(self, name, value)

    def set_hparam(self, name: str, value: Any) -> None:
        """Change an option; an equal value of its type replaces the given one.

        Raises:
            KeyError: there is none of this name.
            ValueError: the value cannot be of its type.
        """
        if name not in self:
            raise KeyError(f"HParams has no {name!r}, but {', '.join(self._kinds)}.")
        kind, is_list = self._kinds[name]
        if isinstance(value, list) != is_list:
            raise ValueError(f"{name!r} of HParams is {'a' if is_list else 'no'} list.")
        values = value if is_list else [value]
        cast = [x if kind in (type(x), type(None)) else kind(x) for x in values]
        if cast != list(values):
            raise ValueError(f"{name!r} of HParams is of type {kind.__name__}, not {value!r}.")
        setattr(self, name, cast if is_list else cast[0])

    def override_from_dict(self, values_dict: Dict[str, Any]) -> HParams:
        """`set_hparam` of several."""
        for name, value in values_dict.items():
            self.set_hparam(name, value)
        return self

    def parse(self, values: str) -> HParams:
        """Change options by a text such as "rate=0.1,layers=[1,2],name=a", read by their types.

        Raises:
            ValueError: the text has another form, or a name twice or without an option.
        """
        parsed: Dict[str, Any] = {}
        rest = values.strip()
        while rest:
            clause = _CLAUSE.match(rest)
            if clause is None or clause[1] not in self or clause[1] in parsed:
                names = ", ".join(self._kinds)
                raise ValueError(f"HParams parses name=value,... of {names} once; not {rest!r}.")
            name, items, text = clause.groups()
            kind, rest = self._kinds[name][0], rest[clause.end() :]
            try:
                texts = [text] if items is None else re.findall("[^ ,]+", items)
                found = [_read_bool(x) if kind is bool else kind(x) for x in texts]
            except (TypeError, ValueError):
                message = f"{name!r} of HParams is of type {kind.__name__}, not {clause[0]!r}."
                raise ValueError(message) from None
            parsed[name] = found[0] if items is None else found
        return self.override_from_dict(parsed)

    def get(self, key: str, default: Any = None) -> Any:
        """The value of an option, or a default."""
        return getattr(self, key) if key in self else default

    def values(self) -> Dict[str, Any]:
        """Name -> value."""
        return {name: getattr(self, name) for name in self._kinds}

    def to_json(self, **options) -> str:
        """The values as JSON."""
        return json.dumps(self.values(), **options)

    def parse_json(self, values_json: str) -> HParams:
        """`override_from_dict` of JSON."""
        return self.override_from_dict(json.loads(values_json))

    def __contains__(self, key: str) -> bool:
        return key in self._kinds

    def __repr__(self) -> str:
        return f"HParams({self.values()})"
