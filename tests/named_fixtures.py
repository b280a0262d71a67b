"""A model of named components of every kind: sequences of ids and of images, texts, images,
values; labels by name.
"""

import numpy as np

from toolkit import Column, Split, hookimpl, tf

COUNT = 24
WORDS = 11  # ids of words


def named_arrays(count=COUNT):
    """Features and labels by name, each a function of the number of the example."""
    numbers = np.arange(count)
    features = {
        "words": [np.arange(n % 5 + 1) % WORDS for n in numbers],
        "clip": [np.full([n % 3 + 1, 2, 2, 1], n * 10, np.uint8) for n in numbers],
        "note": [f"text {n % 3}" for n in numbers],
        "photo": (numbers[:, None, None, None] * np.ones([1, 4, 6, 3]) * 10).astype(np.uint8),
        "size": (numbers / count).astype(np.float64),
        "is_new": numbers % 2 == 0,
    }
    labels = {
        "price": (numbers / 10 + numbers % 5).astype(np.float32),
        "is_cheap": numbers % 3 == 0,
        "mask": np.tile(numbers[:, None, None] % 3, [1, 4, 6]).astype(np.uint8),
    }
    return features, labels


def named_split(count=COUNT):
    features, labels = named_arrays(count)
    features["words"] = Column(features["words"], padding=-1)
    return Split(features, labels)


class Named:
    """Predicts a price and a mask from all features; the data is its own."""

    @hookimpl
    def data(self, split):
        return {"train": named_split(), "test": named_split(9)}.get(split)

    @hookimpl
    def build(self, run):
        initial = run.initializer("normal", "weights")([7, 1], tf.float32)
        table = run.initializer("normal", "table")([WORDS + 1, 2], tf.float32)
        return {
            "weights": tf.get_variable("weights", initializer=initial),
            "table": tf.get_variable("table", initializer=table),
            "classes": tf.get_variable("classes", [3, 3], initializer=tf.zeros_initializer()),
        }

    @hookimpl
    def call(self, model, features):
        words = tf.nn.embedding_lookup(model["table"], features["words"] + 1)  # [N, L, 2]
        is_word = tf.sequence_mask(features["words_length"], tf.shape(features["words"])[1])
        words = words * tf.cast(is_word, tf.float32)[..., tf.newaxis]
        is_frame = tf.sequence_mask(features["clip_length"], tf.shape(features["clip"])[1])
        frames = tf.reduce_sum(features["clip"], [2, 3, 4]) * tf.cast(is_frame, tf.float32)
        letters = tf.strings.length(features["note"])[:, tf.newaxis]
        inputs = [
            tf.reduce_sum(words, 1),
            tf.reduce_sum(frames, 1)[:, tf.newaxis],
            tf.reduce_mean(features["photo"], [1, 2])[:, :1],
            features["size"][:, tf.newaxis],
            tf.cast(features["is_new"], tf.float32)[:, tf.newaxis],
            tf.cast(letters, tf.float32),
        ]
        price = tf.matmul(tf.concat(inputs, 1), model["weights"])[:, 0]
        logits = tf.tensordot(features["photo"], model["classes"], [[3], [0]])
        return {"price": price, "logits": logits}

    @hookimpl
    def loss(self, labels, outputs):
        squares = tf.square(outputs["price"] - labels["price"])
        pixels = tf.nn.sparse_softmax_cross_entropy_with_logits(
            labels=labels["mask"], logits=outputs["logits"]
        )
        return tf.reduce_mean(squares) + tf.reduce_mean(pixels)

    @hookimpl
    def optimize(self, losses, run):
        return run.minimize(losses)

    @hookimpl
    def predict(self, outputs, features):
        return {
            "price": outputs["price"],
            "mask": tf.argmax(outputs["logits"], -1),
            "words": features["words"],
        }
