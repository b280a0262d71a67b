"""The variables of a checkpoint and of a graph, and which of them belong together.

    in_checkpoint, in_graph = read_variable_specs(path), stored_specs(tf.global_variables())
    find_misfit(in_checkpoint, in_graph)                    why a resume cannot restore it
    pair(in_checkpoint, in_graph, parse_map(["dense/=linear/"]))      which gets the value of which

A slot of a variable is what an optimizer, an accumulator or an average stores for it. Its name
contains the variable's name, as in `linear/w/Adam` and `toolkit/accumulated/linear/w`.
"""

from __future__ import annotations

import os
import re
from typing import Dict, Iterable, List, Mapping, NamedTuple, Optional, Sequence, Set

from ..compat import tf
from ..errors import UsageError, join_names, suggest
from .checkpoint_reader import open_reader

STEP = tf.GraphKeys.GLOBAL_STEP
_OTHER_SCOPES = ("toolkit/", "state/")  # of counters, sums of gradients and state of plugins


class VariableSpec(NamedTuple):
    """The shape and dtype of a variable in a checkpoint or a graph."""

    shape: List[int]
    dtype: str  # by name, such as "float32"

    def __str__(self) -> str:
        return f"{self.dtype} {self.shape}"

    def fits(self, other: VariableSpec) -> bool:
        """Whether a value of this spec fits a variable: shape and kind of number are the same."""
        dtypes = [tf.as_dtype(each.dtype) for each in (self, other)]
        is_number = dtypes[0] == dtypes[1] or all(dtype.is_floating for dtype in dtypes)
        return self.shape == other.shape and is_number


Specs = Dict[str, VariableSpec]  # by the name of the variable


def read_variable_specs(path: str) -> Specs:
    """The specs of the variables in the checkpoint whose files have this prefix. Raises
    CheckpointError if it cannot be read.
    """
    with open_reader(path) as reader:
        shapes, dtypes = reader.get_variable_to_shape_map(), reader.get_variable_to_dtype_map()
    return {
        name: VariableSpec(list(shape), tf.as_dtype(dtypes[name]).name)
        for name, shape in shapes.items()
    }


def variable_specs(variables: Iterable[tf.Variable]) -> Specs:
    """The specs of variables in a graph by their names; of a partitioned one, of each part."""
    return {v.op.name: VariableSpec(v.shape.as_list(), v.dtype.base_dtype.name) for v in variables}


def stored_specs(variables: Sequence[tf.Variable]) -> Specs:
    """The specs of variables in a graph as a Saver stores them: a partitioned one as a whole."""
    specs = variable_specs(variables)
    for variable in variables:
        part = getattr(variable, "_save_slice_info", None)
        if part is not None:
            spec = specs.pop(variable.op.name)
            specs[part.full_name] = spec._replace(shape=list(part.full_shape))
    return specs


def find_misfit(in_checkpoint: Specs, in_graph: Specs, partial: bool = False) -> str:
    """How a graph differs from the checkpoint that is to be restored, as a sentence; '' if it does
    not. A partial restore leaves out variables of the checkpoint that the graph lacks.
    """
    kinds = {
        "added": sorted(set(in_graph) - set(in_checkpoint)),
        "removed": [] if partial else sorted(set(in_checkpoint) - set(in_graph)),
        "reshaped": [
            f"{name} {in_graph[name]} (was {in_checkpoint[name]})"
            for name in sorted(set(in_graph) & set(in_checkpoint))
            if in_graph[name] != in_checkpoint[name]
        ],
    }
    parts = [f"{kind} {join_names(names)}" for kind, names in kinds.items() if names]
    return f"The model differs from its checkpoint: {'; '.join(parts)}." if parts else ""


def find_renamed_scope(source: Specs, graph: Specs) -> str:
    """`--map OLD/=NEW/` if all weights that one side lacks differ by a scope alone; else ""."""
    scopes, weights = [], []
    for own, other in ((source, graph), (graph, source)):
        names = [name for name in own if name not in other and is_weight(name, own)]
        parts = os.path.commonprefix([name.split("/")[:-1] for name in names])
        scope = "/".join([*parts, ""])
        scopes.append(scope or "/")
        weights.append({name[len(scope) :]: own[name] for name in names})
    return f"--map {'='.join(scopes)}" if weights[0] == weights[1] != {} else ""


# ----------------------------------------------------------------------------------------- weights


def is_weight(name: str, specs: Specs) -> bool:
    """Whether a variable is a weight: not the step, a counter, state of a plugin, or a slot."""
    if re.fullmatch(r"(.*/)?beta[12]_power(_\d+)?", name) or is_counter(name):
        return False
    # A name that starts with a variable's name is a slot of it; one that contains it further on is
    # if it has the variable's shape.
    parts = name.split("/")
    for size in range(len(parts) - 1, 0, -1):
        for first in range(len(parts) - size + 1):
            other = "/".join(parts[first : first + size])
            if other in specs and (first == 0 or specs[other].shape == specs[name].shape):
                return False
    return True


def is_counter(name: str) -> bool:
    """Whether a variable is the step, a counter, a sum of gradients or state of a plugin."""
    return name == STEP or name.startswith(_OTHER_SCOPES)


# ------------------------------------------------------------------------------------------- match


def parse_map(texts: Iterable[str]) -> Dict[str, str]:
    """The renamings, old -> new, of the values of --map.

    Each is "OLD=NEW": two variables, or two scopes that both end in "/". The scope "/" contains all
    names. Without NEW, OLD is left out. Raises UsageError for another form, or a name twice.
    """
    renames: Dict[str, str] = {}
    for text in texts:
        old, equals, new = (part.strip() for part in text.partition("="))
        is_pair = not new or _is_scope(old) == _is_scope(new)
        if not old or not equals or "=" in new or not is_pair:
            raise UsageError(
                f"--map {text} is not OLD=NEW.",
                hint="Give two names of variables, or two scopes that both end in '/'.",
            )
        if old in renames or new and new in renames.values():
            raise UsageError(
                f"--map {text} names '{old if old in renames else new}' a second time.",
                hint="Each OLD gets one NEW, and each NEW one OLD.",
            )
        renames[old] = new
    return renames


def pair(source: Specs, graph: Specs, renames: Mapping[str, str]) -> Dict[str, str]:
    """Variable of the graph -> the one of the source that belongs to it: that of the same name,
    with or without a renaming.

    A variable's renaming overrides a scope's, and a longer scope's a shorter one's. Raises
    UsageError for a renaming of what does not exist.
    """
    for old, new in renames.items():
        targets = [_rename(name, old, new) for name in source]
        if not _contains(source, old) or new and not any(name in graph for name in targets):
            raise _unknown_name_error(source, graph, old, new)
    done: Set[str] = set()  # names of the source: with their targets, or left out
    pairs: Dict[str, str] = {}
    for old, new in sorted(renames.items(), key=lambda item: (_is_scope(item[0]), -len(item[0]))):
        for name in sorted(source):
            target = _rename(name, old, new)
            if target is None or name in done:
                continue
            if not new:
                done.add(name)
            elif target in graph and target not in pairs:
                done.add(name)
                pairs[target] = name
    for name in source:
        if name in graph and name not in done:
            pairs.setdefault(name, name)
    return pairs


def _rename(name: str, old: str, new: str) -> Optional[str]:
    """The new name under one renaming; None if it does not apply to the name."""
    if not _is_scope(old):
        return new if name == old else None
    old, new = old.lstrip("/"), new.lstrip("/")
    return new + name[len(old) :] if name.startswith(old) else None


def _unknown_name_error(source: Specs, graph: Specs, old: str, new: str) -> UsageError:
    """The error for a renaming that applies to no name."""
    text = f"--map {old}={new}"
    if _contains(graph, old) and new and _contains(source, new):
        return UsageError(
            f"{text}: '{old}' is in the model and '{new}' in the checkpoint.",
            hint=f"The name in the checkpoint comes first: --map {new}={old}",
        )
    if _contains(source, old) and _contains(graph, new):
        return UsageError(
            f"{text}: no variable has one name in the checkpoint and the other in the model.",
            hint=f"The parts of the names after '{old}' and '{new}' have to be equal.",
        )
    is_old = not _contains(source, old)
    name, specs = (old, source) if is_old else (new, graph)
    known = [n for n in specs if is_weight(n, specs)] or list(specs)
    scopes = {n[: place.end()] for n in known for place in re.finditer("/", n)}
    return UsageError(
        f"{text}: the {'checkpoint' if is_old else 'model'} has no "
        f"{'scope' if _is_scope(name) else 'variable'} '{name}'.",
        hint=suggest(name, sorted(scopes) if _is_scope(name) else known),
    )


def _contains(specs: Specs, name: str) -> bool:
    """Whether there is this variable, or a variable in this scope."""
    if not _is_scope(name):
        return name in specs
    return any(variable.startswith(name.lstrip("/")) for variable in specs)


def _is_scope(name: str) -> bool:
    return name.endswith("/")
