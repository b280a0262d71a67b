"""Find, load and check plugins, and call their hooks.

A plugin is any object with functions marked by `hookimpl`, most often a module. A *model plugin*
implements the five model hooks; a run has exactly one. An *extension* wraps model hooks or
implements others; a run may have any number. Only the plugins of a run are imported; listing reads
the metadata of the installed packages.

entry_points: the installed plugins and commands.
loader: import a plugin by name, module or file.
source_files, neighbours: the files of a plugin that is a file or a module, and their import.
trust: which of those may be executed, and the record of what this user ran.
plugin: a loaded plugin, its hook functions, and their check.
calls: the plugins of a run, and calls of their hooks.
failures: an exception of a plugin in one line.
"""

from .calls import Plugins
from .entry_points import Entry, list_entries, list_plugins
from .failures import describe_failure, own_frames
from .hook_call import HookFunction, Problem, describe_value
from .loader import load, load_command, require_trust
from .plugin import (
    HOOKS,
    Plugin,
    hook_names,
    implementations,
    place_of,
    plugin_name,
)
from .source_files import is_name, locate
from .trust import UntrustedCode, choose, is_everything_trusted, separate_command, trust_everything
