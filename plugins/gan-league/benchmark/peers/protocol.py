"""What the peers share: the flags of a program in a tournament, its data, budget and output.

Needs NumPy alone, on Python 3.7 and later. It imports nothing of the toolkit.
"""

import argparse
import time

import numpy as np


class Task:
    """What a program has to do, from its command line.

    Attributes:
        images: uint8 [n, H, W, C], to train on.
        shape: (H, W, C) of the images to write.
        seed: of its random numbers.
        samples: the number of images to write.
    """

    def __init__(self):
        parser = argparse.ArgumentParser()
        parser.add_argument("--data", required=True)
        parser.add_argument("--cpu-secs", type=float, required=True)
        parser.add_argument("--seed", type=int, required=True)
        parser.add_argument("--samples", type=int, required=True)
        parser.add_argument("--out", required=True)
        arguments = parser.parse_args()
        with np.load(arguments.data) as arrays:
            self.images = arrays["x_train"]
        self.shape = self.images.shape[1:]
        self._resizing = Resizing(self.shape[:2], self.shape[:2])
        self.seed, self.samples = arguments.seed, arguments.samples
        self._cpu_secs, self._out = arguments.cpu_secs, arguments.out
        self._random = np.random.RandomState(arguments.seed)

    def steps(self):
        """Count steps from 0 until the next one would exceed the CPU time.

        The time until the end of step 0 does not count. That step traces, compiles and plans; the
        budget of presets is timed without theirs, too.
        """
        yield 0
        step, start = 1, time.process_time()
        while True:
            now = time.process_time()
            mean_secs = (now - start) / max(step - 1, 1)
            if now - start + mean_secs > self._cpu_secs:
                break
            yield step
            step += 1
        before = f"{start:.1f} before and in the first"
        print(f"{step} steps in {now - start:.1f} CPU seconds, {before}", flush=True)

    def batches(self, size):
        """Yield batches of training images in [-1, 1], float32 [size, H, W, C], without end.

        Each epoch has its own order, and leaves the rest of a batch out.
        """
        size = min(size, len(self.images))
        while True:
            order = self._random.permutation(len(self.images))
            for start in range(0, len(order) - size + 1, size):
                images = self.images[order[start : start + size]]
                yield images.astype(np.float32) / np.float32(127.5) - np.float32(1)

    def resize(self, height, width):
        """Let the training images have another size."""
        self._resizing = Resizing(self.shape[:2], (height, width))
        self.images = self._resizing.apply(self.images)

    def write(self, draw, batch_size=100):
        """Write the samples, in the size of the data.

        Args:
            draw: maps a number n to images in [-1, 1], float [n, H', W', C].
            batch_size: the number of images of a call, also of the last one.
        """
        chunks = []
        for start in range(0, self.samples, batch_size):
            images = np.clip(np.rint((draw(batch_size) + 1) * 127.5), 0, 255).astype(np.uint8)
            chunks.append(self._resizing.undo(images[: self.samples - start]))
        np.savez_compressed(self._out, images=np.concatenate(chunks))


class Resizing:
    """Gives images another size, and samples the size of the data again.

    Whole pixels are repeated and the border gets the values of the edges. So what is undone has
    lost nothing: a filter would blur the samples of a perfect GAN.

    Args:
        size: (H, W) of the data.
        other: (H', W') of the training, neither side smaller.
    """

    def __init__(self, size, other):
        self._size = tuple(size)
        self._times = min(wanted // side for side, wanted in zip(size, other))
        if not self._times:
            raise SystemExit(f"images of {size} pixels are larger than the network's, {other}")
        self._borders = []  # (before, after) of each side
        for side, wanted in zip(size, other):
            missing = wanted - self._times * side
            self._borders.append((missing // 2, missing - missing // 2))

    def apply(self, images):
        """uint8 [n, H, W, C] -> [n, H', W', C]."""
        repeated = images.repeat(self._times, axis=1).repeat(self._times, axis=2)
        return np.pad(repeated, [(0, 0), *self._borders, (0, 0)], mode="edge")

    def undo(self, images):
        """uint8 [n, H', W', C] -> [n, H, W, C]."""
        (top, _), (left, _) = self._borders
        (height, width), times = self._size, self._times
        inner = images[:, top : top + times * height, left : left + times * width]
        squares = inner.reshape(len(images), height, times, width, times, images.shape[-1])
        return np.rint(squares.mean((2, 4))).astype(np.uint8)


def round_up(side, multiple):
    """The least multiple that is not below a side."""
    return -(-side // multiple) * multiple
