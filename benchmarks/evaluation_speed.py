"""Speed of evaluation and prediction, compared with the bare forward pass and with Keras.

    python benchmarks/evaluation_speed.py --examples 20000 --json evaluation.json
    python benchmarks/evaluation_speed.py --networks mlp --threads 1 --rounds 11

The unit is microseconds per example. The base (1.00) is the forward pass of training: batches
gathered from bytes in memory, network and loss, in a loop inside TensorFlow. Each contender is a
separate process (see `harness.py`) with initial weights.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import shutil
import sys
import tempfile
import time

import harness
import link

BATCH_SIZE = 500  # the default of --eval-batch-size
NETWORKS = ("mlp", "cnn")
OURS = ("forward", "constant", "evaluate", "predict")
KERAS_BATCH_SIZES = (500, 2000, 5000)
if sys.version_info < (3, 8):  # TensorFlow 1.15
    KERAS, KERAS_PER_EXECUTION = {"keras": "tf.keras"}, (1,)
else:
    KERAS, KERAS_PER_EXECUTION = {"keras2": "tf_keras", "keras3": "keras"}, (1, 10)
PEERS = {
    name + "_" + what: "tensorflow" if module == "tf.keras" else module
    for name, module in KERAS.items()
    for what in ("evaluate", "predict")
}


# -------------------------------------------------------------------------------- our contenders


class Classifier:
    """The classifier plugin with one network, and the digits, repeated to N examples."""

    def __init__(self, arguments, images, labels):
        from toolkit import DataSpec, Split
        from toolkit.options import resolve
        from toolkit.plugins import Plugins

        self.plugins = Plugins.load("classifier")
        flags = {"network": arguments.network, "intra_op_threads": str(arguments.threads)}
        self.options = resolve(self.plugins.options(), flags=flags).options
        self.images, self.labels = images, labels
        self.split = Split(images, labels)
        self.spec = DataSpec(self.split.components["features"].shape, "uint8", 10)

    def loop_over(self, batch):
        """A function that passes over the split once, in a loop of the graph.

        Args:
            batch: (reader, step) -> features and labels of one batch.
        """
        from toolkit import Run, tf
        from toolkit.data.readers.resident import ResidentReader
        from toolkit.graph.session_config import session_config

        run = Run("eval", self.options, self.spec)
        reader = ResidentReader(self.split, BATCH_SIZE)
        model = self.plugins.call_hook("build", run=run)

        def body(step, total):
            with tf.control_dependencies([total]):
                features, labels = batch(reader, tf.identity(step))
            facts = {"model": model, "features": features, "labels": labels, "run": run}
            outputs = self.plugins.call_hook("call", **facts)
            return step + 1, total + self.plugins.call_hook("loss", outputs=outputs, **facts)

        count = len(self.split) // BATCH_SIZE
        start = [tf.zeros([], tf.int64), tf.zeros([])]
        loop = tf.while_loop(
            lambda step, _: step < count, body, start, parallel_iterations=1, back_prop=False
        )
        session = tf.Session(config=session_config(self.options))
        session.run(tf.global_variables_initializer())
        reader.initialize(session)
        return session.make_callable(loop[1].op)

    def evaluator(self, mode: str):
        """An `Evaluator` with initial weights instead of a checkpoint's."""
        from toolkit import tf
        from toolkit.graph.build import build_inference
        from toolkit.graph.run import Run
        from toolkit.inference.evaluator import Evaluator

        run = Run(mode, self.options, self.spec)
        evaluator = Evaluator(self.plugins, build_inference(self.plugins, run))
        with evaluator.graph.tf_graph.as_default():
            evaluator.session.run([variable.initializer for variable in tf.global_variables()])
        return evaluator


def forward(classifier):
    return classifier.loop_over(lambda reader, step: reader.batch(step))


def constant(classifier):
    """Always the first batch, as floats: the time of kernels and executor alone."""
    import numpy as np

    from toolkit import tf

    features = tf.constant(classifier.images[:BATCH_SIZE].astype(np.float32) / 255)
    labels = tf.constant(classifier.labels[:BATCH_SIZE])
    return classifier.loop_over(lambda reader, step: (tf.identity(features), tf.identity(labels)))


def evaluate(classifier):
    evaluator = classifier.evaluator("eval")
    return lambda: evaluator.evaluate(classifier.split, BATCH_SIZE)


def predict(classifier):
    evaluator = classifier.evaluator("predict")
    return lambda: evaluator.predict(classifier.images, BATCH_SIZE)


# -------------------------------------------------------------------------------- Keras


def keras_call(name: str, network: str, images, labels):
    """Keras's evaluation or prediction of all examples, with its fastest settings here."""
    import keras_contenders
    import numpy as np

    version, _, what = name.partition("_")
    keras = keras_contenders.load(KERAS[version])
    inputs = {"x": images.astype(np.float32) / 255}
    if what == "evaluate":
        inputs["y"] = labels
    ways = []
    for count in KERAS_PER_EXECUTION:
        model = getattr(keras_contenders, network)(keras)
        model.compile(
            loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            metrics=["accuracy", keras.metrics.SparseTopKCategoricalAccuracy(3)],
            **({"steps_per_execution": count} if count > 1 else {}),
        )
        for size in KERAS_BATCH_SIZES:
            way = functools.partial(getattr(model, what), batch_size=size, verbose=0, **inputs)
            ways.append(way)
    return min(ways, key=lambda way: min(seconds(way) for _ in range(4)))


def seconds(call) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


# -------------------------------------------------------------------------------- both ends


def contend(arguments) -> None:
    """Run as the contender that the harness started: one example counts as one step."""
    import numpy as np
    from arrays import Arrays

    harness_link = link.Link()
    arrays = Arrays(arguments.folder)
    positions = np.arange(arguments.examples) % len(arrays.labels)
    images, labels = arrays.images[positions], arrays.labels[positions]
    harness_link.mark("import")
    if arguments.contender in PEERS:
        call = keras_call(arguments.contender, arguments.network, images, labels)
    else:
        call = globals()[arguments.contender](Classifier(arguments, images, labels))
    harness_link.mark("build")
    harness_link.repeat(arguments.examples, call)


class EvaluationSpeed(harness.Benchmark):
    base = "forward"
    peers = PEERS

    def command(self, name, setting, arguments, folder, more=()):
        sizes = ["--examples", str(arguments.examples), "--threads", str(arguments.threads)]
        return [
            os.path.abspath(__file__),
            "--contender",
            name,
            "--network",
            setting,
            "--folder",
            folder,
        ] + sizes


def show(network: str, rows, examples: int) -> None:
    title = f"{network}, {examples}"
    print(f"\n{title:18}{'us/example':>12}{'ratio':>7}{'(rounds)':>14}{'others':>8}")
    for name, row in sorted(rows.items(), key=lambda item: -item[1]["steps_per_sec"]):
        base = row.get("to_base", {"ratio": 0.0, "least": 0.0, "most": 0.0})
        spread = "({least:.2f}-{most:.2f})".format(**base)
        microseconds = f"{1e6 / row['steps_per_sec']:12.2f}"
        others = f"{row['others']:8.2f}"
        print(f"{name:18}{microseconds}{base['ratio']:7.2f}{spread:>14}{others}")
    sys.stdout.flush()


def run(arguments) -> None:
    harness.end_on_sigterm()
    benchmark = EvaluationSpeed()
    harness.drop_missing_peers(benchmark, arguments)
    folder = tempfile.mkdtemp(prefix="evaluation-speed-")
    result = {"machine": harness.machine(), "base": benchmark.base, "settings": {}}
    print(harness.describe_machine(result["machine"]))
    try:
        harness.save_digits(folder)
        for network in arguments.settings:
            rows = harness.measure(benchmark, network, arguments, folder)
            result["settings"][network] = rows
            show(network, rows, arguments.examples)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump(result, file, indent=1)


def main() -> None:
    parser = harness.parser(__doc__, OURS + tuple(PEERS), NETWORKS, "--networks", 7, 1.0)
    parser.add_argument(
        "--examples", type=int, default=20000, help="a multiple of 500 [default %(default)s]"
    )
    parser.add_argument(
        "--threads", type=int, default=0, help="within an op, of ours [default 0: one per core]"
    )
    for name in ("--contender", "--network", "--folder"):
        parser.add_argument(name, help=argparse.SUPPRESS)  # what a contender is facts
    arguments = parser.parse_args()
    contend(arguments) if arguments.contender else run(arguments)


if __name__ == "__main__":
    main()
