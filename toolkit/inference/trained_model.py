"""A trained run with one of its checkpoints: `toolkit.Trained`, which commands use as well."""

from __future__ import annotations

import hashlib
import math
import os
from typing import Any, Dict, Iterable, List, Mapping, Optional, Union

import numpy as np

from ..data.examples import Split
from ..data.same_data import LIST_FILE, check_same_classes, check_same_data
from ..data.spec import DataSpec
from ..data.structure import FEATURES
from ..display.waits import waiting
from ..errors import ToolkitError, UsageError
from ..graph.build import build_inference
from ..graph.run import Run
from ..options import CoreOptions, SampleOptions, resolve_class
from ..plugins import Plugins
from ..run_data import RunData, open_run_data
from ..storage.commit_log import Checkpoint
from ..storage.run_folder import RunFolder
from ..storage.session_changes import THREADS
from .evaluator import Evaluator
from .sample_options import sample_options_class
from .sampling import Sampler, check_draws_samples


class TrainedModel:
    """What the core and commands use of a `Trained` besides: its plugins, graphs and data. `stored`
    is the `DataSpec` of the examples before the hook `convert`; `saved` is the record of the
    checkpoint, None if the run has none yet.
    """

    def __init__(
        self,
        run_folder: RunFolder,
        plugins: Plugins,
        options: CoreOptions,
        saved: Optional[Checkpoint],
    ):
        self.run_folder, self.plugins, self.options = run_folder, plugins, options
        self.folder, self.plugin = run_folder.path, plugins.model.name
        self.manifest: Dict[str, Any] = run_folder.state()
        self.data = DataSpec.from_json(self.manifest["data"]["spec"])
        self.stored = DataSpec.from_json(self.manifest["data"]["stored"])
        self.saved = saved
        self.step, self.checkpoint = (saved.step, saved.path) if saved else (0, "")
        self.summary: Optional[Dict[str, Any]] = self.manifest.get("summary")
        self.test = self._of_step([(self.summary or {}).get("test")])
        self.validation = self._of_step((self.manifest.get("validation") or {}).values())
        recorded = (self.test or self.validation or {}).get("metrics", {})
        self.metrics: Dict[str, float] = {
            name: math.nan if value is None else value for name, value in recorded.items()
        }
        self._run_data: Optional[RunData] = None
        self._predictor: Optional[Evaluator] = None

    def _of_step(self, results: Iterable[Any]) -> Optional[Dict[str, Any]]:
        """The first result that is of the checkpoint."""
        return next((each for each in results if each and each.get("step") == self.step), None)

    @property
    def sha256(self) -> str:
        """The SHA-256 of the hashes of the checkpoint's files, in the order of the file names."""
        digest = hashlib.sha256()
        for _, file in sorted(self.saved.files.items() if self.saved else ()):
            digest.update(file.sha256.encode("ascii"))
        return digest.hexdigest()

    def set_tta(self, value: Optional[bool]) -> None:
        """Set the option `tta`, unless the value is None. Raises UsageError if there is none."""
        if value is None:
            return
        if "tta" not in type(self.options).model_fields:
            raise UsageError(
                f"The plugin '{self.plugin}' has no test-time augmentation.", hint="Omit --tta."
            )
        self.options = self.options.model_copy(update={"tta": value})

    @property
    def predictor(self) -> Evaluator:
        """The `Evaluator` of mode "predict" with the checkpoint's weights; built on first use."""
        if self._predictor is None:
            with waiting("Loading the model"):
                predictor = self.evaluator("predict")
                try:
                    predictor.load(self.checkpoint)
                except BaseException:
                    predictor.close()
                    raise
            self._predictor = predictor
        return self._predictor

    def evaluator(self, mode: str, **more: Any) -> Evaluator:
        """A new `Evaluator` of this run, without weights; the caller loads and closes it. More are
        the `options` to use instead of the run's, and the `splits` of `Run`.
        """
        steps = self.manifest.get("total_steps")
        options = more.pop("options", self.options)
        # As many threads within an op as the run had: the order of sums depends on them.
        machine = self.run_folder.commits.last_session().get("machine") or {}
        threads = options.intra_op_threads or machine.get(THREADS, 0)
        options = options.model_copy(update={"intra_op_threads": threads})
        run = Run(mode, options, self.data, self.run_folder.path, steps, **more)
        return Evaluator(self.plugins, build_inference(self.plugins, run))

    def sampler(self) -> Sampler:
        """What draws samples from the model. Raises UsageError if its plugin generates none."""
        check_draws_samples(self.plugins)
        return Sampler(self.plugins, self.predictor)

    def sample_settings(
        self, settings: Mapping[str, Any], are_flags: bool = False
    ) -> SampleOptions:
        """Settings of the plugin's samples, typed, from values or texts by name. Raises UsageError,
        which names flags if `are_flags`, if there is no such setting, or its value is wrong.
        """
        return resolve_class(sample_options_class(self.plugins), settings, are_flags)

    def run_data(self) -> RunData:
        """The data of the run, opened once. Raises DataError if it is not that of the run."""
        if self._run_data is None:
            run_data = open_run_data(self.plugins, self.options, recorded=self.data)
            self._run_data = self.check_data(run_data)
        return self._run_data

    def check_data(self, run_data: RunData) -> RunData:
        """Return the data if it is that of the run, with the same examples in each split. Raises a
        DataError that names what differs.
        """
        record = self.manifest["data"]
        check_same_classes(record, run_data.dataset)
        hint = "Put the same files back, or name other data (toolkit evaluate --data)."
        check_same_data(record, run_data.dataset, self.run_folder.file(LIST_FILE), hint)
        return run_data


class Trained(TrainedModel):
    """A trained run with one of its checkpoints, as `train` and `open_trained` return it.

    It holds a session once it has predicted; `close` it, or use it in a `with`, to release that.

    Attributes:
        folder: the path of the run's folder.
        plugin: the name of the model plugin.
        options: the options that the run was trained with.
        data: the `DataSpec` of the run's examples.
        step: the step of the checkpoint.
        checkpoint: the prefix of its files, as `tf.train.load_checkpoint` takes it.
        sha256: 64 hex digits that identify the checkpoint's files.
        summary: the object that `toolkit run --json` printed, or None if training did not finish.
        test, validation: what the run measured of this checkpoint on the split of that name, as
            `evaluate` returns it; None if it did not.
        metrics: of the test, or else of the validation: name -> value; NaN if it is not finite.
    """

    def __enter__(self) -> Trained:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __repr__(self) -> str:
        metrics = "".join(f", {name} {value:.4g}" for name, value in self.metrics.items())
        return f"<Trained {self.plugin} {self.run_folder}, step {self.step}{metrics}>"

    def close(self) -> None:
        """Release the session; the next prediction opens another."""
        if self._predictor is not None:
            self._predictor.close()
            self._predictor = None

    def predict(self, inputs: Any, batch_size: Optional[int] = None) -> Dict[str, np.ndarray]:
        """Predict with the checkpoint's weights.

        Args:
            inputs: examples [N, ...] of the data's shape and dtype, or one example; a dict of them
                if features have names; if the plugin has the hook `inputs`, a dict of arrays with
                the names that the hook returned. A table of pandas, whose columns are taken by
                their names if the run was trained on a table. Or a path of a file or of a folder of
                pictures, a picture of Pillow, or a list of either: they are scaled as `toolkit
                predict` scales them.
            batch_size: examples per call of the graph; None for the run's own.

        Returns:
            Each tensor of the plugin's `predict` by name, as an array [N, ...]. Also "class", the
            name of the class of each "label", if classes have names.

        Raises:
            DataError: the inputs do not fit the model, or a file cannot be read.
            UsageError: the batch size is less than 1.
        """
        from .predict import as_examples, columns

        examples = as_examples(self, inputs)
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
            seed: of all random numbers, an integer in [0, 2**32).
            label: the number or name of a class; None for a mixture.
            settings: values of the options that the plugin's hook `sample_options` declares.

        Returns:
            Arrays [count, ...] by name, such as "images", uint8 [count, H, W, C].

        Raises:
            UsageError: the plugin generates no samples, or there is no such class, seed or setting.
        """
        sampler = self.sampler()
        plan = sampler.plan(count, seed, label, self.sample_settings(settings))
        parts = list(sampler.draw(plan.request))
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

    def evaluate(self, split: Optional[str] = None, data: Any = None) -> Dict[str, Any]:
        """Evaluate the model on a split, and write the plugin's reports into the run's folder.

        Args:
            split: its name; None for "test", or for all of `data` if it has no splits.
            data: what to evaluate in place of the run's own data: a source such as "images:DIR",
                or arrays as for `train`. Classes are matched by name.

        Returns:
            What `toolkit evaluate --json` prints: "metrics" (name -> value), "intervals" (name ->
            ends and level of those that have one), "split", "step", "examples", "reports", ...

        Raises:
            DataError: the data does not fit the model, or is not that of the run.
            UsageError: there is no such split.
        """
        from ..data.arrays.kept import keep_arrays
        from .evaluation import evaluate

        if isinstance(data, (str, os.PathLike)):
            data = os.fspath(data)
        elif data is not None:
            data = keep_arrays(data, self.options.label_kind)
        return evaluate(self, split=split, data=data)

    def export(self, folder: str) -> Dict[str, Any]:
        """Write the model as a SavedModel, load it again, and compare its predictions.

        Args:
            folder: a new or empty folder.

        Returns:
            What `toolkit export --json` prints: "signature", "inputs", "outputs", ...

        Raises:
            UsageError: the folder is not empty, or may not be written.
            CheckFailed: the predictions differ; nothing is written.
        """
        from .export import export

        result = export(self.predictor, folder, self.example_inputs)
        return dict(result, step=self.step)

    def history(self) -> List[Dict[str, Any]]:
        """What the run logged, by step: "step", "kind" ("train" or "eval") and values by name."""
        return self.run_folder.metrics.read()

    def split(self, name: str) -> Optional[Split]:
        """The `Split` "train", "validation" or "test" as the model gets it, or None.

        Raises:
            DataError: the data is not that of the run.
        """
        return self.run_data().prepare_split(name)

    def example_inputs(self, count: int = 8) -> Optional[Dict[str, np.ndarray]]:
        """Some examples as `predict` takes them, or None if the data cannot be opened.

        Args:
            count: how many at most, from the split "test" or else "train".
        """
        try:
            run_data = self.run_data()
            split = run_data.prepare_split("test") or run_data.prepare_split("train")
        except ToolkitError:
            return None
        assert split is not None  # every data set has "train"
        keys = [key for key in split.columns if key.startswith(FEATURES)]
        flat = split.read(slice(0, count), keys, is_longest=True)
        return {key.rpartition("/")[2]: array for key, array in flat.items()}
