"""Sequences: classify texts of different lengths, given as the ids of their words.

    toolkit run --plugin samples/plugins/sequences.py

A feature that is a list of arrays of different lengths is a sequence, and needs a name. In a
batch, `words` comes padded to one length, int64 [N, L], together with `words_length`, int32 [N],
from which the model computes which words are padding. `Column` says with what to pad; L is the
length of the longest review of the batch.

The data is the plugin's own: reviews of 2 to 20 words, of which few say whether they are good.

Legend: N examples in a batch, L the length of the batch, V words, E size of an embedding,
K classes.
"""

from __future__ import annotations

from typing import Any, ClassVar, Mapping

import numpy as np

from toolkit import Column, Options, Split, hookimpl, option, tf

PADDING = 0  # the id of no word
VOCABULARY = 50  # V, with the padding
NUM_HINTS = 5  # words 1 to 5 are of good reviews, 6 to 10 of bad ones; all others say nothing
CLASSES = ("bad", "good")
REVIEWS = {"train": 400, "validation": 100, "test": 150}


class SequencesOptions(Options):
    core_defaults: ClassVar[Mapping[str, Any]] = {
        "epochs": 15.0,
        "learning_rate": 0.02,
        "best_metric": "accuracy",
    }

    embedding: int = option(8, "size of the embedding of a word", unit="values", ge=1)


def generate_reviews(count: int, seed: int):
    """Lists of ids [length], and classes [count]."""
    random = np.random.RandomState(seed)
    labels = random.randint(0, 2, count)
    reviews = []
    for is_good in labels:
        words = random.randint(2 * NUM_HINTS + 1, VOCABULARY, random.randint(2, 21))
        is_hint = random.uniform(size=len(words)) < 0.3
        is_hint[random.randint(len(words))] = True
        first = 1 if is_good else 1 + NUM_HINTS
        reviews.append(
            np.where(is_hint, random.randint(first, first + NUM_HINTS, len(words)), words)
        )
    return reviews, labels


@hookimpl
def options():
    return SequencesOptions


@hookimpl
def data(split):
    reviews, labels = generate_reviews(REVIEWS[split], seed=list(REVIEWS).index(split))
    words = Column(reviews, padding=PADDING)
    return Split({"words": words}, Column(labels, class_names=CLASSES))


@hookimpl
def build(run):
    sizes = {"embedding": [VOCABULARY, run.options.embedding]}
    sizes["weights"] = [run.options.embedding, run.data.num_classes]
    return {
        name: tf.get_variable(name, shape, initializer=run.initializer("glorot_uniform", name))
        for name, shape in sizes.items()
    }


@hookimpl
def call(model, features):
    words, lengths = features["words"], features["words_length"]  # [N, L] and [N]
    vectors = tf.nn.embedding_lookup(model["embedding"], words)  # [N, L, E]
    is_word = tf.sequence_mask(
        lengths, tf.shape(words)[1], tf.float32
    )  # [N, L]: 1, or 0 in padding
    sums = tf.reduce_sum(vectors * is_word[..., tf.newaxis], axis=1)
    means = sums / tf.cast(tf.maximum(lengths, 1), tf.float32)[:, tf.newaxis]  # [N, E]
    return {"logits": tf.matmul(means, model["weights"])}  # [N, K]


@hookimpl
def loss(labels, outputs):
    return tf.losses.sparse_softmax_cross_entropy(labels, outputs["logits"])


@hookimpl
def optimize(losses, run):
    return run.minimize(losses)


@hookimpl
def predict(outputs):
    probabilities = tf.nn.softmax(outputs["logits"])
    return {"label": tf.argmax(probabilities, axis=1), "probabilities": probabilities}


@hookimpl
def example_metrics(labels, outputs):
    predicted = tf.argmax(outputs["logits"], axis=1, output_type=tf.int32)
    return {"accuracy": tf.equal(predicted, labels)}


@hookimpl
def metric_directions():
    return {"accuracy": "max"}
