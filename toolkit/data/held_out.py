"""Held-out splits: which examples of a data set train, and which validate and test.

The choice is a function of the content of the examples, not of their order. In each class it takes
the same share, and examples with equal content are always in one split.

Legend: N examples, G groups of examples with equal content, K classes.
"""

from __future__ import annotations

import hashlib
from typing import Dict, NamedTuple, Tuple

import numpy as np

from ..errors import UsageError
from .examples import Split

_CHUNK = 4096  # examples


class Shares(NamedTuple):
    """How much is held out of a data set that lacks a split.

    Attributes:
        validation: of the examples that are not tested, in [0, 0.5]; 0 for no validation split.
        test: of all examples, in [0, 0.5]; 0 for no test split.
        folds: 0, or the number of equal parts of the examples, one of which is the test split.
        fold: which part, in [0, folds).
        seed: other seeds choose other examples.
    """

    validation: float = 0.1
    test: float = 0.1
    folds: int = 0
    fold: int = 0
    seed: int = 0


DEFAULT_SHARES = Shares()
NOTHING = Shares(validation=0, test=0)


def hold_out(splits: Dict[str, Split], shares: Shares = DEFAULT_SHARES) -> Dict[str, Split]:
    """Hold out a test split and then a validation split of "train", unless they exist.

    Args:
        splits: by name, with "train".
        shares: how much.

    Returns:
        The splits by name, without empty ones.

    Raises:
        UsageError: a share is out of range, or it is set for a split that the data has.
    """
    _check(splits, shares)
    result = dict(splits)
    train = result["train"]
    if "test" not in result and shares.folds:
        is_test = fold_mask(_Groups.of(train, shares.seed), shares.folds, shares.fold)
        train, result["test"] = train.subset(~is_test), train.subset(is_test)
    elif "test" not in result and shares.test:
        train, result["test"] = _divide(train, shares.test, shares.seed)
    if "validation" not in result and shares.validation:
        train, result["validation"] = _divide(train, shares.validation, shares.seed)
    result["train"] = train
    return {name: split for name, split in result.items() if len(split)}


def _divide(split: Split, share: float, seed: int) -> Tuple[Split, Split]:
    """The examples that stay, and those that are held out."""
    mask = share_mask(_Groups.of(split, seed), share)
    return split.subset(~mask), split.subset(mask)


def _check(splits: Dict[str, Split], shares: Shares) -> None:
    for name, share in (("validation", shares.validation), ("test", shares.test)):
        if not 0 <= share <= 0.5:
            raise UsageError(
                f"The {name} share is {share}, which is not between 0 and 0.5.",
                hint="Give the share of the examples to hold out, for example 0.1.",
            )
        if name in splits and share not in (0, getattr(DEFAULT_SHARES, name)):
            raise UsageError(
                f"The data has a split '{name}' of its own, so --{name}-share {share} has no "
                "effect.",
                hint=f"Omit --{name}-share.",
            )
    if "test" in splits and shares.folds:
        raise UsageError(
            f"The data has a split 'test' of its own, so --folds {shares.folds} has no effect.",
            hint="Omit --folds.",
        )
    if shares.folds == 1 or not 0 <= shares.fold < max(1, shares.folds):
        raise UsageError(
            f"Fold {shares.fold} of {shares.folds} does not exist.",
            hint="Set --folds to 2 or more, and --fold to a number from 0 to one less.",
        )


# ---------------------------------------------------------------------------------------- examples


class _Groups(NamedTuple):
    """Groups of equal examples, sorted by class and then by key.

    Attributes:
        sizes: examples of each group, int64 [G].
        classes: of each group, int64 [G], in [0, K).
        members: the group of each example, int64 [N].
    """

    sizes: np.ndarray
    classes: np.ndarray
    members: np.ndarray

    @classmethod
    def of(cls, split: Split, seed: int = 0) -> _Groups:
        """The groups of a split. The class of a group is that of its first example."""
        _, first, members, sizes = np.unique(
            content_keys(split, seed), return_index=True, return_inverse=True, return_counts=True
        )
        labels = np.zeros(len(split), int) if split.labels is None else split.labels
        order = np.argsort(labels[first], kind="mergesort")  # stable
        ranks = np.empty(len(order), int)
        ranks[order] = np.arange(len(order))
        return cls(sizes[order], labels[first][order], ranks[members.reshape(-1)])


def content_keys(split: Split, seed: int = 0) -> np.ndarray:
    """A hash of the content of each example, without its label: uint64 [N]."""
    salt = int(seed).to_bytes(8, "little", signed=True)
    keys = []
    for start in range(0, len(split), _CHUNK):
        for example in np.ascontiguousarray(split.take(slice(start, start + _CHUNK))[0]):
            keys.append(hashlib.blake2b(example.data, digest_size=8, salt=salt).digest())
    return np.frombuffer(b"".join(keys), "<u8")


def fold_mask(groups: _Groups, folds: int, fold: int) -> np.ndarray:
    """Whether each example is in a fold, bool [N]. The groups of a class are dealt out in turn."""
    return (np.arange(len(groups.sizes)) % folds == fold)[groups.members]


def share_mask(groups: _Groups, share: float) -> np.ndarray:
    """Whether each example is in a share, bool [N].

    The share is that of the whole, to one example, and as near as possible to that of each class,
    unless equal examples prevent it. At least one example of each class stays outside.
    """
    totals = np.bincount(groups.classes, weights=groups.sizes).astype(np.int64)  # [K]
    quotas = _divide_quota(totals, share)  # [K]
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


def _divide_quota(totals: np.ndarray, share: float) -> np.ndarray:
    """How many examples of each class make up a share of all, by the largest remainders.

    Args:
        totals: examples of each class, int64 [K].
        share: in [0, 1].

    Returns:
        int64 [K], each less than the total of its class.
    """
    exact = totals * share
    quotas = np.floor(exact).astype(np.int64)
    count = int(np.floor(totals.sum() * share + 0.5)) - int(quotas.sum())
    quotas[np.argsort(quotas - exact, kind="mergesort")[:count]] += 1
    return np.minimum(quotas, np.maximum(totals - 1, 0))
