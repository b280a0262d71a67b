"""Compare a checkpoint with a model's variables, and plan a partial restore if the difference is
intended. No session is needed.

    in_checkpoint, in_graph = read_variable_specs(path), variable_specs(tf.global_variables())
    difference(in_checkpoint, in_graph)                     in words, with the flags that allow it
    plan = plan_restore(in_checkpoint, in_graph, options)   raises CheckpointError
    build_saver(plan, tf.global_variables()).restore(session, path)

`variable_map` decides which names belong together, including the slots of renamed variables.
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
    """The shape and dtype of a variable in a checkpoint or a graph."""

    shape: List[int]
    dtype: str  # by name, such as "float32"


Specs = Dict[str, VariableSpec]  # by the name of the variable


class RestoreOptions(NamedTuple):
    """Which differences between checkpoint and model the user allows."""

    init_new: bool = False  # variables that only the model has
    drop: bool = False  # variables that only the checkpoint has
    renames: Dict[str, str] = {}  # old -> new, from `parse_map`; read only

    @classmethod
    def of_plan(cls, plan: Dict[str, Any]) -> RestoreOptions:
        """The options that allow a plan.

        Args:
            plan: from `RestorePlan.as_json`, or {}.
        """
        return cls(
            bool(plan.get("initialised")), bool(plan.get("dropped")), plan.get("renamed") or {}
        )


class Reshape(NamedTuple):
    """A variable whose shape or dtype differs between checkpoint and graph."""

    name: str  # in the graph
    now: VariableSpec  # in the graph
    was: VariableSpec  # in the checkpoint

    def __str__(self) -> str:
        now, was = self.now, self.was
        if now.dtype == was.dtype:
            return f"{self.name} {now.shape} (was {was.shape})"
        return f"{self.name} {now.shape} {now.dtype} (was {was.shape} {was.dtype})"


class Difference(NamedTuple):
    """How a graph differs from a checkpoint; false if it does not. Lists are sorted by name."""

    additions: List[str]
    removals: List[str]
    reshapes: List[Reshape]
    renames: List[Tuple[str, str]]  # likely pairs (old, new), in neither additions nor removals
    slots: List[Tuple[str, str]]  # the pairs that follow from the renames
    maps: List[str]  # the texts for --map that perform both

    def __bool__(self) -> bool:
        return bool(self.additions or self.removals or self.reshapes or self.renames)

    def sentence(self) -> str:
        """The difference as a sentence, with up to five names per kind; '' if there is none."""
        parts = [f"{kind} {join_names(names)}" for kind, names in self._kinds()]
        if not parts:
            return ""
        return f"The model differs from its checkpoint: {'; '.join(parts)}."

    def lines(self, limit: int = 20) -> List[str]:
        """A line per kind of difference, with up to `limit` names each."""
        kinds = self._kinds()
        if self.slots:
            kinds.append(("their slots", _format_renames(self.slots)))
        return [f"{kind}: {join_names(names, limit)}" for kind, names in kinds]

    def hint(self) -> str:
        """The flags that allow the difference, as a sentence; '' if there is none."""
        flags = [f"--map {shlex.quote(text)}" for text in self.maps]
        flags += ["--init-new"] if self.additions or self.reshapes else []
        flags += ["--drop"] if self.removals or self.reshapes else []
        if not flags:
            return ""
        return (
            f"Allow it with {' '.join(flags)}, or resume with the options with which the run was "
            "started."
        )

    def remainder(self, options: RestoreOptions) -> Difference:
        """The part of the difference that the options do not allow."""
        both = options.init_new and options.drop
        return Difference(
            [] if options.init_new else self.additions,
            [] if options.drop else self.removals,
            [] if both else self.reshapes,
            [] if both else self.renames,
            [] if both else self.slots,
            [] if both else self.maps,
        )

    def _kinds(self) -> List[Tuple[str, List[str]]]:
        """The kinds of difference that exist, with the names of each."""
        kinds = [
            ("added", self.additions),
            ("removed", self.removals),
            ("reshaped", [str(reshape) for reshape in self.reshapes]),
            ("likely renamed", _format_renames(self.renames)),
        ]
        return [(kind, names) for kind, names in kinds if names]


class RestorePlan(NamedTuple):
    """What a restore does with each variable. A reshaped variable is initialised and dropped."""

    mapping: Dict[str, str]  # name in the checkpoint -> name in the graph
    init_names: List[str]  # in the graph: these keep their initial values
    drop_names: List[str]  # in the checkpoint: the values of these are not used

    @property
    def is_plain(self) -> bool:
        """Whether each variable is restored under its own name, as any Saver does it."""
        return not (self.renames or self.init_names or self.drop_names)

    @property
    def renames(self) -> Dict[str, str]:
        """The part of `mapping` in which the names differ."""
        return {old: new for old, new in sorted(self.mapping.items()) if old != new}

    def as_json(self) -> Dict[str, Any]:
        """The plan for the records of the run; "restored" counts the unchanged names."""
        return {
            "restored": len(self.mapping) - len(self.renames),
            "renamed": self.renames,
            "initialised": self.init_names,
            "dropped": self.drop_names,
        }

    def sentence(self) -> str:
        """What changes, a sentence for each kind; '' for a plain restore."""
        parts = [
            _count_variables("renamed", _format_renames(self.renames.items())),
            _count_variables("new and initialised", self.init_names),
            _count_variables("dropped", self.drop_names),
        ]
        return " ".join(part for part in parts if part)


# -------------------------------------------------------------------------------------- both sides


def read_variable_specs(path: str) -> Specs:
    """The specs of the variables in a checkpoint.

    Args:
        path: the prefix of its files.

    Raises:
        CheckpointError: it cannot be read.
    """
    with open_reader(path) as reader:
        shapes, dtypes = reader.get_variable_to_shape_map(), reader.get_variable_to_dtype_map()
    return {
        name: VariableSpec(list(shape), tf.as_dtype(dtypes[name]).name)
        for name, shape in shapes.items()
    }


def variable_specs(variables: Iterable[tf.Variable]) -> Specs:
    """The specs of variables in a graph, by the names under which a Saver stores them."""
    return {v.op.name: VariableSpec(v.shape.as_list(), v.dtype.base_dtype.name) for v in variables}


def difference(in_checkpoint: Specs, in_graph: Specs, partial: bool = False) -> Difference:
    """How a graph differs from the checkpoint that is to be restored.

    Args:
        in_checkpoint: from `read_variable_specs`.
        in_graph: from `variable_specs`.
        partial: whether the checkpoint may contain more variables than the graph.
    """
    pairs = match_names(in_checkpoint, in_graph, {})
    whole = _find_difference(in_checkpoint, in_graph, pairs)
    return whole._replace(removals=[]) if partial else whole


def plan_restore(in_checkpoint: Specs, in_graph: Specs, options: RestoreOptions) -> RestorePlan:
    """What a restore with these options does.

    A renaming that an earlier restore performed already has no effect, so that a command can be
    repeated; but if the model also has a variable with the old name, it is performed each time.

    Args:
        in_checkpoint: from `read_variable_specs`.
        in_graph: from `variable_specs`.
        options: which differences are allowed.

    Raises:
        CheckpointError: the options do not allow the whole difference, or the global step would
            not be restored.
        UsageError: a renaming names a variable that does not exist.
    """
    pairs = match_names(in_checkpoint, in_graph, options.renames)
    mapping = {o: n for o, n in sorted(pairs.items()) if in_checkpoint[o] == in_graph[n]}
    if STEP not in mapping.values():
        raise CheckpointError(
            f"The checkpoint has no variable from which the model's '{STEP}' can be restored.",
            hint=f"Name the variable that counts its steps with --map NAME={STEP}, or start a new "
            "run.",
        )
    remainder = _find_difference(in_checkpoint, in_graph, pairs).remainder(options)
    if remainder:
        raise CheckpointError(remainder.sentence(), hint=remainder.hint())
    targets = set(mapping.values())
    return RestorePlan(
        mapping,
        sorted(name for name in in_graph if name not in targets),
        sorted(name for name in in_checkpoint if name not in mapping),
    )


def build_saver(plan: RestorePlan, variables: Iterable[tf.Variable]) -> tf.train.Saver:
    """A Saver of the current graph that restores according to a plan.

    Args:
        plan: from `plan_restore`.
        variables: those of the graph; the ones that are not restored keep their values.
    """
    by_name = {v.op.name: v for v in variables}
    return tf.train.Saver({old: by_name[new] for old, new in plan.mapping.items()}, max_to_keep=0)


def _find_difference(in_checkpoint: Specs, in_graph: Specs, pairs: Dict[str, str]) -> Difference:
    """The variables that are in no pair (old, new), and the pairs with unequal specs."""
    targets = set(pairs.values())
    additions = {name for name in in_graph if name not in targets}
    removals = {name for name in in_checkpoint if name not in pairs}
    reshapes = [
        Reshape(new, in_graph[new], in_checkpoint[old])
        for old, new in pairs.items()
        if in_checkpoint[old] != in_graph[new]
    ]
    leading, slots = find_likely_renames(in_checkpoint, in_graph, removals, additions)
    renames = dict(leading, **slots)
    return Difference(
        sorted(additions - set(renames.values())),
        sorted(removals - set(renames)),
        sorted(reshapes),
        sorted(leading.items(), key=lambda pair: pair[1]),
        sorted(slots.items(), key=lambda pair: pair[1]),
        map_texts(in_checkpoint, in_graph, leading, renames),
    )


# ------------------------------------------------------------------------------------------- words


def _format_renames(pairs: Iterable[Tuple[str, str]]) -> List[str]:
    return [f"{new} (was {old})" for old, new in pairs]


def _count_variables(kind: str, names: List[str]) -> str:
    """A sentence such as "2 variables are dropped: a, b."; '' for no names."""
    if not names:
        return ""
    noun = "variable is" if len(names) == 1 else "variables are"
    return f"{len(names)} {noun} {kind}: {join_names(names)}."


def join_names(names: List[str], limit: int = 5) -> str:
    """The first names, separated by commas, and how many there are besides."""
    text = ", ".join(names[:limit])
    return text + (f" and {len(names) - limit} more" if len(names) > limit else "")
