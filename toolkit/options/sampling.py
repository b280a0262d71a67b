"""`SampleOptions`, the base of the settings with which a plugin draws samples."""

from __future__ import annotations

from typing import List, Optional

from .declaration import Options


class SampleOptions(Options):
    """The base of what the hook `sample_options` returns."""

    @property
    def columns(self) -> Optional[int]:
        """The samples in a row of a grid; None for a square grid, or a row for each class."""
        return None

    def file_words(self) -> List[str]:
        """Return words that tell the default files of different settings apart."""
        values = ((name, getattr(self, name)) for name in type(self).model_fields)
        return [
            name if value is True else f"{name}-{_format(value)}"
            for name, value in values
            if value != type(self).model_fields[name].default
        ]


def _format(value: object) -> str:
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return text.replace("/", "-")
