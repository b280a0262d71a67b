"""Several steps in one call give the same run as single steps, to the bit, for any number."""

import os
from typing import Any, Dict, List, NamedTuple, Tuple

import numpy as np
import pytest
from linear_fixtures import Linear, write_bars

from toolkit import hookimpl, testing, tf
from toolkit.compat import VERSION_FAMILY
from toolkit.errors import UsageError
from toolkit.graph.step_strategy import PlainStep, XlaStep
from toolkit.graph.while_loop import (
    LoopOutputs,
    StepOps,
    build_compiled_loop,
    build_loop,
    make_num_steps,
    specs_of,
)
from toolkit.storage.run_folder import RunFolder

ONLY_2 = pytest.mark.skipif(VERSION_FAMILY == "1.15", reason="XLA compiles steps on 2.x alone")
CALLS = [1, 7, 50, "auto"]


# ------------------------------------------------------------------------- a loop and its outputs


class NoOutputs(NamedTuple):
    """A step without anything to fetch."""


class SumOutputs(NamedTuple):
    """The outputs of `AddThree` that a session can fetch."""

    double: Any
    empty: Any
    counted_total: Any


class RowOutputs(NamedTuple):
    row: Any


class AddThree:
    """A step that adds 3 to `total`; its outputs are twice the total, a name, and the total.

    Attributes:
        total: int32 scalar variable.
        evaluations: int32 scalar variable, the number of steps that computed `counted_total`.
    """

    def __init__(self):
        self.total = tf.get_variable("total", initializer=tf.constant(0), use_resource=True)
        self.evaluations = tf.get_variable(
            "evaluations", initializer=tf.constant(0), use_resource=True
        )

    def __call__(self, *_):
        add = self.total.assign_add(3, read_value=False)
        with tf.control_dependencies([add]):
            total = self.total.read_value()
        with tf.control_dependencies([self.evaluations.assign_add(1, read_value=False)]):
            counted_total = tf.identity(total)
        return StepOps(add, SumOutputs({"pair": [2 * total, "total"]}, {}, counted_total))


@pytest.mark.usefixtures("graph")
def test_a_loop_makes_the_number_of_steps_in_its_feed_and_one_by_default():
    step, num_steps = AddThree(), make_num_steps()
    loop = build_loop(step, num_steps)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for fed_steps, total in ((None, 3), (5, 18), (1, 21), (0, 21)):
            session.run(loop.op, None if fed_steps is None else {num_steps: fed_steps})
            assert session.run(step.total) == total


@pytest.mark.usefixtures("graph")
def test_a_step_receives_its_index_in_the_call():
    num_steps = make_num_steps()
    digits = tf.get_variable("digits", initializer=tf.constant(0), use_resource=True)
    loop = build_loop(
        lambda i: StepOps(digits.assign(10 * digits.read_value() + i).op, NoOutputs()), num_steps
    )
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(loop.op, {num_steps: 4})
        assert session.run(digits) == 123  # 0, 1, 2, 3


@pytest.mark.usefixtures("graph")
def test_the_outputs_of_a_call_have_the_structure_of_the_step_outputs():
    step = AddThree()
    loop = build_loop(step, make_num_steps())
    double, name = loop.outputs.double["pair"]
    assert (name, loop.outputs.empty) == ("total", {})
    assert (double.dtype, double.shape) == (tf.int32, [])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert session.run([double, loop.op]) == [6, None]
        assert session.run(double) == 12  # the fetch makes a step, as it does without a loop


@pytest.mark.usefixtures("graph")
def test_a_field_that_is_not_fetched_is_not_computed():
    step, num_steps = AddThree(), make_num_steps()
    loop = build_loop(step, num_steps)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run([loop.op, loop.outputs.double])
        session.run(loop.op, {num_steps: 5})
        assert session.run(step.evaluations) == 0
        session.run([loop.op, loop.outputs.counted_total])
        assert session.run(step.evaluations) == 1


@pytest.mark.parametrize("value", [b"text", 2.5, True, [[1, 2, 3]]])
@pytest.mark.usefixtures("graph")
def test_loop_outputs_support_any_type_and_shape(value):
    outputs = []

    def body(count, flow):
        outputs.append(LoopOutputs({"value": tf.constant(value), "count": count}))
        return count + 1, outputs[0].flow(flow)

    ends = tf.while_loop(lambda n, _: n < 1, body, [tf.constant(0), tf.constant(0.0)])
    with tf.Session() as session:
        result = session.run(outputs[0].read(ends[1]))
    assert result["count"] == 0
    np.testing.assert_array_equal(result["value"], value)


@pytest.mark.usefixtures("graph")
def test_specs_are_of_tensors_alone():
    structure = {"a": [tf.zeros([2, 3]), "text"], "b": tf.constant(1), "c": 7.0}
    assert specs_of(structure) == [tf.TensorSpec([2, 3], tf.float32), tf.TensorSpec([], tf.int32)]


def build_compiled_sum(num_steps, rows, last_index):
    """A compiled loop that adds up rows.

    Args:
        num_steps: int32 scalar, the number of steps of a call.
        rows: int32 [N].
        last_index: of the step that is not finite, after which the loop must end, or None.

    Returns:
        The loop, and the variable of the sum.
    """
    total = tf.get_variable("total", initializer=tf.constant(0), use_resource=True)
    is_finite = []

    def step(count, rows):
        row = rows[count]
        is_finite[:] = [None if last_index is None else tf.not_equal(count, last_index)]
        add = total.assign_add(row, read_value=False)
        return StepOps(add, RowOutputs({"value": row, "text": "a row"}))

    specs = [tf.TensorSpec([], tf.int32)]
    return build_compiled_loop(step, num_steps, [rows], specs, lambda: is_finite[0]), total


@ONLY_2
@pytest.mark.parametrize(
    "last_index, fed_steps, total, all_finite",
    [(None, 3, 111, True), (None, None, 1, True), (1, 4, 11, False), (3, 2, 11, True)],
)
@pytest.mark.usefixtures("graph")
def test_a_compiled_loop_ends_with_its_number_of_steps_or_after_a_refusal(
    last_index, fed_steps, total, all_finite
):
    num_steps = make_num_steps()
    loop, variable = build_compiled_sum(num_steps, tf.constant([1, 10, 100, 1000]), last_index)
    feeds = {} if fed_steps is None else {num_steps: fed_steps}
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert session.run([loop.op, loop.all_finite], feeds)[1] == all_finite
        assert session.run(variable) == total


@ONLY_2
@pytest.mark.usefixtures("graph")
def test_a_compiled_loop_returns_the_outputs_of_its_last_step():
    num_steps = make_num_steps()
    loop, _ = build_compiled_sum(num_steps, tf.constant([1, 10, 100, 1000]), None)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert loop.outputs.row["text"] == "a row"
        assert session.run(loop.outputs.row["value"]) == 1
        assert session.run(loop.outputs.row["value"], {num_steps: 3}) == 100


# ------------------------------------------------------------------------------ whole runs, exactly


def read_records(run):
    """The records of metrics.jsonl without the times."""
    times = ("examples_per_sec", "seconds")
    return [
        {name: value for name, value in record.items() if name not in times}
        for record in RunFolder(run).metrics.read()
    ]


def read_summaries(run):
    """(step, tag, serialized value) of every summary except the speed."""
    folder, summaries = os.path.join(run, "events"), []
    for name in sorted(os.listdir(folder)):
        for event in tf.train.summary_iterator(os.path.join(folder, name)):
            for value in event.summary.value:
                tag, value.tag = value.tag, ""
                if tag != "examples_per_sec":
                    summaries.append((event.step, tag, value.SerializeToString()))
    return sorted(summaries)


def read_images(run):
    """File name -> bytes of the images of a run."""
    contents = {}
    for folder, _, names in os.walk(run):
        for name in names:
            if name.endswith((".png", ".gif")):
                with open(os.path.join(folder, name), "rb") as file:
                    contents[name] = file.read()
    return contents


class RunResults(NamedTuple):
    """The parts of a run folder that do not depend on the number of steps per call."""

    fingerprint: str
    metrics: List[Dict[str, Any]]
    checkpoint_steps: List[int]
    summaries: List[Tuple[int, str, bytes]]
    images: Dict[str, bytes]


def read_results(run):
    """Read the results of a run."""
    steps = [checkpoint.step for checkpoint in RunFolder(run).checkpoints.list()]
    return RunResults(
        testing.fingerprint(run), read_records(run), steps, read_summaries(run), read_images(run)
    )


def check_same_run(folder, plugin, forms, **options):
    """Check that runs have equal results.

    Args:
        forms: options by which the runs differ.
        options: of all runs.

    Returns:
        The results.
    """
    options = dict({"evaluate": "no", "checkpoint_steps": 1000}, **options)
    expected = None
    for number, form in enumerate(forms):
        run = str(folder / f"run{number}")
        testing.train(plugin, run, **dict(options, **form))
        results = read_results(run)
        expected = expected or results
        for one, other in zip(expected, results):
            assert one == other, form
    return expected


def options_by_calls(*calls, **options):
    """Options for each number of steps per call."""
    return [dict(options, steps_per_call=number) for number in calls]


@pytest.fixture
def bars(tmp_path, monkeypatch):
    """60 batches of 8, so that data in memory allows calls of 50."""
    monkeypatch.setenv("TOOLKIT_CACHE", str(tmp_path / "cache"))
    return write_bars(tmp_path / "bars.npz", train=480)


@pytest.fixture
def digits(tmp_path, monkeypatch):
    monkeypatch.setenv("TOOLKIT_CACHE", str(tmp_path / "cache"))
    return testing.write_digits(str(tmp_path / "digits.npz"), count=480)


@pytest.mark.parametrize("reader", ["resident", "stream"])
def test_any_number_of_steps_per_call_gives_the_same_run(bars, tmp_path, reader):
    results = check_same_run(
        tmp_path,
        Linear,
        options_by_calls(*CALLS),
        data=bars,
        steps=137,
        log_steps=20,
        reader=reader,
    )
    assert [r["step"] for r in results.metrics] == [20, 40, 60, 80, 100, 120, 137]
    assert results.checkpoint_steps == [137]


def test_an_epoch_shorter_than_a_call_gives_the_same_run(tmp_path):
    data = write_bars(tmp_path / "few.npz", train=20)  # two batches and a half
    check_same_run(tmp_path, Linear, options_by_calls(1, 50), data=data, steps=33, log_steps=9)


@pytest.mark.parametrize(
    "options",
    [
        {"schedule": "cosine", "warmup_steps": 9, "weight_decay": 0.01},
        {"schedule": "exponential", "clip": "global-norm", "clip_limit": 0.5},
        {"optimizer": "momentum", "accumulate": 3},
    ],
    ids=["cosine", "clipped", "accumulated"],
)
def test_options_of_the_step_give_the_same_run(bars, tmp_path, options):
    check_same_run(
        tmp_path, Linear, options_by_calls(1, 7), data=bars, steps=60, log_steps=25, **options
    )


def test_hooks_due_on_steps_that_are_no_multiple_of_a_call_give_the_same_run(bars, tmp_path):
    results = check_same_run(
        tmp_path,
        Linear,
        options_by_calls(1, 7, 50),
        data=bars,
        steps=60,
        log_steps=9,
        summary_steps=13,
        checkpoint_steps=11,
        profile_steps="10,33",
        keep_checkpoints=10,
        evaluate="yes",
    )
    assert results.checkpoint_steps == [11, 22, 33, 44, 55, 60]
    for number in range(3):
        traces = os.listdir(str(tmp_path / f"run{number}" / "profile"))
        assert sorted(traces) == ["step-10.json", "step-33.json"]


def test_early_stopping_ends_at_the_same_step(bars, tmp_path):
    results = check_same_run(
        tmp_path,
        Linear,
        options_by_calls(1, 7, 50),
        data=bars,
        steps=200,
        checkpoint_steps=9,
        evaluate="yes",
        best_metric="max:loss",  # which falls, so the first evaluation stays the best
        early_stopping=2,
    )
    assert results.checkpoint_steps == [9, 18, 27]


class Infinite(Linear):
    """Its loss is infinite in the steps 6, 7 and 31."""

    @hookimpl
    def loss(self, labels, outputs, run):
        step = run.global_step.read_value()
        is_infinite = tf.reduce_any(tf.equal(step, tf.constant([5, 6, 30], tf.int64)))
        factor = tf.where(is_infinite, tf.constant(np.inf), tf.constant(1.0))
        return factor * super().loss(labels, outputs)


@pytest.mark.parametrize("accumulate", [1, 3])
def test_skipped_steps_give_the_same_run_and_the_same_counts(bars, tmp_path, accumulate):
    results = check_same_run(
        tmp_path,
        Infinite,
        options_by_calls(1, 7, 50),
        data=bars,
        steps=60,
        log_steps=20,
        on_nonfinite="skip",
        accumulate=accumulate,
    )
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


@pytest.fixture(scope="module")
def summaries_by_calls(tmp_path_factory):
    """The summaries of a run with one step per call and of runs with several."""
    folder, summaries = tmp_path_factory.mktemp("summaries"), []
    data = write_bars(folder / "bars.npz", train=480)
    for number in (1, 7, 50):
        run = str(folder / f"run{number}")
        options = {"steps": 30, "summary_steps": 13, "evaluate": "no", "steps_per_call": number}
        testing.train(WithSummaries, run, data=data, **options)
        summaries.append(read_summaries(run))
    return summaries


def test_summaries_of_a_plugin_have_the_values_of_their_own_step(summaries_by_calls):
    one, *others = summaries_by_calls
    assert sorted({step for step, _, _ in one}) == [13, 26, 30]
    assert others == [one, one]


def test_summaries_of_a_plugin_have_their_own_names(summaries_by_calls):
    for summaries in summaries_by_calls:
        assert {"logits", "features/image/0", "features/image/1", "hundredfold"} <= {
            tag for _, tag, _ in summaries
        }


SMALL = {"steps": 37, "log_steps": 10, "batch_size": 8}


MLP = {"network": "mlp", "hidden": "16"}


@pytest.mark.parametrize("reader", ["resident", "stream"])
def test_a_perceptron_with_dropout_and_augmentation_gives_the_same_run(digits, tmp_path, reader):
    options = dict(SMALL, **MLP)
    check_same_run(
        tmp_path, "classifier", options_by_calls(1, 7), data=digits, reader=reader, **options
    )


def test_batch_norm_and_accumulation_give_the_same_run(digits, tmp_path):
    options = dict(SMALL, accumulate=2, mixup=0.2)
    check_same_run(tmp_path, "classifier", options_by_calls(1, 7), data=digits, **options)


GAN = {
    "width": 4,
    "batch_size": 8,
    "latent_size": 8,
    "features": "pixels",
    "quick_samples": 100,
    "score_samples": 100,
    "score_seeds": 2,
    "two_sample": False,
    "norm_samples": 20,
    "sample_count": 9,
    "sample_steps": 4,
    "log_steps": 5,
    "steps": 13,
}


def test_a_gan_gives_the_same_run_and_samples(digits, tmp_path):
    options = dict(GAN, network="mlp", preset="wgan-gp", n_critic=3)
    results = check_same_run(tmp_path, "gan", options_by_calls(1, 7), data=digits, **options)
    assert results.images


# ---------------------------------------------------------------------------------- compiled by XLA


@ONLY_2
def test_a_compiled_loop_gives_the_same_run_for_any_number_of_steps_per_call(digits, tmp_path):
    calls, options = options_by_calls(1, 7, xla="on"), dict(SMALL, **MLP)
    check_same_run(tmp_path, "classifier", calls, data=digits, **options)


@ONLY_2
def test_a_compiled_gan_gives_the_same_run_and_samples_for_any_number_of_steps_per_call(
    digits, tmp_path
):
    options = dict(GAN, network="mlp", n_critic=2)
    check_same_run(tmp_path, "gan", options_by_calls(1, 7, xla="on"), data=digits, **options)


@ONLY_2
def test_a_step_with_summaries_is_refused_by_xla(bars, tmp_path):
    with pytest.raises(UsageError, match="tf.summary ops"):
        testing.train(WithSummaries, str(tmp_path / "run"), data=bars, steps=6, xla="on")


@ONLY_2
def test_a_resumed_compiled_run_has_the_bits_of_an_uninterrupted_one(digits, tmp_path):
    options = dict(MLP, reader="stream", accumulate=3, optimizer="momentum", batch_size=8)
    testing.check_resume(
        "classifier", str(tmp_path / "run"), data=digits, steps=26, xla="on", **options
    )


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


def train_plain_and_compiled(folder, plugin, **options):
    """(tensors, records) of a run without XLA and of the same run with it."""
    results = []
    for xla in ("off", "on"):
        run = str(folder / xla)
        testing.train(plugin, run, **dict(options, evaluate="no", log_steps=1, xla=xla))
        results.append((testing.tensors(run), read_records(run)))
    return results


def check_close(one, other, rtol, atol):
    assert sorted(one) == sorted(other)
    for name in one:
        np.testing.assert_allclose(one[name], other[name], rtol, atol, err_msg=name)


@ONLY_2
@pytest.mark.usefixtures("equal_random_numbers")
@pytest.mark.parametrize(
    "options",
    [
        {"network": "cnn", "weight_decay": 0.01, "schedule": "cosine", "warmup_steps": 2},
        dict(MLP, clip="global-norm", clip_limit=0.1, accumulate=2),
    ],
    ids=["cnn", "accumulated"],
)
def test_a_compiled_step_agrees_with_a_plain_one(digits, tmp_path, options):
    # Plain descent: Adam makes a whole step of a gradient that is nothing but rounding.
    (plain_tensors, plain_records), (compiled_tensors, compiled_records) = train_plain_and_compiled(
        tmp_path,
        "classifier",
        data=digits,
        batch_size=8,
        steps=4,
        optimizer="momentum",
        learning_rate=0.01,
        **options,
    )
    check_close(plain_tensors, compiled_tensors, 1e-4, 1e-4)
    if options["network"] == "cnn":
        assert [name for name in plain_tensors if name.endswith("moving_mean")]
    for plain, compiled in zip(plain_records, compiled_records):
        for name in ("loss", "gradient_norm", "learning_rate"):
            assert compiled[name] == pytest.approx(plain[name], rel=1e-3, abs=1e-6)


@ONLY_2
@pytest.mark.usefixtures("equal_random_numbers")
def test_a_compiled_gan_agrees_with_a_plain_one_in_its_first_step(digits, tmp_path):
    values = dict(GAN, network="mlp", steps=1, preset="wgan-gp", n_critic=2)
    (_, (plain,)), (_, (compiled_record,)) = train_plain_and_compiled(
        tmp_path, "gan", data=digits, **values
    )
    assert sorted(plain) == sorted(compiled_record)
    assert {"d_loss", "g_loss"} <= set(plain)
    for name, value in plain.items():
        if isinstance(value, float):
            assert compiled_record[name] == pytest.approx(value, rel=1e-3, abs=1e-4), name
