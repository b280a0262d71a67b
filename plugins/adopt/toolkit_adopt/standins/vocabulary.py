"""`tf.contrib.learn.preprocessing`: texts as rows of the numbers of their words."""

from __future__ import annotations

import collections
import pickle
import re
from typing import Any, Dict, Iterable, Iterator, List

import numpy as np

_WORD = re.compile(r"[A-Z]{2,}(?![a-z])|[A-Z][a-z]+(?=[A-Z])|['\w-]+")


def tokenizer(iterator: Iterable[str]) -> Iterator[List[str]]:
    """The words of each text."""
    return map(_WORD.findall, iterator)


class CategoricalVocabulary:
    """Numbers of words, from 1 on in the order of their first use; 0 is of unknown ones."""

    def __init__(self, unknown_token="<UNK>", support_reverse=True):
        self._mapping: Dict[Any, int] = {unknown_token: 0}
        self._counts: Dict[Any, int] = collections.Counter()
        self._is_frozen = False

    def __len__(self):
        return len(self._mapping)

    def freeze(self, freeze=True):
        """Give no more numbers to new words."""
        self._is_frozen = freeze

    def get(self, category) -> int:
        """The number of a word, which gets one if it is new."""
        if self._is_frozen:
            return self._mapping.get(category, 0)
        return self._mapping.setdefault(category, len(self._mapping))

    def add(self, category, count=1):
        """Count a word."""
        if self.get(category):
            self._counts[category] += count

    def trim(self, min_frequency, max_frequency=-1):
        """Keep words counted more often than one number and, if positive, less than another.

        They get new numbers, the most frequent first, equal ones by the alphabet.
        """
        rows = sorted(sorted(self._counts.items()), key=lambda row: -row[1])
        most = max_frequency if max_frequency > 0 else np.inf
        self._counts = {word: n for word, n in rows if min_frequency < n < most}
        self._mapping = {word: i for i, word in enumerate([self.reverse(0), *self._counts])}

    def reverse(self, class_id):
        """The word of a number."""
        return list(self._mapping)[class_id]


class VocabularyProcessor:
    """Makes rows of numbers, int64 [max_document_length], of texts: zeros follow a short one.

    Words counted no more often than `min_frequency` become unknown.
    """

    def __init__(self, max_document_length, min_frequency=0, vocabulary=None, tokenizer_fn=None):
        self.max_document_length, self.min_frequency = max_document_length, min_frequency
        self.vocabulary_ = vocabulary or CategoricalVocabulary()
        self._tokenizer = tokenizer_fn or tokenizer

    def fit(self, raw_documents, unused_y=None) -> VocabularyProcessor:
        """Learn the words of texts."""
        for words in self._tokenizer(raw_documents):
            for word in words:
                self.vocabulary_.add(word)
        if self.min_frequency > 0:
            self.vocabulary_.trim(self.min_frequency)
        self.vocabulary_.freeze()
        return self

    def fit_transform(self, raw_documents, unused_y=None) -> Iterator[np.ndarray]:
        """Learn the words of texts, and yield the rows of the texts."""
        return self.fit(raw_documents).transform(raw_documents)

    def transform(self, raw_documents) -> Iterator[np.ndarray]:
        """Yield the row of each text."""
        for words in self._tokenizer(raw_documents):
            row = np.zeros(self.max_document_length, np.int64)
            known = [self.vocabulary_.get(word) for word in words[: len(row)]]
            row[: len(known)] = known
            yield row

    def reverse(self, documents) -> Iterator[str]:
        """Yield the text of each row, with the unknown word for zeros."""
        for row in documents:
            yield " ".join(self.vocabulary_.reverse(number) for number in row)

    def save(self, filename) -> None:
        """Write it as a pickle."""
        with open(filename, "wb") as file:
            pickle.dump(self, file)

    @classmethod
    def restore(cls, filename) -> VocabularyProcessor:
        """Read what `save` wrote."""
        with open(filename, "rb") as file:
            processor: VocabularyProcessor = pickle.load(file)
        return processor
