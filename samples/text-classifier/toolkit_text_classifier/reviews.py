"""The plugin's own data: made-up reviews of restaurants, which are good or bad.

A review consists of opinions and of sentences that say nothing. Whether it is good is decided by
the majority of its opinions, and "not" turns an opinion round. Single words are therefore not
enough: "not bad" is praise.
"""

from __future__ import annotations

from typing import List

import numpy as np

from toolkit import Column, Split

CLASSES = ("bad", "good")
COUNTS = {"train": 3000, "validation": 400, "test": 600}
ADJECTIVES = (
    ("bad", "awful", "bland", "cold", "dull", "greasy", "noisy", "rude", "slow", "tiny"),
    ("good", "great", "fresh", "friendly", "lovely", "quick", "tasty", "warm", "superb", "quiet"),
)
THINGS = (
    "soup",
    "bread",
    "fish",
    "service",
    "waiter",
    "music",
    "dessert",
    "coffee",
    "pasta",
    "bill",
)
ADVERBS = ["really ", "very ", "rather ", "quite ", "", "", "", ""]
VERBS = ("was", "seemed", "is")
NEUTRAL = (
    "we came on a {}",
    "my sister ordered the {}",
    "it is near the {}",
    "there was a {} on the wall",
    "they also have {}",
)
NOUNS = ("monday", "station", "soup", "bridge", "fish", "menu", "church", "bus", "market", "salad")


def make_split(split) -> Split:
    """The texts of a split, with their classes."""
    random = np.random.RandomState(list(COUNTS).index(split))
    labels = random.randint(0, 2, COUNTS[split])
    texts = [write_review(label, random) for label in labels]
    return Split(np.array(texts), Column(labels, class_names=CLASSES))


def write_review(label, random) -> str:
    """A review of the class `label`."""
    count = 2 * random.randint(0, 3) + 1
    others = random.randint(0, count // 2 + 1)
    sentences = [write_opinion(label, random) for _ in range(count - others)]
    sentences += [write_opinion(1 - label, random) for _ in range(others)]
    sentences += [write_aside(random) for _ in range(random.randint(0, 4))]
    random.shuffle(sentences)
    return " ".join(join(sentences, random))


def write_opinion(label, random) -> str:
    is_negated = random.uniform() < 0.4
    adjective = random.choice(ADJECTIVES[1 - label if is_negated else label])
    words = [random.choice(VERBS), "not"] if is_negated else [random.choice(VERBS)]
    return f"the {random.choice(THINGS)} {' '.join(words)} {random.choice(ADVERBS)}{adjective}"


def write_aside(random) -> str:
    return random.choice(NEUTRAL).format(random.choice(NOUNS))


def join(sentences, random) -> List[str]:
    """Sentences with capitals, and a mark at the end of each."""
    return [text.capitalize() + random.choice([".", "!", ",", " ..."]) for text in sentences]
