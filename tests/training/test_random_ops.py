"""Random ops whose state is not in checkpoints: where they are, and what a run says of them."""

import os

import pytest
from run_fixtures import UNSEEDED, write_plugin

import toolkit
from toolkit import tf
from toolkit.training.step_mode import find_random_ops

pytestmark = pytest.mark.usefixtures("graph")


def types_of(op):
    return [text.split()[0] for text in find_random_ops(op)]


def test_each_stateful_op_of_a_step_is_found():
    tensors = {
        "IteratorGetNext": tf.data.make_one_shot_iterator(tf.data.Dataset.range(9)).get_next(),
        "Multinomial": tf.random.categorical([[0.0, 1.0]], 2),
        "QueueDequeueManyV2": tf.train.batch([1], 2),
        "RandomPoissonV2": tf.random.poisson(1.0, [2]),
        "RandomShuffle": tf.random.shuffle([1.0, 2.0]),
        "RandomStandardNormal": tf.random.normal([2], seed=3),
    }
    assert sorted(types_of(tf.group([2 * tensor for tensor in tensors.values()]))) == list(tensors)


def test_an_op_in_a_condition_a_loop_or_a_function_is_found():
    def body(number, total):
        return number + 1, total + tf.random.uniform([])

    loop = tf.while_loop(lambda number, total: number < 3, body, [0, 0.0])
    assert types_of(loop[1].op) == ["RandomUniform"]
    condition = tf.cond(loop[1] > 0, lambda: tf.random.normal([]), lambda: tf.constant(1.0))
    assert types_of(condition.op) == ["RandomStandardNormal", "RandomUniform"]


def test_an_op_in_a_nested_function_is_found_at_the_line_of_its_call():
    @tf.function
    def inner():
        return tf.random.uniform([])

    @tf.function
    def outer():
        return inner() + 1

    (text,) = find_random_ops(tf.group(outer()))
    assert text.startswith("RandomUniform at ") and os.path.basename(__file__) in text


def test_stateless_ops_initializers_and_ops_of_no_step_are_not_listed():
    w = tf.get_variable("w", initializer=tf.random.uniform([2]))
    tf.random.normal([2])
    step = w.assign_add(tf.random.stateless_uniform([2], [1, 2]), read_value=False)
    assert types_of(step) == []


def test_a_run_says_once_where_a_plugin_draws_numbers_that_a_resume_does_not_repeat(data):
    lines, options = [], {"data": data, "steps": 4, "evaluate": "no"}
    toolkit.train(write_plugin(UNSEEDED), "run", options, lines.append)
    (note,) = [line for line in lines if "is not exact" in line]
    start = "note   a resume of this run is not exact: RandomUniform at mine.py:9 in loss"
    assert note.startswith(start)
