"""From texts to the numbers of their words, in the graph: an export takes texts, too.

A word's number is a hash, so that no list of words has to be stored.

Legend: N examples in a batch, L words of the longest text in the batch.
"""

from __future__ import annotations

import re
from typing import Any, List, NamedTuple

from toolkit import DataError, tf

NO_LETTERS = r"[^\pL\pN']+"


class Words(NamedTuple):
    """The words of a batch."""

    numbers: Any  # int64 [N, L], in [0, buckets)
    is_word: Any  # float32 [N, L]: 1, or 0 behind the end of a text


def split_texts(texts, buckets, max_words) -> Words:
    """Split texts, string [N], into the first `max_words` words of each."""
    texts = tf.strings.regex_replace(tf.strings.lower(texts, "utf-8"), NO_LETTERS, " ")
    words = tf.strings.split(tf.strings.strip(texts), result_type="RaggedTensor")
    words = words.to_tensor("")[:, :max_words]  # [N, L]
    is_empty = tf.cast(tf.equal(tf.shape(words)[1], 0), tf.int32)
    words = tf.pad(words, [[0, 0], [0, is_empty]], constant_values="")  # a convolution needs some
    is_word = tf.cast(tf.not_equal(words, ""), tf.float32)
    return Words(tf.strings.to_hash_bucket_fast(words, buckets), is_word)


def split_text(text: bytes, max_words: int) -> List[str]:
    """The words of one text in Python, as `split_texts` finds them."""
    return re.findall(r"(?:[^\W_]|')+", text.decode().lower())[:max_words]


def only_text(features):
    """The texts of features that are texts, or of a table whose only feature is a text."""
    return list(features.values())[0] if isinstance(features, dict) else features


def check_data(data) -> None:
    """Raise DataError if the examples are not one text each, with one class as label."""
    features = data.features if isinstance(data.features, dict) else {"": data.features}
    if len(features) > 1 or only_text(features).kind != "text" or only_text(features).shape:
        raise DataError(
            f"The text classifier needs one text as features, and the data has "
            f"{data.describe_features()}.",
            hint="Choose a table with a column of texts: --data table:FILE --feature-columns NAME.",
        )
    if data.num_classes < 2:
        raise DataError(
            "The text classifier needs two classes or more as labels.",
            hint="Name the column of the classes with --label-column.",
        )
