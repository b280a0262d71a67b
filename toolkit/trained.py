"""A trained run, opened: its facts, its examples, and its predictions."""

from __future__ import annotations

import hashlib
from typing import Any, Callable, Dict, Optional

from .storage.run_folder import open_run


def open_trained(
    path: str, checkpoint: Optional[str] = None, warn: Callable[[str], None] = lambda text: None
) -> Trained:
    """Open a run's folder with one of its checkpoints.

    checkpoint: "best", "last" or a step; None for the best where there is one, else the last.
    warn: is told of a damaged checkpoint that is passed over. Raises UsageError, CheckpointError,
    or what loading the run's plugins raises.
    """
    from .config import read_run_config
    from .options import resolve
    from .plugins import Plugins

    folder = open_run(path)
    config = read_run_config(folder)
    plugins = Plugins.load(config.plugin, config.extensions)
    options = resolve(plugins.options(), [(folder.file("config.json"), config.values)]).options
    manifest = folder.read_manifest()
    which = checkpoint or ("best" if manifest.get("best") else "last")
    return Trained(folder, plugins, options, manifest, folder.checkpoint(str(which), warn))


class Trained:
    """A run with one of its checkpoints. Made by `open_trained`; `close` it, or use it in a `with`.

    folder: its path. plugin: the name of its model plugin. options: as it was trained with. data:
    the `DataSpec` of its examples. step, sha256: of the checkpoint. summary: what the run told
    at its end, or None.
    """

    def __init__(self, run_folder, plugins, options, manifest: Dict[str, Any], checkpoint):
        from .data.examples import DataSpec

        self.run_folder = run_folder
        self.plugins = plugins
        self.options = options
        self.manifest = manifest
        self.checkpoint = checkpoint
        self.data = DataSpec.from_json(manifest["data"]["spec"])
        self._inputs: Any = None
        self._predictor: Any = None

    def __enter__(self) -> Trained:
        return self

    def __exit__(self, *_) -> None:
        self.close()

    @property
    def folder(self) -> str:
        return self.run_folder.path

    @property
    def plugin(self) -> str:
        return self.plugins.model.name

    @property
    def step(self) -> int:
        return self.checkpoint.step

    @property
    def sha256(self) -> str:
        """64 hex digits over the hashes of the checkpoint's files, in the order of their names."""
        digest = hashlib.sha256()
        for _, facts in sorted(self.checkpoint.files.items()):
            digest.update(facts["sha256"].encode("ascii"))
        return digest.hexdigest()

    @property
    def summary(self) -> Optional[Dict[str, Any]]:
        return self.manifest.get("summary")

    @property
    def predictor(self):
        """The `Evaluator` of mode "predict" that holds the checkpoint; made when first needed."""
        if self._predictor is None:
            made = self.evaluator("predict")
            try:
                made.load(self.checkpoint.path)
            except BaseException:
                made.close()
                raise
            self._predictor = made
        return self._predictor

    def evaluator(self, mode: str, **more: Any):
        """A new `Evaluator` of this run without its checkpoint; the caller closes it."""
        from .inference.evaluator import Evaluator

        steps = self.manifest.get("total_steps")
        options = more.pop("options", self.options)
        return Evaluator(self.plugins, options, self.data, mode, self.folder, steps, **more)

    def predict(self, inputs, batch_size: Optional[int] = None) -> Dict[str, Any]:
        """Each tensor of the plugin's `predict` as an array, batch first.

        inputs: examples [N, ...] of the data's shape and dtype; where the plugin's hook `inputs`
        says what the model is fed, a dict of arrays of these names. Raises DataError for inputs
        that do not fit.
        """
        return self.predictor.predict(inputs, batch_size)

    def split(self, name: str):
        """The `Split` of that name as the model sees it, or None; the data is opened once."""
        from .inputs import open_inputs

        if self._inputs is None:
            self._inputs = open_inputs(self.plugins, self.options)
        return self._inputs.prepared(name)

    def close(self) -> None:
        if self._predictor is not None:
            self._predictor.close()
            self._predictor = None
