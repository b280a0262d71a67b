"""The choice of the reader that feeds a split to a graph."""

from __future__ import annotations

from typing import Union

from ...errors import UsageError
from ..examples import Split
from ..prepare import NO_HOOKS, ExampleHooks, prepare
from .batches import DEFAULT_OPTIONS, ReaderOptions
from .pipeline import DatasetReader
from .resident import ResidentReader
from .stream import StreamReader

Reader = Union[ResidentReader, StreamReader, DatasetReader]


def make_reader(
    split: Split,
    batch_size: int,
    options: ReaderOptions = DEFAULT_OPTIONS,
    hooks: ExampleHooks = NO_HOOKS,
) -> Reader:
    """Build the reader of a split, as stored, in the current graph.

    A resident reader calls the hooks here, once per example; a streaming reader calls `convert`
    whenever it reads an example. Raises UsageError if the batch size is larger than the split,
    ToolkitError if a hook failed, DataError if the filter keeps no example.
    """
    if split.make_dataset is not None:
        if hooks.filter or hooks.convert:
            raise UsageError(
                "The hooks 'filter' and 'convert' are not called for the examples of a "
                "tf.data.Dataset.",
                hint="Filter and map the data set itself.",
            )
        if options.by_number:
            raise UsageError(
                "The plugin's data is a tf.data.Dataset, whose batches have no numbers by which "
                "processes share them.",
                hint="Train without parameter servers (tasks 'ps'), or return examples.",
            )
        if options.kind not in ("auto", "stream"):
            raise UsageError(
                f"--reader {options.kind} has no effect: the plugin's data is a tf.data.Dataset.",
                hint="Leave it out.",
            )
        return DatasetReader(split, batch_size, options)
    if is_resident(split, options):
        return ResidentReader(prepare(split, hooks), batch_size, options)
    return StreamReader(split, batch_size, options, hooks)


def is_resident(split: Split, options: ReaderOptions) -> bool:
    """Whether `make_reader` reads all examples of a split into memory."""
    is_small = options.kind == "auto" and split.nbytes <= options.resident_limit
    return split.make_dataset is None and (is_small or options.kind == "resident")
