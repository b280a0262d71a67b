"""Checks of whole runs for any plugin: the loop, resume, and the use of a checkpoint."""

from __future__ import annotations

import os
from typing import Any, Dict, Iterable, Mapping

import numpy as np

from ..api import load_plugins
from ..compat import tf
from ..data.examples import Split
from ..data.named_arrays import random_arrays
from ..data.readers.resident import ResidentReader
from ..graph import build
from ..graph.run import Run
from ..inference.export import export
from ..inference.trained_model import TrainedModel
from ..plugin_data import open_from_plugin
from ..run_data import open_run_data
from ..storage.checkpoint_reader import first_difference
from ..storage.run_folder import RunFolder
from .data import write_digits
from .runs import fingerprint, resolve_options, tensors, train


def check_plugin(plugin: Any, folder: Any, extensions: Iterable[Any] = (), **options: Any) -> None:
    """Run every check below.

    Args:
        plugin, extensions: what to check.
        folder: an existing folder to write to.
        options: values or texts by name. Without `data`, a plugin is checked on what its hook
            `data` returns, or else on small generated images.
    """
    if "data" not in options and not _has_own_data(plugin, extensions, options):
        options["data"] = write_digits(os.path.join(str(folder), "digits.npz"))
    options.setdefault("batch_size", "8")
    check_step_in_a_loop(plugin, extensions, **options)
    check_resume(plugin, os.path.join(str(folder), "resume"), extensions, **options)
    streamed = dict(options, reader="stream")
    check_resume(plugin, os.path.join(str(folder), "stream"), extensions, **streamed)
    check_inference(plugin, os.path.join(str(folder), "inference"), extensions, **options)


def _has_own_data(plugin: Any, extensions: Iterable[Any], options: Mapping[str, Any]) -> bool:
    """Whether the hook `data` of a plugin returns data."""
    plugins = load_plugins(plugin, extensions)
    return open_from_plugin(plugins, resolve_options(plugins, options)) is not None


def check_step_in_a_loop(
    plugin: Any, extensions: Iterable[Any] = (), steps: int = 3, **options: Any
) -> None:
    """Check that several steps in one call change the variables exactly as single steps do."""
    expected = _variables_after(plugin, extensions, steps, False, options)
    actual = _variables_after(plugin, extensions, steps, True, options)
    difference = sorted(set(expected) ^ set(actual))
    assert not difference, f"variables in only one of the two graphs: {difference}"
    for name in expected:
        assert np.array_equal(expected[name], actual[name]), (name, expected[name], actual[name])


def _variables_after(
    plugin: Any, extensions: Iterable[Any], steps: int, loop: bool, values: Mapping[str, Any]
) -> Dict[str, np.ndarray]:
    plugins = load_plugins(plugin, extensions)
    run_data = open_run_data(plugins, resolve_options(plugins, values))
    options = resolve_options(plugins, values, run_data)
    with tf.Graph().as_default() as graph:
        count = options.batch_size * options.batches_per_step
        split = run_data.prepare_split("train")
        assert split is not None, "the training split is empty"
        reader = ResidentReader(split, count, seed=3)
        run = Run("train", options, run_data.spec, None, steps)
        training_graph = build.build_training(plugins, run, reader, graph, in_loop=loop)
        graph_loop = training_graph.loop
        variables = {v.op.name: v for v in tf.global_variables()}
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            reader.initialize(session, 0)
            feed = None if graph_loop is None else {graph_loop.num_steps: steps}
            for _ in range(steps if graph_loop is None else 1):
                session.run(training_graph.train_op, feed)
            return session.run(variables)


def check_resume(
    plugin: Any, folder: str, extensions: Iterable[Any] = (), steps: int = 6, **options: Any
) -> None:
    """Check that a run that pauses half-way and resumes ends exactly as an uninterrupted one does.

    Every tensor of the last checkpoint and every byte of metrics.jsonl must be equal.

    Args:
        plugin, extensions: what to check.
        folder: a prefix of the two run folders.
        steps: the length of a run.
        options: values or texts by name.
    """
    options = dict({"evaluate": "no", "log_steps": 1}, **dict(options, steps=steps))
    whole, halves = folder + "-whole", folder + "-halves"
    train(plugin, whole, extensions, **options)
    train(plugin, halves, extensions, pause_at=steps // 2, **options)
    train(plugin, halves, extensions)
    difference = first_difference(tensors(whole), tensors(halves))
    assert not difference, f"after a resume at step {steps // 2} of {steps}: {difference}"
    assert fingerprint(whole) == fingerprint(halves), "a resume changes the order of the tensors"
    expected, actual = (RunFolder(path).metrics.lines() for path in (whole, halves))
    assert expected == actual, f"a resume changes metrics.jsonl: {expected} became {actual}"


def check_inference(
    plugin: Any, folder: str, extensions: Iterable[Any] = (), steps: int = 3, **options: Any
) -> None:
    """Check that a trained model is evaluated, that it predicts, and that its export agrees.

    The metrics must be finite, and the predictions must not depend on the batch size. Scorers are
    not called.

    Args:
        plugin, extensions: what to check.
        folder: a prefix of the folders of the run and of the export.
        steps: the length of the run.
        options: values or texts by name.
    """
    values = dict({"evaluate": "no", "xla": "off"}, **dict(options, steps=steps))
    train(plugin, folder, extensions, **values)
    with _open_last(plugin, folder, extensions, values) as trained:
        split = next(
            filter(None, map(trained.run_data().prepare_split, ("test", "validation", "train")))
        )
        metrics = _evaluate(trained, split)
        wrong = {name: value for name, value in metrics.items() if not np.isfinite(value)}
        assert not wrong, f"metrics that are not finite: {wrong}"
        inputs = _inputs(trained, split)
        predict = trained.predictor.predict
        _check_batch_size(predict(inputs), predict(inputs, batch_size=3))
        export(trained.predictor, folder + "-export")


def _open_last(
    plugin: Any, path: str, extensions: Iterable[Any], values: Mapping[str, Any]
) -> TrainedModel:
    """A run with its last checkpoint; the plugin may be an object."""
    plugins, folder = load_plugins(plugin, extensions), RunFolder(path)
    options = resolve_options(plugins, values)
    checkpoint = folder.checkpoints.find("last")
    return TrainedModel(folder, plugins, options, checkpoint)


def _evaluate(trained: TrainedModel, split: Split) -> Dict[str, float]:
    """The metrics of a split, without those of scorers."""
    evaluator = trained.evaluator("eval")
    try:
        evaluator.load(trained.checkpoint.path)
        return evaluator.evaluate(split, trained.options.eval_batch_size).metrics
    finally:
        evaluator.close()


def _inputs(trained: TrainedModel, split: Split) -> Any:
    """A few examples of a split, or random arrays where the hook `inputs` names others."""
    graph = trained.predictor.graph
    if not graph.takes_examples:
        return random_arrays(graph.input_specs, 8)
    return split.take(slice(0, 8))[0]


def _check_batch_size(expected: Mapping[str, Any], actual: Mapping[str, Any]) -> None:
    """Check that predictions in batches of another size are the same but for rounding."""
    for name, values in expected.items():
        if values.dtype.kind == "f":
            difference = np.max(np.abs(values - actual[name]))
            limit = 1e-3 * max(1.0, np.max(np.abs(values)))
            assert difference <= limit, (
                f"'{name}' of the hook 'predict' depends on the batch size: it differs by "
                f"{difference:.3g} between batches of {len(values)} and of 3 examples"
            )
