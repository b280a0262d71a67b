"""Reads batches as training does."""

from toolkit.compat import tf
from toolkit.data.prepare import NO_HOOKS
from toolkit.data.readers.reader import ReaderOptions, make_reader
from toolkit.data.structure import flatten


def read(split, batch_size, numbers, hooks=NO_HOOKS, **options):
    """The batches with some numbers: flat key -> array, and the "positions" of their examples.

    Args:
        split: the examples.
        batch_size: of a batch; of all replicas, where the options have a part.
        numbers: of the batches, from 0; the reader starts at the first.
        hooks: filter and convert.
        options: of the reader, with the seed 1 unless they name another.
    """
    options = ReaderOptions(**{"seed": 1, **options})
    with tf.Graph().as_default(), tf.Session() as session:
        reader = make_reader(split, batch_size, options, hooks)
        number = tf.placeholder(tf.int64, [])
        batch = flatten(*reader.batch(number))
        for key, tensor in batch.items():
            shape = reader.form.batch_shape(key, batch_size)
            assert options.part is not None or tensor.shape.as_list() == shape
        batch["positions"] = reader.positions(number)
        reader.initialize(session, numbers[0])
        return [session.run(batch, {number: each}) for each in numbers]
