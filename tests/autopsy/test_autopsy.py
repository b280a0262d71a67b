"""The autopsy of a divergence names the tensor, the line of Python and the examples.

Each plugin here diverges at a line that ends with a comment, its mark, which the tests look for.
"""

import linecache
import os

import numpy as np
import pytest
from file_fixtures import read_json
from linear_fixtures import Linear
from PIL import Image
from run_fixtures import write_plugin

from toolkit import DivergedError, Split, hookimpl, testing, tf
from toolkit.api import load_plugins
from toolkit.autopsy import examine, write
from toolkit.autopsy.op_traceback import plugin_lines
from toolkit.convolutions import halve
from toolkit.options import resolve
from toolkit.run_data import open_run_data
from toolkit.storage.run_folder import RunFolder
from toolkit.training.setup import begin_graph

HERE = os.path.abspath(__file__)
NAN, INF = float("nan"), float("inf")


@pytest.fixture
def data(tmp_path):
    """Write float32 [12, 2] examples, all ones but for some rows, and return their `--data`."""

    def write_examples(**rows):
        x, y = np.ones((12, 2), np.float32), np.arange(12) % 2
        for name, value in rows.items():
            x[int(name[1:])] = value
        path = str(tmp_path / "x.npz")
        np.savez(path, x_train=x, y_train=y, x_val=x, y_val=y, x_test=x, y_test=y)
        return f"npz:{path}"

    return write_examples


def examine_step(plugin, data, step=0, checkpoint=None, **options):
    """Examine the step after `step`, with batches of 4 by default."""
    plugins = load_plugins(plugin)
    flags = dict({"batch_size": 4, "data": data}, **options)
    resolved = resolve(plugins.options(), flags=flags).options
    run_data = open_run_data(plugins, resolved)
    return examine(plugins, lambda: begin_graph(resolved, run_data, ""), checkpoint, step)


def mark_of(finding):
    """The mark at the end of the line that the finding names."""
    line = finding.source_line
    assert line.file == HERE
    assert linecache.getline(HERE, line.line).strip() == line.source
    return line.source.rpartition("# ")[2]


def input_of(finding, number=0):
    summary = finding.inputs[number]
    return summary.low, summary.high, summary.nan, summary.inf


class MeanLoss(Linear):
    """Linear, whose loss is the mean of `values(logits, features)`; logits: [N, 2]."""

    @hookimpl
    def loss(self, outputs, features):
        return tf.reduce_mean(self.values(outputs["logits"], features))


def zero(x):
    """Zeros of the shape of x that no graph optimiser can recognise as zeros."""
    return tf.nn.relu(x - 1e4)


class LogOfZero(Linear):
    @hookimpl
    def call(self, model, features, run):
        logits = Linear.call(self, model, features, run)["logits"]
        return {"logits": tf.log(zero(logits)) + logits}  # zero


class RootOfZero(MeanLoss):
    def values(self, logits, features):
        return tf.sqrt(logits - tf.stop_gradient(logits))  # root


class Squared(MeanLoss):
    def values(self, logits, features):
        return tf.reduce_sum(tf.square(features), axis=1)[:, None] * logits * 1e-20  # square


class Layered(MeanLoss):
    def values(self, logits, features):
        class Log(tf.keras.layers.Layer):
            def call(self, x):
                return tf.log(zero(x))  # layer

        return Log()(logits)


class Custom(MeanLoss):
    def values(self, logits, features):
        @tf.custom_gradient
        def same(x):
            def slope(dy):
                return dy / zero(x)  # slope

            return tf.identity(x), slope

        return same(logits)


# ----------------------------------------------------------------------------- the tensor, the line


def test_a_log_of_zero_is_named_with_its_line_and_input_and_written_with_the_batch(data, tmp_path):
    finding = examine_step(LogOfZero, data(_3=[2.0, 3.0]))
    assert (finding.kind, finding.op_type, finding.source_line.function) == ("op", "Log", "call")
    assert mark_of(finding) == "zero" and finding.gradient_of is None
    assert finding.tensor.shape == (4, 2) and finding.tensor.inf == 8 and finding.tensor.nan == 0
    assert input_of(finding) == (0, 0, 0, 0)
    assert (finding.step, finding.update.loss) == (1, pytest.approx(NAN, nan_ok=True))
    write(finding, str(tmp_path / "autopsy-1"))
    values = read_json(tmp_path, "autopsy-1", "autopsy.json")
    assert (values["kind"], values["op_type"], values["loss"]) == ("op", "Log", None)
    assert values["positions"] == finding.batch.positions.tolist()
    assert values["stack"][-1]["line"] == finding.source_line.line
    assert values["lines"] == finding.lines()
    for line in finding.lines():
        assert line[0].isupper() and line.endswith(".") and "\n" not in line
    batch = np.load(str(tmp_path / "autopsy-1" / "batch.npz"))
    assert batch["features"].shape == (4, 2)
    assert batch["labels"].tolist() == [position % 2 for position in batch["positions"]]
    assert sorted(os.listdir(str(tmp_path / "autopsy-1"))) == ["autopsy.json", "batch.npz"]


def test_a_non_finite_gradient_is_reported_with_the_line_of_its_forward_op(data):
    finding = examine_step(RootOfZero, data())
    assert finding.update.loss == 0 and not np.isfinite(finding.update.gradient_norm)
    assert finding.op_type == "SqrtGrad" and finding.gradient_of[1] == "Sqrt"
    assert mark_of(finding) == "root" and finding.source_line.function == "values"
    assert "in the gradient of 'Sqrt' (op Sqrt), created at " in finding.lines()[1]


class TwoCalls(MeanLoss):
    def values(self, logits, features):
        return logits + tf.log(self.invert(logits))

    def invert(self, x):
        return tf.reciprocal(zero(x))  # help


def test_a_line_is_reported_with_its_callers(data):
    finding = examine_step(TwoCalls, data())
    assert [place.function for place in finding.stack] == ["loss", "values", "invert"]
    (callers,) = [line for line in finding.lines() if line.startswith("Called from ")]
    assert " in values, from " in callers and callers.endswith(" in loss.")


def test_a_norm_that_overflows_is_reported_at_the_line_that_minimizes(data):
    class Steep(MeanLoss):
        def values(self, logits, features):
            return logits * 1e30

        @hookimpl
        def optimize(self, losses, run):
            return run.minimize(losses)  # minimize

    finding = examine_step(Steep, data())
    assert mark_of(finding) == "minimize" and finding.gradient_of is None
    assert np.isfinite(finding.update.loss) and finding.update.gradient_norm == INF


def test_what_calls_the_core_created_no_op():
    plugins = load_plugins(Linear)
    with tf.Graph().as_default():
        of_core = halve(tf.zeros([1, 2, 2, 1]))
        own = plugins.call_plugin_code("hook 'call'", lambda: tf.zeros([]))
    assert plugin_lines(of_core.op) == []
    assert [line.function for line in plugin_lines(own.op)] == ["<lambda>"]


LOG_OF_ZERO = """
    @hookimpl
    def loss(self, outputs):
        return tf.log(0.0 * tf.reduce_mean(outputs["logits"]))
"""


def test_a_line_of_a_plugin_file_is_named(data, here):
    finding = examine_step(write_plugin(LOG_OF_ZERO), data())
    assert finding.source_line.file == str(here / "mine.py") and finding.source_line.line == 9
    assert "created at mine.py:9 in loss: return tf.log(" in finding.lines()[1]
    assert finding.way_out().startswith("try a lower --learning-rate, or --on-nonfinite skip; else")
    assert finding.way_out(skips=True).startswith("try a lower --learning-rate; else mend")
    assert f"mend {here / 'mine.py'}:9 where its values" in finding.way_out()


class Discarding(MeanLoss):
    def values(self, logits, features):
        zeros = zero(tf.stop_gradient(logits))
        finite = tf.where(zeros > 0, tf.log(zeros), zeros)  # discarded
        return finite + tf.stop_gradient(tf.reciprocal(zeros)) + logits  # reciprocal


class Masking(MeanLoss):
    def values(self, logits, features):
        quotient = tf.where(logits < INF, logits / zero(logits), tf.fill([4, 2], -INF))  # zeros
        return tf.nn.softmax(quotient + tf.constant([0.0, -INF]))


class Nested(MeanLoss):
    def values(self, logits, features):
        one = tf.reduce_mean(features)

        def inner():
            return tf.cond(one > 2, lambda: logits, lambda: tf.log(zero(logits)))  # inner

        return tf.cond(one > 0, inner, lambda: tf.sqrt(logits))


class Looping(MeanLoss):
    """After three turns 3 has become 0, and the next value is the logarithm of 0."""

    def values(self, logits, features):
        def body(i, x):
            return i + 1, tf.where(x > 0, x - 1, tf.log(x - x))  # turn

        start = tf.stop_gradient(logits - logits) + 3
        return logits + tf.while_loop(lambda i, x: i < 5, body, [0, start])[1]


@pytest.mark.parametrize(
    "plugin, mark",
    [
        (Layered, "layer"),
        (Custom, "slope"),
        (Discarding, "reciprocal"),  # not what tf.where discards
        (Masking, "zeros"),  # not the constant mask
        (Nested, "inner"),
        (Looping, "turn"),
    ],
)
def test_the_line_that_is_to_blame_is_named(data, plugin, mark):
    finding = examine_step(plugin, data())
    assert mark_of(finding) == mark and (finding.gradient_of is not None) == (plugin is Custom)


# ------------------------------------------------------------------------------------- the examples


def test_the_one_example_whose_row_overflows_is_named(data):
    source = data(_7=[1e25, 1.0])  # its square is beyond float32
    finding = examine_step(Squared, source, reader="stream", batch_size=12)
    assert finding.examples == [7] and sorted(finding.batch.positions) == list(range(12))
    assert mark_of(finding) == "square" and finding.op_type == "Square"
    assert finding.tensor.inf == 1 and input_of(finding)[1] == pytest.approx(1e25)
    sentence = "Its non-finite rows belong to example 7 of the split 'train' (label 1)."
    assert sentence in finding.lines()


class OwnData(Linear):
    """Has its own 12 examples, of which number 5 is non-finite; a file of such is refused."""

    @hookimpl
    def data(self, split):
        x = np.ones((12, 2), np.float32)
        x[5, 0] = NAN
        return Split(x, np.arange(12) % 2)


def test_non_finite_features_are_reported_with_their_example():
    finding = examine_step(OwnData, "mnist5k", batch_size=12)
    assert (finding.kind, finding.examples, finding.tensor.nan) == ("features", [5], 1)
    assert "the features of example 5 of the split 'train' (label 1) are" in finding.lines()[0]


# ---------------------------------------------------------------------------------- several updates


class TwoUpdates(Linear):
    """The second update takes the square root of v, which the first one sets to zero."""

    factor = 1.0

    @hookimpl
    def build(self, run):
        v = tf.get_variable("v", initializer=1.0, use_resource=False)  # which has no effect
        return Linear.build(self, run) + (v,)

    @hookimpl
    def call(self, model, features, run):
        return Linear.call(self, model[:2], features, run)

    @hookimpl
    def optimize(self, model, losses, run):
        v = model[2]
        first = run.minimize(v.read_value() * self.factor, [v], "first", advance_step=False)
        with tf.control_dependencies([first]):
            root = tf.sqrt(v.read_value())  # second
            return run.minimize(losses + root, list(model), "second")


def test_the_second_of_two_updates_is_named_where_it_diverges(data):
    # The first update takes v from 1 to 0, where the square root has an infinite slope.
    finding = examine_step(TwoUpdates, data(), optimizer="sgd", learning_rate=1.0)
    assert finding.update.name == "second" and mark_of(finding) == "second"
    assert finding.op_type == "SqrtGrad"
    assert examine_step(TwoUpdates, data(), optimizer="sgd", learning_rate=0.5) is None


def test_a_variable_that_an_earlier_update_spoiled_is_reported_before_the_later_one(data):
    # 1 - 1e38 x 10 overflows float32, though the gradient is 10 and the loss 10.
    class Spoiled(TwoUpdates):
        factor = 10.0

    finding = examine_step(Spoiled, data(), optimizer="sgd", learning_rate=1e38, clip="none")
    assert (finding.kind, finding.op, finding.update.name) == ("variable", "v", "second")
    assert "'v' was already non-finite before the update 'second'" in finding.lines()[0]


# ----------------------------------------------------------------------------------- a run's folder


class Later(MeanLoss):
    """Finite for two steps, then the log of zero."""

    def values(self, logits, features):
        step = tf.cast(tf.train.get_global_step().read_value(), tf.float32)
        return logits + tf.log(2.0 - step)  # later


def test_a_run_that_diverged_is_examined_from_its_checkpoint_which_stays(data, tmp_path):
    source, folder = data(), str(tmp_path / "run")
    with pytest.raises(DivergedError, match="step 3"):
        testing.train(Later, folder, data=source, batch_size=4, steps=9, steps_per_call=1)
    before, checkpoint = testing.fingerprint(folder), RunFolder(folder).checkpoints.find("last")
    assert checkpoint.step == 2
    finding = examine_step(Later, source, 2, checkpoint.path)
    assert (finding.step, mark_of(finding), input_of(finding)) == (3, "later", (0, 0, 0, 0))
    assert testing.fingerprint(folder) == before
    assert examine_step(Later, source) is None  # the first step


def test_a_batch_of_images_is_written_as_a_picture(tmp_path):
    source = testing.write_digits(str(tmp_path / "digits.npz"))
    finding = examine_step(LogOfZero, source)
    write(finding, str(tmp_path / "autopsy-1"))
    with Image.open(str(tmp_path / "autopsy-1" / "batch.png")) as picture:
        assert picture.size == (22, 46)  # 2 x (8 + 2) + 2 wide, 2 x (8 + 12 + 2) + 2 high
