"""Large examples are read in parts that fit in memory."""

import numpy as np
import pytest

from toolkit.data.examples import Split, iterate_slices


@pytest.mark.parametrize(
    "shape, sizes", [((1,), [1024, 76]), ((1 << 25,), [1] * 3), ((1 << 24,), [2, 1])], ids=str
)
def test_large_examples_are_read_a_few_at_a_time(shape, sizes):
    rows = np.broadcast_to(np.uint8(7), (sum(sizes), *shape))
    slices = list(iterate_slices(Split(rows)))
    assert [part.stop - part.start for part in slices] == sizes
    assert slices[0].start == 0 and slices[-1].stop == sum(sizes)
