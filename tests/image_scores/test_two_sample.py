"""The two-sample test: who is trained on what, its interval, its network, and its report."""

import json

import numpy as np
import pytest
from score_fixtures import make_images, make_split
from toolkit_image_scores import report, two_sample
from toolkit_image_scores.sets import hash_images
from toolkit_image_scores.two_sample import compare_sets, compare_with_split, divide_sets

from toolkit import Split, tf


def new_random():
    return np.random.RandomState(0)


def numbered(count, start=0):
    """uint8 [count, 1, 1, 2]: each image is a number of its own."""
    numbers = np.arange(start, start + count)
    return np.stack(np.divmod(numbers, 256), axis=1).astype(np.uint8).reshape(count, 1, 1, 2)


def numbers(images):
    """The set of the numbers of `numbered` images."""
    return set((images.reshape(-1, 2).astype(int) @ [256, 1]).tolist())


def test_with_enough_training_images_all_held_out_images_are_judged():
    reals, fakes, training = numbered(50), numbered(200, 1000), numbered(80, 5000)
    used_reals, used, tested_reals, tested = divide_sets(reals, fakes, training, new_random())
    assert sorted(tested_reals) == list(range(50)) and len(tested) == 100
    assert numbers(used_reals) == numbers(training) and len(used) == 80
    assert not set(used) & set(tested)


@pytest.mark.parametrize("training", [None, numbered(30, 5000)])
def test_with_too_few_half_of_the_held_out_images_train_the_network(training):
    reals, fakes = numbered(51), numbered(200, 1000)
    used_reals, used, tested_reals, tested = divide_sets(reals, fakes, training, new_random())
    assert len(set(tested_reals)) == 25
    assert not numbers(used_reals) & numbers(reals[tested_reals])
    assert not set(used) & set(tested)
    assert training is None or numbers(training) < numbers(used_reals)


def test_the_training_images_are_of_the_whole_split():
    sets = numbered(200), numbered(300, 1000), numbered(260, 5000)
    (images, *_), (again, *_) = (divide_sets(*sets, new_random()) for _ in range(2))
    used = numbers(images)
    assert len(used) == 150 and len([number for number in used if number >= 5130]) > 50
    assert np.array_equal(again, images)


@pytest.mark.parametrize("counts", [(40, 100, 2000), (40, 1000, 20), (30, 21, None)])
def test_a_network_is_trained_on_as_many_real_as_generated_images(counts):
    sets = [None if count is None else numbered(count) for count in counts]
    reals, used, _, tested = divide_sets(*sets, random=new_random())
    assert len(reals) == len(used) > 0 and len(tested) > 0


def test_large_sets_are_thinned_and_the_steps_are_limited():
    zeros = np.zeros([30000, 4, 4, 1], np.uint8)
    parts = divide_sets(zeros, zeros, zeros, new_random())
    assert [len(part) for part in parts] == [10000, 10000, 2000, 2000]
    large, small = (np.zeros([100, side, side, 3], np.uint8) for side in (128, 32))
    plenty = np.broadcast_to(large[:1], [9000, 128, 128, 3])
    assert two_sample.count_steps(plenty) == 500  # 64 / 128 of 1,000
    assert two_sample.count_steps(small) == 240  # 60 passes of 4 batches


def test_the_interval_of_a_mean_of_two_shares_by_hand():
    # Wilson of 90 of 100: [0.8256, 0.9448]; of 140 of 200: [0.6332, 0.7592].
    reals, fakes = (np.where(np.arange(n) < k, 1.0, -1.0) for k, n in ((90, 100), (60, 200)))
    low, high = two_sample.find_interval(reals, fakes)[:2]
    assert low == pytest.approx(0.8 - np.hypot(0.0744, 0.0668) / 2, abs=1e-4)
    assert high == pytest.approx(0.8 + np.hypot(0.0448, 0.0592) / 2, abs=1e-4)
    assert two_sample.find_interval(np.ones(20), -np.ones(20)).high == 1
    assert two_sample.find_interval(-np.ones(20), np.ones(20)).low == 0


def test_a_network_tells_reals_from_images_without_noise_and_does_so_again(monkeypatch):
    monkeypatch.setattr(two_sample, "NUM_STEPS", 60)
    reals, training = make_images(np.arange(80) % 4, 1), make_images(np.arange(160) % 4, 2)
    fakes = make_images(np.arange(200) % 4, 3) // 64 * 64
    with tf.Graph().as_default() as graph:
        result, again = (compare_sets(reals, fakes, training) for _ in range(2))
    assert result["accuracy"] > 0.9 and result["low"] > 0.8
    assert (result["n"], result["m"]) == (100, 80)
    assert result["accuracy"] == (result["fakes"] + result["reals"]) / 2
    assert again == json.loads(json.dumps(result)) and graph.get_operations() == []


@pytest.mark.parametrize("shape", [(1, 9, 2), (13, 6, 3)])
def test_images_of_any_shape_are_judged_with_and_without_training_images(shape, monkeypatch):
    monkeypatch.setattr(two_sample, "NUM_STEPS", 10)
    random = np.random.RandomState(0)
    reals = random.randint(0, 100, (25, *shape)).astype(np.uint8)
    fakes = random.randint(156, 256, (40, *shape)).astype(np.uint8)
    for training in (None, reals[::-1]):
        result = compare_sets(reals, fakes, training)
        assert 0 <= result["accuracy"] <= 1 and result["m"] == (12 if training is None else 25)
    assert compare_sets(0 * reals, 0 * reals)["accuracy"] == 0.5


def test_there_is_no_test_of_few_images_or_of_what_is_no_image():
    def absence(*arguments, **named):
        details = compare_with_split(*arguments, **named)
        assert details.pop("two_sample") is None
        return details

    fakes, needs = make_images(np.arange(40) % 4), "it needs 20 held-out images, and there are 19"
    hint = " (a run with a larger --test-share holds out more of data without splits of their own)"
    assert absence(fakes, make_split(19)) == {"no_two_sample": needs + hint}
    seen = set(hash_images(make_split(40).features[:21]))
    assert absence(fakes, make_split(40), training_digests=seen) == {"no_two_sample": needs}
    expected = {"no_two_sample": "it needs 20 samples, and there are 19"}
    assert absence(fakes[:19], make_split(40)) == expected
    vectors = np.zeros([40, 6], np.uint8)
    assert absence(vectors, Split(vectors, None)) == {}


def test_real_images_that_were_trained_on_are_not_tested(monkeypatch):
    tested = []

    def compare(reals, fakes, training):
        tested.append(reals)

    monkeypatch.setattr(two_sample, "compare_sets", compare)
    fakes, train, reals = (make_images(np.arange(60) % 4, seed) for seed in (1, 2, 3))
    mixed = Split(np.concatenate([train[:30], reals[:30]]), None)
    compare_with_split(fakes, mixed, Split(train, None))
    np.testing.assert_array_equal(tested.pop(), reals[:30])
    compare_with_split(fakes, mixed, Split(train, None), set(hash_images(reals[:10])))
    np.testing.assert_array_equal(tested.pop(), reals[10:30])
    compare_with_split(fakes, mixed, Split(train, None), set(hash_images(reals[:11])))
    assert tested == []  # 19 are too few


TEST = {"accuracy": 0.971, "low": 0.9503, "high": 0.982, "n": 2000, "m": 500}
TEST.update(fakes=0.99, reals=0.952)
DETAILS = {"frechet_distance": None, "features": {"name": "x", "size": 4, "sha256": "ab"}}
DETAILS.update(dict.fromkeys(["precision", "recall", "coverage"]))


def test_the_line_says_what_indistinguishable_would_be():
    first = report.list_facts(dict(DETAILS, two_sample=TEST))[0]
    assert first.is_shown and first.text == (
        "97 % of samples and real images are recognised as generated or real; 50 % would be "
        "indistinguishable (95 % interval 95 to 98 %; n = 2,000, m = 500)"
    )


def test_the_page_begins_with_the_accuracy_its_interval_and_chance():
    headline = report.page_content(dict(DETAILS, two_sample=TEST), [])["headline"][0]
    assert headline["value"] == 0.971 and headline["ends"] == [0.5, 1.0]
    assert headline["low"] == 0.9503 and headline["high"] == 0.982 and headline["level"] == 0.95
    for absent in ({"two_sample": None}, {}):
        assert report.page_content(dict(DETAILS, **absent), [])["headline"] == []
