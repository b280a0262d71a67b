"""Examples read from disk while training: fixed-length records through tf.data, in a seeded order.

    records of images, of labels -> zip -> filter -> shuffle(buffer) -> skip, for each epoch
        -> convert and decode in parallel -> padded_batch -> prefetch

Epochs are joined before they are batched, so a batch may straddle two of them and all are of one
size. The skip, which a resume needs, stands before what is costly and passes over less than one
epoch.
Legend: N examples of the split, M records of the files, B batch, ... the shape of one example.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from typing import Optional, Tuple

import numpy as np

from ..compat import tf
from ..errors import ToolkitError, UsageError
from .cache import cache_folder
from .examples import Split
from .idx import read_pair, write_idx
from .prepare import Convert, Filter, converted, kept_positions, prepare, probe
from .resident import ResidentReader, check_batch_size, chunk_limit, scale

DEFAULT_BUFFER = 10000
RESIDENT_LIMIT = 1 << 30
KINDS = ("auto", "resident", "stream")


def make_reader(
    kind: str,
    split: Split,
    batch_size: int,
    seed: int = 0,
    shuffle_buffer: Optional[int] = None,
    filter: Optional[Filter] = None,
    convert: Optional[Convert] = None,
    resident_limit_bytes: Optional[int] = None,
    shuffle: bool = True,
    cache_dir: Optional[str] = None,
    device: str = "/cpu:0",
):
    """The reader of a split: resident where its bytes are within the limit (1 GiB), else streaming.

    kind: "auto", or "resident" or "stream" to insist. filter, convert: as `toolkit.data.prepare`
    has them; a resident reader calls them here, once, a streaming one while it reads.
    """
    if kind not in KINDS:
        raise UsageError(
            f"The input is '{kind}', expected one of {', '.join(KINDS)}.",
            hint="Leave it at 'auto'.",
        )
    limit = RESIDENT_LIMIT if resident_limit_bytes is None else resident_limit_bytes
    if kind == "resident" or (kind == "auto" and split.nbytes <= limit):
        return ResidentReader(prepare(split, filter, convert), batch_size, seed, shuffle, device)
    return StreamReader(
        split, batch_size, seed, shuffle_buffer, filter, convert, shuffle, cache_dir, device
    )


class StreamReader:
    """Batches of a split that stays on disk.

    The arguments are those of `make_reader`. A split that is not in IDX files is first written as
    such into the cache folder, named by its content. `failure` is None, or the ToolkitError of a
    hook that failed while reading: `session.run` then raises some tf.errors.OpError in its place.
    """

    in_memory = False

    def __init__(
        self,
        split: Split,
        batch_size: int,
        seed: int = 0,
        shuffle_buffer: Optional[int] = None,
        filter: Optional[Filter] = None,
        convert: Optional[Convert] = None,
        shuffle: bool = True,
        cache_dir: Optional[str] = None,
        device: str = "/cpu:0",
    ):
        split = on_disk(split, cache_dir)
        kept = split if filter is None else prepare(split, filter)
        check_batch_size(batch_size, len(kept))
        self.num_examples = len(kept)
        self.batch_size = batch_size
        self.failure: Optional[ToolkitError] = None
        self._stored = split
        self._kept = kept
        self._convert = convert
        self._seed = seed
        self._buffer = min(shuffle_buffer or DEFAULT_BUFFER, len(kept)) if shuffle else 0
        self._first = probe(kept, convert, int(kept_positions(split, kept)[0]))
        self.shape = self._first.shape
        with tf.device(device), tf.name_scope("stream_input"), _without_graph_seed():
            self._epoch = tf.placeholder(tf.int64, [])
            self._skip = tf.placeholder(tf.int64, [])
            self._mask = tf.placeholder(tf.bool, [split.num_records])
            self._iterator = tf.data.make_initializable_iterator(self._dataset())
        self._initializers = [self._iterator.initializer]

    def batch(self, step) -> Tuple[tf.Tensor, Optional[tf.Tensor]]:
        """The next batch: float32 [B, ...], uint8 divided by 255; int32 [B] or None.

        Which one that is follows from `initialize`, not from `step`: run it once a step.
        """
        features, labels = self._iterator.get_next()
        return scale(features), labels if self._first.labelled else None

    def positions(self, step) -> tf.Tensor:
        """int64 [B]: where the examples of the next batch are in the split that the filter left.

        It goes on by a batch each time it is run, from `initialize` on, which is to follow.
        """
        with tf.name_scope("positions"), _without_graph_seed():
            epochs = tf.data.Dataset.range(self._epoch, np.iinfo(np.int64).max)
            numbers = epochs.flat_map(
                lambda epoch: self._in_order(tf.data.Dataset.range(self.num_examples), epoch)
            )
            batches = numbers.batch(self.batch_size, drop_remainder=True)
            iterator = tf.data.make_initializable_iterator(batches)
        self._initializers.append(iterator.initializer)
        return iterator.get_next()

    @property
    def most_in_chunk(self) -> int:
        """How many batches `chunk` can give: those that the cache may hold."""
        kind = tf.data.get_output_types(self._iterator)[0]
        return chunk_limit(kind, self.shape, self.batch_size)

    def chunk(self, step, count: int, wanted) -> Tuple[tf.Tensor, Optional[tf.Tensor]]:
        """The next `wanted` batches (int32 scalar, at most `count`): features as they are stored,
        [count, B, ...], and labels int32 [count, B] or None; zeros where none was wanted.
        """
        kinds = tf.data.get_output_types(self._iterator)
        shapes = tf.data.get_output_shapes(self._iterator)
        arrays = [tf.TensorArray(k, count, element_shape=s) for k, s in zip(kinds, shapes)]

        def body(made, *arrays):
            batch = self._iterator.get_next()
            return [made + 1] + [array.write(made, x) for array, x in zip(arrays, batch)]

        ends = tf.while_loop(
            lambda made, *_: made < wanted,
            body,
            [tf.constant(0)] + arrays,
            parallel_iterations=1,
            back_prop=False,
        )
        features, labels = [array.stack() for array in ends[1:]]
        return features, labels if self._first.labelled else None

    def initialize(self, session, step: int = 0) -> None:
        """Begin at batch number `step`: reads and drops the records of its epoch before it."""
        self.failure = None
        epoch, skip = divmod(int(step) * self.batch_size, self.num_examples)
        mask = np.ones(self._stored.num_records, bool)
        if self._kept.index is not None:
            mask[:] = False
            mask[self._kept.index] = True
        feeds = {self._epoch: epoch, self._skip: skip, self._mask: mask}
        session.run(self._initializers, feeds)

    def _dataset(self) -> tf.data.Dataset:
        epochs = tf.data.Dataset.range(self._epoch, np.iinfo(np.int64).max)
        examples = epochs.flat_map(self._one_epoch)
        threads = tf.data.experimental.AUTOTUNE
        if self._convert is not None:
            examples = examples.map(self._converted, num_parallel_calls=threads)
            return self._batched(examples).prefetch(threads)
        # Decoding needs no Python: whole batches of raw records cost less than one at a time.
        return self._batched(examples).map(self._decoded, threads).prefetch(threads)

    def _one_epoch(self, epoch):
        """The raw records of an epoch in its order: dicts of features, labels, positions."""
        rows = tf.data.Dataset.zip(self._stored_records())
        if self._kept.index is not None:
            # A predicate that is one of the components runs without a function call per record.
            kept = tf.data.Dataset.from_tensor_slices(self._mask)
            rows = tf.data.Dataset.zip((kept, rows)).filter(lambda keep, row: keep)
            rows = rows.map(lambda keep, row: row)
        return self._in_order(rows, epoch)

    def _in_order(self, rows: tf.data.Dataset, epoch) -> tf.data.Dataset:
        """The elements of a data set, one for each example, in the order of an epoch."""
        if self._buffer:
            seed = _epoch_seed(self._seed, epoch)
            rows = rows.shuffle(self._buffer, seed=seed, reshuffle_each_iteration=False)
        return rows.skip(tf.where(tf.equal(epoch, self._epoch), self._skip, tf.zeros_like(epoch)))

    def _stored_records(self):
        files, count = self._stored.files, self._stored.num_records
        size = int(np.prod(self._stored.shape)) * np.dtype(files.feature_dtype).itemsize
        records = {
            "features": _records(
                files.features, size, files.feature_header, files.feature_compression
            )
        }
        if files.labels is not None:
            width = np.dtype(files.label_dtype).itemsize
            records["labels"] = _records(
                files.labels, width, files.label_header, files.label_compression
            )
        if self._convert is not None:
            records["positions"] = tf.data.Dataset.range(count)  # for errors that name an example
        return records

    def _batched(self, examples):
        """Batches of B; shapes are equal, so that nothing is padded."""
        shapes = tf.data.get_output_shapes(examples)
        return examples.padded_batch(self.batch_size, shapes, drop_remainder=True)

    def _decoded(self, row):
        """A batch of raw records, strings [B], as arrays."""
        files = self._stored.files
        shape = [self.batch_size] + list(self._stored.shape)
        features = tf.reshape(_decode(row["features"], files.feature_dtype), shape)  # [B, ...]
        if files.labels is None:
            return features, tf.zeros([self.batch_size], tf.int32)
        labels = tf.cast(_decode(row["labels"], files.label_dtype), tf.int32)  # [B, 1]
        return features, tf.reshape(labels, [self.batch_size])

    def _converted(self, row):
        """One raw record through Python."""
        raw = [row["positions"], row["features"], row.get("labels", tf.constant(b""))]
        features, label = tf.numpy_function(self._call_convert, raw, [self._first.dtype, tf.int32])
        features.set_shape(self._first.shape)
        label.set_shape([])
        return features, label

    def _call_convert(self, position, features, label):
        files = self._stored.files
        array = np.frombuffer(features, files.feature_dtype).reshape(self._stored.shape)
        array = array.astype(self._stored.dtype)  # native, and the hook's own to change
        number = int(np.frombuffer(label, files.label_dtype)[0]) if files.labels else None
        if (
            self._stored.index is not None
        ):  # from the record's place in its file to that in the split
            position = np.searchsorted(self._stored.index, position)
        try:
            made, label = converted(self._convert, (array, number), int(position), self._first)
        except ToolkitError as error:
            self.failure = self.failure or error
            raise
        return made, np.int32(0 if label is None else label)


def on_disk(split: Split, cache_dir: Optional[str] = None) -> Split:
    """The split as one whose records lie in IDX files, written into the cache where need be."""
    index = split.index
    if split.files is not None and (index is None or bool(np.all(np.diff(index) > 0))):
        return split
    folder = os.path.join(cache_folder(cache_dir), "streams", _content_hash(split)[:32])
    images, labels = os.path.join(folder, "images.idx"), os.path.join(folder, "labels.idx")
    if not os.path.exists(images):
        features, targets = split.take(slice(None))
        if targets is not None:
            write_idx(labels, targets)
        write_idx(images, features)  # last: its presence says that both are there
    return read_pair(images, None if split.labels is None else labels)


def _content_hash(split: Split) -> str:
    digest = hashlib.sha256(repr((split.dtype, split.shape, len(split))).encode())
    for start in range(0, len(split), 4096):
        for array in split.take(slice(start, start + 4096)):
            if array is not None:
                digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def _records(path: str, size: int, header: int, compression: str):
    return tf.data.FixedLengthRecordDataset(
        path, size, header_bytes=header, compression_type=compression
    )


def _decode(raw, dtype: str):
    out = {"uint8": tf.uint8, ">i4": tf.int32, ">f4": tf.float32}[dtype]
    return tf.decode_raw(raw, out, little_endian=False)


@contextlib.contextmanager
def _without_graph_seed():
    """Hide `tf.set_random_seed`, which would also enter into the order of a shuffle."""
    graph = tf.get_default_graph()
    saved = graph.seed
    graph.seed = None
    try:
        yield
    finally:
        graph.seed = saved


def _epoch_seed(seed: int, epoch):
    """An int64 scalar for `shuffle`, a function of the run's seed and the epoch alone."""
    return tf.random.stateless_uniform(
        [], tf.stack([tf.constant(seed, tf.int64), epoch]), 1, np.iinfo(np.int64).max, tf.int64
    )
