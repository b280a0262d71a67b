"""Held-out splits: which examples of a data set train, and which validate and test.

The choice is a function of the content of the examples, not of their order. In each class it takes
the same share, and examples with equal content are always in one split.

Legend: N examples, G groups of examples with equal content, K classes.
"""

from __future__ import annotations

import hashlib
from typing import Any, Dict, Iterable, NamedTuple, Optional, Sequence, Union

import numpy as np

from ..errors import UsageError
from .examples import Split, feature_bytes
from .files.file_index import FileIndex

_CHUNK = 4096  # examples
_LARGE = 64 << 20  # bytes of examples that take noticeable time to hash
_VERSION = 1  # of the way in which examples are chosen
_PARTS = {"train": 0, "validation": 2, "test": 1}


class Shares(NamedTuple):
    """How much is held out of a data set that lacks a split."""

    validation: float = 0.1  # of the examples that are not tested, in [0, 0.5]; 0: no such split
    test: float = 0.1  # of all examples, in [0, 0.5], likewise
    folds: int = 0  # equal parts of the examples, of which one is the test split; 0 for none
    fold: int = 0  # which part, in [0, folds)
    seed: int = 0  # other seeds choose other examples


DEFAULT_SHARES = Shares()
NOTHING = Shares(validation=0, test=0)


def hold_out(
    splits: Dict[str, Split],
    shares: Shares = DEFAULT_SHARES,
    digests: Union[None, Sequence[str], np.ndarray] = None,
    index: Optional[FileIndex] = None,
    files: Sequence[str] = (),
) -> Dict[str, Split]:
    """Hold out a test split and then a validation split of "train", unless they exist; return the
    splits without empty ones.

    `digests` are a hash of the content of each training example, texts or uint64 [N]; None to hash
    the examples. `index` stores the choice of large data, which is then not read to make it again;
    `files` are the hashes of the files that it describes and the examples come from. Raises
    UsageError if a share is set for a split that the data has, or a fold does not exist.
    """
    _check(splits, shares)
    result = {name: splits[name] for name in _PARTS if len(splits.get(name, ()))}
    needs_test = "test" not in splits and bool(shares.test or shares.folds)
    needs_validation = "validation" not in splits and bool(shares.validation)
    if not (needs_test or needs_validation):
        return result
    train = splits["train"]

    def choose() -> np.ndarray:  # the part of each training example, a value of _PARTS: uint8 [N]
        keys = content_keys(train, shares.seed) if digests is None else _hash(digests, shares.seed)
        parts = np.zeros(len(train), np.uint8)
        if needs_test:
            parts[_test_mask(keys, train.class_labels, shares)] = _PARTS["test"]
        if needs_validation:
            rest = np.flatnonzero(parts == _PARTS["train"])
            labels = None if train.class_labels is None else train.class_labels[rest]
            groups = _Groups(keys[rest], labels)
            is_held_out = share_mask(groups, shares.validation, shares.seed)
            parts[rest[is_held_out]] = _PARTS["validation"]
        return parts

    if index is not None and digests is None and train.nbytes >= _LARGE:
        # All that decides which examples are held out.
        facts = (_VERSION, shares, sorted(splits), len(train), train.components, tuple(files))
        digest = hashlib.sha256(repr(facts).encode("utf-8"))
        if train.class_labels is not None:
            digest.update(np.ascontiguousarray(train.class_labels).data)
        parts = index.remember("parts-" + digest.hexdigest()[:32], choose)
    else:
        parts = choose()
    for name, part in _PARTS.items():
        if part == 0 or (parts == part).any():
            result[name] = train.subset(parts == part)
    return {name: result[name] for name in _PARTS if len(result.get(name, ()))}


def _test_mask(keys: np.ndarray, labels: Optional[np.ndarray], shares: Shares) -> np.ndarray:
    """Whether each example is of the test split, bool [N]."""
    groups = _Groups(keys, labels)
    if not shares.folds:
        return share_mask(groups, shares.test, shares.seed)
    if shares.folds > len(groups.sizes):
        raise UsageError(
            f"The data has {len(groups.sizes)} different examples, which cannot be divided "
            f"into {shares.folds} folds.",
            hint="Set a smaller --folds.",
        )
    is_fold = np.arange(len(groups.sizes)) % shares.folds == shares.fold
    return is_fold[groups.members]  # the groups of a class are dealt out in turn


def _check(splits: Dict[str, Split], shares: Shares) -> None:
    if shares.folds and shares.test not in (0, DEFAULT_SHARES.test):
        raise UsageError(
            f"Both --folds {shares.folds} and --test-share {shares.test} choose the test split.",
            hint="Set one of them.",
        )
    options = {"validation-share": shares.validation, "test-share": shares.test}
    for option, value in {**options, "folds": shares.folds}.items():
        name = "validation" if option == "validation-share" else "test"
        if name in splits and value not in (0, getattr(DEFAULT_SHARES, name)):
            raise UsageError(
                f"The data has a split '{name}' of its own, so --{option} {value} has no effect.",
                hint=f"Omit --{option}.",
            )
    if shares.folds == 1 or not 0 <= shares.fold < max(1, shares.folds):
        raise UsageError(
            f"Fold {shares.fold} of {shares.folds} does not exist.",
            hint="Set --folds to 2 or more, and --fold to a number from 0 to one less.",
        )


# ---------------------------------------------------------------------------------------- examples


class _Groups:
    """Groups of examples with equal keys, sorted by class and then by key."""

    def __init__(self, keys: np.ndarray, labels: Optional[np.ndarray]):
        _, members, sizes = np.unique(keys, return_inverse=True, return_counts=True)
        members = members.reshape(-1)
        classes = np.zeros(len(sizes), np.int64)
        if labels is not None:
            classes[:] = np.iinfo(np.int64).max
            np.minimum.at(classes, members, labels)
        order = np.argsort(classes, kind="mergesort")  # stable
        ranks = np.empty(len(order), int)
        ranks[order] = np.arange(len(order))
        # Examples and smallest label of each group, int64 [G]; the group of each example, [N].
        self.sizes, self.classes, self.members = sizes[order], classes[order], ranks[members]


def content_keys(split: Split, seed: int = 0) -> np.ndarray:
    """A hash of the content of each example, without its label: uint64 [N]."""
    return _hash((b"".join(parts) for parts in feature_bytes(split)), seed)


def _hash(contents: Iterable[Any], seed: int) -> np.ndarray:
    """A hash of each content, text or bytes: uint64 [N]. Hashes, uint64 [N], are only mixed."""
    if isinstance(contents, np.ndarray):  # by the finalizer of SplitMix64
        start = np.uint64((2 * seed + 1) * 0x9E3779B97F4A7C15 % 2**64)
        mixed = np.asarray(contents, np.uint64) + start
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
        return mixed ^ (mixed >> np.uint64(31))
    salt, keys = int(seed).to_bytes(8, "little", signed=True), []
    for content in contents:
        content = content.encode("ascii") if isinstance(content, str) else content
        keys.append(hashlib.blake2b(content, digest_size=8, salt=salt).digest())
    return np.frombuffer(b"".join(keys), "<u8")


def share_mask(groups: _Groups, share: float, seed: int = 0) -> np.ndarray:
    """Whether each example is in a share of the whole, to one example: bool [N].

    It is as near as possible to that of each class, unless equal examples or small classes prevent
    it. At least one example of each class stays outside.
    """
    totals = np.bincount(groups.classes, weights=groups.sizes).astype(np.int64)  # [K]
    exact = totals * share
    quotas = np.floor(exact).astype(np.int64)  # [K], filled up by the largest remainders
    count = int(np.floor(totals.sum() * share + 0.5)) - int(quotas.sum())
    ties = np.random.RandomState(seed % 2**32).permutation(len(totals))
    quotas[np.lexsort((ties, np.round(quotas - exact, 9)))[:count]] += 1
    quotas = np.minimum(quotas, np.maximum(totals - 1, 0))
    starts = (np.cumsum(totals) - totals)[groups.classes]  # [G]: examples of earlier classes
    ends = np.cumsum(groups.sizes) - starts  # [G]: of the class, up to the group
    is_chosen = ends <= quotas[groups.classes]
    missing = quotas - np.bincount(groups.classes, groups.sizes * is_chosen, len(totals))
    for label in np.flatnonzero(missing):  # a group straddles the quota: take smaller ones
        for group in np.flatnonzero((groups.classes == label) & ~is_chosen):
            if groups.sizes[group] <= missing[label]:
                is_chosen[group] = True
                missing[label] -= groups.sizes[group]
            if not missing[label]:
                break
    return is_chosen[groups.members]
