"""Renamings of variables: parse those that a user names, match names, and find likely ones.

    renames = parse_map(["dense/=linear/"])                 from the flags, old -> new
    pairs = match_names(in_checkpoint, in_graph, renames)   every pair of names that belong together
    leading, slots = find_likely_renames(in_checkpoint, in_graph, removals, additions)
    map_texts(in_checkpoint, in_graph, leading, dict(leading, **slots))     the flags for them

A slot of a variable is what an optimizer, an accumulator or an average stores for it. Its name
contains the variable's name, as in `linear/w/Adam` and `toolkit/accumulated/linear/w`: when the
variable is renamed, its slots are renamed along with it.

Everywhere, "old" is a name in the checkpoint, and "new" one in the graph. A side, checkpoint or
graph, is a dict from names to specs, which have a `shape` and are equal if a value fits.
"""

from __future__ import annotations

import difflib
from typing import Any, Dict, Iterable, Iterator, List, Mapping, Optional, Set, Tuple

from ..errors import UsageError, suggest

MIN_SIMILARITY = 0.6  # of two names that are alike, by difflib's ratio
Side = Mapping[str, Any]
Pair = Tuple[str, str]  # (old, new)
Score = Tuple[bool, float]  # whether the last parts of two names are equal; their similarity


def parse_map(texts: Iterable[str], allow_empty: bool = False) -> Dict[str, str]:
    """Parse the values of --map.

    Args:
        texts: "OLD=NEW" each: two variables, or two scopes that both end in "/". The scope "/"
            contains all names.
        allow_empty: whether NEW may be empty, which leaves out OLD.

    Returns:
        The renamings, old -> new.

    Raises:
        UsageError: a text has another form, or an OLD or a NEW occurs twice.
    """
    renames: Dict[str, str] = {}
    for text in texts:
        old, _, new = (part.strip() for part in text.partition("="))
        is_omission = allow_empty and not new and "=" in text
        is_pair = bool(new) and is_scope(old) == is_scope(new)
        if not old or "=" in new or not (is_pair or is_omission):
            raise UsageError(
                f"--map {text} is not OLD=NEW.",
                hint="Give two names of variables, or two scopes that both end in '/'.",
            )
        if old == new:
            raise UsageError(f"--map {text} renames nothing.", hint="Omit it.")
        if old in renames or new and new in renames.values():
            name = old if old in renames else new
            raise UsageError(
                f"--map {text} names '{name}' a second time.",
                hint="Each OLD gets one NEW, and each NEW one OLD.",
            )
        renames[old] = new
    return renames


def match_names(in_checkpoint: Side, in_graph: Side, renames: Dict[str, str]) -> Dict[str, str]:
    """The pairs old -> new of names that belong together, with or without a renaming.

    Raises:
        UsageError: a renaming names a variable or a scope that does not exist.
    """
    leading = _apply_renames(in_checkpoint, in_graph, renames)
    pairs, targets = dict(leading), set(leading.values())
    for name in sorted(in_checkpoint) if leading else ():
        target = _rename_slot(name, leading, in_checkpoint, in_graph)
        if name not in leading and target is not None and target not in targets:
            pairs[name] = target
            targets.add(target)
    for name in in_checkpoint:
        if name in in_graph and name not in pairs and name not in targets:
            pairs[name] = name
    return pairs


def check_old_names(
    in_checkpoint: Side, in_graph: Side, renames: Dict[str, str], candidates: Side
) -> None:
    """Raise UsageError if a renaming names a variable or a scope that the checkpoint lacks.

    `match_names` allows that where the renaming has been performed already.

    Args:
        in_checkpoint: all names of the checkpoint.
        in_graph: all names of the graph.
        renames: old -> new.
        candidates: the names of the checkpoint that the error may suggest.
    """
    for old, new in renames.items():
        if not _contains(in_checkpoint, old):
            raise _unknown_name_error(candidates, in_graph, old, new)


def find_omissions(names: Iterable[str], renames: Dict[str, str]) -> Set[str]:
    """The names that renamings with an empty NEW leave out. A variable's renaming overrides a
    scope's, and a longer scope's a shorter one's.
    """
    omissions = set()
    for name in names:
        olds = [old for old in renames if _replace_scope(name, old, "") is not None]
        if olds and not renames[max(olds, key=lambda old: (not is_scope(old), len(old)))]:
            omissions.add(name)
    return omissions


def find_likely_renames(
    in_checkpoint: Side, in_graph: Side, removals: Set[str], additions: Set[str]
) -> Tuple[Dict[str, str], Dict[str, str]]:
    """Find likely renamings among the names that have no match.

    Args:
        in_checkpoint: all names of the checkpoint.
        in_graph: all names of the graph.
        removals: the names of the checkpoint without a match.
        additions: the names of the graph without a match.

    Returns:
        The pairs old -> new of the variables, and those of their slots.
    """
    leading = _match_similar(
        {n: in_checkpoint[n] for n in removals if slot_owner(n, in_checkpoint) is None},
        {n: in_graph[n] for n in additions if slot_owner(n, in_graph) is None},
    )
    slots = {}
    for name in removals - set(leading):
        target = _rename_slot(name, leading, in_checkpoint, in_graph)
        if target in additions and in_graph[target] == in_checkpoint[name]:
            slots[name] = target
    return leading, slots


def map_texts(
    in_checkpoint: Side, in_graph: Side, leading: Dict[str, str], renames: Dict[str, str]
) -> List[str]:
    """The values for --map that perform renamings: of a scope if several variables share it.

    Args:
        in_checkpoint: all names of the checkpoint.
        in_graph: all names of the graph.
        leading: the renamings of variables.
        renames: these and the renamings of their slots; the texts perform no other.
    """
    groups: Dict[Pair, List[Pair]] = {}
    for pair in sorted(leading.items()):
        groups.setdefault(_differing_scopes(*pair), []).append(pair)
    texts = []
    for (old, new), pairs in sorted(groups.items()):
        if len(pairs) > 1 and is_scope(old):
            # Renaming the scope could rename more than these variables.
            matches = match_names(in_checkpoint, in_graph, {old: new}).items()
            moves = {pair for pair in matches if pair[0] != pair[1]}
            if set(pairs) <= set(matches) and moves <= renames.items():
                texts.append(f"{old}={new}")
                continue
        texts += [f"{old_name}={new_name}" for old_name, new_name in pairs]
    return texts


# ---------------------------------------------------------------------------------------- renamings


def _apply_renames(in_checkpoint: Side, in_graph: Side, renames: Dict[str, str]) -> Dict[str, str]:
    """The pairs that renamings name themselves, without slots. A variable's renaming overrides a
    scope's, and a longer scope's a shorter one's.
    """
    pairs: Dict[str, str] = {}
    for old, new in sorted(renames.items(), key=lambda pair: (is_scope(pair[0]), -len(pair[0]))):
        matches = list(_find_matches(in_checkpoint, in_graph, old, new))
        for name, target in matches:
            if name not in pairs and target not in pairs.values():
                pairs[name] = target
        was_applied = _contains(in_checkpoint, new) and _contains(in_graph, new)
        if not matches and not was_applied:
            raise _unknown_name_error(in_checkpoint, in_graph, old, new)
    return pairs


def _find_matches(in_checkpoint: Side, in_graph: Side, old: str, new: str) -> Iterator[Pair]:
    """The pairs of existing names to which one renaming applies."""
    for name in sorted(in_checkpoint):
        target = _replace_scope(name, old, new)
        if target is not None and target in in_graph:
            yield name, target


def _replace_scope(name: str, old: str, new: str) -> Optional[str]:
    """The new name under one renaming; None if it does not apply to the name."""
    if not is_scope(old):
        return new if name == old else None
    old, new = old.lstrip("/"), new.lstrip("/")
    return new + name[len(old) :] if name.startswith(old) else None


def _rename_slot(
    name: str, renames: Dict[str, str], in_checkpoint: Side, in_graph: Side
) -> Optional[str]:
    """The new name of a slot whose variable is renamed; None for all other names.

    A name that starts with a variable's name is a slot of it. A name that contains it further on
    may be a variable of its own; it is a slot if it has the shape of the variable, and exists in
    the checkpoint and in the graph wherever the variable does.
    """
    for start, old in _inner_names(name):
        new = renames.get(old)
        if new is None:
            continue
        target = name[:start] + new + name[start + len(old) :]
        if target not in in_graph:
            continue
        is_parallel = (
            in_checkpoint[name].shape == in_checkpoint[old].shape
            and (name in in_graph) == (old in in_graph)
            and (target in in_checkpoint) == (new in in_checkpoint)
        )
        if start == 0 or is_parallel:
            return target
    return None


def _inner_names(name: str) -> List[Tuple[int, str]]:
    """The parts of a name that could be a variable's name, as (start, name), the longest first.

    Those of a/b/c are a/b and b/c, then a, b and c.
    """
    parts = name.split("/")
    count = len(parts)
    return [
        (len("/".join(parts[:first] + [""])) if first else 0, "/".join(parts[first : first + size]))
        for size in range(count - 1, 0, -1)
        for first in range(count - size + 1)
    ]


def _unknown_name_error(in_checkpoint: Side, in_graph: Side, old: str, new: str) -> UsageError:
    """The error for a renaming that applies to no name."""
    text = f"--map {old}={new}"
    if _contains(in_graph, old) and _contains(in_checkpoint, new):
        return UsageError(
            f"{text}: '{old}' is in the model and '{new}' in the checkpoint.",
            hint=f"The name in the checkpoint comes first: --map {new}={old}",
        )
    if _contains(in_checkpoint, old) and _contains(in_graph, new):
        return UsageError(
            f"{text}: no variable has one name in the checkpoint and the other in the model.",
            hint=f"The parts of the names after '{old}' and '{new}' have to be equal.",
        )
    is_old = not _contains(in_checkpoint, old)
    name, side, other = (old, in_checkpoint, in_graph) if is_old else (new, in_graph, in_checkpoint)
    candidates = [n for n in side if n not in other and slot_owner(n, side) is None] or list(side)
    return UsageError(
        f"{text}: the {'checkpoint' if is_old else 'model'} has no "
        f"{'scope' if is_scope(name) else 'variable'} '{name}'.",
        hint=suggest(name, _list_scopes(candidates) if is_scope(name) else candidates),
    )


def _contains(side: Side, name: str) -> bool:
    """Whether a side has this variable, or a variable in this scope."""
    if not is_scope(name):
        return name in side
    return any(variable.startswith(name.lstrip("/")) for variable in side)


def is_scope(name: str) -> bool:
    """Whether a name is that of a scope."""
    return name.endswith("/")


def _list_scopes(names: Iterable[str]) -> List[str]:
    """All scopes that contain the names: a/ and a/b/ for a/b/c."""
    scopes: Set[str] = set()
    for name in names:
        parts = name.split("/")
        scopes.update("/".join(parts[:size]) + "/" for size in range(1, len(parts)))
    return sorted(scopes)


# ----------------------------------------------------------------------------------- likely renames


def slot_owner(name: str, side: Side) -> Optional[str]:
    """The variable whose slot this name is, or None."""
    for start, other in _inner_names(name):
        if other in side and (start == 0 or side[other].shape == side[name].shape):
            return other
    return None


def _match_similar(removals: Side, additions: Side) -> Dict[str, str]:
    """The pairs old -> new of similar names of which each is the other's only best match."""
    scores: Dict[Pair, Score] = {}
    for new in additions:
        matcher = difflib.SequenceMatcher(None, "", new, autojunk=False)
        for old in removals:
            if removals[old] == additions[new]:
                matcher.set_seq1(old)
                score = old.split("/")[-1] == new.split("/")[-1], matcher.ratio()
                if score[0] or score[1] >= MIN_SIMILARITY:
                    scores[old, new] = score
    by_old, by_new = _best_pairs(scores, 0), _best_pairs(scores, 1)
    return {o: n for o, n in scores if by_old.get(o) == (o, n) and by_new.get(n) == (o, n)}


def _best_pairs(scores: Dict[Pair, Score], side: int) -> Dict[str, Optional[Pair]]:
    """The best pair of each name; None if two are equally good.

    Args:
        scores: by pair.
        side: 0 for the best pair of each old name, 1 for that of each new name.
    """
    best: Dict[str, Optional[Pair]] = {}
    highest: Dict[str, Score] = {}
    for pair, score in scores.items():
        name = pair[side]
        if name not in highest or score > highest[name]:
            best[name], highest[name] = pair, score
        elif score == highest[name]:
            best[name] = None
    return best


def _differing_scopes(old: str, new: str) -> Pair:
    """The scopes in which two names differ, such as a/ and b/ for a/c/d and b/c/d. If their last
    parts differ, the names themselves.
    """
    old_parts, new_parts = old.split("/"), new.split("/")
    same = 0
    shortest = min(len(old_parts), len(new_parts))
    while same < shortest and old_parts[-1 - same] == new_parts[-1 - same]:
        same += 1
    if not same:
        return old, new
    old_scope = "/".join(old_parts[: len(old_parts) - same])
    new_scope = "/".join(new_parts[: len(new_parts) - same])
    return old_scope + "/", new_scope + "/"
