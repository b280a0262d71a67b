"""Each contract fails for a plugin that breaks it, with a sentence that says how to mend it."""

import faulty_plugins as faulty
import numpy as np
import pytest
from linear_fixtures import LINEAR, write_bars

from toolkit import DataError, Split, hookimpl, open_data, option, testing, tf
from toolkit.testing import contracts

BY_NAME = {contract.name: contract for contract in contracts.ALL}

# The plugin, and of each contract that it breaks a part of the message.
FAULTS = {
    "NoHelp": {"options-have-types-and-help": "'size' of 'nohelp' has no help text. Give"},
    "ForgetfulOption": {"options-survive-a-configuration": "'pairs' of 'forgetfuloption' is"},
    "MoreInEvaluation": {"builds-with-the-same-variables-in-each-mode": "extra of mode 'eval'"},
    "OtherInALoop": {"builds-the-same-variables-in-a-loop": "a single step and of a loop"},
    "PythonCounter": {
        "builds-the-same-graph-twice": " in <lambda> creates mul/y (Const) with",
        "steps-in-a-loop-have-the-same-bits": "Let a step depend on variables",
        "the-same-seed-has-the-same-bits": "differ in two runs of the same",
        "a-restored-model-predicts-the-same": "differs between two models",
    },
    "InfiniteLoss": {"losses-are-finite-scalars": "'loss' of the first step is inf. Compute"},
    "Idle": {"each-trained-variable-gets-a-gradient": "No loss depends on idle, which"},
    "Stateful": {
        "draws-no-numbers-that-a-resume-cannot-repeat": "RandomStandardNormal at ",
        "resumes-exactly": "after a resume at step 3 of 6, with examples in memory.",
    },
    "VariableInHooks": {"session-hooks-create-no-variable": "creates the variable late"},
    "Forgotten": {"a-step-changes-what-is-trained": "No update trains linear/b, which can be"},
    "NoUpdate": {
        "a-step-changes-what-is-trained": "3 steps do not change linear/b, ",
        "learns-eight-examples": "In 200 steps on 8 examples the loss went from",
    },
    "WritesWhatIsNotTrained": {"a-step-changes-nothing-else": "3 steps change linear/b"},
    "TwoSteps": {"the-global-step-advances-by-one": "One step moves the global step by 2."},
    "OneSeed": {"another-seed-has-other-weights": "two different seeds have the same tensors"},
    "OwnLoss": {
        "a-step-that-is-not-finite-is-skipped": "A step whose loss is NaN changes",
        "a-step-that-is-not-finite-stops-the-run": "A step whose loss is NaN changes",
    },
    "FlatPrediction": {"predictions-have-the-batch-first": "'value' [9] for 3 examples."},
    "DependsOnBatch": {
        "predictions-ignore-the-batch-size": "batches of 8 and of 3 examples",
        "predictions-ignore-the-other-examples": "all examples and half of",
    },
    "NoMetric": {
        "metrics-are-finite": "The metric 'ratio' is nan. Look",
        "evaluates-a-partial-last-batch": "The metric 'ratio' is nan. Look",
    },
    "BatchMetric": {"metrics-ignore-the-batch-size": "in batches of 500 examples and"},
    "OtherExamples": {"metrics-are-the-means-of-their-examples": "'accuracy' has no interval"},
    "NoDirection": {"metrics-have-directions": "for the metric accuracy, so it cannot"},
    "CountsPredictions": {"using-a-model-changes-no-variable": "A prediction changes linear/b."},
    "UnseededWeights": {"initial-weights-ignore-other-ops": "linear/w differ at the start"},
}


def check(name, subject):
    return contracts.check_contract(BY_NAME[name], subject)


@pytest.fixture(scope="module")
def bars(tmp_path_factory):
    """The value of --data for images of bars."""
    return write_bars(tmp_path_factory.mktemp("bars") / "bars.npz", train=60)


@pytest.mark.parametrize("plugin", FAULTS)
def test_a_plugin_that_breaks_contracts_is_told_so(plugin, tmp_path, bars):
    with testing.Subject(getattr(faulty, plugin), tmp_path, data=bars, steps_per_call=1) as subject:
        for name, text in FAULTS[plugin].items():
            result = check(name, subject)
            assert (result.status, text in result.message) == ("failed", True), result


def test_a_check_of_whole_runs_raises_the_message_of_the_contract(bars):
    with pytest.raises(AssertionError, match="an op that TensorFlow fuses in"):
        testing.check_step_in_a_loop(faulty.RoundsInALoop, data=bars)


def test_the_length_and_the_metric_of_a_run_do_not_hinder_a_check(tmp_path, bars):
    more = {"epochs": "2", "best_metric": "loss", "early_stopping": "1"}
    with testing.Subject(LINEAR, tmp_path, data=bars, **more) as subject:
        assert check("trains-with-all-hooks", subject).status == "ok"


def test_predictions_may_be_infinite_and_a_check_may_be_repeated(tmp_path, bars):
    for _ in range(2):
        testing.check_inference(faulty.InfinitePrediction, tmp_path, data=bars)


@pytest.mark.parametrize("write", [testing.write_digits, testing.write_unlabelled])
def test_data_may_be_written_to_a_path_of_pathlib(write, tmp_path):
    assert write(tmp_path / "a.npz") == f"npz:{tmp_path}/a.npz"


class PathOption(faulty.WithOptions):
    class Own(faulty.LinearOptions):
        weights: str = option("weights.npz", "file to begin with", path=True)


def test_a_relative_path_survives_a_configuration(tmp_path):
    with testing.Subject(PathOption, tmp_path) as subject:
        assert check("options-survive-a-configuration", subject).status == "ok"


class ProcessNumbers(faulty.Linear):
    """TensorFlow numbers its function, its data set's and its custom gradient in each process."""

    @hookimpl
    def call(self, model, features, run):
        @tf.custom_gradient
        def double(x):
            return 2 * x, lambda gradient: 2 * gradient

        one = tf.py_func(lambda: np.float32(1), [], tf.float32)
        one.set_shape([])
        numbers = tf.data.Dataset.range(3).map(lambda i: i * 2)
        total = numbers.reduce(np.int64(0), lambda a, b: a + b)
        factor = one * tf.cast(total, tf.float32)
        return faulty.Linear.call(self, model, double(features) * factor, run)


def test_numbers_that_tensorflow_counts_in_a_process_are_no_difference(tmp_path, bars):
    with testing.Subject(ProcessNumbers(), tmp_path, data=bars) as subject:
        result = check("builds-the-same-graph-twice", subject)
    assert result.status == "ok", result.message


@pytest.fixture(scope="module")
def linear(tmp_path_factory):
    """A model that keeps all contracts, on synthetic data."""
    with testing.Subject(LINEAR, tmp_path_factory.mktemp("linear")) as subject:
        yield subject


@pytest.mark.parametrize("contract", contracts.ALL, ids=lambda contract: contract.name)
def test_a_linear_model_keeps_each_contract(linear, contract):
    result = contracts.check_contract(contract, linear)
    if result.status == "skipped":
        assert result.message.startswith(("no plugin has the hook", "no extension", "XLA compiles"))
    else:
        assert result.status == "ok", result.message


ZERO = "an-extension-at-zero-strength-changes-nothing"


@pytest.mark.parametrize(
    "extension, name, message",
    [
        (faulty.ShiftedPrediction(), ZERO, "With shift=1.0, 'shiftedprediction' changes what "),
        (faulty.NewWeights(), "extensions-keep-the-initial-weights", "extensions and without"),
    ],
)
def test_an_extension_that_breaks_a_contract_is_told_so(tmp_path, bars, extension, name, message):
    with testing.Subject(LINEAR, tmp_path, [extension], data=bars, steps_per_call=1) as subject:
        result = check(name, subject)
    assert result.status == "failed" and message in result.message


class Unlabelled(testing.tiny.TinyModel):
    @hookimpl
    def build(self, run):
        if run.data.labels is not None:
            raise DataError("No labels, please.")
        return tf.get_variable("mean", run.data.shape)

    @hookimpl
    def call(self, model, features):
        return {"difference": features - model}

    @hookimpl
    def loss(self, outputs):
        return tf.reduce_mean(tf.square(outputs["difference"]))


class OwnData(faulty.Linear):
    @hookimpl
    def data(self, split):
        images = Split(np.zeros([20, 2, 3, 1], np.uint8), np.arange(20) % 2)
        return images if split == "train" else None


@pytest.mark.parametrize(
    "plugin, kind",
    [(LINEAR, "synthetic images"), (Unlabelled(), "synthetic unlabelled-images")]
    + [(OwnData(), "the plugin's own data")],
)
def test_the_first_kind_of_data_that_a_model_accepts_is_used(plugin, kind, tmp_path):
    with testing.Subject(plugin, tmp_path) as subject:
        assert len(subject.run_data.splits["train"]) >= 8
        assert subject.data_kind == kind


def test_a_model_that_accepts_no_data_fails_with_its_own_error(tmp_path):
    class Broken(faulty.Linear):
        @hookimpl
        def call(self, model):
            raise KeyError("wrong")

    with testing.Subject(Broken(), tmp_path) as subject:
        results = contracts.check_contracts(subject)
    (failure,) = [result for result in results if result.status == "failed"]
    reached = {result.name for result in results if result.status == "ok"}
    assert reached == {
        "hooks-have-known-names-and-arguments",
        "options-have-types-and-help",
        "options-survive-a-configuration",
    }
    assert "'broken' failed in its hook 'call': KeyError: 'wrong'" in failure.message


def test_a_failure_is_reported_once_and_named_where_it_hinders(tmp_path, bars):
    with testing.Subject(faulty.LateOps, tmp_path, data=bars, steps_per_call=1) as subject:
        first, second = (
            check(name, subject) for name in ("trains-with-all-hooks", "resumes-exactly")
        )
    assert (first.status, second.status) == ("failed", "skipped")
    assert "Graph is finalized" in first.message
    assert second.message == "the run 'resident' failed, see above"


def test_a_table_has_a_target_that_is_linear_in_the_numbers(tmp_path):
    data = testing.write_table(tmp_path / "rows.csv", count=50, numbers=2)
    rows, targets = open_data(LINEAR, {"data": data}).split("train").take(slice(None))
    assert rows.shape[1:] == (2,)
    assert targets == pytest.approx(rows.dot([1, 2]) + 0.5, abs=1e-3)
