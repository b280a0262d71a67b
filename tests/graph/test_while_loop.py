"""Several steps in one call leave what single steps leave: to the bit, whatever their number."""

import os
from typing import Any, NamedTuple

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


# ----------------------------------------------------------------------------- a loop and its ends


class NoOutputs(NamedTuple):
    """A step without anything to fetch."""


class SumOutputs(NamedTuple):
    """What `AddThree` offers to be fetched."""

    double: Any
    empty: Any
    watched: Any


class RowOutputs(NamedTuple):
    row: Any


class AddThree:
    """A step that adds 3 to `total`; total, its double and a name can be fetched."""

    def __init__(self):
        self.total = tf.get_variable("total", initializer=tf.constant(0), use_resource=True)
        self.ran = tf.get_variable("ran", initializer=tf.constant(0), use_resource=True)

    def __call__(self, *_):
        add = self.total.assign_add(3, read_value=False)
        with tf.control_dependencies([add]):
            now = self.total.read_value()
        with tf.control_dependencies([self.ran.assign_add(1, read_value=False)]):
            watched = tf.identity(now)
        return StepOps(add, SumOutputs({"of": [2 * now, "total"]}, {}, watched))


@pytest.mark.usefixtures("graph")
def test_a_loop_makes_as_many_steps_as_are_fed_and_one_by_default():
    step, num_steps = AddThree(), make_num_steps()
    loop = build_loop(step, num_steps)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for fed, total in ((None, 3), (5, 18), (1, 21), (0, 21)):
            session.run(loop.op, None if fed is None else {num_steps: fed})
            assert session.run(step.total) == total


@pytest.mark.usefixtures("graph")
def test_the_step_gets_its_number_in_the_call():
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
def test_the_outputs_of_a_call_of_one_step_keep_their_structure():
    step = AddThree()
    loop = build_loop(step, make_num_steps())
    double, name = loop.outputs.double["of"]
    assert (name, loop.outputs.empty) == ("total", {})
    assert (double.dtype, double.shape) == (tf.int32, [])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert session.run([double, loop.op]) == [6, None]
        assert session.run(double) == 12  # which makes a step, as it does without a loop


@pytest.mark.usefixtures("graph")
def test_a_field_that_is_not_fetched_is_not_computed():
    step, num_steps = AddThree(), make_num_steps()
    loop = build_loop(step, num_steps)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run([loop.op, loop.outputs.double])
        session.run(loop.op, {num_steps: 5})
        assert session.run(step.ran) == 0
        session.run([loop.op, loop.outputs.watched])
        assert session.run(step.ran) == 1


@pytest.mark.parametrize("value", [b"text", 2.5, True, [[1, 2, 3]]])
@pytest.mark.usefixtures("graph")
def test_loop_outputs_bring_out_any_type_and_shape(value):
    outputs = []

    def body(count, flow):
        outputs.append(LoopOutputs({"value": tf.constant(value), "count": count}))
        return count + 1, outputs[0].flow(flow)

    ends = tf.while_loop(lambda n, _: n < 1, body, [tf.constant(0), tf.constant(0.0)])
    with tf.Session() as session:
        found = session.run(outputs[0].read(ends[1]))
    assert found["count"] == 0
    np.testing.assert_array_equal(found["value"], value)


@pytest.mark.usefixtures("graph")
def test_specs_are_of_tensors_alone():
    structure = {"a": [tf.zeros([2, 3]), "text"], "b": tf.constant(1), "c": 7.0}
    assert specs_of(structure) == [tf.TensorSpec([2, 3], tf.float32), tf.TensorSpec([], tf.int32)]


def compiled_sum(num_steps, rows, until):
    """A compiled loop that adds up rows, and must end after the row with the number `until`."""
    total = tf.get_variable("total", initializer=tf.constant(0), use_resource=True)
    is_finite = []

    def step(count, rows):
        row = rows[count]
        is_finite[:] = [None if until is None else tf.not_equal(count, until)]
        add = total.assign_add(row, read_value=False)
        return StepOps(add, RowOutputs({"value": row, "text": "a row"}))

    specs = [tf.TensorSpec([], tf.int32)]
    return build_compiled_loop(step, num_steps, [rows], specs, lambda: is_finite[0]), total


@ONLY_2
@pytest.mark.parametrize(
    "until, fed, total, all_finite",
    [(None, 3, 111, True), (None, None, 1, True), (1, 4, 11, False), (3, 2, 11, True)],
)
@pytest.mark.usefixtures("graph")
def test_a_compiled_loop_ends_with_its_number_of_steps_or_after_a_refusal(
    until, fed, total, all_finite
):
    num_steps = make_num_steps()
    loop, variable = compiled_sum(num_steps, tf.constant([1, 10, 100, 1000]), until)
    feeds = {} if fed is None else {num_steps: fed}
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert session.run([loop.op, loop.all_finite], feeds)[1] == all_finite
        assert session.run(variable) == total


@ONLY_2
@pytest.mark.usefixtures("graph")
def test_a_compiled_loop_returns_the_outputs_of_its_last_step():
    num_steps = make_num_steps()
    loop, _ = compiled_sum(num_steps, tf.constant([1, 10, 100, 1000]), None)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert loop.outputs.row["text"] == "a row"
        assert session.run(loop.outputs.row["value"]) == 1
        assert session.run(loop.outputs.row["value"], {num_steps: 3}) == 100


# ------------------------------------------------------------------------------ whole runs, exactly


def records(run):
    """What metrics.jsonl tells, less the times."""
    times = ("examples_per_sec", "seconds")
    return [
        {name: value for name, value in record.items() if name not in times}
        for record in RunFolder(run).metrics.read()
    ]


def events(run):
    """(step, tag, what was written) of every summary but the speed."""
    folder, found = os.path.join(run, "events"), []
    for name in sorted(os.listdir(folder)):
        for event in tf.train.summary_iterator(os.path.join(folder, name)):
            for value in event.summary.value:
                tag, value.tag = value.tag, ""
                if tag != "examples_per_sec":
                    found.append((event.step, tag, value.SerializeToString()))
    return sorted(found)


def images(run):
    """Name -> bytes of the pictures of a run."""
    found = {}
    for folder, _, names in os.walk(run):
        for name in names:
            if name.endswith((".png", ".gif")):
                with open(os.path.join(folder, name), "rb") as file:
                    found[name] = file.read()
    return found


def left(run):
    """All that a run leaves that can be equal."""
    steps = [checkpoint.step for checkpoint in RunFolder(run).checkpoints.list()]
    return testing.fingerprint(run), records(run), steps, events(run), images(run)


def check_same(folder, plugin, forms, **options):
    """Runs of these forms, given as options, leave the same; what that is."""
    options = dict({"evaluate": "no", "checkpoint_steps": 1000}, **options)
    expected = None
    for number, form in enumerate(forms):
        run = str(folder / f"run{number}")
        testing.train(plugin, run, **dict(options, **form))
        found = left(run)
        expected = expected or found
        for one, other in zip(expected, found):
            assert one == other, form
    return expected


def by_calls(*calls, **options):
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
def test_any_number_of_steps_a_call_leaves_the_same(bars, tmp_path, reader):
    found = check_same(
        tmp_path, Linear, by_calls(*CALLS), data=bars, steps=137, log_steps=20, reader=reader
    )
    assert [r["step"] for r in found[1]] == [20, 40, 60, 80, 100, 120, 137]
    assert found[2] == [137]


def test_an_epoch_shorter_than_a_call_leaves_the_same(tmp_path):
    data = write_bars(tmp_path / "few.npz", train=20)  # two batches and a half
    check_same(tmp_path, Linear, by_calls(1, 50), data=data, steps=33, log_steps=9)


@pytest.mark.parametrize(
    "options",
    [
        {"schedule": "cosine", "warmup_steps": 9, "weight_decay": 0.01},
        {"schedule": "exponential", "clip": "global-norm", "clip_limit": 0.5},
        {"optimizer": "momentum", "accumulate": 3},
    ],
    ids=["cosine", "clipped", "accumulated"],
)
def test_options_of_the_step_leave_the_same(bars, tmp_path, options):
    check_same(tmp_path, Linear, by_calls(1, 7, 50), data=bars, steps=60, log_steps=25, **options)


def test_hooks_due_on_steps_that_are_no_multiple_leave_the_same(bars, tmp_path):
    found = check_same(
        tmp_path,
        Linear,
        by_calls(1, 7, 50),
        data=bars,
        steps=60,
        log_steps=9,
        summary_steps=13,
        checkpoint_steps=11,
        profile_steps="10,33",
        keep_checkpoints=10,
        evaluate="yes",
    )
    assert found[2] == [11, 22, 33, 44, 55, 60]
    for number in range(3):
        profiled = os.listdir(str(tmp_path / f"run{number}" / "profile"))
        assert sorted(profiled) == ["step-10.json", "step-33.json"]


def test_early_stopping_ends_at_the_same_step(bars, tmp_path):
    found = check_same(
        tmp_path,
        Linear,
        by_calls(1, 7, 50),
        data=bars,
        steps=200,
        checkpoint_steps=9,
        evaluate="yes",
        best_metric="max:loss",  # which falls, so the first evaluation stays the best
        early_stopping=2,
    )
    assert found[2] == [9, 18, 27]


class Infinite(Linear):
    """Its loss is infinite in the steps 6, 7 and 31."""

    @hookimpl
    def loss(self, labels, outputs, run):
        made = run.global_step.read_value()
        bad = tf.reduce_any(tf.equal(made, tf.constant([5, 6, 30], tf.int64)))
        return tf.where(bad, tf.constant(np.inf), tf.constant(1.0)) * super().loss(labels, outputs)


def test_skipped_steps_leave_the_same_and_are_counted_alike(bars, tmp_path):
    found = check_same(
        tmp_path,
        Infinite,
        by_calls(1, 7, 50),
        data=bars,
        steps=60,
        log_steps=20,
        on_nonfinite="skip",
    )
    # The counter is read beside the step, so it may lack the step of its own record alone.
    told = [(r["step"], r["count"]) for r in found[1] if r["kind"] == "event"]
    assert told == [(20, 2), (40, 1)]


class Summarised(Linear):
    """Puts its own summaries into `call` and `loss`."""

    @hookimpl
    def call(self, model, features, run):
        outputs = Linear.call(self, model, features, run)
        tf.summary.histogram("logits", outputs["logits"])
        tf.summary.image("seen", features, max_outputs=2)
        return outputs

    @hookimpl
    def loss(self, labels, outputs):
        loss = Linear.loss(self, labels, outputs)
        tf.summary.scalar("hundredfold", 100 * loss)
        return loss


def summaries_by_calls(folder, data):
    """Of runs with one step a call and with several: the summaries of each."""
    found = []
    for number in (1, 7, 50):
        run = str(folder / f"run{number}")
        options = {"steps": 30, "summary_steps": 13, "evaluate": "no", "steps_per_call": number}
        testing.train(Summarised, run, data=data, **options)
        found.append(events(run))
    return found


def test_summaries_of_a_plugin_are_of_their_own_step(bars, tmp_path):
    one, *others = [
        sorted((step, tag, value) for step, tag, value in found)
        for found in summaries_by_calls(tmp_path, bars)
    ]
    assert sorted({step for step, _, _ in one}) == [13, 26, 30]
    assert others == [one, one]


def test_summaries_of_a_plugin_have_their_own_names(bars, tmp_path):
    for found in summaries_by_calls(tmp_path, bars):
        assert {"logits", "seen/image/0", "seen/image/1", "hundredfold"} <= {t for _, t, _ in found}


SMALL = {"steps": 37, "log_steps": 10, "batch_size": 8}


@pytest.mark.slow
@pytest.mark.parametrize("reader", ["resident", "stream"])
def test_a_perceptron_with_dropout_and_augmentation_leaves_the_same(digits, tmp_path, reader):
    check_same(
        tmp_path,
        "classifier",
        by_calls(*CALLS),
        data=digits,
        network="mlp",
        hidden="16",
        reader=reader,
        **dict(SMALL, steps=137),
    )


@pytest.mark.slow
def test_batch_norm_and_accumulation_leave_the_same(digits, tmp_path):
    check_same(
        tmp_path, "classifier", by_calls(1, 7, 50), data=digits, accumulate=2, mixup=0.2, **SMALL
    )


GAN = {
    "width": 4,
    "batch_size": 8,
    "latent_size": 8,
    "features": "pixels",
    "quick_samples": 100,
    "score_samples": 100,
    "score_seeds": 2,
    "norm_samples": 20,
    "sample_count": 9,
    "sample_steps": 4,
    "log_steps": 5,
    "steps": 13,
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"preset": "wgan-gp", "n_critic": 3},
        {"preset": "sn-hinge", "update": "simultaneous", "network": "mlp"},
        {"preset": "dcgan", "reader": "stream"},
    ],
    ids=["quick", "several critic updates", "at once", "stream"],
)
def test_a_gan_and_its_samples_leave_the_same(digits, tmp_path, options):
    found = check_same(tmp_path, "gan", by_calls(1, 7), data=digits, **dict(GAN, **options))
    assert found[4]


# ---------------------------------------------------------------------------------- compiled by XLA


@pytest.mark.slow
@ONLY_2
@pytest.mark.parametrize("reader", ["resident", "stream"])
def test_a_compiled_loop_leaves_the_same_for_any_number(digits, tmp_path, reader):
    check_same(
        tmp_path,
        "classifier",
        by_calls(1, 7, 50, xla="on"),
        data=digits,
        network="mlp",
        hidden="16",
        reader=reader,
        **SMALL,
    )


@pytest.mark.slow
@ONLY_2
def test_a_compiled_gan_and_its_samples_leave_the_same_for_any_number(digits, tmp_path):
    options = dict(GAN, network="mlp", n_critic=2)
    check_same(tmp_path, "gan", by_calls(1, 7, xla="on"), data=digits, **options)


@ONLY_2
def test_a_step_with_summaries_is_not_compiled_without_them(bars, tmp_path):
    with pytest.raises(UsageError, match="tf.summary ops"):
        testing.train(Summarised, str(tmp_path / "run"), data=bars, steps=6, xla="on")


@pytest.mark.slow
@ONLY_2
@pytest.mark.parametrize(
    "options",
    [{"reader": "resident", "accumulate": 3, "optimizer": "momentum"}, {"reader": "stream"}],
    ids=["resident", "stream"],
)
def test_a_compiled_run_that_resumes_has_the_bits_of_one_that_did_not_stop(
    digits, tmp_path, options
):
    testing.check_resume(
        "classifier",
        str(tmp_path / "run"),
        data=digits,
        network="mlp",
        hidden="16",
        batch_size=8,
        steps=26,
        xla="on",
        **options,
    )


@pytest.fixture
def made_up_numbers(monkeypatch):
    """The same 'random' numbers with XLA and without: of whole numbers, which both count alike."""

    def uniform(self, shape, pair, minval=0.0, maxval=1.0):
        size = tf.reduce_prod(shape)
        mixed = (tf.range(size) % 1000 * 7919 + (pair[0] % 9973 + pair[1] * 31) * 104) % 1009
        drawn = tf.reshape(tf.cast(mixed, tf.float32) * np.float32(1 / 1024), shape)
        return drawn * (maxval - minval) + minval

    def normal(self, shape, pair, mean=0.0, stddev=1.0):
        return mean + stddev * uniform(self, shape, pair, -1.7, 1.7)

    for strategy in (PlainStep, XlaStep):
        monkeypatch.setattr(strategy, "uniform", uniform)
        monkeypatch.setattr(strategy, "normal", normal)


def both(folder, plugin, **options):
    """The tensors and the records of a run without XLA, and of the same with it."""
    found = []
    for xla in ("off", "on"):
        run = str(folder / xla)
        testing.train(plugin, run, **dict(options, evaluate="no", log_steps=1, xla=xla))
        found.append((testing.tensors(run), records(run)))
    return found


def check_close(one, other, rtol, atol):
    assert sorted(one) == sorted(other)
    for name in one:
        np.testing.assert_allclose(one[name], other[name], rtol, atol, err_msg=name)


@pytest.mark.slow
@ONLY_2
@pytest.mark.usefixtures("made_up_numbers")
@pytest.mark.parametrize(
    "options",
    [
        {"network": "mlp", "hidden": "16", "schedule": "cosine", "warmup_steps": 2},
        pytest.param({"network": "cnn", "weight_decay": 0.01}),
        {
            "network": "mlp",
            "hidden": "16",
            "clip": "global-norm",
            "clip_limit": 0.1,
            "accumulate": 2,
        },
    ],
    ids=["mlp", "cnn", "accumulated"],
)
def test_a_compiled_step_agrees_with_one_that_is_not(digits, tmp_path, options):
    # Plain descent: Adam makes a whole step of a gradient that is nothing but rounding.
    (plain, told), (compiled, told_too) = both(
        tmp_path,
        "classifier",
        data=digits,
        batch_size=8,
        steps=4,
        optimizer="momentum",
        learning_rate=0.01,
        **options,
    )
    check_close(plain, compiled, 1e-4, 1e-4)
    if options["network"] == "cnn":
        assert [name for name in plain if name.endswith("moving_mean")]
    for one, other in zip(told, told_too):
        for name in ("loss", "gradient_norm", "learning_rate"):
            assert other[name] == pytest.approx(one[name], rel=1e-3, abs=1e-6)


@pytest.mark.slow
@ONLY_2
@pytest.mark.usefixtures("made_up_numbers")
@pytest.mark.parametrize(
    "options", [{}, {"preset": "wgan-gp", "n_critic": 2}], ids=["quick", "wgan-gp"]
)
def test_a_compiled_gan_agrees_in_its_first_step_with_one_that_is_not(digits, tmp_path, options):
    values = dict(GAN, network="mlp", steps=1, **options)
    (_, (told,)), (_, (told_too,)) = both(tmp_path, "gan", data=digits, **values)
    assert sorted(told) == sorted(told_too)
    assert {"d_loss", "g_loss"} <= set(told)
    for name, value in told.items():
        if isinstance(value, float):
            assert told_too[name] == pytest.approx(value, rel=1e-3, abs=1e-4), name
