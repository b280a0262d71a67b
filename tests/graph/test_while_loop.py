"""Several steps in one call give the same run as single steps, to the bit, for any number."""

import collections

import numpy as np
import pytest
from graph_fixtures import session
from linear_fixtures import Linear, spoiled, write_bars
from run_fixtures import steps_of
from update_fixtures import ONLY_2, train_by_both

from toolkit import UsageError, hookimpl, testing, tf
from toolkit.graph.step_strategy import PlainStep, XlaStep
from toolkit.graph.while_loop import build_compiled_loop, build_loop, make_num_steps
from toolkit.storage.run_folder import RunFolder

SumOutputs = collections.namedtuple("SumOutputs", "double, counted_total")


class AddThree:
    """A step that adds 3 to `total`; its outputs are twice the total, and the total.

    `evaluations` is the number of steps that computed `counted_total`.
    """

    def __init__(self):
        names = "total", "evaluations"
        self.total, self.evaluations = (tf.Variable(0, name=n, use_resource=True) for n in names)

    def __call__(self, *_):
        add = self.total.assign_add(3, read_value=False)
        with tf.control_dependencies([add]):
            total = self.total.read_value()
        with tf.control_dependencies([self.evaluations.assign_add(1, read_value=False)]):
            counted_total = tf.identity(total)
        return add, SumOutputs(2 * total, counted_total)


def test_a_loop_makes_the_number_of_steps_in_its_feed_and_one_by_default():
    step, num_steps = AddThree(), make_num_steps()
    loop = build_loop(step, num_steps)
    with session() as tf_session:
        for fed_steps, total in ((None, 3), (5, 18), (1, 21), (0, 21)):
            tf_session.run(loop.op, None if fed_steps is None else {num_steps: fed_steps})
            assert tf_session.run(step.total) == total


def test_a_field_that_is_not_fetched_is_not_computed():
    step, num_steps = AddThree(), make_num_steps()
    loop = build_loop(step, num_steps)
    with session() as tf_session:
        assert tf_session.run([loop.op, loop.outputs.double]) == [None, 6]
        tf_session.run(loop.op, {num_steps: 5})
        assert tf_session.run(step.evaluations) == 0
        tf_session.run([loop.op, loop.outputs.counted_total])
        assert tf_session.run(step.evaluations) == 1


RowOutputs = collections.namedtuple("RowOutputs", "row")


@ONLY_2
@pytest.mark.parametrize(
    "last_index, fed_steps, total, all_finite, row",
    [
        (None, 3, 111, True, 100),
        (None, None, 1, True, 1),
        (1, 4, 11, False, 10),  # the step with the index 1 is not finite
        (3, 2, 11, True, 10),
    ],
)
def test_a_compiled_loop_ends_with_its_number_of_steps_or_after_a_refusal(
    last_index, fed_steps, total, all_finite, row
):
    num_steps, is_finite = make_num_steps(), []
    variable = tf.get_variable("total", initializer=tf.constant(0), use_resource=True)

    def step(count, rows):
        is_finite[:] = [None if last_index is None else tf.not_equal(count, last_index)]
        add = variable.assign_add(rows[count], read_value=False)
        return add, RowOutputs({"value": rows[count], "text": "a row"})

    inputs, specs = [tf.constant([1, 10, 100, 1000])], [tf.TensorSpec([], tf.int32)]
    loop = build_compiled_loop(step, num_steps, inputs, specs, lambda: is_finite[0])
    assert loop.outputs.row["text"] == "a row"
    feeds = {} if fed_steps is None else {num_steps: fed_steps}
    with session() as tf_session:
        fetches = [loop.all_finite, loop.outputs.row["value"]]
        assert tf_session.run(fetches, feeds) == [all_finite, row]  # of the last step
        assert tf_session.run(variable) == total


def read_summaries(run):
    """(step, tag, serialized value) of every summary except the speed."""
    paths = map(str, (run / "events").iterdir())
    events = [event for path in paths for event in tf.train.summary_iterator(path)]
    values = [(event.step, value) for event in events for value in event.summary.value]
    texts = [(step, value.tag, value.SerializeToString()) for step, value in values]
    return sorted(text for text in texts if text[1] != "examples_per_sec")


# The parts of a run folder that do not depend on the number of steps per call.
RunResults = collections.namedtuple(
    "RunResults", "fingerprint, metrics, checkpoint_steps, summaries, images"
)


def read_results(folder):
    run, paths = str(folder), sorted(folder.rglob("*"))
    metrics, steps = RunFolder(run).metrics.read(), steps_of(run)
    images = {path.name: path.read_bytes() for path in paths if path.suffix in (".png", ".gif")}
    return RunResults(testing.fingerprint(run), metrics, steps, read_summaries(folder), images)


def check_same_run(folder, plugin, calls=(1, 7, 50), **options):
    """Check that runs have equal results for each number of steps per call, and return them."""
    options = dict({"evaluate": "no", "checkpoint_steps": 1000}, **options)
    expected = None
    for number in calls:
        run = folder / f"run-{number}"
        testing.train(plugin, str(run), steps_per_call=number, **options)
        results = read_results(run)
        expected = expected or results
        assert results == expected, number
    return expected


@pytest.fixture
def bars(tmp_path):
    """60 batches of 8, so that data in memory allows calls of 50."""
    return write_bars(tmp_path / "bars.npz", train=480)


@pytest.fixture
def digits(tmp_path):
    return testing.write_digits(str(tmp_path / "digits.npz"), count=480)


@pytest.mark.parametrize("reader", ["resident", "stream"])
def test_any_number_of_steps_per_call_gives_the_same_run(bars, tmp_path, reader):
    options = {"data": bars, "steps": 137, "log_steps": 20, "reader": reader}
    results = check_same_run(tmp_path, Linear, (1, 7, "auto"), **options)
    assert [r["step"] for r in results.metrics] == [20, 40, 60, 80, 100, 120, 137]
    assert results.checkpoint_steps == [137]


def test_short_epochs_give_the_same_run(tmp_path):
    data = write_bars(tmp_path / "bars.npz", train=20)  # an epoch of two batches and a half
    check_same_run(tmp_path, Linear, (1, 7), data=data, steps=33, log_steps=9)


def test_hooks_due_on_steps_that_are_no_multiple_of_a_call_give_the_same_run(bars, tmp_path):
    options = {"steps": 60, "log_steps": 9, "checkpoint_steps": 11, "keep_checkpoints": 10}
    options.update(data=bars, summary_steps=13, profile_steps="10,33", evaluate="yes")
    results = check_same_run(tmp_path, WithSummaries, **options)
    assert results.checkpoint_steps == [11, 22, 33, 44, 55, 60]
    for traces in tmp_path.glob("run-*/profile"):
        assert {path.name for path in traces.iterdir()} == {"step-10.json", "step-33.json"}
    tags = {tag for step, tag, _ in results.summaries if step == 26}  # those of the plugin
    assert {"logits", "features/image/0", "features/image/1", "hundredfold"} <= tags


def test_options_of_the_step_and_skipped_steps_give_the_same_run_and_counts(bars, tmp_path):
    options = {"data": bars, "steps": 60, "log_steps": 20, "on_nonfinite": "skip"}
    options.update(schedule="cosine", warmup_steps=9, weight_decay=0.01)
    options.update(optimizer="momentum", accumulate=3, clip="global-norm", clip_limit=0.5)
    results = check_same_run(tmp_path, spoiled("inf", 6, 7, 31), **options)
    # The counter is read in parallel with the step, so it may lack the step of its record only.
    counts = [(r["step"], r["count"]) for r in results.metrics if r["kind"] == "event"]
    assert counts == [(20, 2), (40, 1)]


class WithSummaries(Linear):
    """Adds summaries of its own in `call` and `loss`."""

    @hookimpl
    def call(self, model, features, run):
        outputs = Linear.call(self, model, features, run)
        tf.summary.histogram("logits", outputs["logits"])
        tf.summary.image("features", features, max_outputs=2)
        return outputs

    @hookimpl
    def loss(self, labels, outputs):
        loss = Linear.loss(self, labels, outputs)
        tf.summary.scalar("hundredfold", 100 * loss)
        return loss


@ONLY_2
def test_a_compiled_gan_is_the_same_for_any_number_of_steps_per_call(digits, tmp_path):
    options = {"network": "mlp", "width": 4, "batch_size": 8, "latent_size": 8, "steps": 13}
    options.update(preset="wgan-gp", discriminator_steps=3, features="pixels", quick_samples=100)
    options.update(data=digits, xla="on", sample_count=9, sample_steps=4, log_steps=5)
    assert check_same_run(tmp_path, "gan", (1, 7), **options).images


@ONLY_2
def test_a_step_with_summaries_is_refused_by_xla(bars, tmp_path):
    with pytest.raises(UsageError, match="tf.summary ops"):
        testing.train(WithSummaries, str(tmp_path / "run"), data=bars, steps=6, xla="on")


@pytest.fixture
def equal_random_numbers(monkeypatch):
    """Equal 'random' numbers with XLA and without, from integers that both compute alike."""

    def uniform(self, shape, pair, minval=0.0, maxval=1.0):
        size = tf.reduce_prod(shape)
        hashes = (tf.range(size) % 1000 * 7919 + (pair[0] % 9973 + pair[1] * 31) * 104) % 1009
        fractions = tf.reshape(tf.cast(hashes, tf.float32) * np.float32(1 / 1024), shape)
        return fractions * (maxval - minval) + minval

    def normal(self, shape, pair, mean=0.0, stddev=1.0):
        return mean + stddev * uniform(self, shape, pair, -1.7, 1.7)

    for strategy in (PlainStep, XlaStep):
        monkeypatch.setattr(strategy, "uniform", uniform)
        monkeypatch.setattr(strategy, "normal", normal)


@ONLY_2
@pytest.mark.usefixtures("equal_random_numbers")
@pytest.mark.parametrize(
    "options",
    [
        {"network": "cnn", "weight_decay": 0.01, "schedule": "cosine", "warmup_steps": 2},
        {"network": "mlp", "hidden": "16", "clip": "global-norm", "accumulate": 2},
    ],
    ids=["cnn", "accumulated"],
)
def test_a_compiled_step_agrees_with_a_plain_one(digits, tmp_path, options):
    # Plain descent: Adam makes a whole step of a gradient that is nothing but rounding.
    options = dict(options, optimizer="momentum", learning_rate=0.01, batch_size=8, log_steps=1)
    train_by_both(tmp_path, "classifier", data=digits, rtol=1e-4, atol=1e-4, **options)
    runs = [RunFolder(str(tmp_path / xla)).metrics.read() for xla in ("off", "on")]
    for plain, compiled in zip(*runs):
        for name in ("loss", "gradient_norm", "learning_rate"):
            assert compiled[name] == pytest.approx(plain[name], rel=1e-3, abs=1e-6)
