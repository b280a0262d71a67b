"""`tf.contrib.training.HParams`: options as attributes."""

from __future__ import annotations

import json
from typing import Any, Dict


class HParams:
    """Options by name.

    Args:
        values: a number, text, boolean or list each.
    """

    def __init__(self, **values: Any):
        for name, value in values.items():
            self.add_hparam(name, value)

    def add_hparam(self, name: str, value: Any) -> None:
        """Add an option.

        Raises:
            ValueError: there is an attribute of this name.
        """
        if hasattr(self, name):
            raise ValueError(f"HParams has {name!r} already.")
        setattr(self, name, value)

    def set_hparam(self, name: str, value: Any) -> None:
        """Change an option; a number becomes one of the former value's type.

        Raises:
            KeyError: there is none of this name.
        """
        if name not in self:
            raise KeyError(f"HParams has no {name!r}, but {', '.join(vars(self))}.")
        former = getattr(self, name)
        is_number = isinstance(former, (int, float)) and not isinstance(value, (list, type(None)))
        setattr(self, name, type(former)(value) if is_number else value)

    def override_from_dict(self, values_dict: Dict[str, Any]) -> HParams:
        """`set_hparam` of several."""
        for name, value in values_dict.items():
            self.set_hparam(name, value)
        return self

    def parse(self, values: str) -> HParams:
        """Change options by a text such as "rate=0.1,layers=[1,2],name=a".

        Raises:
            ValueError: the text has another form.
            KeyError: there is no option of a name.
        """
        rest = values.strip()
        while rest:
            name, found, rest = rest.partition("=")
            end = rest.find("]") + 1 if rest.startswith("[") else rest.find(",")
            end = len(rest) if end <= 0 else end
            text, rest = rest[:end], rest[end:].lstrip(",")
            if not found or not text:
                raise ValueError(f"HParams parses name=value,...; not {values!r}.")
            try:
                value = json.loads(text.replace("True", "true").replace("False", "false"))
            except ValueError:
                value = text
            self.set_hparam(name.strip(), value)
        return self

    def get(self, key: str, default: Any = None) -> Any:
        """The value of an option, or a default."""
        return vars(self).get(key, default)

    def values(self) -> Dict[str, Any]:
        """Name -> value."""
        return dict(vars(self))

    def to_json(self, indent=None, separators=None, sort_keys=False) -> str:
        """The values as JSON."""
        return json.dumps(self.values(), indent=indent, separators=separators, sort_keys=sort_keys)

    def parse_json(self, values_json: str) -> HParams:
        """`override_from_dict` of JSON."""
        return self.override_from_dict(json.loads(values_json))

    def __contains__(self, key: str) -> bool:
        return key in vars(self)

    def __repr__(self) -> str:
        return f"HParams({self.values()})"
