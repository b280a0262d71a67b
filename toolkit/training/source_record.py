"""What a run records of the code that trains it: copies of the plugins' sources."""

from __future__ import annotations

from typing import Any, Callable, Dict

from ..plugins import Plugins
from ..storage.run_folder import RunFolder
from ..storage.source_copies import write_copies


def record_sources(
    folder: RunFolder,
    plugins: Plugins,
    hashes: Dict[str, Dict[str, str]],
    warn: Callable[[str], None],
) -> Dict[str, Any]:
    """Copy the sources of the plugins to the folder of the run.

    Args:
        folder: of the run.
        plugins: that train it.
        hashes: of the files of each plugin, by its name, as the session records them.
        warn: called with a text for each plugin of which a file is not copied.

    Returns:
        For the session's entry in the commit log: where the copies are, by the plugin's name.

    Raises:
        RetryError: the folder cannot be written.
    """
    record = {}
    for plugin in plugins.all:
        files = hashes.get(plugin.name)
        if not files:
            continue
        copy = write_copies(folder, plugin.name, files, plugin.read_source)
        if copy.omitted:
            names = ", ".join(copy.omitted[:3]) + (" ..." if copy.omitted[3:] else "")
            warn(f"{copy.place} lacks files that are large or have just changed: {names}")
        record[plugin.name] = dict(copy._asdict())
    return record
