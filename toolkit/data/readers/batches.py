"""What happens to a batch between its storage and the model: one place for all readers.

Legend: B examples of a batch, L the length to which sequences are padded, ... other sizes.
"""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, NamedTuple

import numpy as np

from ...compat import tf
from ..column import Component
from ..examples import LENGTH, Split


class BatchForm(NamedTuple):
    """The components of a batch.

    Attributes:
        components: flat key -> `Component`.
        longest: flat key of sequences -> the length of the longest of all.
        pads_to_longest: whether every batch is padded to the longest sequence of all, which XLA
            needs: its shapes are known.
    """

    components: Mapping[str, Component]
    longest: Mapping[str, int]
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

        Args:
            flat: flat key -> [B, ...] as stored, sequences padded to any sufficient length.
        """
        batch = {}
        for key, tensor in flat.items():
            if key in self.longest and not self.pads_to_longest:
                tensor = tensor[:, : self.pad_length(key, flat[key + LENGTH])]
            batch[key] = convert_stored(tensor, self.components[key].kind)
        return batch

    def pad_length(self, key: str, lengths: tf.Tensor) -> Any:
        """L of a batch of sequences with these lengths, int32 of any shape: an int32 scalar."""
        boundaries = self.components[key].boundaries
        if self.pads_to_longest:
            return self.longest[key]
        longest = tf.maximum(tf.reduce_max(lengths), 1)
        if not boundaries:
            return longest
        # As in `Column.pad_length`: beyond the last boundary, the longest of all.
        ends = [end for end in boundaries if end < self.longest[key]]
        ends = tf.constant([*ends, self.longest[key]], tf.int32)
        return tf.reduce_min(tf.boolean_mask(ends, ends >= longest))


def convert_stored(tensor: tf.Tensor, kind: str) -> tf.Tensor:
    """A stored component as hooks get it.

    Args:
        tensor: of any shape.
        kind: images are divided by 255 unless they are floats, classes are int32.
    """
    if kind == "image" and tensor.dtype == tf.uint8:
        return tf.cast(tensor, tf.float32) * np.float32(1 / 255)
    if kind == "class":
        return tf.cast(tensor, tf.int32)
    return tensor
