"""The model of a run with the weights of one of its checkpoints: its plugins, options and data."""

from __future__ import annotations

import hashlib
from typing import Any, Dict, Mapping, Optional, Union

import numpy as np

from ..data.same_data import LIST_FILE, check_same_classes, check_same_data
from ..data.spec import DataSpec
from ..data.structure import FEATURES
from ..display.waits import waiting
from ..errors import CheckpointError, ToolkitError, UsageError
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
    """What commands and `toolkit.Trained` use of a run that was trained with these plugins and
    options: the weights of a checkpoint, None if there is none yet. `close` it, or use it in a
    `with`.

    Attributes:
        manifest: the state of the run.
        data: the `DataSpec` of the run's examples.
        stored: that of the examples as they are stored, before the hook `convert`.
    """

    def __init__(
        self,
        run_folder: RunFolder,
        plugins: Plugins,
        options: CoreOptions,
        checkpoint: Optional[Checkpoint],
    ):
        self.run_folder = run_folder
        self.plugins = plugins
        self.options = options
        self.manifest: Dict[str, Any] = run_folder.state()
        self.data = DataSpec.from_json(self.manifest["data"]["spec"])
        self.stored = DataSpec.from_json(self.manifest["data"]["stored"])
        self._checkpoint = checkpoint
        self._run_data: Optional[RunData] = None
        self._predictor: Optional[Evaluator] = None

    def __enter__(self) -> TrainedModel:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def close(self) -> None:
        """Release the predictor's session."""
        if self._predictor is not None:
            self._predictor.close()
            self._predictor = None

    @property
    def plugin(self) -> str:
        """The name of the model plugin."""
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

    def set_tta(self, value: Optional[bool]) -> None:
        """Set the option `tta`, unless the value is None. Raises UsageError if there is none."""
        if value is None:
            return
        if "tta" not in type(self.options).model_fields:
            raise UsageError(
                f"The plugin '{self.plugin}' has no test-time augmentation.", hint="Omit --tta."
            )
        self.options = self.options.model_copy(update={"tta": value})

    # ------------------------------------------------------------------------------------- graphs

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
        """A new `Evaluator` of this run, without weights; the caller loads and closes it. More are
        the `options` to use instead of the run's, and other arguments of `Evaluator`.
        """
        steps = self.manifest.get("total_steps")
        options = more.pop("options", self.options)
        # As many threads within an op as the run had: the order of sums depends on them.
        sessions = self.run_folder.commits.sessions()
        machine = (sessions[-1].get("machine") if sessions else None) or {}
        threads = options.intra_op_threads or machine.get(THREADS, 0)
        options = options.model_copy(update={"intra_op_threads": threads})
        folder = self.run_folder.path
        return Evaluator(self.plugins, options, self.data, mode, folder, steps, **more)

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

    def sample(
        self, count: int, seed: int = 0, label: Union[int, str, None] = None, **settings: Any
    ) -> Dict[str, np.ndarray]:
        """Draw samples; arguments, result and errors are those of `toolkit.Trained.sample`."""
        sampler = self.sampler()
        plan = sampler.plan(count, seed, label, self.sample_settings(settings))
        parts = list(sampler.draw(plan.request))
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

    # --------------------------------------------------------------------------------------- data

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

    def example_inputs(self, count: int = 8) -> Optional[Dict[str, np.ndarray]]:
        """At most `count` examples as the model takes them, from the split "test" or else "train":
        features by name, or as "features". None if the data cannot be opened.
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
