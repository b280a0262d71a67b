"""How a checkpoint differs from a model, told before a session exists, and which of its variables a
restore takes where a difference is meant.

    in_checkpoint, in_graph = stored(path), of_graph(tf.global_variables())
    difference(in_checkpoint, in_graph)                 in words, and the flags that allow it
    planned = plan(in_checkpoint, in_graph, changes)    or CheckpointError
    saver(planned, tf.global_variables()).restore(session, path)

A variable's slots are what an optimizer, a sum or an average keeps for it. Their names contain the
variable's own, as in `linear/w/Adam` and `toolkit/accumulated/linear/w`: where it is renamed, they
go along.
"""

from __future__ import annotations

import difflib
import shlex
from typing import Any, Dict, Iterable, List, NamedTuple, Optional, Tuple

from .compat import tf
from .errors import CheckpointError, UsageError, nearest

SIMILAR = 0.6  # of difflib's ratio, from where two names are alike
STEP = tf.GraphKeys.GLOBAL_STEP


class Stored(NamedTuple):
    """A variable of a checkpoint or a graph. dtype: by name, as "float32"."""

    shape: List[int]
    dtype: str


class Changes(NamedTuple):
    """What the user allows. renamed: of `parse_map`."""

    init_new: bool = False
    drop: bool = False
    renamed: Dict[str, str] = {}  # old -> new; read only


class Reshaped(NamedTuple):
    """A variable of another shape or dtype than in the checkpoint. name: in the graph."""

    name: str
    now: Stored
    was: Stored

    def __str__(self) -> str:
        if self.now.dtype == self.was.dtype:
            return "{} {} (was {})".format(self.name, self.now.shape, self.was.shape)
        return "{} {} {} (was {} {})".format(self.name, *(self.now + self.was))


class Difference(NamedTuple):
    """How a graph differs from a checkpoint; false where it fits. Lists are sorted by name.

    renamed: likely pairs (old, new), which are in neither added nor removed. slots: the pairs that
    go along with them. maps: the texts for `--map` that make both.
    """

    added: List[str]
    removed: List[str]
    reshaped: List[Reshaped]
    renamed: List[Tuple[str, str]]
    slots: List[Tuple[str, str]]
    maps: List[str]

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.reshaped or self.renamed)

    def sentence(self) -> str:
        """All in one sentence, up to five names a kind; '' where it fits."""
        parts = ["{} {}".format(kind, _some(names)) for kind, names in self._kinds()]
        if not parts:
            return ""
        return "The model differs from its checkpoint: {}.".format("; ".join(parts))

    def lines(self, most: int = 20) -> List[str]:
        """A line for each kind of difference, up to `most` names a kind."""
        kinds = self._kinds() + ([("their slots", _told(self.slots))] if self.slots else [])
        return ["{}: {}".format(kind, _some(names, most)) for kind, names in kinds]

    def hint(self) -> str:
        """The flags that allow all of it, in a sentence; '' where it fits."""
        flags = ["--map {}".format(shlex.quote(text)) for text in self.maps]
        flags += ["--init-new"] if self.added or self.reshaped else []
        flags += ["--drop"] if self.removed or self.reshaped else []
        if not flags:
            return ""
        return (
            "Allow it with {}, or resume with the options that the run was started with."
        ).format(" ".join(flags))

    def without(self, changes: Changes) -> Difference:
        """What is left of it where the flags of the changes are given."""
        both = changes.init_new and changes.drop
        return Difference(
            [] if changes.init_new else self.added,
            [] if changes.drop else self.removed,
            [] if both else self.reshaped,
            [] if both else self.renamed,
            [] if both else self.slots,
            [] if both else self.maps,
        )

    def _kinds(self) -> List[Tuple[str, List[str]]]:
        """Kinds and names, of those that there are."""
        kinds = [
            ("added", self.added),
            ("removed", self.removed),
            ("reshaped", [str(reshaped) for reshaped in self.reshaped]),
            ("likely renamed", _told(self.renamed)),
        ]
        return [(kind, names) for kind, names in kinds if names]


class Plan(NamedTuple):
    """What a restore does. restored: name in the checkpoint -> name in the graph.

    initialised: names in the graph that keep their initial values. dropped: names in the checkpoint
    whose values are not used. A reshaped variable is in both.
    """

    restored: Dict[str, str]
    initialised: List[str]
    dropped: List[str]

    @property
    def is_plain(self) -> bool:
        """Whether each variable is restored under its own name, as any Saver does it."""
        return not (self.renamed or self.initialised or self.dropped)

    @property
    def renamed(self) -> Dict[str, str]:
        """Those of `restored` whose names differ."""
        return {old: new for old, new in sorted(self.restored.items()) if old != new}

    def as_json(self) -> Dict[str, Any]:
        """For the records of the run; `restored` is how many keep their names."""
        return {
            "restored": len(self.restored) - len(self.renamed),
            "renamed": self.renamed,
            "initialised": self.initialised,
            "dropped": self.dropped,
        }

    def sentence(self) -> str:
        """What changes, a sentence for each kind; '' for a plain restore."""
        parts = [
            _counted("renamed", _told(self.renamed.items())),
            _counted("new and initialised", self.initialised),
            _counted("dropped", self.dropped),
        ]
        return " ".join(part for part in parts if part)


# -------------------------------------------------------------------------------------- both sides


def stored(path: str) -> Dict[str, Stored]:
    """The variables of the checkpoint with this prefix, by name.

    Raises CheckpointError where it cannot be read.
    """
    try:
        reader = tf.train.NewCheckpointReader(path)
        shapes, dtypes = reader.get_variable_to_shape_map(), reader.get_variable_to_dtype_map()
    except (tf.errors.OpError, ValueError, RuntimeError) as error:
        raise CheckpointError("{}: not a readable checkpoint: {}".format(path, error)) from None
    return {n: Stored(list(shape), tf.as_dtype(dtypes[n]).name) for n, shape in shapes.items()}


def of_graph(variables: Iterable[Any]) -> Dict[str, Stored]:
    """The same of variables of a graph, by the names under which a Saver stores them."""
    return {v.op.name: Stored(v.shape.as_list(), v.dtype.base_dtype.name) for v in variables}


def difference(
    in_checkpoint: Dict[str, Stored], in_graph: Dict[str, Stored], partial: bool = False
) -> Difference:
    """How the graph differs from the checkpoint that should fill it.

    partial: variables of the checkpoint that the graph does not ask for are no difference.
    """
    return _difference(in_checkpoint, in_graph, _paired(in_checkpoint, in_graph, {}), partial)


def plan(in_checkpoint: Dict[str, Stored], in_graph: Dict[str, Stored], changes: Changes) -> Plan:
    """What a restore with these changes does.

    A renaming that an earlier restore made already has no effect, so that a command may be given
    again; but where the model has a variable of the old name too, it is made each time. Raises
    CheckpointError where the changes do not cover the difference, and where the global step would
    not be restored; UsageError for a renaming of what is not there.
    """
    pairs = _paired(in_checkpoint, in_graph, changes.renamed)
    restored = {o: n for o, n in sorted(pairs.items()) if in_checkpoint[o] == in_graph[n]}
    if STEP not in restored.values():
        raise CheckpointError(
            "The checkpoint has nothing that the model's '{}' could be restored from.".format(STEP),
            hint="Say which variable counts its steps with --map NAME={}, or start a new "
            "run.".format(STEP),
        )
    left = _difference(in_checkpoint, in_graph, pairs).without(changes)
    if left:
        raise CheckpointError(left.sentence(), hint=left.hint())
    kept = set(restored.values())
    return Plan(
        restored,
        sorted(name for name in in_graph if name not in kept),
        sorted(name for name in in_checkpoint if name not in restored),
    )


def saver(plan: Plan, variables: Iterable[Any]) -> tf.train.Saver:
    """A Saver of the current graph that restores what the plan says, and nothing else.

    variables: those that `of_graph` was given. The others keep what they hold.
    """
    by_name = {v.op.name: v for v in variables}
    return tf.train.Saver({old: by_name[new] for old, new in plan.restored.items()}, max_to_keep=0)


# ---------------------------------------------------------------------------------------- renaming


def parse_map(texts: Iterable[str]) -> Dict[str, str]:
    """Old -> new, of texts "OLD=NEW": two variables, or two scopes where both end in "/".

    A scope "/" is the whole of the names. Raises UsageError for a text that is something else, and
    where an OLD or a NEW is given twice.
    """
    renamed: Dict[str, str] = {}
    for text in texts:
        old, _, new = (part.strip() for part in text.partition("="))
        if not old or not new or "=" in new or _is_scope(old) != _is_scope(new):
            raise UsageError(
                "--map {} is not OLD=NEW.".format(text),
                hint="Give two names of variables, or two scopes that both end in '/'.",
            )
        if old == new:
            raise UsageError("--map {} renames nothing.".format(text), hint="Leave it out.")
        if old in renamed or new in renamed.values():
            twice = old if old in renamed else new
            raise UsageError(
                "--map {} names '{}' a second time.".format(text, twice),
                hint="Each OLD gets one NEW, and each NEW one OLD.",
            )
        renamed[old] = new
    return renamed


def _paired(
    in_checkpoint: Dict[str, Stored], in_graph: Dict[str, Stored], renamed: Dict[str, str]
) -> Dict[str, str]:
    """Name in the checkpoint -> name in the graph, of those that belong together by name."""
    asked = _asked(in_checkpoint, in_graph, renamed)
    pairs, taken = dict(asked), set(asked.values())
    for name in sorted(in_checkpoint) if asked else ():
        target = _along(name, asked, in_checkpoint, in_graph) if name not in asked else None
        if target is not None and target not in taken:
            pairs[name] = target
            taken.add(target)
    for name in in_checkpoint:
        if name in in_graph and name not in pairs and name not in taken:
            pairs[name] = name
    return pairs


def _asked(in_checkpoint, in_graph, renamed: Dict[str, str]) -> Dict[str, str]:
    """The pairs that the renamings name themselves: a variable's before a scope's, and a longer
    scope's before a shorter one's.
    """
    asked: Dict[str, str] = {}
    for old, new in sorted(renamed.items(), key=lambda pair: (_is_scope(pair[0]), -len(pair[0]))):
        found = False
        for name in sorted(in_checkpoint):
            target = _replaced(name, old, new)
            if target in in_graph:
                found = True
                if name not in asked and target not in asked.values():
                    asked[name] = target
        done = _has(in_checkpoint, new) and _has(in_graph, new)
        if not found and not done:
            raise _unknown(in_checkpoint, in_graph, old, new)
    return asked


def _replaced(name: str, old: str, new: str) -> Optional[str]:
    """What a renaming by itself makes of a name; None where it is of another."""
    if not _is_scope(old):
        return new if name == old else None
    old, new = old.lstrip("/"), new.lstrip("/")
    return new + name[len(old) :] if name.startswith(old) else None


def _along(name: str, asked: Dict[str, str], in_checkpoint, in_graph) -> Optional[str]:
    """The new name of a slot whose variable is renamed; None for all others.

    What has a variable's name at its start is that variable's. What has it further on could be a
    variable of its own; a slot has the shape of its variable, and is new or old where that is.
    """
    for start, old in _within(name):
        new = asked.get(old)
        if new is None:
            continue
        target = name[:start] + new + name[start + len(old) :]
        if target not in in_graph:
            continue
        alike = (
            in_checkpoint[name].shape == in_checkpoint[old].shape
            and (name in in_graph) == (old in in_graph)
            and (target in in_checkpoint) == (new in in_checkpoint)
        )
        if start == 0 or alike:
            return target
    return None


def _within(name: str) -> List[Tuple[int, str]]:
    """(where it starts, name) of the whole parts of a name that could be a name, the longest first.

    Of a/b/c: a/b and b/c, then a, b and c.
    """
    parts = name.split("/")
    count = len(parts)
    return [
        (len("/".join(parts[:first] + [""])) if first else 0, "/".join(parts[first : first + size]))
        for size in range(count - 1, 0, -1)
        for first in range(count - size + 1)
    ]


def _unknown(in_checkpoint, in_graph, old: str, new: str) -> UsageError:
    """The error for a renaming that nothing follows."""
    text = "--map {}={}".format(old, new)
    if _has(in_graph, old) and _has(in_checkpoint, new):
        return UsageError(
            "{}: '{}' is of the model and '{}' of the checkpoint.".format(text, old, new),
            hint="The checkpoint's comes first: --map {}={}".format(new, old),
        )
    if _has(in_checkpoint, old) and _has(in_graph, new):
        return UsageError(
            "{}: no variable has one name in the checkpoint and the other in the model.".format(
                text
            ),
            hint="What follows '{}' and '{}' has to be the same.".format(old, new),
        )
    is_old = not _has(in_checkpoint, old)
    name, side, other = (old, in_checkpoint, in_graph) if is_old else (new, in_graph, in_checkpoint)
    own = [n for n in side if n not in other and _leader(n, side) is None] or list(side)
    return UsageError(
        "{}: the {} has no {} '{}'.".format(
            text,
            "checkpoint" if is_old else "model",
            "scope" if _is_scope(name) else "variable",
            name,
        ),
        hint=nearest(name, _scopes(own) if _is_scope(name) else own),
    )


def _has(side: Dict[str, Stored], name: str) -> bool:
    if not _is_scope(name):
        return name in side
    return any(known.startswith(name.lstrip("/")) for known in side)


def _is_scope(name: str) -> bool:
    return name.endswith("/")


def _scopes(names: Iterable[str]) -> List[str]:
    """All scopes around the names: of a/b/c a/ and a/b/."""
    found = set()
    for name in names:
        parts = name.split("/")
        found.update("/".join(parts[:size]) + "/" for size in range(1, len(parts)))
    return sorted(found)


# ------------------------------------------------------------------------------------- differences


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
    leading = _likely(
        {n: in_checkpoint[n] for n in removed if _leader(n, in_checkpoint) is None},
        {n: in_graph[n] for n in added if _leader(n, in_graph) is None},
    )
    slots = {}
    for name in removed - set(leading):
        target = _along(name, leading, in_checkpoint, in_graph)
        if target in added and in_graph[target] == in_checkpoint[name]:
            slots[name] = target
    renamed = dict(leading, **slots)
    return Difference(
        sorted(added - set(renamed.values())),
        [] if partial else sorted(removed - set(renamed)),
        sorted(reshaped),
        sorted(leading.items(), key=lambda pair: pair[1]),
        sorted(slots.items(), key=lambda pair: pair[1]),
        _maps(in_checkpoint, in_graph, leading, renamed),
    )


def _leader(name: str, side: Dict[str, Stored]) -> Optional[str]:
    """The variable whose slot this one is, or None."""
    for start, other in _within(name):
        if other in side and (start == 0 or side[other].shape == side[name].shape):
            return other
    return None


def _likely(removed: Dict[str, Stored], added: Dict[str, Stored]) -> Dict[str, str]:
    """Pairs old -> new that are alike and each other's only best match."""
    scores: Dict[Tuple[str, str], Tuple[bool, float]] = {}
    for new in added:
        matcher = difflib.SequenceMatcher(None, "", new, autojunk=False)
        for old in removed:
            if removed[old] == added[new]:
                matcher.set_seq1(old)
                score = old.split("/")[-1] == new.split("/")[-1], matcher.ratio()
                if score[0] or score[1] >= SIMILAR:
                    scores[old, new] = score
    by_old, by_new = _best(scores, 0), _best(scores, 1)
    return {o: n for o, n in scores if by_old.get(o) == (o, n) and by_new.get(n) == (o, n)}


def _best(scores: Dict[Tuple[str, str], Any], side: int) -> Dict[str, Optional[Tuple[str, str]]]:
    """The best pair of each name on one side of the pairs; None where two are equally good."""
    best: Dict[str, Optional[Tuple[str, str]]] = {}
    highest: Dict[str, Any] = {}
    for pair, score in scores.items():
        name = pair[side]
        if name not in highest or score > highest[name]:
            best[name], highest[name] = pair, score
        elif score == highest[name]:
            best[name] = None
    return best


def _maps(in_checkpoint, in_graph, leading: Dict[str, str], renamed: Dict[str, str]) -> List[str]:
    """The texts for `--map` that make these renamings: a scope's where it makes several."""
    groups: Dict[Tuple[str, str], List[Tuple[str, str]]] = {}
    for pair in sorted(leading.items()):
        groups.setdefault(_changed_scopes(*pair), []).append(pair)
    texts = []
    for (old, new), pairs in sorted(groups.items()):
        if len(pairs) > 1 and _is_scope(old):
            # A scope's renaming could move more than what is meant.
            moved = _paired(in_checkpoint, in_graph, {old: new}).items()
            if set(pairs) <= set(moved) and {p for p in moved if p[0] != p[1]} <= renamed.items():
                texts.append("{}={}".format(old, new))
                continue
        texts += ["{}={}".format(*pair) for pair in pairs]
    return texts


def _changed_scopes(old: str, new: str) -> Tuple[str, str]:
    """The scopes in which two names differ: a/ and b/ of a/c/d and b/c/d. The names themselves
    where their last parts differ.
    """
    olds, news = old.split("/"), new.split("/")
    same = 0
    while same < min(len(olds), len(news)) and olds[-1 - same] == news[-1 - same]:
        same += 1
    if not same:
        return old, new
    return "/".join(olds[: len(olds) - same]) + "/", "/".join(news[: len(news) - same]) + "/"


# ------------------------------------------------------------------------------------------- words


def _told(renamed: Iterable[Tuple[str, str]]) -> List[str]:
    return ["{} (was {})".format(new, old) for old, new in renamed]


def _counted(kind: str, names: List[str]) -> str:
    if not names:
        return ""
    noun = "variable is" if len(names) == 1 else "variables are"
    return "{} {} {}: {}.".format(len(names), noun, kind, _some(names))


def _some(names: List[str], most: int = 5) -> str:
    text = ", ".join(names[:most])
    return text + (" and {} more".format(len(names) - most) if len(names) > most else "")
