"""Where the microseconds of a step go: the same step without one part after another.

    python benchmarks/input_cost.py --batch-sizes 32,128

All variants are callables in one process, timed in turn; the table shows medians.
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
from toolkit.data.readers.batches import ReaderOptions  # noqa: E402
from toolkit.data.readers.resident import ResidentReader  # noqa: E402
from toolkit.data.sources import open_data  # noqa: E402
from toolkit.graph import build  # noqa: E402
from toolkit.options import resolve  # noqa: E402
from toolkit.plugins import Plugins  # noqa: E402

STEPS_PER_LOOP = 200  # steps per call of the graph's loop


class ConstantReader:
    """A reader without cost: always the same batch."""

    failure = None

    def __init__(self, split, batch_size: int):
        self.num_examples, self.batch_size = len(split), batch_size
        self._features, self._labels = split.take(slice(0, batch_size))

    def batch(self, step):
        return tf.constant(self._features.astype("float32") / 255), tf.constant(self._labels)

    def initialize(self, session, step: int = 0) -> None:
        pass


class Bench:
    """Variants of the step of one network at one batch size."""

    def __init__(self, network: str, batch_size: int):
        dataset = open_data("mnist5k")
        self.split, self.spec = dataset.splits["train"], dataset.spec
        self.network, self.batch_size = network, batch_size
        self.calls = {}  # name -> (callable, steps per call)

    def resident(self):
        return ResidentReader(self.split, self.batch_size, ReaderOptions(seed=1))

    def constant(self):
        return ConstantReader(self.split, self.batch_size)

    def _prepare(self, name, operation, reader=None, steps=1) -> None:
        session = tf.Session()
        session.run(tf.global_variables_initializer())
        if reader is not None:
            reader.initialize(session, 0)
        self.calls[name] = (session.make_callable(operation), steps)

    def add_toolkit_step(self, name, make_reader, **flags) -> None:
        """The toolkit's own step, built through the plugin's hooks."""
        plugins = Plugins.load("classifier")
        flags = dict(FLAGS, network=self.network, batch_size=str(self.batch_size), **flags)
        options = resolve(plugins.options(), flags=flags).options
        graph = tf.Graph()
        with graph.as_default():
            reader = make_reader()
        run = Run("train", options, self.spec, None, 10**6)
        training_graph = build.build_training(plugins, run, reader, graph)
        with graph.as_default():
            self._prepare(name, training_graph.train_op, reader)

    def add_bare_step(self, name, make_reader) -> None:
        """The bare step of `limit`, one per session call."""
        with tf.Graph().as_default():
            reader = make_reader()
            step = Step(self.network, self.batch_size, self.spec)
            features, labels = reader.batch(step.global_step.read_value())
            self._prepare(name, step(features, labels), reader)

    def add_loop(self, name, make_reader) -> None:
        """The bare step in a loop of the graph, without a call per step."""
        with tf.Graph().as_default():
            reader = make_reader()
            step = Step(self.network, self.batch_size, self.spec)

            def body(index):
                with tf.control_dependencies([index]):
                    features, labels = reader.batch(step.global_step.read_value())
                with tf.control_dependencies([step(features, labels)]):
                    return index + 1

            loop = tf.while_loop(
                lambda i: i < STEPS_PER_LOOP,
                body,
                [tf.constant(0)],
                parallel_iterations=1,
                back_prop=False,
            )
            self._prepare(name, loop.op, reader, STEPS_PER_LOOP)

    def add_reader(self, name, make_reader) -> None:
        """Only the batch, assigned to two variables so that TensorFlow does not prune it."""
        with tf.Graph().as_default():
            reader = make_reader()
            step = tf.train.get_or_create_global_step()
            assignments = []
            for value in reader.batch(step.read_value()):
                variable = tf.Variable(tf.zeros(value.shape, value.dtype), use_resource=True)
                assignments.append(variable.assign(value, read_value=False))
            with tf.control_dependencies(assignments):
                increment = step.assign_add(1, read_value=False)
            self._prepare(name, increment, reader)

    def time(self, rounds: int, seconds: float):
        """name -> microseconds per step in each round."""
        micros = {name: [] for name in self.calls}
        for number in range(rounds):
            for name in list(self.calls)[:: -1 if number % 2 else 1]:
                call, steps = self.calls[name]
                micros[name].append(per_step(call, steps, seconds))
        return micros


def per_step(call, steps: int, seconds: float) -> float:
    """Microseconds per step over `seconds`, after a warm-up of a tenth of that."""
    start = time.perf_counter() + seconds / 10
    while time.perf_counter() < start:
        call()
    start, count = time.perf_counter(), 0
    while time.perf_counter() - start < seconds:
        call()
        count += steps
    return (time.perf_counter() - start) / count * 1e6


def prepare(network: str, batch_size: int) -> Bench:
    bench = Bench(network, batch_size)
    bench.add_toolkit_step("the toolkit's step", bench.resident)
    bench.add_toolkit_step("- input", bench.constant)
    bench.add_toolkit_step("- clipping", bench.resident, clip="none")
    bench.add_toolkit_step("- dropout", bench.resident, dropout="0")
    bench.add_bare_step("- guard", bench.resident)
    bench.add_bare_step("- guard, input", bench.constant)
    bench.add_loop("- guard, call per step", bench.resident)
    bench.add_loop("the limit", bench.constant)
    bench.add_reader("a batch alone, resident", bench.resident)
    bench.add_reader("a batch alone, constant", bench.constant)
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
        micros = prepare(arguments.network, batch_size).time(arguments.rounds, arguments.seconds)
        whole = statistics.median(micros["the toolkit's step"])
        print(
            f"\n{arguments.network}, batch {batch_size}, TensorFlow {tf.__version__}: "
            "microseconds per step"
        )
        for name, values in micros.items():
            middle = statistics.median(values)
            saved = f"{middle - whole:+6.0f}" if name.startswith("-") else ""
            print(f"{name:28}{middle:7.0f}  least {min(values):6.0f}  {saved}")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
