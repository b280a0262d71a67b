"""`tf.contrib.seq2seq`: decoders, which make sequences step by step, cells with attention, and the
loss of sequences.

N sequences, T steps of the decoder, M steps of the memory, K values of a state, D of a memory.
There is no beam search, no monotonic attention, no cell that attends to several memories, and no
helper that draws its samples.
"""

from __future__ import annotations

import collections
import math
from typing import Any

from tensorflow.python.ops.rnn import _transpose_batch_time
from tensorflow.python.ops.rnn_cell_impl import _zero_state_tensors

from toolkit import tf

_map = tf.nest.map_structure


class Decoder:
    """What `dynamic_decode` runs: it has `batch_size`, `output_size`, `output_dtype`,
    `initialize` and `step`.
    """

    tracks_own_finished = False

    def finalize(self, outputs, final_state, sequence_lengths):
        """The outputs and the last state, as they are."""
        return outputs, final_state


def dynamic_decode(
    decoder,
    output_time_major=False,
    impute_finished=False,
    maximum_iterations=None,
    parallel_iterations=32,
    swap_memory=False,
    scope=None,
):
    """Decode until all sequences are finished: outputs [N, T, ...], the last state, lengths [N]."""

    def step(time, arrays, state, inputs, finished, lengths):
        def keep(new: Any, old: Any) -> Any:  # the state of what is finished
            if isinstance(new, tf.TensorArray) or not new.shape.ndims:
                return new
            return tf.where(finished, old, new)

        outputs, new_state, inputs, ends = decoder.step(time, inputs, state)
        lengths = tf.where(finished, lengths, tf.fill(tf.shape(lengths), time + 1))
        if impute_finished:
            outputs = _map(lambda new, zero: tf.where(finished, zero, new), outputs, zeros)
            new_state = _map(keep, new_state, state)
        arrays = _map(lambda array, output: array.write(time, output), arrays, outputs)
        finished = ends if decoder.tracks_own_finished else tf.logical_or(ends, finished)
        return time + 1, arrays, new_state, inputs, finished, lengths

    with tf.variable_scope(scope, "decoder"):
        finished, inputs, state = decoder.initialize()
        if maximum_iterations is not None:
            finished = tf.logical_or(finished, maximum_iterations <= 0)
        form = decoder.output_size, decoder.output_dtype
        zeros = _map(lambda size, kind: _zero_state_tensors(size, decoder.batch_size, kind), *form)
        options = {"size": 0, "dynamic_size": True}
        arrays = _map(lambda x: tf.TensorArray(x.dtype, **options, element_shape=x.shape), zeros)
        _, arrays, state, _, _, lengths = tf.while_loop(
            lambda *values: tf.logical_not(tf.reduce_all(values[4])),
            step,
            (tf.constant(0), arrays, state, inputs, finished, tf.zeros_like(finished, tf.int32)),
            parallel_iterations=parallel_iterations,
            maximum_iterations=maximum_iterations,
            swap_memory=swap_memory,
        )
        outputs, state = decoder.finalize(_map(lambda x: x.stack(), arrays), state, lengths)
        if not output_time_major:
            outputs = _map(_transpose_batch_time, outputs)
    return outputs, state, lengths


BasicDecoderOutput = collections.namedtuple("BasicDecoderOutput", ["rnn_output", "sample_id"])


class BasicDecoder(Decoder):
    """A cell, and a layer on its outputs, with the inputs of a helper."""

    def __init__(self, cell, helper, initial_state, output_layer=None):
        self._cell, self._helper, self._output_layer = cell, helper, output_layer
        self._initial_state = initial_state

    @property
    def batch_size(self) -> Any:
        return self._helper.batch_size

    @property
    def output_size(self) -> Any:
        size = self._cell.output_size
        if self._output_layer is not None:
            shape = tf.TensorShape([None]).concatenate(size)
            size = tf.TensorShape(self._output_layer.compute_output_shape(shape))[1:]
        return BasicDecoderOutput(size, self._helper.sample_ids_shape)

    @property
    def output_dtype(self) -> Any:
        dtype = tf.nest.flatten(self._initial_state)[0].dtype
        return BasicDecoderOutput(dtype, self._helper.sample_ids_dtype)

    def initialize(self, name=None):
        """What is finished from the start, the first inputs and the first state."""
        return (*self._helper.initialize(), self._initial_state)

    def step(self, time, inputs, state, name=None):
        """Outputs, and the next state, the next inputs and what is finished then."""
        with tf.name_scope(name, "BasicDecoderStep"):
            outputs, state = self._cell(inputs, state)
            if self._output_layer is not None:
                outputs = self._output_layer(outputs)
            given = {"time": time, "outputs": outputs, "state": state}
            samples = self._helper.sample(**given)
            finished, inputs, state = self._helper.next_inputs(**given, sample_ids=samples)
        return BasicDecoderOutput(outputs, samples), state, inputs, finished


class Helper:
    """What gives a `BasicDecoder` its inputs; `initialize`, `sample` and `next_inputs` do."""

    sample_ids_shape, sample_ids_dtype = tf.TensorShape([]), tf.int32

    def sample(self, time, outputs, state, name=None):
        """The most likely number of each sequence, int32 [N]."""
        return tf.argmax(outputs, -1, output_type=tf.int32)


class TrainingHelper(Helper):
    """Reads inputs [N, T, D] up to the length of each."""

    def __init__(self, inputs, sequence_length, time_major=False, name=None):
        with tf.name_scope(name, "TrainingHelper"):
            self.inputs = inputs = tf.convert_to_tensor(inputs)
            self.sequence_length = tf.convert_to_tensor(sequence_length)
            rows = inputs if time_major else _transpose_batch_time(inputs)
            self._rows = tf.TensorArray(rows.dtype, tf.shape(rows)[0], element_shape=rows.shape[1:])
            self._rows, self._zeros = self._rows.unstack(rows), tf.zeros_like(rows[0])
            self.batch_size = tf.size(sequence_length)

    def initialize(self, name=None):
        """What has no steps, and the inputs of the first one."""
        return self._read(0)

    def next_inputs(self, time, outputs, state, name=None, **others):
        """What ends before the next step, and the inputs and the state of that."""
        return (*self._read(time + 1), state)

    def _read(self, time: Any) -> Any:
        finished = time >= self.sequence_length
        zeros, rows = self._zeros, self._rows
        return finished, tf.cond(tf.reduce_all(finished), lambda: zeros, lambda: rows.read(time))


class GreedyEmbeddingHelper(Helper):
    """Goes on with the embedding of what is most likely, up to a number that ends a sequence."""

    def __init__(self, embedding, start_tokens, end_token):
        is_function = callable(embedding)
        self._embed = embedding if is_function else lambda x: tf.nn.embedding_lookup(embedding, x)
        self._start, self._end = tf.cast(start_tokens, tf.int32), tf.cast(end_token, tf.int32)
        self._first, self.batch_size = self._embed(self._start), tf.size(self._start)

    def initialize(self, name=None):
        """Nothing is finished, and the inputs are those of the start."""
        return tf.fill([self.batch_size], False), self._first

    def next_inputs(self, time, outputs, state, sample_ids, name=None):
        """What has ended, and the inputs and the state of the next step."""
        ended, first = tf.equal(sample_ids, self._end), self._first
        following = tf.cond(tf.reduce_all(ended), lambda: first, lambda: self._embed(sample_ids))
        return ended, following, state


def tile_batch(t, multiplier, name=None):
    """Each row of tensors several times, one after the other."""
    return _map(lambda x: tf.repeat(x, multiplier, axis=0), t)


class AttentionMechanism:
    """Weights of the steps of a memory [N, M, D] for a query [N, K]."""

    query_layer: Any = None

    def __init__(self, num_units, memory, lengths, probability_fn, mask_value, dtype, name):
        dense = {"use_bias": False, "dtype": dtype or tf.float32}
        self.dtype, self._num_units, self._mask = dense["dtype"], num_units, None
        self.memory_layer = tf.layers.Dense(num_units, name="memory_layer", **dense)
        if name == "bahdanau_attention":
            self.query_layer = tf.layers.Dense(num_units, name="query_layer", **dense)
        self._normalize, self._name = probability_fn or tf.nn.softmax, name
        self._mask_value = -math.inf if mask_value is None else mask_value
        self.values = tf.convert_to_tensor(memory)
        if lengths is not None:
            self._mask = tf.sequence_mask(lengths, tf.shape(self.values)[1])  # [N, M]
            self.values *= tf.cast(self._mask, self.values.dtype)[:, :, None]
        self.keys = self.memory_layer(self.values)
        static, shape = self.keys.shape.as_list(), tf.shape(self.keys)
        self.batch_size, self.alignments_size = (static[i] or shape[i] for i in (0, 1))
        self.state_size = self.alignments_size

    def initial_alignments(self, batch_size, dtype):
        """Zeros [N, M]."""
        return _zero_state_tensors(self.alignments_size, batch_size, dtype)

    initial_state = initial_alignments

    def _score(self, query: Any) -> Any:
        raise NotImplementedError

    def __call__(self, query, state):
        """The weights [N, M], and again as the next state."""
        with tf.variable_scope(None, self._name, [query]):
            score = self._score(query)
        if self._mask is not None:
            score = tf.where(self._mask, score, self._mask_value * tf.ones_like(score))
        alignments = self._normalize(score)
        return alignments, alignments


class LuongAttention(AttentionMechanism):
    """Scores are products of query and keys, times a variable if `scale`."""

    def __init__(
        self,
        num_units,
        memory,
        memory_sequence_length=None,
        scale=False,
        probability_fn=None,
        score_mask_value=None,
        dtype=None,
        name="LuongAttention",
    ):
        self._scale, rest = scale, (probability_fn, score_mask_value, dtype, "luong_attention")
        super().__init__(num_units, memory, memory_sequence_length, *rest)

    def _score(self, query: Any) -> Any:
        score = tf.squeeze(tf.matmul(query[:, None], self.keys, transpose_b=True), [1])
        if not self._scale:
            return score
        return tf.get_variable("attention_g", [], query.dtype, tf.ones_initializer()) * score


class BahdanauAttention(AttentionMechanism):
    """Scores are products of a variable with tanh(query + keys)."""

    def __init__(
        self,
        num_units,
        memory,
        memory_sequence_length=None,
        normalize=False,
        probability_fn=None,
        score_mask_value=None,
        dtype=None,
        name="BahdanauAttention",
    ):
        rest = probability_fn, score_mask_value, dtype, "bahdanau_attention"
        self._is_normal = normalize
        super().__init__(num_units, memory, memory_sequence_length, *rest)

    def _score(self, query: Any) -> Any:
        units, kind = [self._num_units], query.dtype
        total = self.keys + self.query_layer(query)[:, None]
        vector = tf.get_variable("attention_v", units, kind)
        if self._is_normal:
            start = tf.constant_initializer(math.sqrt(1.0 / self._num_units))
            length = tf.get_variable("attention_g", [], kind, start)
            total += tf.get_variable("attention_b", units, kind, tf.zeros_initializer())
            vector = length * vector * tf.rsqrt(tf.reduce_sum(tf.square(vector)))
        return tf.reduce_sum(vector * tf.tanh(total), [2])


class AttentionWrapperState(
    collections.namedtuple(
        "AttentionWrapperState",
        "cell_state attention time alignments alignment_history attention_state",
    )
):
    """The state of an `AttentionWrapper`."""

    def clone(self, **kwargs):
        """The state with other values, such as that of an encoder as `cell_state`."""
        return self._replace(**kwargs)


class AttentionWrapper(tf.nn.rnn_cell.RNNCell):
    """A cell whose inputs are joined with what it attended to in the step before."""

    def __init__(
        self,
        cell,
        attention_mechanism,
        attention_layer_size=None,
        alignment_history=False,
        cell_input_fn=None,
        output_attention=True,
        initial_cell_state=None,
        name=None,
        *,
        dtype=None,
    ):
        super().__init__(name=name, dtype=dtype)
        self._cell, self._mechanism, self._layer = cell, attention_mechanism, None
        self._has_history, self._gives_attention = alignment_history, output_attention
        self._join = cell_input_fn or (lambda inputs, attention: tf.concat([inputs, attention], -1))
        self._first = lambda: initial_cell_state  # which Keras would wrap
        self._size = attention_layer_size or attention_mechanism.values.shape.as_list()[-1]
        if attention_layer_size is not None:
            options = {"use_bias": False, "dtype": attention_mechanism.dtype}
            self._layer = tf.layers.Dense(self._size, name="attention_layer", **options)

    @property
    def output_size(self):
        return self._size if self._gives_attention else self._cell.output_size

    @property
    def state_size(self):
        steps, shape = self._mechanism.alignments_size, tf.TensorShape([])
        history = steps if self._has_history else ()
        return AttentionWrapperState(
            self._cell.state_size, self._size, shape, steps, history, steps
        )

    def zero_state(self, batch_size, dtype):
        first, history = self._first(), ()
        first = self._cell.zero_state(batch_size, dtype) if first is None else first
        attention = _zero_state_tensors(self._size, batch_size, dtype)
        zeros = self._mechanism.initial_alignments(batch_size, dtype)
        if self._has_history:
            history = tf.TensorArray(dtype, 0, dynamic_size=True, element_shape=zeros.shape)
        return AttentionWrapperState(
            first, attention, tf.zeros([], tf.int32), zeros, history, zeros
        )

    def call(self, inputs, state):
        output, cell_state = self._cell(self._join(inputs, state.attention), state.cell_state)
        weights, attention_state = self._mechanism(output, state=state.attention_state)
        attention = tf.squeeze(tf.matmul(weights[:, None], self._mechanism.values), [1])
        if self._layer is not None:
            attention = self._layer(tf.concat([output, attention], 1))
        history = state.alignment_history
        if self._has_history:
            history = history.write(state.time, weights)
        state = AttentionWrapperState(
            cell_state, attention, state.time + 1, weights, history, attention_state
        )
        return attention if self._gives_attention else output, state


def sequence_loss(
    logits,
    targets,
    weights,
    average_across_timesteps=True,
    average_across_batch=True,
    sum_over_timesteps=False,
    sum_over_batch=False,
    softmax_loss_function=None,
    name=None,
):
    """Of logits, float [N, T, K], and targets, int [N, T]; weights are float [N, T].

    Both averages: the sum over the sum of weights. One: that of its axis. None: values [N, T].
    Raises ValueError if a sum is asked for.
    """
    if sum_over_timesteps or sum_over_batch:
        raise ValueError("The stand-in of sequence_loss has averages, and no sum_over_ arguments.")
    axes = [0] * bool(average_across_batch) + [1] * bool(average_across_timesteps)
    with tf.name_scope(name, "sequence_loss", [logits, targets, weights]):
        flat = tf.reshape(logits, [-1, tf.shape(logits)[2]])
        function = softmax_loss_function or tf.nn.sparse_softmax_cross_entropy_with_logits
        losses = function(labels=tf.reshape(targets, [-1]), logits=flat)
        losses = tf.reshape(losses, tf.shape(targets)) * weights
        if not axes:
            return losses
        return tf.div_no_nan(tf.reduce_sum(losses, axes), tf.reduce_sum(weights, axes))
