"""Where the microseconds of a step go: the same step with one part after another left out.

    python benchmarks/input_cost.py --batch-sizes 32,128

All variants are prepared callables of one process, timed in turn, and the table gives medians.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
sys.path[:0] = [HERE, ROOT, os.path.join(ROOT, "plugins", "classifier")]

from step import FLAGS, Step  # noqa: E402

from toolkit import Run, tf  # noqa: E402
from toolkit.data.resident import ResidentReader  # noqa: E402
from toolkit.data.sources import open_data  # noqa: E402
from toolkit.graph import build  # noqa: E402
from toolkit.options import resolve  # noqa: E402
from toolkit.plugins import Plugins  # noqa: E402

LOOPED = 200  # steps of one call of the graph's own loop


class ConstantReader:
    """The reader that costs nothing: one batch, for ever."""

    failure = None

    def __init__(self, split, batch_size: int):
        self.num_examples, self.batch_size = len(split), batch_size
        self._features, self._labels = split.take(slice(0, batch_size))

    def batch(self, step):
        return tf.constant(self._features.astype("float32") / 255), tf.constant(self._labels)

    def initialize(self, session, step: int = 0) -> None:
        pass


class Bench:
    """Callables of steps of one network at one batch size."""

    def __init__(self, network: str, batch_size: int):
        dataset = open_data("mnist5k")
        self.split, self.spec = dataset.splits["train"], dataset.spec
        self.network, self.batch_size = network, batch_size
        self.calls = {}  # name -> (callable, steps that it makes)

    def resident(self):
        return ResidentReader(self.split, self.batch_size, seed=1)

    def constant(self):
        return ConstantReader(self.split, self.batch_size)

    def _prepare(self, name, operation, reader=None, steps=1) -> None:
        session = tf.Session()
        session.run(tf.global_variables_initializer())
        if reader is not None:
            reader.initialize(session, 0)
        self.calls[name] = (session.make_callable(operation), steps)

    def trained(self, name, make_reader, **flags) -> None:
        """The toolkit's own step, by way of its hooks."""
        plugins = Plugins.load("classifier")
        given = dict(FLAGS, network=self.network, batch_size=str(self.batch_size), **flags)
        options = resolve(plugins.options(), flags=given).options
        graph = tf.Graph()
        with graph.as_default():
            reader = make_reader()
        run = Run("train", options, self.spec, None, 10**6)
        built = build.build_training(plugins, run, reader, graph)
        with graph.as_default():
            self._prepare(name, built.train_op, reader)

    def unguarded(self, name, make_reader) -> None:
        """The step that the limit makes, in one call of the session each."""
        with tf.Graph().as_default():
            reader = make_reader()
            step = Step(self.network, self.batch_size, self.spec)
            features, labels = reader.batch(step.global_step.read_value())
            self._prepare(name, step(features, labels), reader)

    def looped(self, name, make_reader) -> None:
        """The same in a loop of the graph: what is left without a call per step."""
        with tf.Graph().as_default():
            reader = make_reader()
            step = Step(self.network, self.batch_size, self.spec)

            def body(index):
                with tf.control_dependencies([index]):
                    features, labels = reader.batch(step.global_step.read_value())
                with tf.control_dependencies([step(features, labels)]):
                    return index + 1

            loop = tf.while_loop(
                lambda i: i < LOOPED, body, [tf.constant(0)], parallel_iterations=1, back_prop=False
            )
            self._prepare(name, loop.op, reader, LOOPED)

    def reader_alone(self, name, make_reader) -> None:
        """A batch made and kept in two variables, so that nothing of it is left out as unused."""
        with tf.Graph().as_default():
            reader = make_reader()
            step = tf.train.get_or_create_global_step()
            kept = []
            for value in reader.batch(step.read_value()):
                place = tf.Variable(tf.zeros(value.shape, value.dtype), use_resource=True)
                kept.append(place.assign(value, read_value=False))
            with tf.control_dependencies(kept):
                made = step.assign_add(1, read_value=False)
            self._prepare(name, made, reader)

    def time(self, rounds: int, seconds: float):
        """name -> microseconds per step in each round."""
        taken = {name: [] for name in self.calls}
        for number in range(rounds):
            for name in list(self.calls)[:: -1 if number % 2 else 1]:
                call, steps = self.calls[name]
                taken[name].append(per_step(call, steps, seconds))
        return taken


def per_step(call, steps: int, seconds: float) -> float:
    """Microseconds per step over `seconds`, after a tenth of that to warm up."""
    start = time.perf_counter() + seconds / 10
    while time.perf_counter() < start:
        call()
    start, made = time.perf_counter(), 0
    while time.perf_counter() - start < seconds:
        call()
        made += steps
    return (time.perf_counter() - start) / made * 1e6


def prepare(network: str, batch_size: int) -> Bench:
    bench = Bench(network, batch_size)
    bench.trained("the toolkit's step", bench.resident)
    bench.trained("- input", bench.constant)
    bench.trained("- clipping", bench.resident, clip="none")
    bench.trained("- dropout", bench.resident, dropout="0")
    bench.unguarded("- guard", bench.resident)
    bench.unguarded("- guard, input", bench.constant)
    bench.looped("- guard, call per step", bench.resident)
    bench.looped("the limit", bench.constant)
    bench.reader_alone("a batch alone, resident", bench.resident)
    bench.reader_alone("a batch alone, constant", bench.constant)
    with tf.Graph().as_default():
        bench._prepare("an op that does nothing", tf.no_op())
    return bench


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--network", default="mlp", choices=("mlp", "cnn"))
    parser.add_argument("--batch-sizes", default="32,128", help="[default %(default)s]")
    parser.add_argument("--rounds", type=int, default=9, help="[default %(default)s]")
    parser.add_argument(
        "--seconds", type=float, default=0.3, help="length of a timed span [default %(default)s]"
    )
    arguments = parser.parse_args()
    for batch_size in map(int, arguments.batch_sizes.split(",")):
        taken = prepare(arguments.network, batch_size).time(arguments.rounds, arguments.seconds)
        whole = statistics.median(taken["the toolkit's step"])
        print(
            f"\n{arguments.network}, batch {batch_size}, TensorFlow {tf.__version__}: "
            "microseconds per step"
        )
        for name, values in taken.items():
            middle = statistics.median(values)
            saved = f"{middle - whole:+6.0f}" if name.startswith("-") else ""
            print(f"{name:28}{middle:7.0f}  least {min(values):6.0f}  {saved}")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
