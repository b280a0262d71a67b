"""The test kit for plugins: small data, runs in one call, and checks for every plugin to pass.

    from toolkit import testing

    def test_my_plugin_passes_the_checks(tmp_path):
        data = testing.write_table(tmp_path / "houses.csv")
        testing.check_plugin("my_plugin", tmp_path, data=data, code_size="8")

`plugin` and `extensions` are references as on the command line, or objects with hooks. Options are
keyword arguments, values or texts. A check that fails raises AssertionError with the expected and
the actual value.
"""

from __future__ import annotations

import io
import os
import warnings
from typing import Any, Dict, Iterable, Mapping, Optional, Sequence, Tuple

import numpy as np

from . import api
from .api import Trained, load_plugins
from .compat import tf
from .data.examples import Split
from .data.named_arrays import random_arrays
from .data.readers.resident import ResidentReader
from .data.spec import DataSpec
from .display.console import Console
from .graph import build
from .graph.run import Run
from .inference.export import export
from .options import CoreOptions, resolve
from .plugin_data import open_from_plugin
from .plugins import Plugins
from .run_data import open_run_data
from .storage.checkpoint_reader import fingerprint as tensors_sha256
from .storage.checkpoint_reader import first_difference, read_tensors
from .storage.run_folder import RunFolder
from .training.trainer import Trainer

# ---------------------------------------------------------------------------------- data and runs


def write_digits(
    path: str, count: int = 96, shape: Tuple[int, ...] = (8, 8, 1), classes: int = 3
) -> str:
    """Write small images that a model can learn: class k is brighter in row k.

    The same arguments write the same images.

    Args:
        path: the .npz file to write.
        count: the number of training images; there are a third as many test images.
        shape: of an image, [H, W, C] in pixels; H is at least `classes`.
        classes: the number of classes.

    Returns:
        The value of `--data` that names the file.
    """
    random = np.random.RandomState(0)

    def make(n: int) -> Tuple[np.ndarray, np.ndarray]:
        labels = np.arange(n) % classes
        images = random.randint(0, 60, (n,) + tuple(shape))
        images[np.arange(n), labels] += 150
        return images.astype(np.uint8), labels.astype(np.int64)

    (x_train, y_train), (x_test, y_test) = make(count), make(count // 3)
    np.savez(path, x_train=x_train, y_train=y_train, x_test=x_test, y_test=y_test)
    return "npz:" + path


def write_table(path: Any, count: int = 96, numbers: int = 3) -> str:
    """Write a table of numbers and a target, a float that is linear in them.

    Args:
        path: the .csv file to write.
        count: the number of rows.
        numbers: the number of columns besides the target.

    Returns:
        The value of `--data` that names the file. The column `target` is found by its name.
    """
    values = np.random.RandomState(0).uniform(-1, 1, (count, numbers)).round(4)
    target = values.dot(np.arange(1, numbers + 1)) + 0.5
    with open(str(path), "w", encoding="utf-8") as file:
        file.write(",".join([f"number{i}" for i in range(numbers)] + ["target"]) + "\n")
        for row, label in zip(values, target):
            file.write(",".join(f"{value:.4f}" for value in [*row, label]) + "\n")
    return f"table:{path}"


def write_pairs(folder: Any, count: int = 24, size: int = 8, classes: int = 3) -> str:
    """Write images with masks: the class of a pixel is a function of its brightness.

    Args:
        folder: to be created; it gets the folders `images` and `masks`.
        count: the number of pairs.
        size: of the sides of an image, in pixels.
        classes: the number of classes of a pixel.

    Returns:
        The value of `--data` that names the folder.
    """
    from PIL import Image

    random = np.random.RandomState(0)
    for name in ("images", "masks"):
        os.makedirs(os.path.join(str(folder), name))
    for number in range(count):
        mask = random.randint(0, classes, (size, size)).astype(np.uint8)
        image = mask * (200 // classes) + random.randint(0, 30, mask.shape)
        for name, array in (("images", image), ("masks", mask)):
            path = os.path.join(str(folder), name, f"{number:03}.png")
            Image.fromarray(array.astype(np.uint8)).save(path)
    return f"pairs:{folder}"


def make_run(plugin: Any, mode: str, spec: DataSpec, **options: Any) -> Run:
    """A `toolkit.Run`, to call a plugin's functions directly.

    Args:
        plugin: its options and their defaults are used.
        mode: "train", "eval" or "predict".
        spec: the `toolkit.DataSpec` of the data.
        options: values or texts by name.
    """
    return Run(mode, _resolve_options(load_plugins(plugin), options), spec)


def open_trainer(
    plugin: Any,
    run_dir: str,
    extensions: Iterable[Any] = (),
    console: Optional[Console] = None,
    pause_at: Optional[int] = None,
    allow: Sequence[str] = (),
    **options: Any,
) -> Trainer:
    """A `Trainer` for a new run in `run_dir`, or for the run that is there; the caller closes it.

    Args:
        plugin, run_dir, extensions: what to train, and where.
        console: shows the log and the progress; None for silence.
        pause_at: the step at which to pause, as if interrupted; None to train to the end.
        allow: what may differ from the run that is there, as for `toolkit.train`.
        options: values or texts by name.
    """
    console = console or Console(io.StringIO())
    return api.open_trainer(
        plugin, run_dir, options, extensions, console, ["test"], pause_at, allow=allow
    )


def train(
    plugin: Any, run_dir: str, extensions: Iterable[Any] = (), **options: Any
) -> Dict[str, Any]:
    """Train a new run in `run_dir`, or resume the run that is there.

    Args:
        plugin, run_dir, extensions: what to train, and where.
        options: values or texts by name; also `pause_at` and `allow`, as for `open_trainer`.

    Returns:
        The summary that `toolkit run --json` prints.
    """
    trainer = open_trainer(plugin, run_dir, extensions, **options)
    try:
        return trainer.train_and_test()
    finally:
        trainer.close()


def tensors(run_dir: str, which: str = "last") -> Dict[str, np.ndarray]:
    """Every tensor of a checkpoint ("last", "best" or a step) by name."""
    return read_tensors(RunFolder(run_dir).checkpoints.find(which).path)


def fingerprint(run_dir: str, which: str = "last") -> str:
    """One SHA-256 over all tensors of a checkpoint, computed from the file."""
    return tensors_sha256(RunFolder(run_dir).checkpoints.find(which).path)


def _resolve_options(plugins: Plugins, values: Mapping[str, Any]) -> CoreOptions:
    return resolve(plugins.options(), flags=values).options


# ------------------------------------------------------------------------------------------ checks


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
    return open_from_plugin(plugins, _resolve_options(plugins, options)) is not None


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
    options = _resolve_options(plugins, values)
    run_data = open_run_data(plugins, options)
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
        split = next(filter(None, map(trained.split, ("test", "validation", "train"))))
        metrics = _evaluate(trained, split)
        wrong = {name: value for name, value in metrics.items() if not np.isfinite(value)}
        assert not wrong, f"metrics that are not finite: {wrong}"
        inputs = _inputs(trained, split)
        _check_batch_size(trained.predict(inputs), trained.predict(inputs, batch_size=3))
        export(trained.predictor, folder + "-export")


def _open_last(
    plugin: Any, path: str, extensions: Iterable[Any], values: Mapping[str, Any]
) -> Trained:
    """A run with its last checkpoint; the plugin may be an object."""
    plugins, folder = load_plugins(plugin, extensions), RunFolder(path)
    options = _resolve_options(plugins, values)
    checkpoint = folder.checkpoints.find("last")
    return Trained(folder, plugins, options, folder.read_manifest(), checkpoint)


def _evaluate(trained: Trained, split: Split) -> Dict[str, float]:
    """The metrics of a split, without those of scorers."""
    evaluator = trained.evaluator("eval")
    try:
        evaluator.load(trained.checkpoint.path)
        return evaluator.evaluate(split, trained.options.eval_batch_size).metrics
    finally:
        evaluator.close()


def _inputs(trained: Trained, split: Split) -> Any:
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


# ------------------------------------------------------------------------------------ former names

_RENAMED = {"run_of": "make_run", "trainer": "open_trainer"}  # former name: present name


def __getattr__(name: str) -> Any:
    if name not in _RENAMED:
        raise AttributeError(f"module 'toolkit.testing' has no attribute '{name}'")
    message = f"toolkit.testing.{name} is now toolkit.testing.{_RENAMED[name]}."
    warnings.warn(message, DeprecationWarning, stacklevel=2)
    return globals()[_RENAMED[name]]
