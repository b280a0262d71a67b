"""Runs of a plugin in one call, and what their checkpoints hold."""

from __future__ import annotations

import io
from typing import Any, Dict, Iterable, Optional, Sequence

import numpy as np

from .. import api
from ..api import load_plugins
from ..data.spec import DataSpec
from ..display.console import Console
from ..graph.run import Run
from ..options import resolve
from ..storage.checkpoint_reader import fingerprint as tensors_sha256
from ..storage.checkpoint_reader import read_tensors
from ..storage.run_folder import RunFolder
from ..training.trainer import Trainer


def make_run(plugin: Any, mode: str, spec: DataSpec, **options: Any) -> Run:
    """A `toolkit.Run`, to call a plugin's functions directly.

    Args:
        plugin: its options and their defaults are used.
        mode: "train", "eval" or "predict".
        spec: the `toolkit.DataSpec` of the data.
        options: values or texts by name.
    """
    return Run(mode, resolve(load_plugins(plugin).options(), flags=options).options, spec)


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
    plugins = load_plugins(plugin, extensions)
    return api.open_trainer(plugins, run_dir, options, console, ["test"], pause_at, allow)


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
