"""The order in which a streaming reader reads examples: a function of the seed and the position.

An epoch has blocks of neighbouring examples in a random order. Neighbouring blocks of that order
form a window, whose examples are in a random order, too. A window holds blocks from anywhere in the
split, so that a batch is mixed even if the examples are sorted by class, and neighbours are read
from disk together. Where the blocks begin differs from epoch to epoch.

Legend: N examples, W examples in a window, S examples in a block.
"""

from __future__ import annotations

import functools
import threading
from typing import Tuple

import numpy as np

BLOCKS_IN_WINDOW = 512
MIN_WINDOW = 1024  # examples; smaller ones cost time and mix no less of the split
MAX_BLOCKS = 1 << 20  # whose order is in memory at once
_ORDERS, _WINDOWS = 0, 1  # for what the random numbers of an epoch are
_CACHE_SIZE = 4  # epochs, or windows


class EpochOrder:
    """The order of the examples of all epochs, one epoch after the other.

    Random numbers are of `np.random.RandomState`, whose algorithms never change. All methods may be
    called by several threads.

    Args:
        num_examples: N.
        seed: in [0, 2**31).
        window: W; fewer than MIN_WINDOW are as many.
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
        """The positions of some examples.

        Args:
            first: how many examples come before them, in this epoch and all before it.
            count: how many.

        Returns:
            int64 [count].
        """
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
