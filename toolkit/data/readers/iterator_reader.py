"""What readers that take batches from an iterator of tf.data have in common.

Legend: B examples of a batch, K batches of a chunk, ... other sizes.
"""

from __future__ import annotations

from typing import Any, Dict, Tuple

from ...compat import tf
from ..structure import pack
from .batches import BatchReader


class IteratorReader(BatchReader):
    """A reader whose batches come one after the other."""

    _iterator: Any  # of flat dicts of tensors [B, ...]

    def batch(self, step: tf.Tensor) -> Tuple[Any, Any]:
        """The next batch.

        `initialize` sets the first one; `step` is not used. Run it once per step.

        Returns:
            features: [B, ...] or a dict of such tensors; images are float32 in [0, 1].
            labels: likewise; classes are int32. None if the examples have no labels.
        """
        return pack(self.form.finish(self._iterator.get_next()))

    def chunk(self, step: tf.Tensor, size: int, num_batches: tf.Tensor) -> Dict[str, tf.Tensor]:
        """The next batches, as they are stored. Sequences need `pads_to_longest`.

        Args:
            step: not used; `initialize` sets the first batch.
            size: K.
            num_batches: how many are read, an int32 scalar, at most K; the others are zeros.

        Returns:
            Flat key -> [K, B, ...] of the stored dtype, for `BatchForm.finish` batch by batch.
        """
        keys = list(self.form.components)
        arrays = [
            tf.TensorArray(
                self.form.components[key].dtype,
                size,
                element_shape=self.form.batch_shape(key, self.num_rows),
            )
            for key in keys
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
