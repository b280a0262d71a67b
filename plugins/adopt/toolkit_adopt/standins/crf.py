"""`tf.contrib.crf`: scores of sequences of tags by a linear chain, and the best sequence.

Inputs are scores of tags, float [N, T, K]; a transition matrix, [K, K], has those of a tag after
another. What comes after the length of a sequence does not count.
"""

from __future__ import annotations

from typing import Any, Callable

import numpy as np

from toolkit import tf


def _sum_up_to(lengths: Any, values: Any) -> Any:
    return tf.reduce_sum(values * tf.sequence_mask(lengths, tf.shape(values)[1], values.dtype), 1)


def crf_unary_score(tag_indices, sequence_lengths, inputs):
    """The sum of the scores of some tags, float [N]."""
    scores = tf.gather(inputs, tag_indices[..., None], batch_dims=2)
    return _sum_up_to(sequence_lengths, scores[..., 0])


def crf_binary_score(tag_indices, sequence_lengths, transition_params):
    """The sum of the scores of the transitions between some tags, float [N]."""
    pairs = tf.stack([tag_indices[:, :-1], tag_indices[:, 1:]], 2)
    return _sum_up_to(sequence_lengths - 1, tf.gather_nd(transition_params, pairs))


def crf_sequence_score(inputs, tag_indices, sequence_lengths, transition_params):
    """The sum of both."""
    unary = crf_unary_score(tag_indices, sequence_lengths, inputs)
    return unary + crf_binary_score(tag_indices, sequence_lengths, transition_params)


def _accumulate(reduce: Callable[..., Any], inputs: Any, lengths: Any, transitions: Any) -> Any:
    """The scores, [T, N, K], of the sequences that end in a tag at a step, reduced to one."""
    rows = tf.transpose(inputs, [1, 0, 2])
    times, lengths = tf.range(tf.shape(rows)[0]), tf.cast(lengths, tf.int32)
    transitions = tf.convert_to_tensor(transitions)  # a variable is read before the loop

    def step(before: Any, now: Any) -> Any:
        time, row = now
        moved = reduce(before[:, :, None] + transitions, 1)
        # The first step comes from nowhere, and is here for sequences that have no other.
        return tf.where(time < lengths, row + moved * tf.cast(time > 0, row.dtype), before)

    return tf.scan(step, (times, rows), tf.zeros_like(rows[0]))


def crf_log_norm(inputs, sequence_lengths, transition_params):
    """The logarithm of the sum of exp(score) of all sequences of tags, float [N]."""
    scores = _accumulate(tf.reduce_logsumexp, inputs, sequence_lengths, transition_params)
    norm = tf.reduce_logsumexp(scores[-1], 1)
    return tf.where(sequence_lengths > 0, norm, tf.zeros_like(norm))


def crf_log_likelihood(inputs, tag_indices, sequence_lengths, transition_params=None):
    """The logarithm of the probability of some tags, float [N]; and the transition matrix, by
    default the variable "transitions".
    """
    if transition_params is None:
        size = inputs.shape.as_list()[2]
        transition_params = tf.get_variable("transitions", [size, size])
    lengths = tf.cast(sequence_lengths, tf.int32)
    score = crf_sequence_score(inputs, tag_indices, lengths, transition_params)
    return score - crf_log_norm(inputs, lengths, transition_params), transition_params


def crf_decode(potentials, transition_params, sequence_length):
    """The best tags, int32 [N, T], with zeros after the end, and their scores, float [N]."""
    lengths = tf.cast(sequence_length, tf.int32)
    scores = _accumulate(tf.reduce_max, potentials, lengths, transition_params)
    paths = tf.concat([scores[:1], scores[:-1]], 0)[..., None] + transition_params
    best_before = tf.argmax(paths, 2, output_type=tf.int32)  # [T, N, K]
    last = tf.argmax(scores[-1], 1, output_type=tf.int32)

    def follow(tag: Any, now: Any) -> Any:
        time, before = now
        followed = tf.gather(before, tag[:, None], batch_dims=1)[:, 0]
        return tf.where(time < lengths, followed, tag)

    times = tf.range(tf.shape(scores)[0])
    tags_before = tf.scan(follow, (times, best_before), last, reverse=True)
    tags = tf.transpose(tf.concat([tags_before[1:], last[None]], 0))
    mask = tf.sequence_mask(lengths, tf.shape(tags)[1], tags.dtype)
    return tags * mask, tf.reduce_max(scores[-1], 1)


def viterbi_decode(score, transition_params):
    """The list of the best tags of one sequence, of an array of scores [T, K]; and its score."""
    best, pointers = score[0], []
    for row in score[1:]:
        paths = best[:, None] + transition_params
        pointers.append(np.argmax(paths, 0))
        best = row + np.max(paths, 0)
    tags = [np.argmax(best)]
    for before in reversed(pointers):
        tags.append(before[tags[-1]])
    return tags[::-1], np.max(best)
