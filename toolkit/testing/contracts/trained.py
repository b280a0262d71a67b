"""Contracts of what is done with a checkpoint: evaluate, predict, export, sample."""

from __future__ import annotations

import tempfile
from typing import Any, Dict

import numpy as np

from ...compat import tf
from ...data.examples import Split
from ...errors import join_names
from ...graph.ops import upstream
from ...inference.evaluator import Evaluator
from ...inference.example_values import compute_intervals
from ...inference.export import difference, export
from ...inference.scorer_set import read_directions
from ..subject import NUM_EXAMPLES, Subject
from .registry import Skip, contract, find_differences, require

TOLERANCE = 1e-3  # of values from batches of other sizes, as a share of the largest
SMALL_BATCH = 3  # examples; no divisor of NUM_EXAMPLES
LARGE_BATCH = 500  # examples
NUM_SAMPLES = 6
SAMPLE_TOLERANCE = 5e-3  # a step of a byte, as rounding may make, as a share of 255


@contract
def a_restored_model_predicts_the_same(subject: Subject) -> None:
    """Two models restored from one checkpoint predict the same bits."""
    inputs = subject.inputs()
    expected = subject.predictor.predict(inputs)
    other = subject.open_evaluator("predict")
    try:
        actual = other.predict(inputs)
    finally:
        other.close()
    for name, values in expected.items():
        require(
            values.tobytes() == actual[name].tobytes(),
            f"'{name}' of the hook 'predict' differs between two models from one checkpoint.",
            "Draw with run.uniform or run.normal, and keep all that a model learns in variables.",
        )


@contract
def predictions_have_the_batch_first(subject: Subject) -> None:
    """The first dimension of each prediction is the batch."""
    predictor = subject.predictor
    inputs = subject.inputs()
    tensors, placeholders = predictor.graph.predictions, predictor.graph.placeholders
    for count in (3, 1):
        feed = {placeholders[name]: inputs[name][:count] for name in placeholders}
        for name, value in predictor.session.run(dict(tensors), feed).items():
            shape = list(np.shape(value))
            require(
                shape[:1] == [count],
                f"Hook 'predict' returns '{name}' {shape} for {count} examples.",
                "Return tensors [N, ...] with one row for each example.",
            )


@contract
def predictions_ignore_the_batch_size(subject: Subject) -> None:
    """Predictions in batches of another size differ by rounding only."""
    inputs = subject.inputs()
    expected = _predict(subject)
    for size in (SMALL_BATCH, 1):
        _require_close(
            expected,
            subject.predictor.predict(inputs, size),
            f"batches of {NUM_EXAMPLES} and of {size} examples",
        )


@contract
def predictions_ignore_the_other_examples(subject: Subject) -> None:
    """The prediction for an example does not depend on its neighbours and its place."""
    ops = upstream(tensor.op for tensor in subject.predictor.graph.predictions.values())
    if any(op.type.startswith("StatelessRandom") for op in ops):
        raise Skip("its predictions draw random numbers, which follow from an example's place")
    inputs = subject.inputs()
    expected = _predict(subject)
    reverse = {name: array[::-1] for name, array in inputs.items()}
    actual = {n: array[::-1] for n, array in subject.predictor.predict(reverse).items()}
    _require_close(expected, actual, "an order of examples and its reverse")
    half = {name: array[: NUM_EXAMPLES // 2] for name, array in inputs.items()}
    alone = subject.predictor.predict(half)
    first = {name: array[: NUM_EXAMPLES // 2] for name, array in expected.items()}
    _require_close(first, alone, "all examples and half of them")


@contract
def evaluates_a_partial_last_batch(subject: Subject) -> None:
    """An evaluation includes a last batch of one example."""
    split = subject.evaluation_split()
    odd = split.subset(np.arange(min(len(split), SMALL_BATCH * 2 + 1)))
    metrics = subject.evaluator.evaluate(odd, SMALL_BATCH).metrics
    _require_finite(metrics)


@contract
def metrics_are_finite(subject: Subject) -> None:
    """Losses and metrics of an evaluation are finite."""
    _require_finite(_evaluate(subject))


@contract
def metrics_ignore_the_batch_size(subject: Subject) -> None:
    """Metrics in batches of another size differ by rounding only."""
    expected = _evaluate(subject)
    actual = subject.evaluator.evaluate(subject.evaluation_split(), SMALL_BATCH).metrics
    for name, value in expected.items():
        require(
            abs(value - actual[name]) <= TOLERANCE * max(1.0, abs(value)),
            f"The metric '{name}' is {value:.6g} in batches of {LARGE_BATCH} examples and "
            f"{actual[name]:.6g} in batches of {SMALL_BATCH}.",
            "Let 'call' treat each example alone (batch norm with training=False), take the mean "
            "over the batch as the loss, and let draws follow from run.position.",
        )


@contract
def metrics_are_the_means_of_their_examples(subject: Subject) -> None:
    """A metric of `metrics` and `example_metrics` is the mean of its examples' values."""
    graph = subject.evaluator.graph
    if not graph.example_metrics:
        raise Skip("no plugin has the hook example_metrics")
    split = subject.evaluation_split()
    evaluation = subject.evaluator.evaluate(split, LARGE_BATCH, folder=subject.folder)
    mismatches = compute_intervals(evaluation.metrics, evaluation.values).omissions
    for name in set(graph.metrics) & set(mismatches):
        require(
            "the mean of its examples" not in mismatches[name],
            f"The metric '{name}' has no interval: {mismatches[name]}.",
            "Return from 'example_metrics' the values whose mean 'metrics' computes, or another "
            "name.",
        )


@contract
def metrics_have_directions(subject: Subject) -> None:
    """It is declared of each metric whether lower or higher values are better.

    A loss of two players has none, also where the hook `metrics` computes it.
    """
    graph = subject.evaluator.graph
    names = {*graph.metrics, *graph.example_metrics} - set(graph.losses)
    declared = read_directions(subject.plugins, subject.evaluator.run, graph.losses, [])
    without = sorted(names - set(declared))
    require(
        not without,
        f"No direction is declared for the metric {', '.join(without)}, so it cannot choose the "
        "best checkpoint.",
        f"Let the hook 'metric_directions' return {{{without and without[0]!r}: \"min\"}} or max.",
    )


@contract
def using_a_model_changes_no_variable(subject: Subject) -> None:
    """Neither an evaluation nor a prediction changes a variable of the model."""
    split, inputs = subject.evaluation_split(), subject.inputs()
    remedy = 'Assign to variables in mode "train" alone.'
    before = _read_variables(subject.evaluator)
    subject.evaluator.evaluate(split, LARGE_BATCH)
    names = find_differences(before, _read_variables(subject.evaluator))
    require(not names, f"An evaluation changes {join_names(names)}.", remedy)
    before = _read_variables(subject.predictor)
    subject.predictor.predict(inputs)
    names = find_differences(before, _read_variables(subject.predictor))
    require(not names, f"A prediction changes {join_names(names)}.", remedy)


def _read_variables(evaluator: Evaluator) -> Dict[str, np.ndarray]:
    """The present values of the model's variables by name."""
    with evaluator.graph.tf_graph.as_default():
        variables = {v.op.name: v for v in tf.global_variables()}
    values: Dict[str, np.ndarray] = evaluator.session.run(variables)
    return values


@contract
def exports_what_it_predicts(subject: Subject) -> None:
    """The exported model predicts what the trained one does."""
    export(subject.predictor, tempfile.mkdtemp(dir=subject.folder), subject.inputs)


@contract
def samples_repeat(subject: Subject) -> None:
    """Samples of one seed are the same again, and for any count."""
    if not subject.plugins.has_hook("sample"):
        raise Skip("no plugin has the hook sample")
    expected, again = (subject.trained.sample(NUM_SAMPLES) for _ in range(2))
    half = subject.trained.sample(NUM_SAMPLES // 2)
    remedy = "Draw with part.normal, part.uniform, or run.normal and run.uniform in 'call'."
    for name, values in expected.items():
        require(
            values.tobytes() == again[name].tobytes(),
            f"'{name}' of the hook 'sample' differs between two calls with one seed.",
            remedy,
        )
        first = values[: NUM_SAMPLES // 2].astype(np.float64)
        share = difference(first, half[name].astype(np.float64))
        require(
            share <= SAMPLE_TOLERANCE,
            f"'{name}' of the first {NUM_SAMPLES // 2} samples differs by {share:.3g} where "
            f"{NUM_SAMPLES} are drawn.",
            remedy,
        )


def _predict(subject: Subject) -> Dict[str, np.ndarray]:
    """The predictions for all inputs in one batch."""
    return subject.prepare(
        "a prediction", lambda: subject.predictor.predict(subject.inputs(), NUM_EXAMPLES)
    )


def _evaluate(subject: Subject) -> Dict[str, float]:
    """The metrics of the evaluation split in large batches, without those of scorers."""
    split: Split = subject.evaluation_split()
    return subject.prepare(
        "an evaluation", lambda: subject.evaluator.evaluate(split, LARGE_BATCH).metrics
    )


def _require_close(expected: Dict[str, Any], actual: Dict[str, Any], event: str) -> None:
    """Compare floats but for rounding, and others exactly where the floats decide them clearly."""
    remedy = (
        "Let 'call' and 'predict' treat each example alone: no mean over the batch, and batch "
        'norm with training=run.mode == "train".'
    )
    for name, values in expected.items():
        if not values.size:
            continue
        if values.dtype.kind != "f":
            differs = _flatten(values != actual[name]).any(axis=1) & ~_near_ties(expected)
            text = f"'{name}' of the hook 'predict' differs for {differs.sum()} of {len(differs)} "
            require(not differs.any(), f"{text}examples between {event}.", remedy)
            continue
        share = difference(values, actual[name])
        require(
            share <= TOLERANCE,
            f"'{name}' of the hook 'predict' differs by {share:.3g} between {event}.",
            remedy,
        )


def _near_ties(predictions: Dict[str, Any]) -> np.ndarray:
    """bool [N]: whether rounding may change the place of the largest value of an example."""
    ties = np.zeros([len(next(iter(predictions.values())))], bool)
    for values in predictions.values():
        if values.dtype.kind == "f" and values.ndim > 1 and values.shape[-1] > 1 and values.size:
            last = np.sort(values, axis=-1)[..., -2:]
            limit = TOLERANCE * max(1.0, np.max(np.abs(values)))
            ties |= _flatten(last[..., 1] - last[..., 0] <= limit).any(axis=1)
    return ties


def _flatten(values: np.ndarray) -> np.ndarray:
    """[N, ...] -> [N, M]."""
    return np.asarray(values).reshape([len(values), -1])


def _require_finite(metrics: Dict[str, float]) -> None:
    for name, value in metrics.items():
        require(
            np.isfinite(value),
            f"The metric '{name}' is {value}.",
            "Look for a logarithm of 0, or a division by a count that is 0.",
        )
