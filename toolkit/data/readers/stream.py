"""The streaming reader: batches that are read where the examples are, while others are computed.

    numbers of batches -> read in Python, several at a time in parallel -> prefetch

Which examples a batch has is a function of the seed and the number of the batch (`EpochOrder`), so
a resume begins at any batch without reading those before it.

Legend: N examples, B batch, K batches of a chunk, G batches of a read, W examples in a window, S
examples in a block, ... other sizes.
"""

from __future__ import annotations

import atexit
import functools
import threading
import time
from typing import Any, Dict, List, Optional, Tuple

import numpy as np

from ...compat import tf
from ...errors import DataError, ToolkitError
from ..examples import Split
from ..files.parallel import count_cores
from ..prepare import NO_HOOKS, ExampleConverter, ExampleHooks, filter_split, iterate, unbatch
from ..structure import pack
from .batches import DEFAULT_OPTIONS, DEVICE, BatchForm, IteratorReader, ReaderOptions

_READ_EXAMPLES = 512  # of small batches; a call of Python costs as much as copying that many
_READ_BYTES = 1 << 20
_MAX_READS = 16  # batches of a read
_MAX_THREADS = 8
_PREFETCH = 2  # reads
_PAUSE, _MAX_WAIT = 0.05, 10.0  # seconds
_NO_END = np.iinfo(np.int64).max
BLOCKS_IN_WINDOW = 512
MIN_WINDOW = 1024  # examples; smaller ones cost time and mix no less of the split
MAX_BLOCKS = 1 << 20  # whose order is in memory at once
_ORDERS, _WINDOWS = 0, 1  # for what the random numbers of an epoch are
_CACHE_SIZE = 4  # epochs, or windows


class EpochOrder:
    """The order of the examples of all epochs, one epoch after the other.

    An epoch has blocks of S neighbouring examples in a random order. Neighbouring blocks of that
    order form a window of W, at least MIN_WINDOW, whose examples are in a random order, too. A
    window holds blocks from anywhere in the split, so that a batch is mixed even if the examples
    are sorted by class, and neighbours are read from disk together. Where blocks begin differs
    between epochs.

    The seed is in [0, 2**31). Random numbers are of `np.random.RandomState`, whose algorithms never
    change. All methods may be called by several threads.
    """

    def __init__(self, num_examples: int, seed: int, window: int):
        self._num_examples = num_examples
        self._seed = seed
        window = min(max(window, MIN_WINDOW), num_examples)
        self._block_size = max(1, window // BLOCKS_IN_WINDOW, -(-num_examples // MAX_BLOCKS))
        self._num_blocks = -(-num_examples // self._block_size)
        blocks_in_window = max(1, window // self._block_size)
        self._num_windows = -(-self._num_blocks // blocks_in_window)
        self._lock = threading.Lock()  # so that one thread alone computes a window
        self._blocks = functools.lru_cache(_CACHE_SIZE)(self._shuffle_blocks)
        self._windows = functools.lru_cache(_CACHE_SIZE)(self._shuffle_window)

    def positions(self, first: int, count: int) -> np.ndarray:
        """The positions of `count` examples, int64, behind the `first` ones of all epochs."""
        parts = []
        while count > 0:
            epoch, offset = divmod(first, self._num_examples)
            place = offset // self._block_size
            number = ((place + 1) * self._num_windows - 1) // self._num_blocks
            before = min(self._num_examples, self._first_place(number) * self._block_size)
            start = offset - before
            with self._lock:
                window = self._windows(epoch, number)
            part = window[start : start + count]
            parts.append(part)
            first, count = first + len(part), count - len(part)
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _first_place(self, window: int) -> int:
        """How many blocks of an epoch come before a window."""
        return window * self._num_blocks // self._num_windows

    def _shuffle_window(self, epoch: int, window: int) -> np.ndarray:
        """The positions of the examples of a window in their order, int64 [about W]."""
        first, last = self._first_place(window), self._first_place(window + 1)
        blocks, shift = self._blocks(epoch)
        starts = blocks[first:last] * self._block_size
        positions = (starts[:, np.newaxis] + np.arange(self._block_size)).ravel()
        positions = positions[positions < self._num_examples]  # the last block may be shorter
        positions = (positions + shift) % self._num_examples
        return self._random(_WINDOWS, epoch, window).permutation(positions)

    def _shuffle_blocks(self, epoch: int) -> Tuple[np.ndarray, int]:
        """The blocks of an epoch in their order, int64, and what is added to all positions."""
        random = self._random(_ORDERS, epoch, 0)
        order = random.permutation(self._num_blocks - 1)  # the last one, which may be shorter, last
        shift = random.randint(self._num_examples)
        return np.append(order, self._num_blocks - 1), int(shift)

    def _random(self, purpose: int, epoch: int, window: int) -> np.random.RandomState:
        epoch_words = [epoch & 0xFFFFFFFF, epoch >> 32]
        return np.random.RandomState([self._seed, purpose, *epoch_words, window])


class _Reads:
    """The reads under way, which must end before the interpreter does: later ones never return."""

    def __init__(self) -> None:
        self._count = 0
        self._is_ending = False
        self._lock = threading.Lock()
        atexit.register(self._end)

    def __enter__(self) -> None:
        with self._lock:
            if self._is_ending:
                raise StopIteration  # the end of the data for tf.data
            self._count += 1

    def __exit__(self, *_: Any) -> None:
        with self._lock:
            self._count -= 1

    def _end(self) -> None:
        with self._lock:
            self._is_ending = True
        deadline = time.monotonic() + _MAX_WAIT
        while self._count and time.monotonic() < deadline:
            time.sleep(_PAUSE)
            if not self._count:
                time.sleep(_PAUSE)  # for the calls to return


class StreamReader(IteratorReader):
    """Batches of a split that stays where it is. Of the hooks, `filter` is called here, once per
    example, `convert` whenever an example is read.
    """

    kind = "stream"

    def __init__(
        self,
        split: Split,
        batch_size: int,
        options: ReaderOptions = DEFAULT_OPTIONS,
        hooks: ExampleHooks = NO_HOOKS,
    ):
        split, self._numbers = filter_split(split, hooks.filter)
        super().__init__(split, batch_size, options)
        self._converter: Optional[ExampleConverter] = None
        if hooks.convert is not None:
            self._converter = ExampleConverter(hooks, split)
            self.form = self._converted_form(options.pads_to_longest)
        self._order = EpochOrder(self.num_examples, options.seed, options.shuffle_buffer)
        self._by_number = options.by_number
        with tf.device(DEVICE), tf.name_scope("stream_input"):
            self._first = tf.placeholder(tf.int64, [])
            group, num_threads = self._batches_per_read, min(_MAX_THREADS, count_cores())
            numbers = tf.data.Dataset.range(self._first, _NO_END, group)  # of batches, without end
            batches = numbers.map(self._read_tensors, num_parallel_calls=num_threads)
            batches = batches.unbatch() if group > 1 else batches
            batches = batches.prefetch(_PREFETCH * group)
            self._iterator = tf.data.make_initializable_iterator(batches)

    def positions(self, step: tf.Tensor) -> tf.Tensor:
        """The positions, in the split after `filter`, of the examples of a batch: int64 [B]."""
        with tf.name_scope("positions"), tf.device(DEVICE):
            first = tf.cast(step, tf.int64) * self.batch_size
            arguments = [first, tf.constant(self.batch_size, tf.int64)]
            positions = tf.numpy_function(self._positions, arguments, tf.int64)
            positions.set_shape([self.num_rows])
            return positions

    def batch(self, step: tf.Tensor) -> Tuple[Any, Any]:
        """The next batch, or by number that of `step`, an int64 scalar. See `IteratorReader`."""
        if not self._by_number:
            return super().batch(step)
        with tf.device(DEVICE), tf.name_scope("batch"):
            return pack(self.form.finish(self._read_tensors(step)))

    def initialize(self, session: tf.Session, step: int = 0) -> None:
        """Start at batch number `step`."""
        self.failure = None
        if not self._by_number:
            session.run(self._iterator.initializer, {self._first: step})

    # --------------------------------------------------------------------------------- the batches

    @property
    def _batches_per_read(self) -> int:
        """G: several for small batches, for which a call of Python costs more than the read."""
        if self._converter is not None or self._by_number:
            return 1
        example_bytes = max(1, self._split.nbytes // self.num_examples)
        limit = min(_READ_EXAMPLES, _READ_BYTES // example_bytes)
        return max(1, min(_MAX_READS, limit // self.batch_size))

    def _read_tensors(self, number: tf.Tensor) -> Dict[str, tf.Tensor]:
        """G batches from batch `number` on by flat key: [B, ...], or [G, B, ...]."""
        components = self.form.components
        dtypes = [tf.as_dtype(component.dtype) for component in components.values()]
        tensors = dict(zip(components, tf.numpy_function(self._read, [number], dtypes)))
        group = self._batches_per_read
        for key, tensor in tensors.items():
            shape = self.form.batch_shape(key, self.num_rows)
            tensor.set_shape(shape if group == 1 else [group, *shape])
        return tensors

    def _read(self, number: np.ndarray) -> List[np.ndarray]:
        """The arrays of G batches from batch `number` on; called in threads of tf.data."""
        group = self._batches_per_read
        first, count = int(number) * self.batch_size, group * self.batch_size
        try:
            with _READS:
                flat = self._take(self._positions(first, count))
        except (MemoryError, StopIteration):
            raise
        except Exception as error:
            text = f"{type(error).__name__}: {error}".rstrip(".")
            hint = "Check the files of the data."
            failure = DataError(f"Reading examples failed: {text}.", hint=hint)
            self.failure = self.failure or (error if isinstance(error, ToolkitError) else failure)
            raise
        if group == 1:
            return [flat[key] for key in self.form.components]
        head = (group, self.num_rows)
        return [flat[key].reshape(head + flat[key].shape[1:]) for key in self.form.components]

    def _take(self, positions: np.ndarray) -> Dict[str, np.ndarray]:
        """The examples at some positions, after `convert`: flat key -> [n, ...]."""
        is_longest = self.form.pads_to_longest
        if self._converter is None:
            return self._split.read(positions, is_longest=is_longest)
        convert = self._converter.convert
        numbers = positions if self._numbers is None else self._numbers[positions]
        examples = unbatch(self._split, self._split.read(positions))
        batch = self._converter.join([convert(x, int(n)) for x, n in zip(examples, numbers)])
        lengths = self.form.longest if is_longest else {}
        return {
            key: column.take(slice(None), lengths.get(key) or batch.pad_length(key, slice(None)))
            for key, column in batch.columns.items()
        }

    def _converted_form(self, pads_to_longest: bool) -> BatchForm:
        """The form of the first converted example; the longest sequence is that of all."""
        assert self._converter is not None
        numbers = range(self.num_examples) if self._numbers is None else self._numbers.tolist()
        examples = map(self._converter.convert, iterate(self._split), numbers)
        first = next(examples)
        form = BatchForm.of(self._converter.join([first]), pads_to_longest)
        if not pads_to_longest or not form.longest:
            return form
        longest = dict(form.longest)
        for flat in examples:
            longest.update((key, max(longest[key], len(flat[key]))) for key in longest)
        return form._replace(longest=longest)

    def _positions(self, first: int, count: int) -> np.ndarray:
        """The positions of the examples that are read, of `count` from the `first` one on."""
        positions = self._order.positions(first, count)
        if self._part is None:
            return positions
        return positions.reshape(-1, self.batch_size)[:, self._part].reshape(-1)


_READS = _Reads()
