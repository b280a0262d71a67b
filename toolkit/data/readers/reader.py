"""The choice of the reader that feeds a split to a graph."""

from __future__ import annotations

from typing import NamedTuple, Optional, Union

from ...errors import UsageError
from ..examples import Split
from ..prepare import NO_HOOKS, ExampleHooks, prepare
from .batch_slice import BatchSlice
from .mapped import decode_splits
from .numbered import NumberedDatasetReader, NumberedStreamReader
from .pipeline import DatasetReader
from .resident import ResidentReader
from .stream import DEFAULT_BUFFER, StreamReader

RESIDENT_LIMIT = 1 << 30  # bytes

Reader = Union[ResidentReader, StreamReader, DatasetReader]


class ReaderOptions(NamedTuple):
    """Where and in which order examples are read.

    Attributes:
        kind: "resident" in memory; "stream" from where they are; "mapped", which decodes examples
            into files of the cache first, once, if reading decodes; or "auto": resident up to the
            limit, else stream. (`mapped.decode_splits` has decoded the data of a run by then.)
        seed: in [0, 2**31); the order of an epoch is a function of (seed, epoch).
        shuffle: False for the order of the split.
        shuffle_buffer: examples that a streaming reader shuffles at a time.
        resident_limit: bytes of features.
        pads_to_longest: see `BatchForm`.
        part: the part of each batch that is read; None for all of it.
        by_number: whether the number of a batch is known only when a step takes it.
    """

    kind: str = "auto"
    seed: int = 0
    shuffle: bool = True
    shuffle_buffer: int = DEFAULT_BUFFER
    resident_limit: int = RESIDENT_LIMIT
    pads_to_longest: bool = False
    part: Optional[BatchSlice] = None
    by_number: bool = False


DEFAULT_OPTIONS = ReaderOptions()


def make_reader(
    split: Split,
    batch_size: int,
    options: ReaderOptions = DEFAULT_OPTIONS,
    hooks: ExampleHooks = NO_HOOKS,
    cache_dir: Optional[str] = None,
) -> Reader:
    """Build the reader of a split in the current graph.

    Args:
        split: the examples, as stored.
        batch_size: examples in a batch, at most as many as the split has.
        options: the kind of reader, and the order of the examples.
        hooks: `filter` and `convert`. A resident reader calls them here, once per example; a
            streaming reader calls `convert` whenever it reads an example.
        cache_dir: the folder of decoded examples; None for the default.

    Raises:
        UsageError: the batch size is larger than the split.
        ToolkitError: a hook failed.
        DataError: the filter keeps no example.
    """
    if split.make_dataset is not None:
        return _make_dataset_reader(split, batch_size, options, hooks)
    if is_resident(split, options):
        return ResidentReader(
            prepare(split, hooks),
            batch_size,
            options.seed,
            options.shuffle,
            options.pads_to_longest,
            options.part,
        )
    if options.kind == "mapped":
        split = decode_splits({"": split}, "mapped", cache_dir=cache_dir)[""]
    buffer_size = options.shuffle_buffer if options.shuffle else 0
    reader_type = NumberedStreamReader if options.by_number else StreamReader
    return reader_type(
        split, batch_size, options.seed, buffer_size, hooks, options.pads_to_longest, options.part
    )


def is_resident(split: Split, options: ReaderOptions) -> bool:
    """Whether `make_reader` reads all examples of a split into memory."""
    is_small = options.kind == "auto" and split.nbytes <= options.resident_limit
    return split.make_dataset is None and (is_small or options.kind == "resident")


def _make_dataset_reader(
    split: Split, batch_size: int, options: ReaderOptions, hooks: ExampleHooks
) -> DatasetReader:
    if hooks != NO_HOOKS:
        raise UsageError(
            "The hooks 'filter' and 'convert' are not called for the examples of a "
            "tf.data.Dataset.",
            hint="Filter and map the data set itself.",
        )
    if options.kind not in ("auto", "stream"):
        raise UsageError(
            f"--reader {options.kind} has no effect: the plugin's data is a tf.data.Dataset.",
            hint="Leave it out.",
        )
    buffer_size = options.shuffle_buffer if options.shuffle else 0
    reader_type = NumberedDatasetReader if options.by_number else DatasetReader
    return reader_type(
        split, batch_size, options.seed, buffer_size, options.pads_to_longest, options.part
    )
