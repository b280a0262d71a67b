"""How a checkpoint differs from a model, told before a session exists, and which of its variables a
restore takes where a difference is meant.

    in_checkpoint, in_graph = read_variable_specs(path), variable_specs(tf.global_variables())
    difference(in_checkpoint, in_graph)                 in words, and the flags that allow it
    planned = plan(in_checkpoint, in_graph, changes)    or CheckpointError
    build_saver(planned, tf.global_variables()).restore(session, path)

Which names belong together, slots along with their variables, is said by `renaming`.
"""

from __future__ import annotations

import shlex
from typing import Any, Dict, Iterable, List, NamedTuple, Tuple

from ..compat import tf
from ..errors import CheckpointError
from .checkpoint_reader import open_reader
from .variable_map import find_likely_renames, map_texts, match_names

STEP = tf.GraphKeys.GLOBAL_STEP


class VariableSpec(NamedTuple):
    """A variable of a checkpoint or a graph. dtype: by name, as "float32"."""

    shape: List[int]
    dtype: str


class RestoreOptions(NamedTuple):
    """What the user allows. renames: from `parse_map`."""

    init_new: bool = False
    drop: bool = False
    renames: Dict[str, str] = {}  # old -> new; read only

    @classmethod
    def of_plan(cls, plan: Dict[str, Any]) -> RestoreOptions:
        """The options that allow a plan, from its `RestorePlan.as_json`, or from {}."""
        return cls(
            bool(plan.get("initialised")), bool(plan.get("dropped")), plan.get("renamed") or {}
        )


class Reshaped(NamedTuple):
    """A variable of another shape or dtype than in the checkpoint. name: in the graph."""

    name: str
    now: VariableSpec
    was: VariableSpec

    def __str__(self) -> str:
        if self.now.dtype == self.was.dtype:
            return f"{self.name} {self.now.shape} (was {self.was.shape})"
        return "{} {} {} (was {} {})".format(self.name, *(self.now + self.was))


class Difference(NamedTuple):
    """How a graph differs from a checkpoint; false where it fits. Lists are sorted by name.

    renamed: likely pairs (old, new), which are in neither added nor removed. slots: the pairs that
    go along with them. maps: the texts for `--map` that make both.
    """

    additions: List[str]
    removals: List[str]
    reshapes: List[Reshaped]
    renames: List[Tuple[str, str]]
    slots: List[Tuple[str, str]]
    maps: List[str]

    def __bool__(self) -> bool:
        return bool(self.additions or self.removals or self.reshapes or self.renames)

    def sentence(self) -> str:
        """All in one sentence, up to five names a kind; '' where it fits."""
        parts = [f"{kind} {_some(names)}" for kind, names in self._kinds()]
        if not parts:
            return ""
        return f"The model differs from its checkpoint: {'; '.join(parts)}."

    def lines(self, most: int = 20) -> List[str]:
        """A line for each kind of difference, up to `most` names a kind."""
        kinds = self._kinds() + ([("their slots", _told(self.slots))] if self.slots else [])
        return [f"{kind}: {_some(names, most)}" for kind, names in kinds]

    def hint(self) -> str:
        """The flags that allow all of it, in a sentence; '' where it fits."""
        flags = [f"--map {shlex.quote(text)}" for text in self.maps]
        flags += ["--init-new"] if self.additions or self.reshapes else []
        flags += ["--drop"] if self.removals or self.reshapes else []
        if not flags:
            return ""
        return (
            f"Allow it with {' '.join(flags)}, or resume with the options that the run was "
            "started with."
        )

    def without(self, changes: RestoreOptions) -> Difference:
        """What is left of it where the flags of the changes are given."""
        both = changes.init_new and changes.drop
        return Difference(
            [] if changes.init_new else self.additions,
            [] if changes.drop else self.removals,
            [] if both else self.reshapes,
            [] if both else self.renames,
            [] if both else self.slots,
            [] if both else self.maps,
        )

    def _kinds(self) -> List[Tuple[str, List[str]]]:
        """Kinds and names, of those that there are."""
        kinds = [
            ("added", self.additions),
            ("removed", self.removals),
            ("reshaped", [str(reshaped) for reshaped in self.reshapes]),
            ("likely renamed", _told(self.renames)),
        ]
        return [(kind, names) for kind, names in kinds if names]


class RestorePlan(NamedTuple):
    """What a restore does. restored: name in the checkpoint -> name in the graph.

    initialised: names in the graph that keep their initial values. dropped: names in the checkpoint
    whose values are not used. A reshaped variable is in both.
    """

    mapping: Dict[str, str]
    init_names: List[str]
    drop_names: List[str]

    @property
    def is_plain(self) -> bool:
        """Whether each variable is restored under its own name, as any Saver does it."""
        return not (self.renames or self.init_names or self.drop_names)

    @property
    def renames(self) -> Dict[str, str]:
        """Those of `mapping` whose names differ."""
        return {old: new for old, new in sorted(self.mapping.items()) if old != new}

    def as_json(self) -> Dict[str, Any]:
        """For the records of the run; `mapping` is how many keep their names."""
        return {
            "restored": len(self.mapping) - len(self.renames),
            "renamed": self.renames,
            "initialised": self.init_names,
            "dropped": self.drop_names,
        }

    def sentence(self) -> str:
        """What changes, a sentence for each kind; '' for a plain restore."""
        parts = [
            _counted("renamed", _told(self.renames.items())),
            _counted("new and initialised", self.init_names),
            _counted("dropped", self.drop_names),
        ]
        return " ".join(part for part in parts if part)


# -------------------------------------------------------------------------------------- both sides


def read_variable_specs(path: str) -> Dict[str, VariableSpec]:
    """The variables of the checkpoint with this prefix, by name.

    Raises CheckpointError where it cannot be read.
    """
    reader = open_reader(path)
    shapes, dtypes = reader.get_variable_to_shape_map(), reader.get_variable_to_dtype_map()
    return {
        n: VariableSpec(list(shape), tf.as_dtype(dtypes[n]).name) for n, shape in shapes.items()
    }


def variable_specs(variables: Iterable[Any]) -> Dict[str, VariableSpec]:
    """The same of variables of a graph, by the names under which a Saver stores them."""
    return {v.op.name: VariableSpec(v.shape.as_list(), v.dtype.base_dtype.name) for v in variables}


def difference(
    in_checkpoint: Dict[str, VariableSpec], in_graph: Dict[str, VariableSpec], partial: bool = False
) -> Difference:
    """How the graph differs from the checkpoint that should fill it.

    partial: variables of the checkpoint that the graph does not ask for are no difference.
    """
    return _difference(in_checkpoint, in_graph, match_names(in_checkpoint, in_graph, {}), partial)


def plan_restore(
    in_checkpoint: Dict[str, VariableSpec],
    in_graph: Dict[str, VariableSpec],
    changes: RestoreOptions,
) -> RestorePlan:
    """What a restore with these changes does.

    A renaming that an earlier restore made already has no effect, so that a command may be given
    again; but where the model has a variable of the old name too, it is made each time. Raises
    CheckpointError where the changes do not cover the difference, and where the global step would
    not be restored; UsageError for a renaming of what is not there.
    """
    pairs = match_names(in_checkpoint, in_graph, changes.renames)
    restored = {o: n for o, n in sorted(pairs.items()) if in_checkpoint[o] == in_graph[n]}
    if STEP not in restored.values():
        raise CheckpointError(
            f"The checkpoint has nothing that the model's '{STEP}' could be restored from.",
            hint=f"Say which variable counts its steps with --map NAME={STEP}, or start a new run.",
        )
    left = _difference(in_checkpoint, in_graph, pairs).without(changes)
    if left:
        raise CheckpointError(left.sentence(), hint=left.hint())
    kept = set(restored.values())
    return RestorePlan(
        restored,
        sorted(name for name in in_graph if name not in kept),
        sorted(name for name in in_checkpoint if name not in restored),
    )


def build_saver(plan: RestorePlan, variables: Iterable[Any]) -> tf.train.Saver:
    """A Saver of the current graph that restores what the plan says, and nothing else.

    variables: those that `variable_specs` was given. The others keep what they hold.
    """
    by_name = {v.op.name: v for v in variables}
    return tf.train.Saver({old: by_name[new] for old, new in plan.mapping.items()}, max_to_keep=0)


def _difference(in_checkpoint, in_graph, pairs: Dict[str, str], partial=False) -> Difference:
    """What the pairs leave over, and those whose shapes or dtypes differ."""
    taken = set(pairs.values())
    added = {name for name in in_graph if name not in taken}
    removed = {name for name in in_checkpoint if name not in pairs}
    reshaped = [
        Reshaped(new, in_graph[new], in_checkpoint[old])
        for old, new in pairs.items()
        if in_checkpoint[old] != in_graph[new]
    ]
    leading, slots = find_likely_renames(in_checkpoint, in_graph, removed, added)
    renamed = dict(leading, **slots)
    return Difference(
        sorted(added - set(renamed.values())),
        [] if partial else sorted(removed - set(renamed)),
        sorted(reshaped),
        sorted(leading.items(), key=lambda pair: pair[1]),
        sorted(slots.items(), key=lambda pair: pair[1]),
        map_texts(in_checkpoint, in_graph, leading, renamed),
    )


# ------------------------------------------------------------------------------------------- words


def _told(renamed: Iterable[Tuple[str, str]]) -> List[str]:
    return [f"{new} (was {old})" for old, new in renamed]


def _counted(kind: str, names: List[str]) -> str:
    if not names:
        return ""
    noun = "variable is" if len(names) == 1 else "variables are"
    return f"{len(names)} {noun} {kind}: {_some(names)}."


def _some(names: List[str], most: int = 5) -> str:
    text = ", ".join(names[:most])
    return text + (f" and {len(names) - most} more" if len(names) > most else "")
