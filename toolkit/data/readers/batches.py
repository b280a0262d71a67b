"""What all readers have in common: which examples they read, in which order, the form of a batch,
and its way from storage to the model.

Legend: B examples of a batch, K batches of a chunk, L the length to which sequences are padded, ...
other sizes.
"""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Tuple

import numpy as np

from ...compat import tf
from ...errors import ToolkitError, UsageError
from ..column import Component
from ..examples import LENGTH, Split
from ..structure import pack

DEVICE = "/cpu:0"  # of the examples, and of the ops that read them
# Batches that are read ahead are used soon: the processor's cache should hold them.
CHUNK_BYTES = 8 << 20
DEFAULT_BUFFER = 10000  # examples
RESIDENT_LIMIT = 1 << 30  # bytes


class ReaderOptions(NamedTuple):
    """Where and in which order examples are read."""

    # "resident" in memory; "stream" or "mapped" from where they are (for "mapped",
    # `mapped.decode_splits` has decoded the data); "auto": resident up to the limit, else stream.
    kind: str = "auto"
    seed: int = 0  # in [0, 2**31); the order of an epoch is a function of (seed, epoch)
    shuffle_buffer: int = DEFAULT_BUFFER  # examples that a streaming reader shuffles at a time
    resident_limit: int = RESIDENT_LIMIT  # bytes of features
    pads_to_longest: bool = False
    part: Optional[np.ndarray] = None  # the rows of each batch that are read, int64 [n]; None: all
    # Whether the number of a batch is known only when a step takes it: of several processes, each
    # takes the batch whose ticket it gets.
    by_number: bool = False


DEFAULT_OPTIONS = ReaderOptions()


class BatchForm(NamedTuple):
    """The components of a batch."""

    components: Mapping[str, Component]  # by flat key
    longest: Mapping[str, int]  # flat key of sequences -> the length of the longest of all
    # Whether every batch is padded to the longest sequence of all, as XLA needs: shapes are known.
    pads_to_longest: bool = False

    @classmethod
    def of(cls, split: Split, pads_to_longest: bool = False) -> BatchForm:
        """The form of the batches of a split."""
        lengths = {key: split.pad_length(key, is_longest=True) for key in split.columns}
        longest = {key: length for key, length in lengths.items() if length is not None}
        return cls(split.components, longest, pads_to_longest)

    def batch_shape(self, key: str, batch_size: Any) -> List[Any]:
        """The shape of a batch of a component, with None for L unless it is known."""
        shape = list(self.components[key].shape)
        if key in self.longest:
            shape[0] = self.longest[key] if self.pads_to_longest else None
        return [batch_size, *shape]

    def finish(self, flat: Mapping[str, tf.Tensor]) -> Dict[str, tf.Tensor]:
        """A batch as hooks get it: sequences cut to the length of the batch, images as floats.

        As stored, flat key -> [B, ...], sequences are padded to any sufficient length.
        """
        batch = {}
        for key, tensor in flat.items():
            if key in self.longest and not self.pads_to_longest:
                tensor = tensor[:, : self.pad_length(key, flat[key + LENGTH])]
            batch[key] = convert_stored(tensor, self.components[key].kind)
        return batch

    def pad_length(self, key: str, lengths: tf.Tensor) -> Any:
        """L of a batch of sequences with these lengths, int32 of any shape: an int32 scalar."""
        if self.pads_to_longest:
            return self.longest[key]
        return tf.maximum(tf.reduce_max(lengths), 1)


def convert_stored(tensor: tf.Tensor, kind: str) -> tf.Tensor:
    """A stored component as hooks get it: images of bytes divided by 255, classes int32."""
    if kind == "image" and tensor.dtype == tf.uint8:
        return tf.cast(tensor, tf.float32) * np.float32(1 / 255)
    if kind == "class":
        return tf.cast(tensor, tf.int32)
    return tensor


class BatchReader:
    """Reads batches of examples, of which each is a function of its number. Raises UsageError if
    the batch size is larger than the number of examples.
    """

    in_memory = False  # whether reading needs no thread of tf.data
    kind = ""  # "resident", "stream" or "dataset"

    def __init__(self, split: Split, batch_size: int, options: ReaderOptions):
        if not 1 <= batch_size <= len(split):
            raise UsageError(
                f"The batch size is {batch_size} but the split has {len(split)} examples.",
                hint=f"Choose a batch size from 1 to {len(split)}.",
            )
        self.num_examples = len(split)  # of an epoch
        self.batch_size = batch_size  # of whole batches
        self.form = BatchForm.of(split, options.pads_to_longest)
        self.num_rows = batch_size if options.part is None else len(options.part)
        self.failure: Optional[ToolkitError] = None  # why a read failed
        self._split, self._part = split, options.part

    @property
    def max_chunk_steps(self) -> int:
        """The most batches that `chunk` can return: those of CHUNK_BYTES, at least 1."""
        batch_bytes = 0
        for key, component in self.form.components.items():
            if component.kind != "class" or component.shape:
                length = self.form.longest.get(key, 1)
                itemsize = tf.as_dtype(component.dtype).size or 1  # of text it is not known
                batch_bytes += component.size * length * self.batch_size * itemsize
        return max(1, CHUNK_BYTES // max(1, batch_bytes))


class IteratorReader(BatchReader):
    """A reader whose batches come one after the other."""

    _iterator: Any  # of flat dicts of tensors [B, ...]

    def batch(self, step: tf.Tensor) -> Tuple[Any, Any]:
        """The next batch: features and labels [B, ...], or dicts of such tensors; images are
        float32 in [0, 1], classes int32. Labels are None if there are none. `initialize` sets the
        first batch; `step` is not used.
        """
        return pack(self.form.finish(self._iterator.get_next()))

    def chunk(self, step: tf.Tensor, size: int, num_batches: tf.Tensor) -> Dict[str, tf.Tensor]:
        """The next K batches, as they are stored: flat key -> [K, B, ...], for `BatchForm.finish`
        batch by batch. `initialize` sets the first one, not `step`.

        Only `num_batches`, an int32 scalar, are read; others are zeros. Sequences need
        `pads_to_longest`.
        """
        form, keys = self.form, list(self.form.components)
        arrays = [
            tf.TensorArray(each.dtype, size, element_shape=form.batch_shape(key, self.num_rows))
            for key, each in form.components.items()
        ]

        def read_batch(count, *arrays):
            batch = self._iterator.get_next()
            return [count + 1] + [array.write(count, batch[k]) for k, array in zip(keys, arrays)]

        results = tf.while_loop(
            lambda count, *_: count < num_batches,
            read_batch,
            [tf.constant(0)] + arrays,
            parallel_iterations=1,
            back_prop=False,
        )
        return {key: array.stack() for key, array in zip(keys, results[1:])}
