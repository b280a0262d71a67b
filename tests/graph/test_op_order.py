"""The order of a step's ops: no read of a variable races with a write."""

from __future__ import annotations

import types

import numpy as np
import pytest
from graph_fixtures import make_run
from update_fixtures import SGD, create_variable

from toolkit import tf
from toolkit.graph import adoption
from toolkit.graph.guard import run_behind_guard
from toolkit.graph.run import step_builder_of

pytestmark = pytest.mark.usefixtures("graph")


def call_python(value):
    """A float32 scalar that Python computes."""
    return tf.py_func(lambda: np.float32(value), [], tf.float32)


def writes_of(variable):
    """The ops of the graph that write a variable, but for its initializer."""
    handle = variable.handle.name
    return [
        op
        for op in tf.get_default_graph().get_operations()
        if op is not variable.initializer and handle in adoption.written_handles(op, set())
    ]


def reads_of(variable, ops):
    """The ops among some that read a variable."""
    reads = [op for op in ops if op.type == "ReadVariableOp"]
    return {op for op in reads if adoption.root_handle(op.inputs[0]) is variable.handle}


def test_a_rollback_waits_for_the_update_that_it_undoes():
    run = make_run(**dict(SGD, on_nonfinite="skip"))
    a, b = create_variable("a", 1.0), create_variable("b", 1.0)
    update = run.minimize(2.0 * a, [a], "a", advance_step=False)
    run.minimize(float("inf") * b, [b], "b")  # under no control dependency
    rollbacks = [op for op in writes_of(a) if op.type == "AssignVariableOp"]
    assert rollbacks
    assert all(update in adoption.upstream([op]) for op in rollbacks)


def test_a_state_update_reads_the_weights_before_they_change():
    run = make_run(**SGD)
    w, average = create_variable("w", 1.0), create_variable("average", 0.0)
    state_update = average.assign(w.read_value(), read_value=False)
    run.minimize(3.0 * w, [w], updates=[state_update])
    reads = reads_of(w, adoption.upstream([state_update]))
    writes = writes_of(w)
    assert reads and writes
    assert all(reads <= adoption.upstream([op]) for op in writes)


def test_functions_that_update_state_follow_each_other():
    run = make_run(**SGD)
    w, copy = create_variable("w", 1.0), create_variable("copy", 0.0)
    step = run.minimize(3.0 * w, [w])
    functions = [
        lambda: w.assign(7.0, read_value=False),
        lambda: copy.assign(w.read_value(), read_value=False),
    ]
    with tf.control_dependencies([step]):
        run_behind_guard(functions, step_builder_of(run)._last, None)
    (write,) = [op for op in writes_of(w) if op.type == "AssignVariableOp"]
    reads = reads_of(w, adoption.upstream(writes_of(copy)))
    assert any(write in adoption.upstream([op]) for op in reads)


def adopt(step, loss, variables=(), python_calls=()):
    """Guard an own train op that has only this loss."""
    writes = adoption.find_writes(step, set(), variables)._replace(python_calls=python_calls)
    options = types.SimpleNamespace(on_nonfinite="stop")
    return adoption.adopt(step, writes, [loss], options, None)


def test_the_norm_of_the_change_cannot_be_read_after_a_refusal():
    weight = create_variable("weight", [1.0, 1.0])
    loss = tf.reduce_sum(tf.square(weight))
    step = tf.train.MomentumOptimizer(0.1, 0.9).minimize(loss)
    adopted = adopt(step, loss)
    ops = adoption.upstream([adopted.values.gradient_norm.op])
    reads = {op for op in reads_of(weight, ops) if step in adoption.upstream([op])}
    assert reads
    assert reads <= adoption.upstream([adopted.guarded.finite.op])


def test_a_call_of_python_waits_until_the_variables_that_it_writes_are_read():
    weight, loss = create_variable("weight", 1.0), tf.constant(1.0)
    step = call_python(0.0).op
    calls = adoption.find_python_calls([step], [loss])
    assert calls == [step]
    adopt(step, loss, [weight], calls)
    assert reads_of(weight, adoption.upstream([step]))


def test_a_call_of_python_before_the_loss_is_no_update():
    loss = call_python(1.0) * 2
    with tf.control_dependencies([loss]):
        step = call_python(0.0)
    assert adoption.find_python_calls([step], [loss]) == [step.op]


def test_an_own_update_of_the_global_step_waits_until_its_number_is_read():
    weight = create_variable("weight", 1.0)
    global_step = tf.train.get_or_create_global_step()
    index = global_step.read_value()
    step = tf.train.GradientDescentOptimizer(0.1).minimize(weight, global_step=global_step)
    writes = adoption.find_writes(step, set())
    adoption.order_step(writes, index)
    advances = [op for op, handles in writes.foreign.items() if global_step.handle.name in handles]
    assert advances
    assert all(index.op in adoption.upstream([op]) for op in advances)
