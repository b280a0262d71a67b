"""The toolkit for code: train a run, open a data set, open a trained run."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Optional,
    Sequence,
    Union,
)

from .display.console import Console, NotebookConsole, is_notebook
from .display.waits import follow_steps, waiting
from .errors import UsageError
from .plugins import Plugin, Plugins, load
from .storage.run_folder import RunFolder, driver_of, new_path, open_run, reserve
from .storage.source_copies import naming_copies

if TYPE_CHECKING:
    from .data.examples import Split
    from .data.spec import DataSpec
    from .inference.trained_model import Trained
    from .option_changes import OptionChange
    from .options import Config, CoreOptions, Resolved
    from .run_data import RunData
    from .training.trainer import Trainer


# ------------------------------------------------------------------------------------------- train


def train(
    plugin: Any,
    run_dir: Optional[str] = None,
    options: Optional[Mapping[str, Any]] = None,
    say: Union[Callable[[str], None], bool, None] = None,
    extensions: Iterable[Any] = (),
    named_by: str = "",
    allow: Sequence[str] = (),
    **more: Any,
) -> Trained:
    """Train in `run_dir`, or resume the run that is there.

    The run has its own graph and session, so this may be called while another run is set up or
    evaluated. A run that is already finished is not trained again.

    Args:
        plugin: the model plugin: a reference as on the command line, or an object with hooks.
            Paths may be objects of pathlib, here and as options.
        run_dir: the run's folder, which is created if it does not exist; None for a new one,
            runs/PLUGIN/TIME.
        options: values or texts by option name. Environment variables are ignored. `data` may also
            be arrays: (x, y) or a dict of them by split, see docs/python.md. They are kept in the
            cache, so that the run can be resumed and opened without them.
        say: called with each line of the run's log, without progress; False for silence. By default
            the run shows itself where somebody looks: with a progress bar on a terminal and in a
            notebook.
        extensions: one or several, as for `plugin`.
        named_by: what names the plugins, such as a file, if it is not the caller. Those that are
            files or modules are then executed only if this user ran them before.
        allow: what may differ from the run that is there, as for `toolkit resume --allow`: names of
            options, "plugin", "with" and "data".
        more: further options by name.

    Returns:
        The trained run, with its metrics, to predict, evaluate and export.

    Raises:
        UsageError: the run that is there has another plugin or other options. Options that
            `toolkit resume` may change without `--allow` may differ.
        DataError: the data cannot be used.
        InterruptedRun: after Ctrl-C; the current step is completed first.
    """
    plugins = load_plugins(plugin, extensions, named_by)
    run_dir = os.path.expanduser(run_dir or new_path("runs", plugins.model.name))
    run_dir = os.path.abspath(run_dir)  # a plugin may change the working directory
    console, argv = _choose_console(say), ["toolkit.train"]
    options = dict(options or {}, **more)
    with console.shown(), open_trainer(
        plugins, run_dir, options, console, argv, allow=allow
    ) as trainer:
        trainer.check_resume()
        if not trainer.is_finished():
            trainer.train_and_test()
            for line in trainer.lines:
                console.show(line)
    return open_folder(open_run(run_dir), plugins)


def open_trainer(
    plugins: Plugins,
    run_dir: str,
    options: Mapping[str, Any],
    console: Console,
    argv: Sequence[str],
    pause_at: Optional[int] = None,
    allow: Sequence[str] = (),
) -> Trainer:
    """The `Trainer` of a new run, or of the run that is in `run_dir`; `close` it or use `with`.

    Arguments are as for `train`; `argv` is the command that the commit log records, and `pause_at`
    the step at which to pause, as if interrupted.
    """
    from . import config
    from .option_changes import find_option_changes, find_plugin_changes, refuse_changes
    from .preset_choice import recorded_choices
    from .training.trainer import Job, Trainer

    allow = [allow] if isinstance(allow, str) else list(allow)
    model, others = plugins.model.reference, [each.reference for each in plugins.extensions]
    folder = RunFolder(os.path.abspath(run_dir))
    if folder.is_run:
        refuse_changes(folder, find_plugin_changes(folder, model, others), allow, _name_allowed)
        saved = config.read_run_config(folder)
        resolved = recorded_choices(_resolve_options(plugins, options, [saved]), folder)
        changes = find_option_changes(folder, resolved.options)
        refuse_changes(folder, changes, allow, _name_allowed)
    else:
        folder = reserve(run_dir)
        resolved = _resolve_options(plugins, options)
    values = config.run_values(model, others, resolved.options, folder.path, resolved.origins)
    job = Job(plugins, resolved, folder, values, list(argv), pause_at, "data" in allow)
    return Trainer(job, console)


def _name_allowed(changes: Sequence[OptionChange]) -> str:
    return f"allow={[change.name for change in changes]}."


def load_plugins(plugin: Any, extensions: Iterable[Any] = (), named_by: str = "") -> Plugins:
    """The plugins of a run, each a reference as on the command line or an object with hooks."""

    def open_one(item: Any, kind: str) -> Plugin:
        item = _text_of_path(item)
        return (
            load(item, kind, named_by) if isinstance(item, str) else Plugin.from_object(item, kind)
        )

    if isinstance(extensions, (str, os.PathLike)):
        extensions = [extensions]
    return Plugins(open_one(plugin, "model"), [open_one(each, "extension") for each in extensions])


def _text_of_path(value: Any) -> Any:
    """A path as text; any other value as it is."""
    return os.fspath(value) if isinstance(value, os.PathLike) else value


def _resolve_options(
    plugins: Plugins,
    options: Mapping[str, Any],
    layers: Sequence[Config] = (),
) -> Resolved:
    """Resolve options."""
    from .options import OPTION, Origin, Value, resolve

    options = {name: _text_of_path(value) for name, value in options.items()}
    if not isinstance(options.get("data"), (str, type(None))):  # they are kept, and have a name
        from .data.arrays.kept import keep_arrays

        others = {name: value for name, value in options.items() if name != "data"}
        label_kind = _resolve_options(plugins, others, layers).options.label_kind
        options = dict(options, data=keep_arrays(options["data"], label_kind))
    values = {name: Value(value, Origin(OPTION, name)) for name, value in options.items()}
    return resolve(plugins.options(), layers, flags=values)


def quiet() -> Console:
    """A console that shows nothing."""
    return _LineConsole(None)


def _choose_console(say: Union[Callable[[str], None], bool, None]) -> Console:
    """As the argument of `train` says; by default, one for who called."""
    if callable(say):
        return _LineConsole(say)
    if say is False:
        return quiet()
    if is_notebook():
        return NotebookConsole()
    console = Console()
    return console if console.is_terminal or (say and sys.stderr) else quiet()


class _LineConsole(Console):
    """Passes each line of the log to a function, and shows no progress."""

    def __init__(self, say: Optional[Callable[[str], None]]):
        super().__init__(io.StringIO())
        self._say = say

    def show(self, text: str) -> None:
        if self._say is not None:
            self._say(text)

    @contextlib.contextmanager
    def shown(self) -> Iterator[None]:
        """A silent one leaves what a person waits for to the console around it."""
        with contextlib.nullcontext() if self._say is None else super().shown():
            yield

    def start(self, total_steps: int, read_step: Callable[[], int]) -> None:
        super().start(total_steps, read_step)
        follow_steps(total_steps, read_step)

    def show_progress(self, text: str) -> None:
        pass


# --------------------------------------------------------------------------------------- open data


class PluginData:
    """The examples of a data set as a plugin would train on them; made by `open_data`.

    Attributes:
        options: the resolved options.
        data: the `DataSpec` of the examples.
    """

    def __init__(self, options: CoreOptions, run_data: RunData):
        self.options = options
        self.data: DataSpec = run_data.spec
        self._run_data = run_data

    def split(self, name: str) -> Optional[Split]:
        """The `Split` "train", "validation" or "test" after `filter` and `convert`, or None."""
        return self._run_data.prepare_split(name)


def open_data(
    plugin: Any, options: Optional[Mapping[str, Any]] = None, extensions: Iterable[Any] = ()
) -> PluginData:
    """Open the data that the options name (`data`, `image_size`, ...) without a run.

    Args:
        plugin: a reference as on the command line, or an object with hooks.
        options: values or texts by option name.
        extensions: one or several, as for `plugin`.

    Raises:
        DataError: the data cannot be read.
        UsageError: an option or the plugin's name is wrong.
    """
    from .preset_choice import choose_presets
    from .run_data import open_run_data

    plugins = load_plugins(plugin, extensions)
    resolved = _resolve_options(plugins, options or {})
    run_data = open_run_data(plugins, resolved.options, origins=resolved.origins)
    return PluginData(choose_presets(resolved, run_data).options, run_data)


# ------------------------------------------------------------------------------- open a trained run


def open_trained(
    path: str,
    checkpoint: Union[str, int, None] = None,
    warn: Callable[[str], None] = lambda text: None,
    trust: bool = False,
) -> Trained:
    """Open a run's folder with one of its checkpoints.

    Args:
        path: the run's folder.
        checkpoint: "best", "last" or a step; None for the best if the run has one, else the last.
        warn: called with a message for each damaged checkpoint that is skipped.
        trust: whether to execute a plugin that is a file or a module even if it is not code that
            this user ran before.

    Raises:
        UsageError: the folder holds no run, or that of a driver, or names a plugin that is not
            trusted.
        CheckpointError: there is no such checkpoint, or it is damaged.
        ToolkitError: one of the run's plugins cannot be loaded.
    """
    return open_folder(open_run(path), None, checkpoint, warn, trust)


def open_folder(
    folder: RunFolder,
    plugins: Optional[Plugins] = None,
    checkpoint: Union[str, int, None] = None,
    warn: Callable[[str], None] = lambda text: None,
    trust: bool = False,
    has_begun: bool = False,
) -> Trained:
    """Open a run as `open_trained` does, with plugins that are loaded, or else those that its
    configuration names. `has_begun`: without a checkpoint, of which it may have none yet.
    """
    from .config import read_run_config
    from .options import resolve

    config = read_run_config(folder)
    if plugins is None:
        driver = driver_of(folder.path)
        if driver:
            raise UsageError(
                f"{folder} has no model to open: the driver '{driver}' made its steps.",
                hint="'toolkit predict' and 'toolkit export' take it if the driver has them.",
            )
        named_by = "" if trust else os.path.join(str(folder), "config.json")
        with naming_copies(folder):
            plugins = Plugins.load(config.plugin, config.extensions, named_by)
    from .inference.trained_model import Trained  # imports TensorFlow

    options = resolve(plugins.options(), [config]).options
    if has_begun:
        return Trained(folder, plugins, options, None)
    default = "last" if folder.checkpoints.best() is None else "best"
    with waiting(f"Opening {folder}"):  # whose checkpoint is hashed
        found = folder.checkpoints.find(str(default if checkpoint is None else checkpoint), warn)
    return Trained(folder, plugins, options, found)
