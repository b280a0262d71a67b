"""The time that each augmentation adds to a training step: milliseconds per batch, on this machine.

    python benchmarks/augmentation_cost.py [--size HEIGHTxWIDTHxCHANNELS] [--batch N] [--xla]

Each row is a preset, a single strength, mixup or CutMix, applied to one batch of random images; the
rows are measured in turn, and the median of the rounds is printed.
"""

from __future__ import annotations

import argparse
import statistics
import time

import numpy as np

from toolkit import AugmentationOptions, DataSpec, Run, augmentation, tf
from toolkit.compat import HAS_XLA, compile_with_xla
from toolkit.graph.step_strategy import PLAIN, XLA
from toolkit.options import resolve

CASES = {
    "digits": {"augment": "digits"},
    "photos": {"augment": "photos"},
    "icons": {"augment": "icons"},
    "flip": {"flip": 0.5},
    "crop": {"crop": 0.125},
    "rotate": {"rotate": 10},
    "elastic": {"elastic": 0.7},
    "brightness, contrast": {"brightness": 0.2, "contrast": 0.2},
    "saturation, hue": {"saturation": 0.2, "hue": 0.02},
    "cutout": {"cutout": 0.4},
    "rand_augment 1": {"rand_augment": 1},
    "rand_augment 2": {"rand_augment": 2},
    "mixup": {"mixup": 0.2},
    "cutmix": {"cutmix": 1.0},
}


def build_case(images, options, strategy):
    """The changed batch of one case."""
    options = dict(options)
    mixing = {name: options.pop(name) for name in ("mixup", "cutmix") if name in options}
    flags = dict({"augment": "none"}, **options)
    if images.shape.as_list()[-1] != 3:
        flags = {name: value for name, value in flags.items() if name not in ("saturation", "hue")}
    resolved = resolve([("benchmark", AugmentationOptions)], flags=flags).options
    run = Run(
        "train", resolved, DataSpec(tuple(images.shape.as_list()[1:]), "uint8"), None, 1, strategy
    )

    def change(batch):
        changed = augmentation.augment(batch, run)
        targets = tf.one_hot(tf.range(batch.shape.as_list()[0]), 10)
        return tf.reduce_sum(augmentation.mix_examples(changed, targets, run, **mixing)[0])

    return compile_with_xla(change, [images]) if strategy is XLA else change(images)


def measure(session, fetch, calls):
    """Milliseconds per call."""
    start = time.perf_counter()
    for _ in range(calls):
        session.run(fetch)
    return (time.perf_counter() - start) / calls * 1e3


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--size", default="28x28x1")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--calls", type=int, default=20)
    parser.add_argument("--xla", action="store_true")
    args = parser.parse_args()
    if args.xla and not HAS_XLA:
        parser.error("this TensorFlow cannot compile with XLA")
    shape = [args.batch, *map(int, args.size.split("x"))]
    strategy = XLA if args.xla else PLAIN
    tf.train.get_or_create_global_step()
    images = tf.Variable(
        np.random.RandomState(0).rand(*shape).astype(np.float32), use_resource=True
    )
    cases = {"nothing": {}, **CASES}
    fetches = {
        name: build_case(images.read_value(), options, strategy) for name, options in cases.items()
    }
    times = {name: [] for name in cases}
    config = tf.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
    with tf.Session(config=config) as session:
        session.run(tf.global_variables_initializer())
        for fetch in fetches.values():
            session.run(fetch)
        for _ in range(args.rounds):
            for name, fetch in fetches.items():
                times[name].append(measure(session, fetch, args.calls))
    base = statistics.median(times["nothing"])
    print(
        f"batch {args.batch} of {args.size}, {'XLA' if args.xla else 'TensorFlow'} {tf.__version__}"
    )
    for name in CASES:
        print(f"{name:22} {statistics.median(times[name]) - base:8.2f} ms")


if __name__ == "__main__":
    main()
