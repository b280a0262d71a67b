"""Weights that a model starts from: of a run, of a checkpoint or of a SavedModel.

    source = open_weights(path, step, warn)              the checkpoint that a path names
    plan = plan_weights(source, in_graph, renames)       which variable gets which of its tensors
    read_weights(source, plan, in_graph)                 the values by the names of the variables

Slots of optimizers, the global step and what the toolkit counts are no weights.
"""

from __future__ import annotations

import contextlib
import os
import re
from typing import Callable, Dict, List, NamedTuple

import numpy as np

from ..compat import OBJECT_GRAPH, object_graph_names, tf
from ..errors import CheckpointError, UsageError, join_names
from ..files import open_regular_file
from .checkpoint_reader import has_files, hash_tensors, open_reader, read_tensors
from .entries import WEIGHTS, Parent
from .own_folders import is_run
from .run_folder import open_run
from .variables import STEP, Specs, VariableSpec, find_renamed_scope, is_counter, is_weight, pair

FORMS = (
    "Name the folder of a run, RUN@STEP, the prefix of a checkpoint's files, or the folder of a "
    "checkpoint or a SavedModel."
)
_KERAS_FILES = (".h5", ".hdf5", ".keras")
_FILE_ENDING = re.compile(r"\.(index|meta|data-\d{5}-of-\d{5})")
_LATEST = re.compile(r'^model_checkpoint_path: "(.*)"', re.MULTILINE)
_OBJECT_SLOTS = (".OPTIMIZER_SLOT", "optimizer/", "save_counter", "keras_api/metrics")  # in keys
_MANY = 20  # names in a sentence


class WeightSource(NamedTuple):
    """A checkpoint whose weights a model can start from.

    The names of a checkpoint of objects, as Keras writes it, are those of the variables in its
    model, as far as they are unique. Values are read at once: a process that trains a run may
    delete the checkpoint.
    """

    place: str  # as a user names it, for messages
    path: str  # the prefix of its files
    parent: Parent  # identifies it
    specs: Specs
    values: Dict[str, np.ndarray]
    plugin: str = ""  # of a run

    def describe(self) -> str:
        """The source with its step, for messages."""
        return self.place if self.parent.step is None else f"{self.place}, step {self.parent.step}"


class WeightPlan(NamedTuple):
    """Which variables of a graph get the weights of a source."""

    names: Dict[str, str]  # variable of the graph -> variable of the source
    fresh: List[str]  # those that keep their initial values, each with the reason if it is a shape
    unused: List[str]  # the weights of the source that no variable of the graph gets
    rename: str  # the flag --map that finds them, if they differ by the name of a scope alone

    def sentences(self, source: str) -> List[str]:
        """What the plan does; `source` names where the weights are from."""
        count, total = len(self.names), len(self.names) + len(self.fresh)
        result = [f"{count} of {total} variables start with the weights of {source}."]
        if self.fresh:
            result.append(f"Initialised: {join_names(self.fresh, _MANY)}.")
        if self.unused:
            result.append(f"Not used of {source}: {join_names(self.unused, _MANY)}.")
        if self.rename:
            result.append(f"They may only have another name: {self.rename}")
        return result


# ------------------------------------------------------------------------------------------- open


def open_weights(path: str, step: str, warn: Callable[[str], None]) -> WeightSource:
    """The checkpoint that a path names: that of a run's folder, of a checkpoint (the prefix of its
    files, one of them, or a folder with the file `checkpoint`), or of a SavedModel.

    `step` is of a run; "" for its best checkpoint, or else the last one. `warn` gets a message for
    each damaged one that is skipped. Raises UsageError if there is no such checkpoint, or its
    folder cannot be read; CheckpointError if it cannot be read itself.
    """
    if is_run(path):
        folder = open_run(path)
        which = "last" if folder.checkpoints.best() is None else "best"
        which = step.lstrip("0") or "0" if step else which
        checkpoint = folder.checkpoints.find(which, warn)
        source = _read_source(str(folder), checkpoint.path, folder.commits.head())
        plugins = folder.state()["plugins"]
        models = [name for name, facts in plugins.items() if facts.get("kind") == "model"]
        parent = source.parent._replace(step=checkpoint.step)
        return source._replace(parent=parent, plugin=", ".join(models))
    run, _, word = path.rpartition("@")
    if not os.path.lexists(path) and run and is_run(run):
        raise UsageError(
            f"{path}: the STEP of RUN@STEP is a number, and '{word}' is none.",
            hint=f"{run} without a step means its best checkpoint, or else its last one.",
        )
    try:
        prefix = _find_prefix(path)
    except OSError as error:  # such as a folder that may be entered, but not listed
        raise UsageError(f"{path} cannot be read: {error.strerror}.", path=path) from None
    if step:
        raise UsageError(f"{path}@{step} names a step of a run, and {path} is no run.", hint=FORMS)
    return _read_source(path, prefix, "")


def _read_source(place: str, path: str, head: str) -> WeightSource:
    """Read a checkpoint; `head` is the hash of the last entry of its run's commit log, or ""."""
    tensors = read_tensors(path)
    with open_reader(path) as reader:
        has_graph = OBJECT_GRAPH in tensors
        full_names = object_graph_names(reader.get_tensor(OBJECT_GRAPH)) if has_graph else {}
        dtypes = reader.get_variable_to_dtype_map()
    keys = _name_keys(tensors, full_names)
    specs = {
        name: VariableSpec(list(tensors[key].shape), tf.as_dtype(dtypes[key]).name)
        for name, key in keys.items()
    }
    name, step = os.path.basename(os.path.abspath(place)), None
    value = tensors.get(STEP)
    if value is not None and not value.shape and np.issubdtype(value.dtype, np.integer):
        step = int(value) if value >= 0 else None
    parent = Parent(WEIGHTS, name, step, hash_tensors(sorted(tensors.items())), head)
    return WeightSource(place, path, parent, specs, {n: tensors[key] for n, key in keys.items()})


def _name_keys(tensors: Dict[str, np.ndarray], full_names: Dict[str, str]) -> Dict[str, str]:
    """The name of each variable -> its key in a checkpoint. `full_names` has the names of the keys
    of a checkpoint of objects; one that variables with different values share is not used.
    """
    groups: Dict[str, List[str]] = {}
    for key in sorted(tensors):
        is_other = bool(full_names) and any(part in key for part in _OBJECT_SLOTS)
        if key != OBJECT_GRAPH and not is_other:
            groups.setdefault(full_names.get(key, key), []).append(key)
    names = {}
    for name, (first, *others) in groups.items():
        if all(np.array_equal(tensors[key], tensors[first]) for key in others):
            names[name] = first
        else:
            names.update({key.partition("/.ATTRIBUTES/")[0]: key for key in [first, *others]})
    return names


def _find_prefix(path: str) -> str:
    """The prefix of the files of the checkpoint that a path names, if that is no run."""
    if has_files(os.path.abspath(path)):
        return path
    if os.path.isdir(path):
        return _find_in_folder(path)
    stem = _FILE_ENDING.sub("", path)
    if stem != path and has_files(os.path.abspath(stem)):
        return stem
    if not os.path.isfile(path):
        message = f"{path}: there is no run, checkpoint or SavedModel."
        raise UsageError(message, hint=FORMS, path=path)
    if os.path.basename(path) in ("saved_model.pb", "saved_model.pbtxt"):
        return _find_in_folder(os.path.dirname(path))
    if path.lower().endswith(_KERAS_FILES):
        raise UsageError(
            f"{path} is a file of Keras, which is not read.",
            hint="Load it in Keras, and write a SavedModel: tf.saved_model.save(model, 'FOLDER').",
        )
    return path  # of the first format of checkpoints, one file; or the reader says what it is


def _find_in_folder(folder: str) -> str:
    """The prefix of the checkpoint in a folder."""
    if any(os.path.isfile(os.path.join(folder, "saved_model" + e)) for e in (".pb", ".pbtxt")):
        prefix = os.path.join(folder, "variables", "variables")
        if has_files(os.path.abspath(prefix)):
            return prefix
        raise UsageError(
            f"The SavedModel {folder} has no variables, so it has no weights.",
            hint="In a frozen graph they are constants; export the model with its variables.",
        )
    latest: List[str] = []  # what the file `checkpoint` names, then where the folder was moved
    path = os.path.join(folder, "checkpoint")
    with contextlib.suppress(OSError), open_regular_file(path) as file:
        latest = _LATEST.findall(file.read().decode("utf-8", "replace"))[:1]
    for name in [*latest, *map(os.path.basename, latest)]:
        if has_files(os.path.abspath(os.path.join(folder, name))):
            return os.path.join(folder, name)
    names = sorted(n[: -len(".index")] for n in os.listdir(folder) if n.endswith(".index"))
    prefixes = [os.path.join(folder, name) for name in names]
    if len(prefixes) == 1:
        return prefixes[0]
    if prefixes:
        raise UsageError(
            f"{folder} has {len(names)} checkpoints.",
            hint=f"Name one of them, such as {prefixes[-1]}: {join_names(names, _MANY)}.",
        )
    raise UsageError(f"{folder} contains no run, checkpoint or SavedModel.", hint=FORMS)


# ------------------------------------------------------------------------------------------- plan


def plan_weights(source: WeightSource, in_graph: Specs, renames: Dict[str, str]) -> WeightPlan:
    """Which variables of a graph, without slots, get which weights: those of one name and shape.
    Raises UsageError if a renaming names a variable that does not exist, or that has another shape;
    CheckpointError if no variable fits.
    """
    specs = source.specs
    targets = {name: spec for name, spec in in_graph.items() if not is_counter(name)}
    pairs = pair(specs, targets, renames)
    names = {new: old for new, old in pairs.items() if specs[old].fits(targets[new])}
    others = {new: old for new, old in pairs.items() if new not in names}
    for new, old in others.items():
        if renames.get(old) == new:
            raise UsageError(
                f"--map {old}={new}: '{old}' is {specs[old]}, and '{new}' is {targets[new]}.",
                hint="Omit it: a variable of another shape is initialised.",
            )
    used = set(pairs.values())
    fresh = sorted(name for name in targets if name not in names)
    unused = sorted(name for name in specs if name not in used and is_weight(name, specs))
    rename = find_renamed_scope(
        {name: specs[name] for name in unused},
        {name: targets[name] for name in fresh if name not in others},
    )
    if not names:
        hint = f"Rename them: {rename}"
        if not rename:
            hint = f"It has {join_names(unused) or 'no weights'}; the model has "
            hint += f"{join_names(fresh)}. Rename variables or scopes with --map OLD=NEW."
        plugin = f" (plugin {source.plugin})" if source.plugin else ""
        raise CheckpointError(
            f"No variable of {source.describe()}{plugin} has the name and the shape of a variable "
            "of the model.",
            hint=hint,
        )
    shapes = {new: f" {targets[new]} (there {specs[old]})" for new, old in others.items()}
    return WeightPlan(names, [name + shapes.get(name, "") for name in fresh], unused, rename)


def read_weights(source: WeightSource, plan: WeightPlan, in_graph: Specs) -> Dict[str, np.ndarray]:
    """The value of each variable of a plan, in the variable's dtype."""
    with np.errstate(over="ignore"):
        return {
            new: source.values[old].astype(tf.as_dtype(in_graph[new].dtype).as_numpy_dtype)
            for new, old in plan.names.items()
        }
