"""The order of streamed examples: each once an epoch, well mixed, a function of (seed, epoch)."""

import numpy as np
import pytest
from data_fixtures import peak_of

from toolkit.data.readers.stream import EpochOrder

SIZES = pytest.mark.parametrize("count", [1, 2, 7, 1000, 10050])
WINDOWS = pytest.mark.parametrize("window", [1, 1500, 10**9])


@SIZES
@WINDOWS
def test_each_example_comes_once_an_epoch(count, window):
    positions = EpochOrder(count, 3, window).positions(0, 3 * count).reshape(3, count)
    assert np.array_equal(np.sort(positions), np.tile(np.arange(count), (3, 1)))


@SIZES
@WINDOWS
def test_a_part_of_the_order_may_begin_anywhere(count, window):
    whole = EpochOrder(count, 3, window).positions(0, 3 * count)
    for first in (1, count // 2, count, count + count // 3, 2 * count):
        part = EpochOrder(count, 3, window).positions(first, count)
        assert np.array_equal(part, whole[first : first + count])


@pytest.mark.parametrize(
    "order, first, expected",
    [
        (EpochOrder(8, 3, 10), 0, [0, 2, 5, 4, 3, 6, 7, 1]),
        (EpochOrder(5000, 3, 1500), 4998, [2100, 2799, 4489, 4718, 3420, 2327, 796, 231]),
        (EpochOrder(5000, 2, 2000), 5 * 10**9, [4538, 214, 4562, 4391]),
    ],
    ids=["one window", "several windows", "a distant epoch"],
)
def test_the_order_is_the_same_in_all_versions_of_numpy(order, first, expected):
    assert order.positions(first, len(expected)).tolist() == expected


@pytest.mark.parametrize("seed, epoch", [(1, 0), (0, 1)])
def test_another_seed_or_epoch_has_another_order(seed, epoch):
    first = EpochOrder(1000, 0, 100).positions(0, 1000)
    assert np.mean(first == EpochOrder(1000, seed, 100).positions(epoch * 1000, 1000)) < 0.02


@pytest.mark.parametrize("num_classes, window", [(10, 10000), (10, 1000), (100, 10000)])
def test_batches_of_data_in_class_order_are_as_mixed_as_of_a_permutation(num_classes, window):
    labels = np.repeat(np.arange(num_classes), 100000 // num_classes)
    positions = EpochOrder(len(labels), 1, window).positions(0, len(labels))

    def mean_classes(numbers):
        batches = labels[numbers][:99968].reshape(-1, 64)
        return np.mean([len(set(batch)) for batch in batches])

    expected = mean_classes(np.random.RandomState(0).permutation(len(labels)))
    assert mean_classes(positions) > 0.95 * expected


def test_ten_million_examples_take_the_memory_of_their_blocks_and_windows():
    def read():
        order = EpochOrder(10**7, 1, 10000)
        return [order.positions(first, 128) for first in (0, 10**6, 10**7 - 50, 10**9)]

    assert peak_of(read) < 20 << 20  # 80 MB would be the order of all
