"""A `tf.data.Dataset` of a plugin: read once for what needs examples, and trained on as it is.

    split = toolkit.read_dataset(make_dataset, count=10000)

The split has the first examples of the data set in memory: their classes are counted, they are
scored and shown, and as many make an epoch. Training reads batches from the data set itself, which
may augment or generate examples without end.

Legend: B examples of a batch, L the length to which sequences are padded, ... other sizes.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Set, Tuple

import numpy as np

from ...compat import summarize_tf_error, tf
from ...errors import DataError, ToolkitError, UsageError
from ..column import TEXT, Column, Sequences
from ..examples import LENGTH, Split
from ..structure import LABELS, describe_key, flatten, pack
from .batches import DEFAULT_OPTIONS, DEVICE, IteratorReader, ReaderOptions

_PREFETCH = 2  # batches
_AT_A_TIME = 100  # examples of one shape that one call reads into memory

MakeDataset = Callable[[], Any]  # called in a graph; returns a `tf.data.Dataset` of single examples


def read_dataset(make_dataset: MakeDataset, count: int, num_classes: int = 0) -> Split:
    """The split of a `tf.data.Dataset`, for the hook `data`.

    A run on it gives up exact resume: it reads past the examples before its step, and has the same
    bits only if the data set repeats itself exactly.

    Args:
        make_dataset: a function without arguments, called in a new graph, that returns a
            `tf.data.Dataset` of single examples: `(features, labels)`, or features alone, each a
            tensor or a dict of tensors. A named tensor is a sequence if its first size alone is
            None, or if its examples in memory have several lengths.
        count: how many examples are read into memory and make an epoch, at most.
        num_classes: K, if the label is one class; 0 for the largest label in memory + 1.

    Returns:
        A `Split`; training reads the data set, everything else the examples in memory.

    Raises:
        UsageError: count is not positive, or there are no labels for num_classes.
        DataError: the data set is empty, or an example cannot be read.
    """
    if count < 1:
        raise UsageError(f"The count is {count}, expected 1 or more.", hint="Read an example.")
    examples, sequences = _read_examples(make_dataset, count)
    if not examples:
        raise DataError("The tf.data.Dataset has no examples.", hint="Return at least one.")
    flat: Dict[str, Any] = {}
    for key in examples[0]:
        values = [example[key] for example in examples]
        if len({(value.ndim, value.shape[1:]) for value in values}) > 1:
            raise DataError(
                f"Examples of {describe_key(key)} differ in more than their first size.",
                hint="Return single examples: leave out batch() and padded_batch().",
            )
        is_sequence = key in sequences or len({value.shape for value in values}) > 1
        flat[key] = Sequences.join(values) if is_sequence else np.stack(values)
    if num_classes and LABELS not in flat:
        raise UsageError(
            f"num_classes is {num_classes}, and the tf.data.Dataset has no single label.",
            hint="Leave it out.",
        )
    if num_classes:
        flat[LABELS] = Column(flat[LABELS], num_classes=num_classes)
    split = Split(*pack(flat))
    split.make_dataset = make_dataset
    return split


def _read_examples(
    make_dataset: MakeDataset, count: int
) -> Tuple[List[Dict[str, np.ndarray]], Set[str]]:
    """The first examples of a data set, flat key -> array, and the keys declared as sequences."""
    examples: List[Dict[str, np.ndarray]] = []
    with tf.Graph().as_default(), tf.Session() as session:
        dataset = _make(make_dataset)
        shapes = tf.data.get_output_shapes(dataset)
        sizes = {
            key: shape.as_list() for key, shape in shapes.items() if "/" in key and shape.ndims
        }
        # Of sequences the first size alone is unknown; of images, for instance, several may be.
        sequences = {key for key, s in sizes.items() if s[0] is None and None not in s[1:]}
        has_one_shape = all(shape.is_fully_defined() for shape in shapes.values())
        dataset = dataset.take(count).batch(_AT_A_TIME if has_one_shape else 1)
        iterator = tf.data.make_initializable_iterator(dataset)
        tensors = iterator.get_next()
        try:
            session.run([iterator.initializer, tf.tables_initializer()])
            while True:
                batch = session.run(tensors)
                types = [array.dtype for array in batch.values()]  # of text: bytes with all zeros
                rows = zip(*batch.values())
                examples += [dict(zip(batch, map(np.asarray, row, types))) for row in rows]
        except tf.errors.OutOfRangeError:
            return examples, sequences
        except tf.errors.OpError as error:
            reason = summarize_tf_error(str(error.message))
            raise DataError(
                f"The tf.data.Dataset failed after its first {len(examples)} examples: {reason}.",
                hint="Iterate over it yourself to see the op that fails.",
            ) from error


def _make(make_dataset: MakeDataset) -> Any:
    """The data set, in the current graph: flat dicts of tensors."""
    dataset = make_dataset()
    if not isinstance(dataset, tf.data.Dataset):
        raise ToolkitError(
            f"make_dataset returned an object of type {type(dataset).__name__}, expected a "
            "tf.data.Dataset.",
            hint="Pass a function that returns one: read_dataset(lambda: tf.data.Dataset..., 100).",
        )
    parts = tf.data.get_output_types(dataset)
    if isinstance(parts, tuple) and len(parts) > 2:
        raise DataError(
            f"An element of the tf.data.Dataset has {len(parts)} parts, expected features and "
            "labels.",
            hint="Return (features, labels), dicts where there are several.",
        )
    return dataset.map(lambda *element: flatten(*element))


class DatasetReader(IteratorReader):
    """Batches of the `tf.data.Dataset` of a plugin. As many examples as the split has are an epoch.
    Of each batch, which is read as a whole, `options.part` is trained on. `pads_to_longest` is
    refused for sequences, of which the longest is not known.
    """

    kind = "dataset"

    def __init__(self, split: Split, batch_size: int, options: ReaderOptions = DEFAULT_OPTIONS):
        assert split.make_dataset is not None
        super().__init__(split, batch_size, options)
        form, part = self.form, options.part
        if options.pads_to_longest and form.longest:
            names = ", ".join(form.longest)
            raise UsageError(
                f"the tf.data.Dataset has sequences of any length ({names}), and all shapes must "
                "be known",
                hint="Pad them in the data set.",
            )
        with tf.device(DEVICE), tf.name_scope("dataset_input"):
            self._first = tf.placeholder(tf.int64, [])
            dataset = _make(split.make_dataset).map(self._as_stored).repeat()
            dataset = dataset.shuffle(options.shuffle_buffer, options.seed)
            dataset = dataset.skip(self._first * batch_size)
            shapes = {key: form.batch_shape(key, None)[1:] for key in form.components}
            padding: Dict[str, Any] = {}  # what is no sequence has one shape, and gets none
            for key, each in form.components.items():
                value = each.padding if key in form.longest else ""
                padding[key] = (
                    value if each.dtype == TEXT else np.asarray(value or 0).astype(each.dtype)
                )
            batches = dataset.padded_batch(batch_size, shapes, padding, drop_remainder=True)
            if part is not None:
                batches = batches.map(
                    lambda batch: {key: tf.gather(x, part) for key, x in batch.items()}
                )
            self._iterator = tf.data.make_initializable_iterator(batches.prefetch(_PREFETCH))
            self._initializers = [self._iterator.initializer, tf.tables_initializer()]

    def positions(self, step: tf.Tensor) -> tf.Tensor:
        """The numbers of the examples of a batch, in the order of their reading: int64 [B]."""
        first = tf.cast(step, tf.int64) * self.batch_size
        positions = first + tf.range(self.batch_size, dtype=tf.int64)
        return positions if self._part is None else tf.gather(positions, self._part)

    def initialize(self, session: tf.Session, step: int = 0) -> None:
        """Start at batch number `step`: the examples before it are read and dropped."""
        session.run(self._initializers, {self._first: step})

    def _as_stored(self, flat: Dict[str, tf.Tensor]) -> Dict[str, tf.Tensor]:
        """An example with the dtypes of the split, its image axes and the lengths of sequences."""
        example = {}
        for key, tensor in flat.items():
            component = self.form.components[key]
            if key in self.form.longest:
                example[key + LENGTH] = tf.shape(tensor)[0]
            if component.dtype != TEXT:
                tensor = tf.cast(tensor, component.dtype)
            if tensor.shape.ndims == len(component.shape) - 1:  # [H, W] of [H, W, 1]
                tensor = tensor[..., tf.newaxis]
            example[key] = tf.ensure_shape(tensor, component.shape)
        return example
