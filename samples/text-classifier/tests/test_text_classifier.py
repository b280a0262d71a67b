"""The text classifier keeps the contracts of toolkit, and reads words, not their padding."""

import os

import numpy as np
import pytest
from toolkit_text_classifier import report, reviews, words

from toolkit import DataError, open_trained, testing, tf

pytest_plugins = ["toolkit.testing.fixtures"]

SMALL = {"embedding": 8, "filters": 8, "buckets": 512}


@pytest.fixture(scope="module")
def plugin():
    """What the fixture `contract` checks."""
    return "text-classifier"


@pytest.fixture(scope="module")
def plugin_options():
    """The options of its runs: a small network is enough."""
    return SMALL


def test_a_contract_holds(contract):
    contract()


def split(*texts, max_words=100):
    """The numbers and the mask of the words of texts, as arrays."""
    with tf.Graph().as_default(), tf.Session() as session:
        return session.run(words.split_texts(tf.constant(list(texts)), 10**6, max_words))


def test_capitals_and_marks_are_no_part_of_a_word():
    numbers, is_word = split("It's GOOD, good!", "Très bon")
    assert is_word.tolist() == [[1, 1, 1], [1, 1, 0]]
    assert numbers[0, 1] == numbers[0, 2] and len(set(numbers[:, :2].ravel())) == 4


def test_a_text_without_words_has_none_and_words_beyond_the_most_are_not_read():
    assert split("", "...", "one")[1].tolist() == [[0], [0], [1]]
    assert split("a b c d", max_words=3)[1].tolist() == [[1, 1, 1]]


@pytest.mark.parametrize("text", ["It's GOOD, good!", "Très bon ... a_b", "", "4 × 4"])
def test_the_report_finds_the_words_that_the_graph_finds(text):
    count = len(words.split_text(text.encode(), 100))
    assert split(text, "one")[1][0].sum() == count


def test_not_turns_an_opinion_round():
    random = np.random.RandomState(0)
    opinions = [reviews.write_opinion(1, random).split() for _ in range(200)]
    for opinion in opinions:
        assert opinion[-1] in reviews.ADJECTIVES["not" not in opinion]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The folder of a run on the reviews."""
    folder = str(tmp_path_factory.mktemp("run") / "run")
    testing.train("text-classifier", folder, steps=250, **SMALL)
    return folder


def test_it_reads_negations(run):
    texts = ["The soup was good.", "The soup was not good.", "The soup was not bad!", "It is bad"]
    with open_trained(run) as trained:
        assert trained.predict(np.array(texts))["label"].tolist() == [1, 0, 1, 0]


@pytest.mark.parametrize("short", ["The soup was not good.", "..."])
def test_a_longer_text_beside_it_changes_no_prediction(run, short):
    long = "The fish is great. " * 12
    with open_trained(run) as trained:
        alone, beside = (
            trained.predict(np.array(texts))["probabilities"][0]
            for texts in ([short], [short, long])
        )
    assert alone == pytest.approx(beside, abs=1e-6)


def test_an_evaluation_draws_the_votes(run):
    (folder,) = os.listdir(os.path.join(run, "reports"))
    assert sorted(os.listdir(os.path.join(run, "reports", folder))) == ["examples.npz", "votes.png"]


def test_words_in_any_letters_are_drawn(tmp_path):
    page = report.Page(["good", "плохо"])
    page.add_line(0, 1)
    page.add_words(["größe", "слово", "猫"], np.eye(3, 2))
    page.save(str(tmp_path / "votes.png"))
    assert (tmp_path / "votes.png").exists()


def test_a_table_with_a_column_of_texts_replaces_the_reviews(tmp_path):
    rows = [f'"number {n} is {w} of course",{w}' for n in range(30) for w in ("even", "odd")]
    (tmp_path / "notes.csv").write_text("\n".join(["note,label", *rows]) + "\n")
    data, run = f"table:{tmp_path / 'notes.csv'}", str(tmp_path / "run")
    summary = testing.train("text-classifier", run, data=data, steps=100, batch_size=8, **SMALL)
    assert summary["test"]["metrics"]["accuracy"] == 1


def test_data_without_texts_is_refused(tmp_path):
    data = testing.write_digits(str(tmp_path / "digits.npz"))
    with pytest.raises(DataError, match="needs one text"):
        testing.train("text-classifier", str(tmp_path / "run"), data=data)
