"""The plugin's options. This module imports no TensorFlow, so `toolkit run --help` is fast."""

from __future__ import annotations

from typing import Any, ClassVar, Mapping

from toolkit import Options, option

REVIEWS = "reviews"  # the value of --data for the plugin's own texts


class TextClassifierOptions(Options):
    """With the defaults, a run takes a few seconds."""

    core_defaults: ClassVar[Mapping[str, Any]] = {
        "data": REVIEWS,
        "epochs": 10.0,
        "learning_rate": 0.01,
        "schedule": "cosine",
        "best_metric": "accuracy",
    }

    buckets: int = option(
        4096, "numbers of words: each word has one, and rare words may share theirs", ge=1
    )
    embedding: int = option(16, "size of the embedding of a word", unit="values", ge=1)
    filters: int = option(32, "features of a word and its neighbours", ge=1)
    window: int = option(5, "words that a vote depends on: a word and its neighbours", ge=1)
    max_words: int = option(100, "words of a text that are read", unit="words", ge=1)
    word_dropout: float = option(0.1, "share of words that a training step hides", ge=0, lt=1)
    report_texts: int = option(
        12, "texts in the report of an evaluation", unit="texts", ge=0, affects_result=False
    )
