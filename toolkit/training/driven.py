"""The door for drivers: a run whose steps come from outside of the training loop.

A *driver* is an installed program, found through the group `toolkit.drivers` of entry points, that
makes steps in a way of its own, for example by running somebody's script. A `DrivenRun` is the run
that it writes: folder, commit log, checkpoints, metrics and page are those of any run, so that
`runs`, `doctor`, `verify`, `report` and `compare` read it. Commands that have to execute what a run
is made of are the driver's (cli/app.py).
"""

from __future__ import annotations

import functools
import time
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from ..compat import summarize_tf_error, tf
from ..display.console import Console
from ..errors import ToolkitError, UsageError
from ..files import atomic_write, plain_path
from ..options import join_step, split_step
from ..plugins import require_trust
from ..storage import journal as journals
from ..storage.checkpoint_reader import fingerprint, read_tensors
from ..storage.entries import FINISHED, WEIGHTS
from ..storage.journal import Journal
from ..storage.own_folders import CONFIG
from ..storage.run_folder import DRIVER, RunFolder, new_path, open_run, reserve
from ..storage.variables import is_weight, variable_specs
from . import provenance
from .initial_weights import InitialWeights, open_initial_weights, read_parents
from .session_record import SessionRecord, TrainResult, list_summary_lines

_NO_SPEC = {"shape": [], "dtype": ""}


class Restart(NamedTuple):
    """The checkpoint from which a driven run continues: what the driver gave to `commit`."""

    step: int
    values: Dict[str, Any]
    tensors: Dict[str, np.ndarray]  # by name


class DrivenRun:
    """A run that a driver writes, from `begin` or `reopen`. Use it in a `with`, which locks its
    folder; the session begins with `begin_session`.

    Attributes:
        folder: the path of the run's folder.
        settings: what the driver keeps in config.json, by name.
        console: shows lines, and writes them to the console.log of the run.
        restart: the newest intact checkpoint; None if the run begins.
        journal: an append-only file of the driver, which a resume cuts back to the checkpoint.
        step: the last step that was committed.
    """

    def __init__(self, folder: RunFolder, driver: str, settings: Dict[str, Any]):
        self.driver, self.settings, self.console = driver, settings, Console()
        self.restart: Optional[Restart] = None
        self.step = 0
        self._folder = folder
        self.journal = Journal(folder)
        self._checkpoint: Any = None
        self._weights: Optional[InitialWeights] = None
        self._record = SessionRecord(folder, driver, self.console)
        self._start = time.monotonic()
        self._keep = int(settings.get("keep_checkpoints", 3))

    @classmethod
    def begin(
        cls, driver: str, settings: Mapping[str, Any], path: Optional[str], force: bool = False
    ) -> DrivenRun:
        """A new run; nothing is written before `begin_session`.

        Args:
            driver: its name in the group `toolkit.drivers`.
            settings: JSON values by name, for config.json. `keep_checkpoints` (default 3) is how
                many checkpoints are kept, `init_from` and `map` name the weights of
                `assign_initial_weights`; paths are absolute.
            path: of its folder; None for runs/DRIVER/TIME.
            force: rename a folder that is not empty.

        Raises:
            UsageError: the folder cannot be used.
        """
        folder = reserve(path or new_path("runs", driver), force)
        return cls(folder, driver, dict(settings))

    @classmethod
    def reopen(cls, path: str) -> DrivenRun:
        """A run that began before. Raises UsageError if no driver made it."""
        folder = open_run(path, allow_unstarted=True)
        config = folder.read_config()
        if not config.get(DRIVER):
            raise UsageError(f"{folder} is not the run of a driver.")
        settings = {n: v for n, v in config.items() if n not in ("plugin", "with", DRIVER)}
        return cls(folder, config[DRIVER], settings)

    def __str__(self) -> str:
        return str(self._folder)

    @property
    def folder(self) -> str:
        return self._folder.path

    @property
    def argument(self) -> str:
        """The folder as an argument of a command in a shell."""
        return self._folder.argument

    @property
    def is_finished(self) -> bool:
        """Whether nothing is left to do."""
        return not self._folder.is_new and self._folder.state()["status"] == FINISHED

    @property
    def last_step(self) -> int:
        """The last step that the log has."""
        return 0 if self._folder.is_new else int(self._folder.state()["step"])

    def sources_before(self) -> Dict[str, str]:
        """The hashes of the files that the last session ran, by path; {} before the first."""
        last = {} if self._folder.is_new else self._folder.commits.last_session()
        return dict((last.get("plugins") or {}).get(self.driver) or {})

    def require_trust(self, path: str, is_chosen: bool = False) -> None:
        """Check that a file, with the neighbours that it imports, may be executed: that this user
        chose it, ran it before, or trusts all. What the user chose is recorded.

        Raises:
            UsageError: it may not be executed, or does not exist.
        """
        require_trust(path, "" if is_chosen else self._folder.file(CONFIG))

    def __enter__(self) -> DrivenRun:
        if not self._folder.is_new:
            self._folder.lock()
            self.restart = self.newest()
            self.step = self.restart.step if self.restart else 0
        return self

    def __exit__(self, *_: Any) -> None:
        self.journal.close()
        self._folder.unlock()
        self.console.file.end()

    def newest(self) -> Optional[Restart]:
        """The newest intact checkpoint; None without one. Others may train the run meanwhile."""
        self._checkpoint = found = self._folder.checkpoints.newest(self.warn)
        if found is None:
            return None
        return Restart(found.step, journals.read_state(found)[1], read_tensors(found.path))

    def write_file(self, name: str, content: bytes) -> None:
        """Write a file of the driver into the folder, whole or not at all.

        Raises:
            RetryError: the folder cannot be written.
        """
        with self._folder.writing(), atomic_write(self._folder.file(name)) as file:
            file.write(content)

    def warn(self, text: str) -> None:
        """Show a warning."""
        self.console.warn(text)

    # --------------------------------------------------------------------------------- a session

    def begin_session(
        self, sources: Mapping[str, str], argv: Sequence[str], total_steps: int = 0, **facts: Any
    ) -> List[str]:
        """Write how the session begins, and cut everything back to `restart`.

        Args:
            sources: the hashes of the files that the driver runs, by path.
            argv: the command.
            total_steps: where the run ends; 0: where its program ends.
            facts: further values of the session, as JSON has them.

        Returns:
            Why the bits may not be those of an undisturbed run, a clause each.

        Raises:
            UsageError, CheckpointError: there are no weights where `init_from` says, or others
                than those with which the run began.
        """
        folder = self._folder
        self._open_weights()
        parent = {"parent": self._weights.parent._asdict()} if self._weights else {}
        config = {"plugin": self.driver, "with": [], DRIVER: self.driver, **self.settings}
        session = {
            "versions": provenance.versions(),
            "machine": provenance.machine(),
            "plugins": {self.driver: dict(sources)},
            "options": config,
            **parent,
            **facts,
        }
        run_facts = {
            "created": provenance.now(),
            "plugins": {self.driver: {"kind": DRIVER, "distribution": None, "sha256": {}}},
            "data": {"name": "", "sha256": {}, "stored": _NO_SPEC, "spec": _NO_SPEC, "ink": None},
            **parent,
        }
        changes = self._record.begin_session(config, argv, session, lambda: run_facts)
        start = self._checkpoint
        folder.write_config(config)
        folder.checkpoints.begin_session(start, self.warn, **session, total_steps=total_steps)
        self.journal.cut_back(journals.read_state(start)[0] if start else None)
        return changes

    def _open_weights(self) -> None:
        """Open the weights with which the run begins, unless a checkpoint has what came of them."""
        if self.restart is not None:
            return
        recorded = read_parents(self._folder).get(WEIGHTS)
        init_from, renames = self.settings.get("init_from"), self.settings.get("map", [])
        way_out = "Put them back, or start a new run: it has committed nothing yet."
        self._weights = open_initial_weights(init_from, renames, recorded, self.warn, way_out)
        if self._weights is not None and self._weights.parent.head:  # of a run, which may go on
            path, step = split_step(str(init_from))
            self.settings["init_from"] = join_step(path, step or self._weights.parent.step)

    def assign_initial_weights(self, session: Any) -> None:
        """Give the model in a session the weights that the setting `init_from` names, if it names
        any, and say which variable got which. To be called before the first step of a session of
        which `restart` is None. No op is added to the graph.

        Args:
            session: whose variables are initialised.

        Raises:
            CheckpointError: no variable of the graph fits.
        """
        weights, self._weights = self._weights, None
        if weights is None:
            return
        variables = session.graph.get_collection(tf.GraphKeys.GLOBAL_VARIABLES)
        variables = [v for v in variables if v.shape.is_fully_defined()]
        specs = variable_specs(variables)
        weights.plan([v for v in variables if is_weight(v.op.name, specs)])
        for sentence in filter(None, weights.sentences):
            self.console.log(f"note   {sentence}")
        weights.assign(session)

    def record(self, step: int, values: Mapping[str, float]) -> None:
        """Add a record of training to metrics.jsonl.

        Args:
            step: of which the values are.
            values: numbers by name.
        """
        record = {"step": step, "kind": "train", **{n: float(v) for n, v in values.items()}}
        self._folder.metrics.append(record)
        self.console.show_metrics(record)

    def commit(self, step: int, tensors: Mapping[str, np.ndarray], values: Dict[str, Any]) -> None:
        """Make durable what was journaled, recorded and trained up to a step.

        A kill at any moment leaves this checkpoint or the one before.

        Args:
            step: larger than that of the last commit.
            tensors: the values of all variables by name; a Saver can restore them.
            values: what the driver needs besides, as JSON has it.

        Raises:
            RetryError: the folder cannot be written.
        """
        folder = self._folder
        prefix = folder.checkpoints.prefix(step)
        with folder.writing(), plain_path(prefix) as plain:
            try:
                self.write_tensors(plain, tensors)
            except tf.errors.OpError as error:
                raise folder.write_error(summarize_tf_error(str(error))) from error
            journals.write_state(prefix, self.journal.make_durable(), values)
        folder.checkpoints.commit(step, time.time(), fingerprint(prefix), self._keep)
        self.step = step

    @staticmethod
    def write_tensors(prefix: str, tensors: Mapping[str, np.ndarray]) -> None:
        """Write arrays as a checkpoint, which a Saver can restore.

        Args:
            prefix: of the paths of its files.
            tensors: arrays by name; at least one.
        """
        names = sorted(tensors)
        arrays = [tensors[name] for name in names]
        write = _open_writer(tuple((n, x.dtype, x.shape) for n, x in zip(names, arrays)))
        write(prefix, arrays)

    # -------------------------------------------------------------------------------- its ending

    def finish(self, reason: str, is_done: bool = True) -> Dict[str, Any]:
        """Write how the run ended, and its page; return the summary.

        Args:
            reason: a clause.
            is_done: False if it only paused.
        """
        result = TrainResult(self.step, time.monotonic() - self._start, reason, is_done)
        self._record.end(result)
        summary = self._record.finish(result)
        page = self._record.write_page()
        for line in list_summary_lines(summary, page, f"toolkit resume {self.argument}"):
            self.console.log(line)
        return dict(summary, page=page)

    def fail(self, error: ToolkitError) -> None:
        """Write that the session failed, and say in the error how to continue."""
        if self._folder.is_new:
            return
        resume = f"Continue with: toolkit resume {self.argument}"
        seconds = time.monotonic() - self._start
        self._record.write_failure(error, self.step, seconds, resume)
        self.console.file.write(f"Error: {error}")
        self._record.write_page()


@functools.lru_cache(maxsize=1)  # the commits of a run have the same variables
def _open_writer(specs: Tuple[Tuple[str, np.dtype, Tuple[int, ...]], ...]) -> Any:
    """A callable that writes a checkpoint: from its prefix and the arrays of some names, dtypes and
    shapes.
    """
    with tf.Graph().as_default() as graph:
        prefix = tf.placeholder(tf.string, [])
        dtypes = [tf.string if d.kind in "OSU" else tf.as_dtype(d) for _, d, _ in specs]
        places = [tf.placeholder(dtype, spec[2]) for dtype, spec in zip(dtypes, specs)]
        save = tf.raw_ops.SaveV2(
            prefix=prefix,
            tensor_names=[name for name, _, _ in specs],
            shape_and_slices=[""] * len(specs),
            tensors=places,
        )
    session = tf.Session(graph=graph)
    return lambda path, arrays: session.run(save, {prefix: path, **dict(zip(places, arrays))})
