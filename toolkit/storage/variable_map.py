"""Renamings of variables: the texts of `--map`, what they pair, and which ones are likely.

    renames = parse_map(["dense/=linear/"])                 from the flags, old -> new
    pairs = match_names(in_checkpoint, in_graph, renames)   every pair of names that belong together
    leading, slots = find_likely_renames(in_checkpoint, in_graph, removals, additions)
    map_texts(in_checkpoint, in_graph, leading, dict(leading, **slots))     the flags for them

A variable's slots are what an optimizer, a sum or an average keeps for it. Their names contain the
variable's own, as in `linear/w/Adam` and `toolkit/accumulated/linear/w`: where it is renamed, they
go along.
"""

from __future__ import annotations

import difflib
from typing import Any, Dict, Iterable, List, Optional, Set, Tuple

from ..errors import UsageError, suggest

SIMILAR = 0.6  # of difflib's ratio, from where two names are alike
# Name -> what tells a variable's `shape`, and equals another one's where it fits in its place.
Side = Dict[str, Any]


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
                f"--map {text} is not OLD=NEW.",
                hint="Give two names of variables, or two scopes that both end in '/'.",
            )
        if old == new:
            raise UsageError(f"--map {text} renames nothing.", hint="Leave it out.")
        if old in renamed or new in renamed.values():
            twice = old if old in renamed else new
            raise UsageError(
                f"--map {text} names '{twice}' a second time.",
                hint="Each OLD gets one NEW, and each NEW one OLD.",
            )
        renamed[old] = new
    return renamed


def match_names(in_checkpoint: Side, in_graph: Side, renamed: Dict[str, str]) -> Dict[str, str]:
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


def find_likely_renames(
    in_checkpoint: Side, in_graph: Side, removed: Set[str], added: Set[str]
) -> Tuple[Dict[str, str], Dict[str, str]]:
    """Pairs old -> new among the names that are left over, and the pairs of their slots.

    removed, added: those of the checkpoint and of the graph that belong to none by name.
    """
    leading = _alike(
        {n: in_checkpoint[n] for n in removed if _leader(n, in_checkpoint) is None},
        {n: in_graph[n] for n in added if _leader(n, in_graph) is None},
    )
    slots = {}
    for name in removed - set(leading):
        target = _along(name, leading, in_checkpoint, in_graph)
        if target in added and in_graph[target] == in_checkpoint[name]:
            slots[name] = target
    return leading, slots


def map_texts(
    in_checkpoint: Side, in_graph: Side, leading: Dict[str, str], renamed: Dict[str, str]
) -> List[str]:
    """The texts for `--map` that make the renamings `leading`: a scope's where it makes several.

    renamed: these and those of their slots; no text makes any other.
    """
    groups: Dict[Tuple[str, str], List[Tuple[str, str]]] = {}
    for pair in sorted(leading.items()):
        groups.setdefault(_changed_scopes(*pair), []).append(pair)
    texts = []
    for (old, new), pairs in sorted(groups.items()):
        if len(pairs) > 1 and _is_scope(old):
            # A scope's renaming could move more than what is meant.
            moved = match_names(in_checkpoint, in_graph, {old: new}).items()
            if set(pairs) <= set(moved) and {p for p in moved if p[0] != p[1]} <= renamed.items():
                texts.append(f"{old}={new}")
                continue
        texts += ["{}={}".format(*pair) for pair in pairs]
    return texts


# -------------------------------------------------------------------------------------------- asked


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
    text = f"--map {old}={new}"
    if _has(in_graph, old) and _has(in_checkpoint, new):
        return UsageError(
            f"{text}: '{old}' is of the model and '{new}' of the checkpoint.",
            hint=f"The checkpoint's comes first: --map {new}={old}",
        )
    if _has(in_checkpoint, old) and _has(in_graph, new):
        return UsageError(
            f"{text}: no variable has one name in the checkpoint and the other in the model.",
            hint=f"What follows '{old}' and '{new}' has to be the same.",
        )
    is_old = not _has(in_checkpoint, old)
    name, side, other = (old, in_checkpoint, in_graph) if is_old else (new, in_graph, in_checkpoint)
    own = [n for n in side if n not in other and _leader(n, side) is None] or list(side)
    return UsageError(
        f"{text}: the {'checkpoint' if is_old else 'model'} has no "
        f"{'scope' if _is_scope(name) else 'variable'} '{name}'.",
        hint=suggest(name, _scopes(own) if _is_scope(name) else own),
    )


def _has(side: Side, name: str) -> bool:
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


# ------------------------------------------------------------------------------------------- likely


def _leader(name: str, side: Side) -> Optional[str]:
    """The variable whose slot this one is, or None."""
    for start, other in _within(name):
        if other in side and (start == 0 or side[other].shape == side[name].shape):
            return other
    return None


def _alike(removed: Side, added: Side) -> Dict[str, str]:
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
