"""Readers of batches in an order that is known only while training: of several processes, each
takes the batch whose ticket it gets.

Legend: B examples of a batch, L the length to which sequences are padded, ... other sizes.
"""

from __future__ import annotations

import concurrent.futures
from typing import Any, Dict, List, Tuple

import numpy as np

from ...compat import tf
from ..structure import pack
from .batches import DEVICE
from .pipeline import DatasetReader
from .stream import StreamReader

_AHEAD = 2  # batches that are read while another one is trained on


class NumberedStreamReader(StreamReader):
    """A `StreamReader` whose batches are read by their numbers, in any order.

    Attributes:
        num_ahead: how many batches `request` should read ahead.
    """

    num_ahead = _AHEAD

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self._pool = concurrent.futures.ThreadPoolExecutor(_AHEAD)
        self._requests: Dict[int, concurrent.futures.Future[List[np.ndarray]]] = {}

    def request(self, number: int) -> None:
        """Begin to read a batch that a step will take soon."""
        self._requests[number] = self._pool.submit(super()._read, np.asarray(number))

    def initialize(self, session: tf.Session, step: int = 0) -> None:
        """Forget the batches that were read ahead."""
        self.failure = None
        self._requests.clear()

    def batch(self, step: tf.Tensor) -> Tuple[Any, Any]:
        """Batch number `step`, an int64 scalar. See `IteratorReader.batch`."""
        with tf.device(DEVICE), tf.name_scope("batch"):
            return pack(self.form.finish(self._read_tensors(step)))

    @property
    def _batches_per_read(self) -> int:
        return 1

    def _read(self, number: np.ndarray) -> List[np.ndarray]:
        request = self._requests.pop(int(number), None)
        return super()._read(number) if request is None else request.result()


class NumberedDatasetReader(DatasetReader):
    """A `DatasetReader` whose batches are read by rising numbers: those between are dropped.

    Attributes:
        num_ahead: 0; the data set reads ahead by itself.
    """

    num_ahead = 0

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        with tf.device(DEVICE):
            # In no collection: Savers and other initializers leave it alone.
            self._next = tf.Variable(
                self._first, trainable=False, collections=[], use_resource=True
            )
        self._initializers.append(self._next.initializer)

    def batch(self, step: tf.Tensor) -> Tuple[Any, Any]:
        """Batch number `step`, an int64 scalar. See `IteratorReader.batch`."""
        with tf.device(DEVICE), tf.name_scope("batch"):
            return pack(self.form.finish(self._read_up_to(step)))

    def _read_up_to(self, step: tf.Tensor) -> Dict[str, tf.Tensor]:
        """Flat key -> [B, ...] of a batch, after those before it."""
        shapes = tf.data.get_output_shapes(self._iterator)
        dtypes = tf.data.get_output_types(self._iterator)
        keys = sorted(shapes)
        empty = [
            tf.zeros([size or 0 for size in shapes[key].as_list()], dtypes[key]) for key in keys
        ]

        def read_next(number: tf.Tensor, *_: tf.Tensor) -> List[tf.Tensor]:
            batch = self._iterator.get_next()
            return [number + 1] + [batch[key] for key in keys]

        number, *tensors = tf.while_loop(
            lambda number, *_: number <= step,
            read_next,
            [self._next.read_value(), *empty],
            shape_invariants=[tf.TensorShape([]), *(shapes[key] for key in keys)],
            parallel_iterations=1,
            back_prop=False,
        )
        with tf.control_dependencies([self._next.assign(number, read_value=False)]):
            return {key: tf.identity(tensor) for key, tensor in zip(keys, tensors)}
