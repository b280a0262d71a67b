"""The toolkit for code: train a run, open a data set, open a trained run."""

from __future__ import annotations

import builtins
import hashlib
import io
import os
import sys
import warnings
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterable, Mapping, Optional, Sequence, Union

from .display.console import Console
from .display.waits import follow_steps, waiting
from .errors import CheckpointError, UsageError
from .plugins import Plugin, Plugins, load
from .storage.run_folder import RunFolder, open_run, reserve
from .storage.source_copies import naming_copies

if TYPE_CHECKING:
    import numpy as np

    from .data.examples import Split
    from .data.spec import DataSpec
    from .inference.evaluator import Evaluator
    from .inference.sampling import Sampler
    from .option_changes import OptionChange
    from .options import CoreOptions, Layer, Resolved, SampleOptions
    from .run_data import RunData
    from .storage.commit_log import Checkpoint
    from .training.trainer import Trainer


# ------------------------------------------------------------------------------------------- train


def train(
    plugin: Any,
    run_dir: str,
    options: Optional[Mapping[str, Any]] = None,
    say: Optional[Callable[[str], None]] = None,
    extensions: Iterable[Any] = (),
    named_by: str = "",
    allow: Sequence[str] = (),
) -> Dict[str, Any]:
    """Train in `run_dir`, or resume the run that is there.

    The run has its own graph and session, so this may be called while another run is set up or
    evaluated. A run that is already finished is not trained again.

    Args:
        plugin: the model plugin: a reference as on the command line, or an object with hooks.
        run_dir: the run's folder; it is created if it does not exist.
        options: values or texts by option name. Environment variables are ignored.
        say: called with each line of the run's log, without progress. By default the run shows
            itself where somebody looks: with a progress bar on a terminal, in lines in IPython.
        extensions: references or objects, as for `plugin`.
        named_by: what names the plugins, such as a file, if it is not the caller. Those that are
            files or modules are then executed only if this user ran them before.
        allow: what may differ from the run that is there, as for `toolkit resume --allow`: names of
            options, "plugin", "with", "data", and "steps" for a jump of the learning rate.

    Returns:
        The summary that `toolkit run --json` prints.

    Raises:
        UsageError: the run that is there has another plugin or other options. Options that
            `toolkit resume` may change without `--allow` may differ.
        InterruptedRun: after Ctrl-C; the current step is completed first.
    """
    console = _choose_console() if say is None else _LineConsole(say)
    argv, given = ["toolkit.train"], options or {}
    with console.shown(), open_trainer(
        plugin, run_dir, given, extensions, console, argv, named_by=named_by, allow=allow
    ) as trainer:
        trainer.check_data()
        trainer.check_length()
        folder = RunFolder(os.path.abspath(run_dir))
        summary = folder.read_manifest().get("summary") if trainer.is_finished() else None
        return dict(summary, run=str(folder)) if summary else trainer.train_and_test()


def open_trainer(
    plugin: Any,
    run_dir: str,
    options: Mapping[str, Any],
    extensions: Iterable[Any],
    console: Console,
    argv: Sequence[str],
    pause_at: Optional[int] = None,
    named_by: str = "",
    allow: Sequence[str] = (),
) -> Trainer:
    """The `Trainer` of a new run in `run_dir`, or of the run that is there; the caller closes it.

    Args:
        plugin, run_dir, options, extensions, named_by, allow: as for `train`.
        console: shows the run's log and progress.
        argv: the command that the manifest records.
        pause_at: the step at which to pause, as if interrupted; None to train to the end.
    """
    from . import config
    from .option_changes import find_option_changes, find_plugin_changes, refuse_other_start
    from .preset_choice import recorded_choices
    from .training.trainer import Job, Trainer

    plugins = load_plugins(plugin, extensions, named_by)
    model, others = plugins.model.reference, [each.reference for each in plugins.extensions]
    if os.path.exists(os.path.join(run_dir, "manifest.json")):
        folder = open_run(run_dir)
        _refuse(find_plugin_changes(folder, model, others), allow)
        layer = config.read_run_config(folder).layer(folder.file("config.json"))
        resolved = recorded_choices(_resolve_options(plugins, options, [layer]), folder)
        changes = find_option_changes(folder, resolved.options)
        refuse_other_start(folder, changes)
        _refuse(changes, allow)
    else:
        folder = reserve(run_dir)
        resolved = _resolve_options(plugins, options)
    values = config.run_values(model, others, resolved.options, folder.path, resolved.first_origins)
    job = Job(
        plugins,
        resolved.options,
        folder,
        values,
        list(argv),
        pause_at,
        allow_other_data="data" in allow,
        allow_other_rate=bool({"steps", "epochs"} & set(allow)),
        notes=resolved.notes,
        resolved=resolved,
    )
    return Trainer(job, console)


def _refuse(changes: Sequence[OptionChange], allow: Sequence[str]) -> None:
    """Raise UsageError if there is a change that is not allowed."""
    from .option_changes import describe_changes

    names = [change.name for change in changes if change.name not in allow]
    if names:
        raise UsageError(
            describe_changes([change for change in changes if change.name in names]),
            hint=f"Keep the former values, start a new run, or allow the change: allow={names}.",
        )


def load_plugins(plugin: Any, extensions: Iterable[Any] = (), named_by: str = "") -> Plugins:
    """The plugins of a run, each a reference as on the command line or an object with hooks."""
    model = _load(plugin, "model", named_by)
    return Plugins(model, [_load(item, "extension", named_by) for item in extensions])


def _load(plugin: Any, kind: str, named_by: str) -> Plugin:
    if isinstance(plugin, str):
        return load(plugin, kind, named_by)
    return Plugin.from_object(plugin, kind)


def _resolve_options(
    plugins: Plugins,
    options: Mapping[str, Any],
    layers: Iterable[Layer] = (),
) -> Resolved:
    """Resolve options, with a FutureWarning for each that has an earlier name.

    Args:
        options: values or texts by option name.
        layers: the run's saved configuration, if there is one.
    """
    from .options import FLAGS, resolve

    origins = {name: f"option {name}" for name in options}
    resolved = resolve(plugins.options(), layers, flags=options, flag_origins=origins)
    for use in resolved.earlier_names:
        if use.layer == FLAGS:
            warnings.warn(f"Option {use.alias} is now called {use.name}.", FutureWarning, 4)
    return resolved


def quiet() -> Console:
    """A console that shows nothing."""
    return _LineConsole(None)


def _choose_console() -> Console:
    """One for the terminal or the notebook that called; elsewhere one that shows nothing."""
    if "get_ipython" in vars(builtins):
        return Console(sys.stdout)
    console = Console()
    return console if console.is_terminal else quiet()


class _LineConsole(Console):
    """Passes each line of the log to a function, and shows no progress."""

    def __init__(self, say: Optional[Callable[[str], None]]):
        super().__init__(io.StringIO())
        self._say = say

    def _show(self, text: str) -> None:
        if self._say is not None:
            self._say(text)

    def start(self, total_steps: int, read_step: Callable[[], int]) -> None:
        super().start(total_steps, read_step)
        follow_steps(total_steps, read_step)

    def _show_progress(self, record: Dict[str, Any]) -> None:
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


def open_data(plugin: Any, options: Optional[Mapping[str, Any]] = None) -> PluginData:
    """Open the data that the options name (`data`, `image_size`, ...) without a run.

    Args:
        plugin: a reference as on the command line, or an object with hooks.
        options: values or texts by option name.

    Raises:
        DataError: the data cannot be read.
        UsageError: an option or the plugin's name is wrong.
    """
    from .preset_choice import choose_presets
    from .run_data import open_run_data

    plugins = load_plugins(plugin)
    resolved = _resolve_options(plugins, options or {})
    run_data = open_run_data(plugins, resolved.options, origins=resolved.first_origins)
    return PluginData(choose_presets(resolved, run_data).options, run_data)


# ------------------------------------------------------------------------------- open a trained run


def open_trained(
    path: str,
    checkpoint: Optional[str] = None,
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
        UsageError: the folder holds no run, or names a plugin that is not trusted.
        CheckpointError: there is no such checkpoint, or it is damaged.
        ToolkitError: one of the run's plugins cannot be loaded.
    """
    folder = open_run(path)
    default = "best" if folder.read_manifest().get("best") else "last"
    which = default if checkpoint is None else checkpoint
    return _open_checkpoint(folder, lambda: folder.checkpoints.find(str(which), warn), trust)


def open_begun(folder: RunFolder) -> Trained:
    """Open a run that has begun, without a checkpoint: it may have none yet.

    Raises:
        UsageError: the folder names a plugin that is not trusted.
        CheckpointError: its manifest or its configuration is damaged.
        ToolkitError: one of the run's plugins cannot be loaded.
    """
    return _open_checkpoint(folder, lambda: None)


def _open_checkpoint(
    folder: RunFolder, find: Callable[[], Optional[Checkpoint]], trust: bool = False
) -> Trained:
    """Load the plugins of a run, then find its checkpoint."""
    from .config import read_run_config
    from .options import resolve

    config = read_run_config(folder)
    named_by = "" if trust else os.path.join(str(folder), "config.json")
    distributions = folder.read_distributions()
    with naming_copies(folder):
        plugins = Plugins.load(config.plugin, config.extensions, named_by, distributions)
    options = resolve(plugins.options(), [config.layer(folder.file("config.json"))]).options
    with waiting(f"Opening {folder}"):
        checkpoint = find()  # whose files are hashed
    return Trained(folder, plugins, options, folder.read_manifest(), checkpoint)


class Trained:
    """A run with one of its checkpoints; made by `open_trained`. `close` it, or use it in a `with`.

    Attributes:
        folder: the path of the run's folder.
        plugin: the name of the model plugin.
        options: the options that the run was trained with.
        data: the `DataSpec` of the run's examples.
        step: the step of the checkpoint.
        sha256: 64 hex digits that identify the checkpoint's files.
        summary: the object that `toolkit run --json` printed, or None if training did not finish.
    """

    def __init__(
        self,
        run_folder: RunFolder,
        plugins: Plugins,
        options: CoreOptions,
        manifest: Dict[str, Any],
        checkpoint: Optional[Checkpoint],
    ):
        from .data.spec import DataSpec

        self.run_folder = run_folder
        self.plugins = plugins
        self.options = options
        self.manifest = manifest
        self._checkpoint = checkpoint
        self.data = DataSpec.from_json(manifest["data"]["spec"])
        self._run_data: Optional[RunData] = None
        self._predictor: Optional[Evaluator] = None

    def __enter__(self) -> Trained:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    @property
    def folder(self) -> str:
        return self.run_folder.path

    @property
    def plugin(self) -> str:
        return self.plugins.model.name

    @property
    def checkpoint(self) -> Checkpoint:
        if self._checkpoint is None:
            raise CheckpointError(f"{self.run_folder} was opened without a checkpoint.")
        return self._checkpoint

    @property
    def step(self) -> int:
        return self.checkpoint.step

    @property
    def sha256(self) -> str:
        """The SHA-256 of the hashes of the checkpoint's files, in the order of the file names."""
        digest = hashlib.sha256()
        for _, file in sorted(self.checkpoint.files.items()):
            digest.update(file.sha256.encode("ascii"))
        return digest.hexdigest()

    @property
    def summary(self) -> Optional[Dict[str, Any]]:
        return self.manifest.get("summary")

    @property
    def predictor(self) -> Evaluator:
        """The `Evaluator` of mode "predict" with the checkpoint's weights; built on first use."""
        if self._predictor is None:
            with waiting("Loading the model"):
                predictor = self.evaluator("predict")
                try:
                    predictor.load(self.checkpoint.path)
                except BaseException:
                    predictor.close()
                    raise
            self._predictor = predictor
        return self._predictor

    def evaluator(self, mode: str, **more: Any) -> Evaluator:
        """A new `Evaluator` of this run, without weights; the caller loads and closes it.

        Args:
            mode: "eval" or "predict".
            more: `options` to use instead of the run's; other arguments of `Evaluator`.
        """
        from .inference.evaluator import Evaluator

        steps = self.manifest.get("total_steps")
        options = more.pop("options", self.options)
        return Evaluator(self.plugins, options, self.data, mode, self.folder, steps, **more)

    def predict(self, inputs: Any, batch_size: Optional[int] = None) -> Dict[str, np.ndarray]:
        """Predict with the checkpoint's weights.

        Args:
            inputs: examples [N, ...] of the data's shape and dtype, or a dict of them if features
                have names; if the plugin has the hook `inputs`, a dict of arrays with the names
                that the hook returned. Or a path of a file or of a folder of pictures, a picture of
                Pillow, or a list of either: they are scaled as `toolkit predict` scales them.
            batch_size: examples per call of the graph; None for the run's own.

        Returns:
            Each tensor of the plugin's `predict` by name, as an array [N, ...]. For paths and
            pictures also "class", the name of the class of each "label", if classes have names.

        Raises:
            DataError: the inputs do not fit the model, or a file cannot be read.
        """
        from .inference.predict import columns
        from .inference.predict_files import read_pictures

        examples = read_pictures(self, inputs)
        if examples is None:
            return self.predictor.predict(inputs, batch_size)
        predictions = self.predictor.predict(examples, batch_size)
        return columns(predictions, self.data.class_names, "features" in predictions)

    def sample(
        self,
        count: int = 64,
        seed: int = 0,
        label: Union[int, str, None] = None,
        **settings: Any,
    ) -> Dict[str, np.ndarray]:
        """Draw samples from the model, through the hook `sample` of its plugin.

        Args:
            count: the number of samples; sample i is the same for any count.
            seed: of all random numbers.
            label: the number or name of a class; None for a mixture.
            settings: values of the options that the plugin's hook `sample_options` declares.

        Returns:
            Arrays [count, ...] by name, such as "images", uint8 [count, H, W, C].

        Raises:
            UsageError: the plugin generates no samples, or there is no such class or setting.
        """
        import numpy as np

        sampler = self.sampler()
        plan = sampler.plan(count, seed, label, self.sample_settings(settings))
        parts = list(sampler.draw(plan.request))
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

    def sampler(self) -> Sampler:
        """What draws samples from the model. Raises UsageError if its plugin generates none."""
        from .inference.sampling import Sampler, check_draws_samples

        check_draws_samples(self.plugins)
        return Sampler(self.plugins, self.predictor)

    def sample_settings(
        self, settings: Mapping[str, Any], are_flags: bool = False
    ) -> SampleOptions:
        """Settings of the plugin's samples, typed.

        Args:
            settings: values or texts by name.
            are_flags: whether messages name flags.

        Raises:
            UsageError: there is no such setting, or its value is wrong.
        """
        from .inference.sample_options import sample_options_class
        from .options import resolve_class

        return resolve_class(sample_options_class(self.plugins), settings, are_flags)

    def split(self, name: str) -> Optional[Split]:
        """The `Split` of that name as the model gets it, or None. The data is opened once.

        Raises:
            DataError: the data is not that of the run.
        """
        return self.run_data().prepare_split(name)

    def example_inputs(self, count: int = 8) -> Optional[Dict[str, np.ndarray]]:
        """Some examples as `predict` takes them: features by name, or as "features".

        Args:
            count: how many at most, from the split "test" or else "train".

        Returns:
            None if the data cannot be opened.
        """
        from .data.structure import FEATURES
        from .errors import ToolkitError

        try:
            split = self.split("test") or self.split("train")
        except ToolkitError:
            return None
        assert split is not None  # every data set has "train"
        keys = [key for key in split.columns if key.startswith(FEATURES)]
        flat = split.read(slice(0, count), keys, is_longest=True)
        return {key.rpartition("/")[2]: array for key, array in flat.items()}

    def run_data(self) -> RunData:
        """The data of the run, opened once. Raises DataError if it is not that of the run."""
        from .run_data import open_run_data

        if self._run_data is None:
            run_data = open_run_data(self.plugins, self.options, recorded=self.data)
            self._run_data = self.check_data(run_data)
        return self._run_data

    def check_data(self, run_data: RunData) -> RunData:
        """Return the data if it is that of the run, with the same examples in each split.

        Raises:
            DataError: names what differs.
        """
        from .data.files.hash_list import LIST_FILE
        from .data.same_data import check_same_classes, check_same_data

        record = self.manifest["data"]
        check_same_classes(record, run_data.dataset)
        hint = "Put the same files back, or name other data (toolkit evaluate --data)."
        check_same_data(record, run_data.dataset, self.run_folder.file(LIST_FILE), hint)
        return run_data

    def close(self) -> None:
        """Release the predictor's session."""
        if self._predictor is not None:
            self._predictor.close()
            self._predictor = None
