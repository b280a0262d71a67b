"""Where a step of a worker with parameter servers is placed; nothing is run."""

from __future__ import annotations

import numpy as np
from graph_fixtures import Constant, Spec, make_plugin
from linear_fixtures import Linear

from toolkit import Run, tf
from toolkit.graph.asynchronous import COUNTER, AsynchronousStep
from toolkit.graph.build import build_training
from toolkit.options import resolve
from toolkit.plugins import Plugins

WORKER = "/job:worker/task:1"


def build(num_servers=2, **options):
    """The graph of Linear, trained by momentum unless an option says otherwise."""
    plugins = Plugins(make_plugin(Linear), [])
    options = {"optimizer": "momentum", "weight_decay": 0.01, **options}
    resolved = resolve(plugins.options(), [("test", options)]).options
    strategy, tf_graph = AsynchronousStep(WORKER, num_servers), tf.Graph()
    with tf_graph.as_default(), strategy.placing_input():
        reader = Constant(np.zeros([2, 4]), np.zeros([2]))
    run = Run("train", resolved, Spec(), total_steps=9, strategy=strategy)
    return build_training(plugins, run, reader, tf_graph)


def server_of(device):
    spec = tf.DeviceSpec.from_string(device)
    return spec.task if spec.job == "ps" else None


def test_variables_are_on_servers_and_computations_on_the_worker():
    ops = build().tf_graph.get_operations()
    handles = [op for op in ops if op.type == "VarHandleOp"]
    assert len(handles) > 4 and all(server_of(op.device) is not None for op in handles)
    products = [op for op in ops if op.type == "MatMul"]
    assert products and all(op.device.startswith(WORKER) for op in products)


def test_ops_that_write_a_variable_and_its_slots_are_on_its_server():
    graph = build().tf_graph
    servers = {op.name: op.device for op in graph.get_operations() if op.type == "VarHandleOp"}
    writes = [
        op for op in graph.get_operations() if op.type.startswith(("Assign", "ResourceApply"))
    ]
    types = {op.type for op in writes}
    assert types & {"ResourceApplyMomentum", "ResourceApplyKerasMomentum"}
    assert "AssignSubVariableOp" in types  # weight decay
    for op in writes:
        assert server_of(op.device) is not None, op.name
    (slot,) = (name for name in servers if name.endswith("linear/w/Momentum"))
    assert servers[slot] == servers["linear/w"]


def test_variables_are_balanced_by_their_bytes_alike_in_each_process():
    strategy, devices = AsynchronousStep(WORKER, 2), []
    for _ in range(2):
        with tf.Graph().as_default(), strategy.placing():
            for number in range(4):  # as layers are: a matrix, then its biases
                tf.get_variable(f"w{number}", [8, 8])
                tf.get_variable(f"b{number}", [8])
            devices.append([variable.device for variable in tf.global_variables()])
    assert devices[0] == devices[1]
    matrices = [server_of(device) for device in devices[0][::2]]
    assert sorted(matrices) == [0, 0, 1, 1]


def test_the_counter_of_tickets_is_in_no_checkpoint_and_beside_the_global_step():
    with build().tf_graph.as_default() as graph:
        assert COUNTER not in [v.op.name for v in tf.global_variables() + tf.local_variables()]
        counter = graph.get_operation_by_name(COUNTER)
        assert counter.device == tf.train.get_global_step().device
