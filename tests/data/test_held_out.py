"""Held-out splits: the exact share, of each class, whatever the order, equal examples together."""

from unittest import mock

import numpy as np
import pytest
from file_fixtures import write_idx

from toolkit.data import held_out
from toolkit.data.examples import Split
from toolkit.data.held_out import DEFAULT_SHARES, Shares, hold_out
from toolkit.data.reading_options import reading_settings
from toolkit.data.sources import open_data
from toolkit.errors import UsageError
from toolkit.options import CoreOptions


def examples(count, seed=0):
    """Different examples, uint8 [count, 3, 3]."""
    return np.random.RandomState(seed).randint(0, 256, (count, 3, 3)).astype(np.uint8)


def counts(splits, classes):
    """Split name -> examples of each class."""
    return {n: np.bincount(s.labels, minlength=classes).tolist() for n, s in splits.items()}


@pytest.mark.parametrize("copies", [1, 2], ids=["different", "of contradictory labels"])
def test_the_order_of_the_examples_does_not_change_the_choice(copies):
    images, labels = examples(500).repeat(copies, axis=0), np.arange(500 * copies) % 7
    order = np.random.RandomState(1).permutation(500 * copies)
    first = hold_out({"train": Split(images, labels)})["test"].features
    second = hold_out({"train": Split(images[order], labels[order])})["test"].features
    assert {image.tobytes() for image in first} == {image.tobytes() for image in second}


@pytest.mark.parametrize("share", [0.03, 0.15, 0.41, 0.5])
def test_the_share_is_exact(share):
    split = Split(examples(1000), np.random.RandomState(0).randint(0, 7, 1000))
    splits = hold_out({"train": split}, Shares(validation=share, test=0))
    assert len(splits["validation"]) == round(1000 * share) and "test" not in splits


def test_a_class_gets_its_share_to_one_example():
    labels = np.repeat(np.arange(4), [900, 70, 25, 5])
    split = counts(hold_out({"train": Split(examples(1000), labels)}, Shares(0, 0.1)), 4)
    assert np.abs(np.array(split["test"]) - [90, 7, 2.5, 0.5]).max() < 1
    assert sum(split["test"]) == 100


def test_equal_examples_are_on_one_side():
    images = np.repeat(examples(300), 3, axis=0)
    splits = hold_out({"train": Split(images, np.arange(900) % 3)})
    sides = [{image.tobytes() for image in split.features} for split in splits.values()]
    assert not (sides[0] & sides[1] or sides[0] & sides[2] or sides[1] & sides[2])
    assert [len(split) for split in splits.values()] == pytest.approx([729, 81, 90], abs=3)


def test_a_class_with_one_example_is_trained_on():
    labels = np.array([0] * 50 + [1])
    splits = hold_out({"train": Split(examples(51), labels)}, Shares(0.5, 0.5))
    assert counts(splits, 2)["train"][1] == 1


def test_folds_cover_all_examples_once():
    images, labels = examples(103), np.repeat(np.arange(3), [60, 40, 3])
    whole = {"train": Split(images, labels)}
    folds = [hold_out(whole, Shares(0, folds=5, fold=i))["test"] for i in range(5)]
    assert sorted(np.concatenate([fold.index for fold in folds])) == list(range(103))
    assert {len(fold) for fold in folds} == {20, 21}
    assert all(np.bincount(fold.labels)[:2].tolist() == [12, 8] for fold in folds)


def test_another_seed_holds_out_other_examples():
    split = Split(examples(200))
    first, second = (hold_out({"train": split}, Shares(seed=s))["test"].index for s in (0, 1))
    assert set(first) != set(second) and len(first) == len(second) == 20


@pytest.mark.parametrize(
    "names, shares, text",
    [
        ("train test", Shares(test=0.2), "--test-share 0.2 has no effect"),
        ("train test", Shares(folds=3), "--folds 3 has no effect"),
        ("train test", Shares(folds=3, test=0.3), "Both --folds 3 and --test-share 0.3"),
        ("train", Shares(folds=10), "9 different examples.*10 folds"),
        ("train", Shares(folds=1), "Fold 0 of 1"),
        ("train", Shares(fold=1), "Fold 1 of 0"),
    ],
)
def test_a_choice_that_is_impossible_or_without_effect_is_refused(names, shares, text):
    split = Split(examples(9).repeat(5, axis=0))
    with pytest.raises(UsageError, match=text):
        hold_out(dict.fromkeys(names.split(), split), shares)


def test_equal_remainders_go_to_classes_by_chance():
    labels = np.repeat(np.arange(20), 5)
    split = Split(examples(100), labels)
    chosen = [set(hold_out({"train": split}, Shares(seed=s))["test"].labels) for s in range(3)]
    assert len(chosen[0]) == 10 and len(chosen[0] | chosen[1] | chosen[2]) > 10


def test_a_choice_of_large_data_is_made_once_until_a_cause_changes(tmp_path, cache, monkeypatch):
    content_keys = mock.Mock(wraps=held_out.content_keys)
    monkeypatch.setattr(held_out, "_LARGE", 1)
    monkeypatch.setattr(held_out, "content_keys", content_keys)
    pixels = np.random.RandomState(0).randint(0, 256, (100, 4, 4)).astype(np.uint8)
    write_idx(str(tmp_path / "train-images-idx3-ubyte"), pixels)

    def reopen(shares=DEFAULT_SHARES, classes=5, rehash=False):
        labels = (np.arange(100) % classes).astype(np.uint8)
        write_idx(str(tmp_path / "train-labels-idx1-ubyte"), labels)
        settings = dict(reading_settings(CoreOptions(rehash=rehash)), shares=shares)
        data = open_data(f"idx:{tmp_path}", **settings)
        return {name: split.index.tolist() for name, split in data.splits.items()}

    first = reopen()
    assert first == reopen() and content_keys.call_count == 1
    assert [len(first[name]) for name in ("train", "test", "validation")] == [81, 10, 9]
    changes = ({"shares": Shares(seed=1)}, {"classes": 4}, {"rehash": True})
    for number, change in enumerate(changes, 2):
        reopen(**change)
        assert content_keys.call_count == number
