"""The test kit for plugins: small data, runs in one call, and checks for every plugin to pass.

    from toolkit import testing

    def test_my_plugin_passes_the_checks(tmp_path):
        testing.check_plugin("my_plugin", tmp_path, code_size="8")

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
from .api import load_plugins
from .compat import tf
from .data.examples import DataSpec
from .data.resident import ResidentReader
from .display.console import Console
from .graph import build
from .graph.run import Run
from .options import CoreOptions, resolve
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
        options: values or texts by name. Without `data`, small generated images are used.
    """
    options.setdefault("data", write_digits(os.path.join(str(folder), "digits.npz")))
    options.setdefault("batch_size", "8")
    check_step_in_a_loop(plugin, extensions, **options)
    check_resume(plugin, os.path.join(str(folder), "resume"), extensions, **options)


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
    assert not difference, difference
    assert fingerprint(whole) == fingerprint(halves)
    expected, actual = (RunFolder(path).metrics.lines() for path in (whole, halves))
    assert expected == actual


# ------------------------------------------------------------------------------------ former names

_RENAMED = {"run_of": "make_run", "trainer": "open_trainer"}  # former name: present name


def __getattr__(name: str) -> Any:
    if name not in _RENAMED:
        raise AttributeError(f"module 'toolkit.testing' has no attribute '{name}'")
    message = f"toolkit.testing.{name} is now toolkit.testing.{_RENAMED[name]}."
    warnings.warn(message, DeprecationWarning, stacklevel=2)
    return globals()[_RENAMED[name]]
