"""What an autopsy found: the first non-finite tensor, as sentences, as JSON and as files."""

from __future__ import annotations

import os
from typing import Any, Dict, Iterable, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from ..data.structure import FEATURES, LABELS
from ..display.grid import save_grid
from ..display.numbers import format_count
from ..files import atomic_write, write_json
from ..graph.guard import ADOPTED, GuardValues


class SourceLine(NamedTuple):
    """A line of Python."""

    file: str  # an absolute path
    line: int
    function: str
    source: str  # the line's text, or "" where the file cannot be read

    @property
    def location(self) -> str:
        """`file:line in function`; a file below the working directory by its relative path."""
        relative = os.path.relpath(self.file)
        file = self.file if relative.startswith("..") else relative
        return f"{file}:{self.line} in {self.function}"

    def __str__(self) -> str:
        return self.location + (self.source and ": " + self.source)


class TensorSummary(NamedTuple):
    """The shape and the range of a tensor's values, each None where it could not be fetched."""

    name: str
    dtype: str
    shape: Optional[Tuple[int, ...]] = None
    low: Optional[float] = None  # the smallest finite value, None where there is none
    high: Optional[float] = None  # the largest finite value, None where there is none
    nan: Optional[int] = None  # how many values are NaN
    inf: Optional[int] = None  # how many values are infinite

    def __str__(self) -> str:
        if self.shape is None:
            return f"of type {self.dtype} and could not be fetched"
        text = f"{self.dtype} {list(self.shape)}"
        if self.low is not None:
            text += f" from {self.low:g} to {self.high:g}"
        counts = [f"{n} {kind}" for n, kind in ((self.nan, "nan"), (self.inf, "inf")) if n]
        if counts:
            size = int(np.prod(self.shape, dtype=int))
            text += f", with {' and '.join(counts)} in {format_count(size, 'value')}"
        return text


class BatchValues(NamedTuple):
    """The N examples of the repeated step."""

    arrays: Dict[str, np.ndarray]  # flat key -> [N, ...], as hooks get them
    positions: np.ndarray  # int64 [N], in the split "train" after `filter`

    @property
    def size(self) -> int:
        return len(self.positions)

    @property
    def labels(self) -> Optional[np.ndarray]:
        """The class of each example, int32 [N]; None if labels are none or something else."""
        labels = self.arrays.get(LABELS)
        is_class = labels is not None and labels.ndim == 1 and labels.dtype == np.int32
        return labels if is_class else None

    def describe(self, rows: Iterable[int], limit: int = 8) -> str:
        """`examples 3 and 5 of the split 'train' (labels 0 and 1)`; at most `limit` of each."""
        rows = list(rows)
        text = _enumerate("example", [self.positions[row] for row in rows], limit)
        text += " of the split 'train'"
        if self.labels is not None:
            text += f" ({_enumerate('label', [self.labels[row] for row in rows], limit)})"
        return text


class Finding(NamedTuple):
    """The first non-finite tensor of the refused step."""

    kind: str  # "features"; "variable", which was non-finite before the update; or "op"
    step: int  # the refused step: the last good one plus 1
    update: GuardValues  # that the guard refused, with the two numbers of which one is non-finite
    tensor: TensorSummary
    op: str  # its op; of a variable, the variable's name
    op_type: str
    stack: List[SourceLine]  # of plugins, that created it, the innermost last
    gradient_of: Optional[Tuple[str, str]]  # name and type of the forward op, for a gradient
    inputs: List[TensorSummary]  # of the op
    rows: List[int]  # non-finite rows of the batch; [] where the tensor has no axis of examples
    batch: BatchValues

    @property
    def source_line(self) -> Optional[SourceLine]:
        """The innermost line of a plugin; None where the core created the op."""
        return self.stack[-1] if self.stack else None

    @property
    def examples(self) -> List[int]:
        """The positions of the examples whose rows are non-finite."""
        return [int(self.batch.positions[row]) for row in self.rows]

    def lines(self) -> List[str]:
        """Sentences for the console."""
        first = (
            f"the first non-finite tensor is '{self.tensor.name}' (op {self.op_type}): "
            f"{self.tensor}."
        )
        if self.kind == "features":
            first = (
                f"the features of {self.batch.describe(self.rows)} are not finite: the batch is "
                f"{self.tensor}."
            )
        elif self.kind == "variable":
            update = f"the update '{self.update.name}'" if self.update.name else "the update"
            first = f"the variable '{self.op}' was already non-finite before {update}: "
            first += f"{self.tensor}."
        lines = [f"Step {self.step} was repeated; {first}"]
        if self.kind == "op":
            line = self.source_line
            place = "by the toolkit itself" if line is None else f"at {line}"
            if self.update.name == ADOPTED and line is None:
                lines.append(
                    "It is what the plugin's own update changed: its op made a variable non-finite."
                )
            elif self.gradient_of is None:
                lines.append(f"It was created {place}.")
            else:
                name, kind = self.gradient_of
                lines.append(f"It is in the gradient of '{name}' (op {kind}), created {place}.")
            callers = [line.location for line in self.stack[-2:-5:-1]]
            lines += [f"Called from {', from '.join(callers)}."] if callers else []
            lines += [f"Its input '{summary.name}' is {summary}." for summary in self.inputs]
        if self.rows and self.kind == "op":
            lines.append(f"Its non-finite rows belong to {self.batch.describe(self.rows)}.")
        if len(self.rows) != self.batch.size:
            lines.append(f"The batch consisted of {self.batch.describe(range(self.batch.size))}.")
        return lines

    def way_out(self, skips: bool = False) -> str:
        """What to try, without a full stop; "" where no cause but the learning rate is known.

        `skips`: whether the run left such steps out already, all of them in vain.
        """
        if self.kind == "features":
            skip = "" if skips else ", or take --on-nonfinite skip"
            return f"mend the data of these examples{skip}"
        line = self.source_line
        if self.kind != "op" or line is None:
            return ""
        is_own = self.update.name == ADOPTED
        rate = "the rate of the plugin's own op" if is_own else "--learning-rate"
        skip = "" if skips else ", or --on-nonfinite skip"
        return (
            f"try a lower {rate}{skip}; else mend {line.file}:{line.line} where its values can be "
            "wrong"
        )

    def as_json(self) -> Dict[str, Any]:
        """Everything but the features, as JSON values."""
        labels = self.batch.labels
        values = self._asdict()
        del values["batch"]
        return {
            **values,
            "update": self.update.name,
            "loss": self.update.loss,
            "gradient_norm": self.update.gradient_norm,
            "tensor": self.tensor._asdict(),
            "stack": [line._asdict() for line in self.stack],
            "inputs": [summary._asdict() for summary in self.inputs],
            "positions": self.batch.positions.tolist(),
            "labels": None if labels is None else labels.tolist(),
            "examples": self.examples,
            "lines": self.lines(),
        }


def _enumerate(noun: str, numbers: Sequence[int], limit: int) -> str:
    """`examples 3, 5 and 2 more`."""
    texts = [str(number) for number in numbers[:limit]]
    if len(numbers) > limit:
        texts.append(f"{len(numbers) - limit} more")
    text = ", ".join(texts[:-1]) + (" and " if texts[1:] else "") + texts[-1]
    return f"{noun}{'s' if len(numbers) > 1 else ''} {text}"


def write(finding: Finding, folder: str) -> None:
    """Write autopsy.json, batch.npz and, for images, batch.png to a folder, which is created.

    batch.npz has the arrays of `BatchValues` by their flat keys, with "_" for "/"; batch.png shows
    each image above its position.
    """
    os.makedirs(folder, exist_ok=True)
    batch = finding.batch
    arrays: Dict[str, Any] = {"positions": np.asarray(batch.positions, np.int64)}
    for key, array in batch.arrays.items():  # texts would be pickled
        is_text = array.dtype == object
        arrays[key.replace("/", "_")] = array.astype(np.bytes_) if is_text else array
    with atomic_write(os.path.join(folder, "batch.npz")) as file:
        np.savez(file, **arrays)
    features = batch.arrays.get(FEATURES)
    if features is not None and features.ndim == 4 and features.shape[-1] in (1, 3, 4):
        labels = batch.positions.tolist()
        save_grid(os.path.join(folder, "batch.png"), features, labels=labels)
    write_json(os.path.join(folder, "autopsy.json"), finding.as_json())
