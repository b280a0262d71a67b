"""Runs that other work needs, such as the network that gives a score its features."""

from __future__ import annotations

import hashlib
import json
import os
import re
from typing import TYPE_CHECKING, Any, Dict, Mapping, Optional

from . import __version__, api
from .data.files.cache import open_entry
from .display.waits import waiting
from .errors import CheckpointError, InterruptedRun
from .options import CoreOptions
from .plugin_data import SOURCE_OPTIONS
from .plugins import Plugins
from .storage.entries import FORMAT
from .storage.run_folder import open_run
from .training.signals import FirstSignal

if TYPE_CHECKING:
    from .inference.trained_model import Trained

GROUP = "features"  # the subfolder of the cache
RUN = "run"  # the folder of the run in its entry of the cache


def data_options(options: Any) -> Dict[str, Any]:
    """The options of a run that say which examples there are, for another run on the same data.

    Args:
        options: of the run, such as `run.options` in a hook.

    Returns:
        Values by name: `data`, and of the others those that are not the core's defaults.
    """
    fields = CoreOptions.model_fields
    values = {name: getattr(options, name, None) for name in SOURCE_OPTIONS if name in fields}
    return {
        name: value
        for name, value in values.items()
        if value is not None and (name == "data" or value != fields[name].default)
    }


def cached_run(
    plugin: str,
    options: Optional[Mapping[str, Any]] = None,
    key: Any = None,
    text: str = "",
    named_by: str = "",
) -> Trained:
    """Open the run that a plugin trains with these options from the cache; train it if need be.

    The run counts as another one if an option, the key, the version of the toolkit or of its run
    folders, or a file or the version of the plugin differs. A training that is killed leaves
    nothing that a later call would use; a second process that needs the same run waits for it.

    Args:
        plugin: the model plugin, a reference as on the command line.
        options: values by option name, as for `toolkit.train`.
        key: what the run depends on besides, as JSON values. With a key, it says which examples
            there are, for instance by `Split.sha256()`, and the option `data` does not count: a
            path is another text where data are moved.
        text: what a person waits for; by default "Training PLUGIN (once, then cached)".
        named_by: as for `toolkit.train`.

    Returns:
        The trained run; `close` it.

    Raises:
        RetryError: the cache cannot be written.
        CheckpointError: the run in the cache is damaged.
        InterruptedRun: after Ctrl-C; nothing is saved.
    """
    options = dict(options or {})
    plugins = api.load_plugins(plugin, named_by=named_by)
    name = plugins.model.name

    def train(folder: str) -> None:
        path = os.path.join(folder, RUN)
        try:
            api.train(plugins.model.reference, path, options, say=False, named_by=named_by).close()
        except InterruptedRun as error:
            stop(error.exit_code - 128)

    def stop(signum: int) -> None:
        raise InterruptedRun(
            f"Interrupted while '{name}' was trained for the cache; nothing is saved.",
            hint="The same command trains it from the start.",
            signum=signum,
        ) from None

    # The run that needs this one would only note a signal, and wait on for another process.
    with waiting(text or f"Training {name} (once, then cached)"), FirstSignal(stop):
        folder = open_entry(GROUP, _run_name(plugins, options, key), train)
    hint = f"Delete {os.path.dirname(folder)}; it will be trained again."
    try:
        trained = api.open_folder(open_run(os.path.join(folder, RUN)), plugins)
    except CheckpointError as error:
        raise CheckpointError(error.message, hint=hint) from error
    if not (trained.summary or {}).get("finished"):  # copied from elsewhere
        trained.close()
        raise CheckpointError(f"The run in {folder} is not trained to its end.", hint=hint)
    return trained


def _run_name(plugins: Plugins, options: Mapping[str, Any], key: Any) -> str:
    """The plugin's name, and a hash of everything that the run depends on."""
    counted = {name: value for name, value in options.items() if key is None or name != "data"}
    code = [[each.name, each.distribution, each.sha256()] for each in plugins.all]
    values = [code, counted, key, __version__, FORMAT, RUN]
    parts = json.dumps(values, sort_keys=True, default=os.fspath)  # a path is its text
    digest = hashlib.sha256(parts.encode("utf-8")).hexdigest()[:16]
    return f"{re.sub(r'[^A-Za-z0-9_.-]+', '-', plugins.model.name)}-{digest}"
