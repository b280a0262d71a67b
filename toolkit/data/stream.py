"""The streaming reader: examples read from disk through tf.data, in a seeded order.

    blocks in a shuffled order -> records of images, of labels -> zip -> filter
        -> shuffle(buffer) -> skip                                              in each epoch
        -> decode, or convert in parallel -> batch -> prefetch                  across epochs

A buffer holds records of many blocks from anywhere in the files, so that a batch is mixed even if
the files are sorted by class.

Epochs are joined before batching, so a batch may straddle two of them and all batches have one
size. The skip, which a resume needs, comes before the costly part and passes over less than an
epoch.

Legend: N examples of the split, M records of the files, B batch, K batches of a chunk, ... the
shape of one example.
"""

from __future__ import annotations

import contextlib
import os
from typing import Callable, Dict, Iterator, NamedTuple, Optional, Tuple

import numpy as np

from ..compat import tf
from ..errors import DataError, ToolkitError
from .batches import BatchForm
from .cache import cache_folder, writing_to_cache
from .examples import RecordFiles, Split
from .idx import read_pair, write_idx
from .prepare import (
    NO_HOOKS,
    ExampleConverter,
    ExampleHooks,
    filter_split,
    iterate,
    subset_positions,
)
from .resident import DEVICE, check_batch_size, chunk_limit, permutation
from .structure import FEATURES, LABELS, pack

DEFAULT_BUFFER = 10000  # examples
_BLOCKS_IN_BUFFER = 16
_MAX_EPOCH = np.iinfo(np.int64).max


class StreamReader:
    """Batches of a split that stays on disk.

    A split that is not in plain IDX files is first written as such into the cache folder, in a
    folder named after a hash of its content.

    Args:
        split: the examples, as stored.
        batch_size: B, at most as many as the filter keeps.
        seed: in [0, 2**31). The order of epoch e is a function of (seed, e).
        shuffle_buffer: examples that are shuffled at a time; 0 reads them in their own order.
        hooks: `filter` is called here, once per example; `convert` whenever an example is read.
        cache_dir: where a split is written that is not on disk; None for the cache folder.

    Attributes:
        in_memory: False; tf.data reads in threads of its own.
        num_examples: examples that the filter keeps.
        batch_size: B.
        shape: of one example, after `convert`.
    """

    in_memory = False

    def __init__(
        self,
        split: Split,
        batch_size: int,
        seed: int = 0,
        shuffle_buffer: int = DEFAULT_BUFFER,
        hooks: ExampleHooks = NO_HOOKS,
        cache_dir: Optional[str] = None,
    ):
        self._split, self._files = split_on_disk(split, cache_dir)
        self._subset = filter_split(self._split, hooks.filter)
        self.num_examples = len(self._subset)
        check_batch_size(batch_size, self.num_examples)
        self.batch_size = batch_size
        self._hook_failure: Optional[ToolkitError] = None
        self._file_states = _file_states(self._files)
        self._is_cached = self._files is not split.files
        self._convert = hooks.convert
        self._seed = seed
        self._buffer_size = min(shuffle_buffer, self.num_examples)
        num_records = self._split.num_records
        self._block_size = max(1, self._buffer_size // _BLOCKS_IN_BUFFER)
        if not self._buffer_size:  # the files in their own order
            self._block_size = num_records
        first = int(subset_positions(self._split, self._subset)[0])
        self.form = BatchForm.of(self._subset)
        if hooks.convert is not None:
            self._converter = ExampleConverter(hooks.convert, split)
            example = self._converter.convert(next(iterate(self._subset)), first)
            self.form = BatchForm.of(self._converter.join([example]))
        self.shape = self.form.components[FEATURES].shape
        self._has_labels = LABELS in self.form.components
        with tf.device(DEVICE), tf.name_scope("stream_input"), _without_graph_seed():
            self._epoch = tf.placeholder(tf.int64, [])
            self._skip = tf.placeholder(tf.int64, [])
            self._mask = tf.placeholder(tf.bool, [num_records])
            self._block_starts = tf.placeholder(tf.int64, [self._num_blocks + 1])
            self._iterator = tf.data.make_initializable_iterator(self._dataset())
        self._initializers = [self._iterator.initializer]

    @property
    def failure(self) -> Optional[ToolkitError]:
        """Why a read failed: a hook, or a file that may have changed; None if neither."""
        if self._hook_failure is not None:
            return self._hook_failure
        for path, state in self._file_states.items():
            if _file_state(path) != state:
                return _change_error(path)
        return None

    @property
    def file_change(self) -> Optional[ToolkitError]:
        """The error of a file that certainly changed since the start, though all reads succeeded.

        Another time alone may be a `touch`, and a removed file that is open can still be read. In
        the cache, a run that starts at the same time may put an equal file in the place of one.
        """
        if self._is_cached:
            return None
        for path, old in self._file_states.items():
            new = _file_state(path)
            if old and new and (old.size, old.inode) != (new.size, new.inode):
                return _change_error(path)
        return None

    def batch(self, step: tf.Tensor) -> Tuple[tf.Tensor, Optional[tf.Tensor]]:
        """The next batch.

        `initialize` sets the first one; `step` is not used. Run it once per step.

        Returns:
            features: float32 [B, ...]; uint8 is divided by 255.
            labels: int32 [B], or None if the examples have no labels.
        """
        return pack(self.form.finish(self._as_flat(*self._iterator.get_next())))

    def _as_flat(self, features: tf.Tensor, labels: tf.Tensor) -> Dict[str, tf.Tensor]:
        flat = {FEATURES: features, LABELS: labels}
        return flat if self._has_labels else {FEATURES: features}

    def positions(self, step: tf.Tensor) -> tf.Tensor:
        """The positions, in the split after `filter`, of the examples of the next batch: int64 [B].

        It has an iterator of its own, which each run advances by a batch. Call it before
        `initialize`.
        """
        with tf.name_scope("positions"), _without_graph_seed():
            epochs = tf.data.Dataset.range(self._epoch, _MAX_EPOCH)
            numbers = epochs.flat_map(lambda epoch: self._in_order(epoch, self._block_positions))
            batches = numbers.batch(self.batch_size, drop_remainder=True)
            iterator = tf.data.make_initializable_iterator(batches)
        self._initializers.append(iterator.initializer)
        return iterator.get_next()

    @property
    def max_chunk_steps(self) -> int:
        """The most batches that `chunk` can return: what the cache holds."""
        return chunk_limit(self.form, self.batch_size)

    def chunk(self, step: tf.Tensor, size: int, num_batches: tf.Tensor) -> Dict[str, tf.Tensor]:
        """The next batches, not yet scaled.

        Args:
            step: not used; `initialize` sets the first batch.
            size: K.
            num_batches: how many are read, an int32 scalar, at most K; the others are zeros.

        Returns:
            features: [K, B, ...], of the stored dtype.
            labels: int32 [K, B], or None if the examples have no labels.
        """
        dtypes = tf.data.get_output_types(self._iterator)
        shapes = tf.data.get_output_shapes(self._iterator)
        arrays = [tf.TensorArray(d, size, element_shape=s) for d, s in zip(dtypes, shapes)]

        def read_batch(count, *arrays):
            batch = self._iterator.get_next()
            return [count + 1] + [array.write(count, x) for array, x in zip(arrays, batch)]

        results = tf.while_loop(
            lambda count, *_: count < num_batches,
            read_batch,
            [tf.constant(0)] + arrays,
            parallel_iterations=1,
            back_prop=False,
        )
        return self._as_flat(*[array.stack() for array in results[1:]])

    def initialize(self, session: tf.Session, step: int = 0) -> None:
        """Start at batch number `step`: the records of its epoch before it are read and dropped."""
        self._hook_failure = None
        epoch, skip = divmod(int(step) * self.batch_size, self.num_examples)
        mask = np.ones(self._split.num_records, bool)
        if self._subset.index is not None:
            mask[:] = False
            mask[self._subset.index] = True
        edges = np.arange(self._num_blocks + 1) * self._block_size
        counts = np.concatenate([[0], np.cumsum(mask)])
        feeds = {
            self._epoch: epoch,
            self._skip: skip,
            self._mask: mask,
            self._block_starts: counts[np.minimum(edges, len(mask))],
        }
        session.run(self._initializers, feeds)

    # ------------------------------------------------------------------------- the tf.data pipeline

    def _dataset(self) -> tf.data.Dataset:
        """Batches of (features, labels) from the first epoch on, without end."""
        epochs = tf.data.Dataset.range(self._epoch, _MAX_EPOCH)
        examples = epochs.flat_map(self._raw_epoch)
        threads = tf.data.experimental.AUTOTUNE
        if self._convert is not None:
            examples = examples.map(self._convert_record, num_parallel_calls=threads)
            return self._batch(examples).prefetch(threads)
        # Decoding needs no Python: whole batches of raw records cost less than one at a time.
        return self._batch(examples).map(self._decode_batch, threads).prefetch(threads)

    def _raw_epoch(self, epoch: tf.Tensor) -> tf.data.Dataset:
        """The raw records of an epoch in its order: dicts of features, labels, positions."""
        return self._in_order(epoch, self._raw_block)

    def _in_order(
        self, epoch: tf.Tensor, read_block: Callable[[tf.Tensor], tf.data.Dataset]
    ) -> tf.data.Dataset:
        """The elements of all blocks, one per example, in the order of an epoch.

        Those before the position of a resume are skipped in its first epoch.

        Args:
            epoch: an int64 scalar.
            read_block: from the number of a block, an int64 scalar, to its elements.
        """
        blocks = tf.data.Dataset.from_tensor_slices(self._block_order(epoch))
        elements = blocks.flat_map(read_block)
        if self._buffer_size:
            seed = _epoch_seed(self._seed, epoch)
            elements = elements.shuffle(self._buffer_size, seed, reshuffle_each_iteration=False)
        is_first = tf.equal(epoch, self._epoch)
        return elements.skip(tf.where(is_first, self._skip, tf.zeros_like(epoch)))

    @property
    def _num_blocks(self) -> int:
        return -(-self._split.num_records // self._block_size)

    def _block_order(self, epoch: tf.Tensor) -> tf.Tensor:
        """The numbers of the blocks in the order of an epoch, int64 [number of blocks]."""
        if not self._buffer_size:
            return tf.range(self._num_blocks, dtype=tf.int64)
        return tf.cast(permutation(self._num_blocks, self._seed, epoch), tf.int64)

    def _block_positions(self, block: tf.Tensor) -> tf.data.Dataset:
        """The positions, in the split after `filter`, of the examples of a block."""
        return tf.data.Dataset.range(self._block_starts[block], self._block_starts[block + 1])

    def _raw_block(self, block: tf.Tensor) -> tf.data.Dataset:
        """The raw records of a block and of the split: dicts of features, labels, positions."""
        first = block * self._block_size
        last = tf.minimum(first + self._block_size, self._split.num_records)
        records = tf.data.Dataset.zip(self._raw_records(first, last))
        if self._subset.index is None:
            return records
        # A predicate that is one of the components runs without a function call per record.
        mask = tf.data.Dataset.from_tensor_slices(self._mask[first:last])
        records = tf.data.Dataset.zip((mask, records)).filter(lambda keep, record: keep)
        return records.map(lambda keep, record: record)

    def _raw_records(self, first: tf.Tensor, last: tf.Tensor) -> Dict[str, tf.data.Dataset]:
        """One data set for each component of the raw records [first, last), int64 scalars."""
        files = self._files

        def read(path: str, header: int, width: int) -> tf.data.Dataset:
            block = tf.data.FixedLengthRecordDataset(
                path,
                width,
                header_bytes=header + first * width,
                buffer_size=(last - first) * width,  # the default would read beyond the block
            )
            return block.take(last - first)

        width = int(np.prod(self._split.shape)) * np.dtype(files.feature_dtype).itemsize
        records = {"features": read(files.features, files.feature_header, width)}
        if files.labels is not None:
            width = np.dtype(files.label_dtype).itemsize
            records["labels"] = read(files.labels, files.label_header, width)
        if self._convert is not None:  # for errors that name an example
            records["positions"] = tf.data.Dataset.range(first, last)
        return records

    def _batch(self, examples: tf.data.Dataset) -> tf.data.Dataset:
        """Batches of B. All shapes are equal, so nothing is padded."""
        shapes = tf.data.get_output_shapes(examples)
        return examples.padded_batch(self.batch_size, shapes, drop_remainder=True)

    def _decode_batch(self, record: Dict[str, tf.Tensor]) -> Tuple[tf.Tensor, tf.Tensor]:
        """A batch of raw records, strings [B], as arrays [B, ...] and [B]."""
        files = self._files
        shape = [self.batch_size] + list(self._split.shape)
        features = tf.reshape(_decode(record["features"], files.feature_dtype), shape)  # [B, ...]
        if files.labels is None:
            return features, tf.zeros([self.batch_size], tf.int32)
        labels = tf.cast(_decode(record["labels"], files.label_dtype), tf.int32)  # [B, 1]
        return features, tf.reshape(labels, [self.batch_size])

    def _convert_record(self, record: Dict[str, tf.Tensor]) -> Tuple[tf.Tensor, tf.Tensor]:
        """One raw record after the hook `convert`, which runs in Python."""
        raw = [record["positions"], record["features"], record.get("labels", tf.constant(b""))]
        dtypes = [self.form.components[FEATURES].dtype, tf.int32]
        features, label = tf.numpy_function(self._call_convert, raw, dtypes)
        features.set_shape(self.shape)
        label.set_shape([])
        return features, label

    def _call_convert(
        self, record_number: int, raw_features: bytes, raw_label: bytes
    ) -> Tuple[np.ndarray, np.int32]:
        files = self._files
        array = np.frombuffer(raw_features, files.feature_dtype).reshape(self._split.shape)
        array = array.astype(self._split.dtype)  # native, and the hook's own to change
        label = int(np.frombuffer(raw_label, files.label_dtype)[0]) if files.labels else None
        index = self._split.index
        position = int(record_number if index is None else np.searchsorted(index, record_number))
        try:
            flat = self._converter.convert((array, label), position)
        except ToolkitError as error:
            self._hook_failure = self._hook_failure or error
            raise
        return flat[FEATURES], np.int32(flat.get(LABELS, 0))


class _FileState(NamedTuple):
    size: int  # bytes
    inode: int
    mtime: int  # of the last change, in nanoseconds since the epoch


def _file_states(files: RecordFiles) -> Dict[str, Optional[_FileState]]:
    """The state of each file by its path."""
    return {path: _file_state(path) for path in (files.features, files.labels) if path}


def _file_state(path: str) -> Optional[_FileState]:
    """The state of a file; None if it is gone."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return _FileState(status.st_size, status.st_ino, status.st_mtime_ns)


def _change_error(path: str) -> DataError:
    return DataError(
        f"{path} changed while it was read.",
        hint="Put the same file back, and continue with 'toolkit resume'.",
    )


def split_on_disk(split: Split, cache_dir: Optional[str] = None) -> Tuple[Split, RecordFiles]:
    """The split as records of plain IDX files, which are written into the cache folder if needed.

    A compressed file cannot be read from the middle.
    """
    is_in_file_order = split.index is None or bool(np.all(np.diff(split.index) > 0))
    files = split.files
    if files and is_in_file_order and not (files.feature_compression or files.label_compression):
        return split, files
    folder = os.path.join(cache_folder(cache_dir), "streams", split.sha256()[:32])
    images, labels = os.path.join(folder, "images.idx"), os.path.join(folder, "labels.idx")
    if not os.path.exists(images):
        features, targets = split.take(slice(None))
        with writing_to_cache():
            if targets is not None:
                write_idx(labels, targets)
            write_idx(images, features)  # last: it exists only if both do
    return split_on_disk(read_pair(images, None if split.labels is None else labels))


def _decode(raw: tf.Tensor, dtype: str) -> tf.Tensor:
    """Raw records, strings [B], as numbers [B, n] of a dtype of `RecordFiles`."""
    tf_dtype = {"uint8": tf.uint8, ">i4": tf.int32, ">f4": tf.float32}[dtype]
    return tf.decode_raw(raw, tf_dtype, little_endian=False)


@contextlib.contextmanager
def _without_graph_seed() -> Iterator[None]:
    """Hide `tf.set_random_seed`, which would otherwise change the order of a shuffle."""
    graph = tf.get_default_graph()
    seed = graph.seed
    graph.seed = None
    try:
        yield
    finally:
        graph.seed = seed


def _epoch_seed(seed: int, epoch: tf.Tensor) -> tf.Tensor:
    """The seed of an epoch's shuffle, an int64 scalar: a function of (seed, epoch)."""
    return tf.random.stateless_uniform(
        [], tf.stack([tf.constant(seed, tf.int64), epoch]), 1, _MAX_EPOCH, tf.int64
    )
