"""What is told of the first tensor that is not finite: as sentences, as JSON, and as files."""

from __future__ import annotations

import os
from typing import Any, Dict, Iterable, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from ..display.grid import save_grid
from ..files import write_json, written_whole


class Place(NamedTuple):
    """A line of Python. file: an absolute path. source: its text, or ""."""

    file: str
    line: int
    function: str
    source: str

    @property
    def short(self) -> str:
        """`file:line in function`, the file as seen from here where it lies below."""
        near = os.path.relpath(self.file)
        file = self.file if near.startswith("..") else near
        return f"{file}:{self.line} in {self.function}"

    def __str__(self) -> str:
        return self.short + (self.source and ": " + self.source)


class Values(NamedTuple):
    """What a tensor held. low, high: of its finite values, None where there is none.

    shape, low, high, nan, inf are None where it could not be looked at.
    """

    name: str
    dtype: str
    shape: Optional[Tuple[int, ...]] = None
    low: Optional[float] = None
    high: Optional[float] = None
    nan: Optional[int] = None
    inf: Optional[int] = None

    def __str__(self) -> str:
        if self.shape is None:
            return f"of type {self.dtype}, which cannot be looked at"
        text = f"{self.dtype} {list(self.shape)}"
        if self.low is not None:
            text += f" from {self.low:g} to {self.high:g}"
        wrong = [f"{n} {what}" for n, what in ((self.nan, "nan"), (self.inf, "inf")) if n]
        if wrong:
            count = int(np.prod(self.shape, dtype=int))
            text += f" with {' and '.join(wrong)} of {count} value{'s' * (count > 1)}"
        return text


class Finding(NamedTuple):
    """The first tensor that is not finite, and the batch B of the step.

    kind: "features"; "variable", which held it before the update; "op". update: the name of the
    update that was refused; loss, gradient_norm: its numbers. op: a name; the variable's where it
    is one. stack: the lines of plugins that made the op, or the forward op that it is in the
    gradient of, the innermost last; [] where the core made it. gradient_of: the forward op's name
    and type. inside: whether the op hands out what was made within a loop of the graph, which
    cannot be looked into. rows: those of the batch that are not finite, where the tensor has them.
    positions: of the examples in the split "train" after `filter`.
    """

    kind: str
    step: int  # the one that was refused: the last good one and 1
    update: str
    loss: float
    gradient_norm: float
    tensor: Values
    op: str
    op_type: str
    stack: List[Place]
    gradient_of: Optional[Tuple[str, str]]
    inside: bool
    inputs: List[Values]
    rows: List[int]
    positions: List[int]
    labels: Optional[List[int]]
    features: np.ndarray  # float32 [B, ...]

    @property
    def place(self) -> Optional[Place]:
        """The innermost line of a plugin."""
        return self.stack[-1] if self.stack else None

    @property
    def examples(self) -> List[int]:
        """The positions of the examples whose rows are not finite."""
        return [self.positions[row] for row in self.rows]

    def lines(self) -> List[str]:
        """Sentences for the console."""
        told = [f"Step {self.step} was made again; {self._first()}"]
        if self.kind == "op":
            told.append(self._made_at())
            callers = [place.short for place in self.stack[-2:-5:-1]]
            told += [f"It was called at {', from '.join(callers)}."] if callers else []
            told += [f"Its input '{one.name}' is {one}." for one in self.inputs]
        if self.rows and self.kind == "op":
            told.append(f"It is not finite in the rows of {self._told(self.rows)}.")
        if len(self.rows) != len(self.positions):
            everyone = range(len(self.positions))
            told.append(f"The batch was {self._told(everyone)}.")
        return told

    def _first(self) -> str:
        if self.kind == "features":
            return (
                f"the features of {self._told(self.rows)} are not finite: the batch is "
                f"{self.tensor}."
            )
        if self.kind == "variable":
            when = f"the update '{self.update}'" if self.update else "it"
            return f"the variable '{self.op}' was not finite before {when}: {self.tensor}."
        within = ", made within a loop" if self.inside else ""
        return (
            f"the first tensor that is not finite is '{self.tensor.name}' (op "
            f"{self.op_type}{within}): {self.tensor}."
        )

    def _made_at(self) -> str:
        place = "by the toolkit itself" if self.place is None else f"at {self.place}"
        if self.gradient_of is None:
            return f"It was made {place}."
        return "It is in the gradient of '{}' (op {}), made {}.".format(*self.gradient_of, place)

    def _told(self, rows: Iterable[int], most: int = 8) -> str:
        """`examples 3 and 5 of the split 'train' (labels 0 and 1)`."""
        rows = list(rows)
        text = _listed("example", [self.positions[row] for row in rows], most)
        text += " of the split 'train'"
        if self.labels is not None:
            text += f" ({_listed('label', [self.labels[row] for row in rows], most)})"
        return text

    def as_json(self) -> Dict[str, Any]:
        """Everything but the features, as JSON values."""
        values = self._asdict()
        del values["features"]
        values["tensor"] = self.tensor._asdict()
        values["inputs"] = [one._asdict() for one in self.inputs]
        values["stack"] = [place._asdict() for place in self.stack]
        values["examples"] = self.examples
        return dict(values, lines=self.lines())


def _listed(noun: str, numbers: Sequence[int], most: int) -> str:
    texts = [str(number) for number in numbers[:most]]
    if len(numbers) > most:
        texts.append(f"{len(numbers) - most} more")
    joined = ", ".join(texts[:-1]) + (" and " if texts[1:] else "") + texts[-1]
    return f"{noun}{'s' if len(numbers) > 1 else ''} {joined}"


def write(finding: Finding, folder: str) -> None:
    """autopsy.json, batch.npz (features, positions, labels) and, of images, batch.png in `folder`,
    which is made. Below each image stands its position.
    """
    os.makedirs(folder, exist_ok=True)
    arrays = {"features": finding.features, "positions": np.array(finding.positions)}
    if finding.labels is not None:
        arrays["labels"] = np.array(finding.labels, np.int32)
    with written_whole(os.path.join(folder, "batch.npz")) as file:
        np.savez(file, **arrays)
    shape = finding.features.shape
    if len(shape) == 4 and shape[-1] in (1, 3, 4):
        save_grid(os.path.join(folder, "batch.png"), finding.features, labels=finding.positions)
    write_json(os.path.join(folder, "autopsy.json"), finding.as_json())
