"""Find, load and check plugins, and call their hooks.

A plugin is any object with functions marked by `hookimpl`, most often a module. A *model plugin*
implements the five model hooks; a run has exactly one. An *extension* wraps model hooks or
implements others; a run may have any number. Only the plugins of a run are imported; listing reads
the metadata of the installed packages.

entry_points: the installed plugins and commands.
loader: import a plugin by name, module or file.
plugin: a loaded plugin, its hook functions, and their check.
calls: the plugins of a run, and calls of their hooks.
failures: an exception of a plugin in one line.
"""

from .calls import Plugins
from .entry_points import Entry, list_commands, list_plugins
from .failures import summarize_exception
from .loader import load, load_command
from .plugin import HOOKS, Implementation, Plugin, check_hooks, hook_names, implementations

__all__ = [
    "HOOKS",
    "Entry",
    "Implementation",
    "Plugin",
    "Plugins",
    "check_hooks",
    "hook_names",
    "implementations",
    "list_commands",
    "list_plugins",
    "load",
    "load_command",
    "summarize_exception",
]
