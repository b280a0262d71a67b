"""The network: an embedding, a convolution over neighbouring words, and the votes of all words.

Legend: N examples in a batch, L words of the longest text in the batch, E size of an embedding,
F filters, K classes.
"""

from __future__ import annotations

from toolkit import tf

from .words import check_data, split_texts


class Network:
    """The variables, and their use. The constructor creates them; calling the object, none."""

    def __init__(self, run):
        check_data(run.data)
        options, num_classes = run.options, run.data.num_classes
        self.embedding = variable(run, "embedding", [options.buckets, options.embedding], "normal")
        self.filters = variable(
            run, "filters", [options.window, options.embedding, options.filters], "he_normal"
        )
        self.weights = variable(run, "weights", [options.filters, num_classes], "glorot_uniform")
        self.bias = tf.get_variable("bias", [num_classes], initializer=tf.zeros_initializer())

    def __call__(self, texts, run):
        """Let the words of texts, string [N], vote.

        Returns:
            "votes" [N, L, K], 0 behind the end of a text, and their sums, the "logits" [N, K].
        """
        words = split_texts(texts, run.options.buckets, run.options.max_words)
        is_word = words.is_word[..., tf.newaxis]  # [N, L, 1]
        x = tf.nn.embedding_lookup(self.embedding, words.numbers)  # [N, L, E]
        x *= hide_words(is_word, run)  # padding is 0, like what is beyond the end
        x = tf.nn.relu(tf.nn.conv1d(x, self.filters, stride=1, padding="SAME"))  # [N, L, F]
        votes = tf.einsum("nlf,fk->nlk", x, self.weights) * is_word
        return {"votes": votes, "logits": tf.reduce_sum(votes, axis=1) + self.bias}


def hide_words(is_word, run):
    """The mask of words, of which a training step hides some: [N, L, 1]."""
    return run.dropout(is_word, run.options.word_dropout, "words")


def variable(run, name, shape, kind):
    """A variable with initial values that follow from the run's seed and the name."""
    return tf.get_variable(name, shape, initializer=run.initializer(kind, name))
