"""The test kit for plugins: small data, a run in one call, and checks that any plugin should pass.

    from toolkit import testing

    def test_my_plugin_keeps_the_contract(tmp_path):
        testing.check_plugin("my_plugin", tmp_path, code_size="8")

Each check raises AssertionError with what was expected and what was found.
"""

from __future__ import annotations

import io
import os
from typing import Any, Dict, Iterable, Optional, Tuple

import numpy as np

from . import api
from .api import load_plugins
from .compat import tf
from .data.resident import ResidentReader
from .display.console import Console
from .graph import build
from .graph.run import Run
from .options import resolve
from .run_data import open_run_data
from .storage.checkpoint_reader import fingerprint as tensors_sha256
from .storage.checkpoint_reader import first_difference, read_tensors
from .storage.run_folder import RunFolder
from .training.trainer import Trainer


def write_digits(
    path: str, count: int = 96, shape: Tuple[int, ...] = (8, 8, 1), classes: int = 3
) -> str:
    """An .npz of `count` uint8 images for training and a third of it for testing, and its `--data`
    value.

    Class k is brighter in row k, so that a model can learn it. The same arguments give the same
    file.
    """
    random = np.random.RandomState(0)

    def make(n: int):
        labels = np.arange(n) % classes
        images = random.randint(0, 60, (n,) + tuple(shape))
        images[np.arange(n), labels] += 150
        return images.astype(np.uint8), labels.astype(np.int64)

    (x_train, y_train), (x_test, y_test) = make(count), make(count // 3)
    np.savez(path, x_train=x_train, y_train=y_train, x_test=x_test, y_test=y_test)
    return "npz:" + path


def run_of(plugin: Any, mode: str, spec: Any, **options: Any) -> Run:
    """A Run for calling a plugin's functions by hand; spec: a `toolkit.DataSpec`."""
    resolved = resolve(load_plugins(plugin).options(), flags=options).options
    return Run(mode, resolved, spec)


def trainer(
    plugin: Any,
    run_dir: str,
    extensions: Iterable[Any] = (),
    console: Optional[Console] = None,
    pause_at: Optional[int] = None,
    **options: Any,
) -> Trainer:
    """A Trainer for a new run in `run_dir`, or for the run that is there, with option values or
    texts.

    pause_at: leave off at this step.
    """
    console = console or Console(io.StringIO())
    return api.open_trainer(plugin, run_dir, options, extensions, console, ["test"], pause_at)


def train(
    plugin: Any, run_dir: str, extensions: Iterable[Any] = (), **options: Any
) -> Dict[str, Any]:
    """Train, or go on training what is in `run_dir`; the summary that `run --json` prints."""
    made = trainer(plugin, run_dir, extensions, **options)
    try:
        return made.train_and_test()
    finally:
        made.close()


def tensors(run_dir: str, which: str = "last") -> Dict[str, np.ndarray]:
    """Every tensor of a checkpoint by name."""
    return read_tensors(RunFolder(run_dir).checkpoints.find(which).path)


def fingerprint(run_dir: str, which: str = "last") -> str:
    """One SHA-256 over all tensors of a checkpoint, which is computed anew."""
    return tensors_sha256(RunFolder(run_dir).checkpoints.find(which).path)


# ------------------------------------------------------------------------------------------ checks


def check_plugin(plugin: Any, folder: Any, extensions: Iterable[Any] = (), **options: Any) -> None:
    """Every check below, on small generated images unless `data` is given."""
    options.setdefault("data", write_digits(os.path.join(str(folder), "digits.npz")))
    options.setdefault("batch_size", "8")
    check_step_in_a_loop(plugin, extensions, **options)
    check_resume(plugin, os.path.join(str(folder), "resume"), extensions, **options)


def check_step_in_a_loop(
    plugin: Any, extensions: Iterable[Any] = (), steps: int = 3, **options: Any
) -> None:
    """Several steps in one call change the variables as single steps do, to the bit."""
    one_by_one = _variables_after(plugin, extensions, steps, False, options)
    in_a_loop = _variables_after(plugin, extensions, steps, True, options)
    _check_same_names(one_by_one, in_a_loop)
    for name, expected in one_by_one.items():
        found = in_a_loop[name]
        assert np.array_equal(expected, found), (name, expected, found)


def _variables_after(plugin, extensions, steps: int, loop: bool, options) -> Dict[str, np.ndarray]:
    plugins = load_plugins(plugin, extensions)
    resolved = resolve(plugins.options(), flags=options).options
    run_data = open_run_data(plugins, resolved)
    with tf.Graph().as_default() as graph:
        count = resolved.batch_size * resolved.batches_per_step
        reader = ResidentReader(run_data.prepare_split("train"), count, seed=3)
        run = Run("train", resolved, run_data.spec, None, steps)
        built = build.build_training(plugins, run, reader, graph, in_loop=loop)
        variables = {v.op.name: v for v in tf.global_variables()}
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            reader.initialize(session, 0)
            for _ in range(1 if loop else steps):
                session.run(built.train_op, {built.loop.num_steps: steps} if loop else None)
            return session.run(variables)


def check_resume(
    plugin: Any, folder: str, extensions: Iterable[Any] = (), steps: int = 6, **options: Any
) -> None:
    """A run that leaves off half-way and goes on ends with the bits of one that did not: every
    tensor, and every byte of metrics.jsonl.
    """
    options = dict({"evaluate": "no", "log_steps": 1}, **dict(options, steps=steps))
    whole, halves = folder + "-whole", folder + "-halves"
    train(plugin, whole, extensions, **options)
    train(plugin, halves, extensions, pause_at=steps // 2, **options)
    train(plugin, halves, extensions)
    differing = first_difference(tensors(whole), tensors(halves))
    assert not differing, differing
    assert fingerprint(whole) == fingerprint(halves)
    expected, found = (RunFolder(path).metrics.lines() for path in (whole, halves))
    assert expected == found


def _check_same_names(expected: Dict[str, Any], found: Dict[str, Any]) -> None:
    odd = sorted(set(expected) ^ set(found))
    assert not odd, f"variables in one of the two alone: {odd}"
