"""What commands do, as calls in this process: train a run, open a data set."""

from __future__ import annotations

import io
import os
from typing import Any, Callable, Dict, Iterable, Mapping, Optional, Sequence

from .display.console import Console
from .plugins import Plugin, Plugins, load
from .storage.run_folder import RunFolder, open_run, reserve


def train(
    plugin: Any,
    run_dir: str,
    options: Optional[Mapping[str, Any]] = None,
    say: Optional[Callable[[str], None]] = None,
    extensions: Iterable[Any] = (),
) -> Dict[str, Any]:
    """Train in `run_dir`, or go on with the run that is there; the summary of `run --json`.

    plugin, extensions: named as on the command line, or objects with hooks. options: values or
    texts by name; variables of the environment do not count. say: is given each line that the run
    has to say, but no progress; None for silence. A run that is done already is not run again.

    It has a graph and a session of its own, so it may be called while another run is prepared or
    evaluated. Ctrl-C ends it after its step, with InterruptedRun.
    """
    made = trainer(plugin, run_dir, options or {}, extensions, _Lines(say), ["toolkit.train"])
    try:
        made.check_data()
        folder = RunFolder(os.path.abspath(run_dir))
        summary = folder.read_manifest().get("summary") if made.nothing_left() else None
        return dict(summary, run=str(folder)) if summary else made.train_and_test()
    finally:
        made.close()


class Opened:
    """A data set as a plugin would train on it. options: resolved. data: the `DataSpec`."""

    def __init__(self, options: Any, inputs: Any):
        self.options = options
        self.data = inputs.spec
        self._inputs = inputs

    def split(self, name: str):
        """The `Split` of that name after the plugin's `filter` and `convert`, or None."""
        return self._inputs.prepared(name)


def open_data(plugin: Any, options: Optional[Mapping[str, Any]] = None) -> Opened:
    """Open what the options name (`data`, `image_size`, ...) without a run.

    plugin: named as on the command line, or an object with hooks. Raises DataError, UsageError.
    """
    from .inputs import open_inputs
    from .options import resolve

    plugins = plugins_of(plugin)
    resolved = resolve(plugins.options(), flags=options or {}).options
    return Opened(resolved, open_inputs(plugins, resolved))


def quiet() -> Console:
    """A console that shows nothing."""
    return _Lines(None)


class _Lines(Console):
    """Hands each line to a function; shows no progress."""

    def __init__(self, say: Optional[Callable[[str], None]]):
        super().__init__(io.StringIO())
        self._say = say

    def say(self, text: str) -> None:
        if self._say is not None:
            self._say(text)

    def show(self, record: Dict[str, Any]) -> None:
        pass


def trainer(
    plugin: Any,
    run_dir: str,
    options: Mapping[str, Any],
    extensions: Iterable[Any],
    console: Console,
    argv: Sequence[str],
    pause_at: Optional[int] = None,
):
    """The `Trainer` of a new run in `run_dir`, or of the run that is there.

    pause_at: leave off at this step.
    """
    from . import config
    from .options import resolve
    from .training.trainer import Job, Trainer

    plugins = plugins_of(plugin, extensions)
    layers = []
    if os.path.exists(os.path.join(run_dir, "manifest.json")):
        folder = open_run(run_dir)
        layers.append(("config.json", config.read_run_config(folder).values))
    else:
        folder = reserve(run_dir)
    resolved = resolve(plugins.options(), layers, flags=options).options
    names = [extension.reference for extension in plugins.extensions]
    saved = config.for_run(plugins.model.reference, names, resolved, folder.path)
    return Trainer(Job(plugins, resolved, folder, saved, list(argv), pause_at), console)


def plugins_of(plugin: Any, extensions: Iterable[Any] = ()) -> Plugins:
    """The plugins of a run, each named as on the command line or given as an object with hooks."""
    return Plugins(_loaded(plugin, "model"), [_loaded(e, "extension") for e in extensions])


def _loaded(plugin: Any, kind: str) -> Plugin:
    return load(plugin, kind) if isinstance(plugin, str) else Plugin.of(plugin, kind)
