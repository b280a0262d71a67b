"""Each contract fails for a plugin that breaks it, with a sentence that says how to mend it."""

from __future__ import annotations

import faulty_plugins as faulty
import numpy as np
import pytest
from linear_fixtures import LINEAR, write_bars

from toolkit import DataError, Split, hookimpl, testing, tf
from toolkit.testing import contracts
from toolkit.testing.contracts.combinations import find_zero_strength
from toolkit.testing.contracts.trained import _require_close

BY_NAME = {contract.name: contract for contract in contracts.ALL}

# the plugin, the contract that it breaks, and a part of the message
FAULTS = [
    (faulty.NoHelp, "options-have-types-and-help", "'size' of 'nohelp' has no help text. Give"),
    (faulty.ForgetfulOption, "options-survive-a-configuration", "'pairs' of 'forgetfuloption' is"),
    (
        faulty.MoreInEvaluation,
        "builds-with-the-same-variables-in-each-mode",
        "extra of mode 'eval'",
    ),
    (faulty.OtherInALoop, "builds-the-same-variables-in-a-loop", "a single step and of a loop"),
    (
        faulty.PythonCounter,
        "builds-the-same-graph-twice",
        " in call creates mul/y (Const) with value ",
    ),
    (
        faulty.OtherInALoop,
        "builds-the-same-graph-twice",
        " in build creates v",
    ),
    (
        faulty.UnseededNoise,
        "builds-the-same-graph-twice",
        " in call creates add/y (Const) with value [",
    ),
    (faulty.InfiniteLoss, "losses-are-finite-scalars", "'loss' of the first step is inf. Compute"),
    (faulty.Idle, "each-trained-variable-gets-a-gradient", "No loss depends on idle, which"),
    (faulty.Stateful, "draws-no-numbers-that-a-resume-cannot-repeat", "RandomStandardNormal at "),
    (faulty.VariableInHooks, "session-hooks-create-no-variable", "creates the variable late"),
    (faulty.Forgotten, "a-step-changes-what-is-trained", "No update trains linear/b, which can be"),
    (
        faulty.NoUpdate,
        "a-step-changes-what-is-trained",
        "3 steps do not change linear/b, linear/w, although its gradient is not zero.",
    ),
    (
        faulty.WritesWhatIsNotTrained,
        "a-step-changes-nothing-else",
        "3 steps change linear/b, which",
    ),
    (faulty.TwoSteps, "the-global-step-advances-by-one", "One step moves the global step by 2."),
    (
        faulty.PythonCounter,
        "steps-in-a-loop-have-the-same-bits",
        "a loop of the graph. Let a step depend on variables, run.step_index and",
    ),
    (
        faulty.RoundsInALoop,
        "steps-in-a-loop-have-the-same-bits",
        "of the largest value. The cause may be an op that TensorFlow fuses in one of the two",
    ),
    (
        faulty.PythonCounter,
        "the-same-seed-has-the-same-bits",
        "differ in two runs of the same seed.",
    ),
    (faulty.OneSeed, "another-seed-has-other-weights", "two different seeds have the same tensors"),
    (faulty.OwnLoss, "a-step-that-is-not-finite-is-skipped", "A step whose loss is NaN changes "),
    (
        faulty.OwnLoss,
        "a-step-that-is-not-finite-stops-the-run",
        "A step whose loss is NaN changes ",
    ),
    (faulty.NoUpdate, "learns-eight-examples", "In 200 steps on 8 examples the loss went from"),
    (faulty.LateOps, "trains-with-all-hooks", "Graph is finalized"),
    (faulty.Stateful, "resumes-exactly", "after a resume at step 3 of 6, with examples in memory."),
    (
        faulty.PythonCounter,
        "a-restored-model-predicts-the-same",
        "differs between two models from one",
    ),
    (faulty.FlatPrediction, "predictions-have-the-batch-first", "'logits' [9] for 3 examples."),
    (faulty.DependsOnBatch, "predictions-ignore-the-batch-size", "batches of 8 and of 3 examples"),
    (
        faulty.LabelDependsOnBatch,
        "predictions-ignore-the-batch-size",
        "'name' of the hook 'predict' differs for ",
    ),
    (faulty.DependsOnBatch, "predictions-ignore-the-other-examples", "all examples and half of"),
    (faulty.NoMetric, "metrics-are-finite", "The metric 'ratio' is nan. Look"),
    (faulty.NoMetric, "evaluates-a-partial-last-batch", "The metric 'ratio' is nan. Look"),
    (faulty.BatchMetric, "metrics-ignore-the-batch-size", "in batches of 500 examples and"),
    (
        faulty.OtherExamples,
        "metrics-are-the-means-of-their-examples",
        "The metric 'accuracy' has no interval: it is ",
    ),
    (faulty.NoDirection, "metrics-have-directions", "for the metric accuracy, so it cannot"),
    (
        faulty.CountsPredictions,
        "using-a-model-changes-no-variable",
        "A prediction changes linear/b.",
    ),
    (faulty.UnseededWeights, "initial-weights-ignore-other-ops", "linear/w differ where an"),
]


def check(name, subject):
    return contracts.check_contract(BY_NAME[name], subject)


@pytest.fixture(scope="module")
def bars(tmp_path_factory):
    """The value of --data for images of bars."""
    return write_bars(tmp_path_factory.mktemp("bars") / "bars.npz", train=60)


@pytest.mark.parametrize(
    "plugin, name, text", FAULTS, ids=[f"{plugin.__name__}-{name}" for plugin, name, _ in FAULTS]
)
def test_a_plugin_that_breaks_a_contract_is_told_so(plugin, name, text, tmp_path, bars):
    with testing.Subject(plugin, tmp_path, data=bars) as subject:
        result = check(name, subject)
    assert (result.status, text in result.message) == ("failed", True), result


def test_each_contract_has_a_name_and_a_title():
    assert len(BY_NAME) == len(contracts.ALL)
    assert all(contract.title and not contract.title.endswith(".") for contract in contracts.ALL)


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


# ------------------------------------------------------------------------------------- extensions


@pytest.fixture
def extended(tmp_path):
    """A function from an extension to a subject: it extends the small model of the kit."""
    subjects = []

    def extend(extension):
        subjects.append(testing.Subject(testing.TINY_MODEL, tmp_path, [extension]))
        return subjects[-1]

    yield extend
    for subject in subjects:
        subject.close()


def test_an_extension_that_changes_a_run_at_zero_strength_breaks_a_contract(extended):
    result = check("an-extension-at-zero-strength-changes-nothing", extended(faulty.HalvedLoss()))
    assert result.status == "failed"
    assert result.message.startswith("With factor=0.5, 'halvedloss' changes the run: ")


def test_an_extension_that_changes_evaluations_at_zero_strength_breaks_a_contract(extended):
    subject = extended(faulty.ShiftedPrediction())
    result = check("an-extension-at-zero-strength-changes-nothing", subject)
    assert result.status == "failed"
    assert result.message.startswith("With shift=1.0, 'shiftedprediction' changes what ")


def test_a_label_may_differ_where_two_values_are_nearly_the_same():
    values = {"label": np.array([0, 0]), "values": np.array([[0.5, 0.5, 0], [0.9, 0.1, 0]])}
    _require_close(values, dict(values, label=np.array([1, 0])), "two sizes")
    with pytest.raises(AssertionError, match="'label' .* differs for 1 of 2 examples between two"):
        _require_close(values, dict(values, label=np.array([1, 1])), "two sizes")


def test_an_extension_that_changes_initial_weights_breaks_a_contract(extended):
    result = check("extensions-keep-the-initial-weights", extended(faulty.NewWeights()))
    assert result.status == "failed" and "with the extensions and without" in result.message


def test_an_extension_without_a_zero_strength_is_skipped(extended):
    result = check("an-extension-at-zero-strength-changes-nothing", extended(faulty.NewWeights()))
    assert result.status == "skipped" and "newweights declare no zero_strength" in result.message


class Journal:
    @hookimpl
    def checkpoint_saved(self, step):
        pass


def test_an_extension_that_is_only_notified_has_a_zero_strength(extended):
    subject = extended(Journal())
    (extension,) = subject.plugins.extensions
    assert find_zero_strength(extension) == {}
    assert check("an-extension-at-zero-strength-changes-nothing", subject).status == "ok"


# ------------------------------------------------------------------------------------------- data


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

    @hookimpl
    def predict(self, outputs):
        return outputs


class OwnData(faulty.Linear):
    @hookimpl
    def data(self, split):
        import numpy as np

        if split == "train":
            return Split(np.zeros([20, 2, 3, 1], np.uint8), np.arange(20) % 2)
        return None


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
    with testing.Subject(faulty.LateOps, tmp_path, data=bars) as subject:
        first, second = (
            check(name, subject) for name in ("trains-with-all-hooks", "resumes-exactly")
        )
    assert (first.status, second.status) == ("failed", "skipped")
    assert second.message == "the run 'resident' failed, see above"
