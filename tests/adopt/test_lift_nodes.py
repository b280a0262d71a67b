"""Graph definitions: what is refused, in which order state changes, and former variables."""

from types import SimpleNamespace

import numpy as np
import pytest
from toolkit_adopt.lift.initial import to_resources
from toolkit_adopt.lift.nodes import SEED, cut, find_losses
from toolkit_adopt.lift.part import Part, Source
from toolkit_adopt.lift.rules import parse_rule

from toolkit import UsageError, tf


def graph_of(build, resource=True):
    """The definition of what a function builds."""
    with tf.Graph().as_default() as graph, tf.variable_scope("", use_resource=resource):
        build()
        return graph.as_graph_def()


def run_once(graph_def, values, feeds):
    """The variables after the op `train` of a part that starts from these values."""
    part = Part(Source(to_resources(graph_def), dict.fromkeys(feeds, "0"), None), ["train"])
    with tf.Graph().as_default(), tf.Session() as session:
        tf.train.get_or_create_global_step()
        run = SimpleNamespace(seed=lambda name: 1, step_index=tf.constant(0, tf.int64))
        variables = {
            name: tf.get_variable(name, *form, use_resource=True)
            for name, form in part.variables.items()
        }
        given = {name: tf.constant(value) for name, value in feeds.items()}
        op = part.connect(variables, given, run, "call")
        session.run(tf.global_variables_initializer())
        for name, value in values.items():
            variables[name].load(value, session)
        session.run(op)
        return {name: session.run(v) for name, v in variables.items()}


def racing(w, out, flag):
    first = w.assign(5.0, read_value=False)
    second = out.assign(w.read_value() * 2, read_value=False)  # reads behind the write
    return w.assign(7.0, read_value=False), second, first


def ordered_by_control_edges(w, out, flag):
    with tf.control_dependencies([w.assign_add(1.0, read_value=False)]):
        return [w.assign_add(w.read_value(), read_value=False), out.assign(0.0, read_value=False)]


def condition_that_reads(w, out, flag):
    value = tf.cond(flag, lambda: w.read_value() + 10.0, lambda: tf.constant(3.0))
    late = out.assign(value, read_value=False)
    return w.assign(100.0, read_value=False), late


def condition_that_writes(w, out, flag):
    change = tf.cond(flag, lambda: tf.group(w.assign(5.0).op), tf.no_op)
    return out.assign(w.read_value(), read_value=False), change


def loop_that_reads(w, out, flag):
    before = w.assign(2.0, read_value=False)
    add = lambda i, x: (i + 1, x + w.read_value())  # noqa: E731
    total = tf.while_loop(lambda i, x: i < 3, add, [0, 0.0])[1]
    done = out.assign(total, read_value=False)
    return w.assign(50.0, read_value=False), done, before


@pytest.mark.parametrize(
    ("body", "flag", "expected"),
    [
        (racing, True, (7.0, 10.0)),
        (ordered_by_control_edges, True, (4.0, 0.0)),
        (condition_that_reads, True, (100.0, 11.0)),
        (condition_that_writes, True, (5.0, 5.0)),
        (condition_that_writes, False, (1.0, 1.0)),
        (loop_that_reads, True, (50.0, 6.0)),
    ],
)
def test_state_changes_in_the_order_of_the_program(body, flag, expected):
    def build():
        zeros = tf.zeros_initializer()
        w, out = (tf.get_variable(name, [], initializer=zeros) for name in ("w", "out"))
        flag = tf.placeholder(tf.bool, [], name="flag")
        tf.group(*body(w, out, flag), name="train")

    graph_def = graph_of(build)
    feeds = {"flag:0": flag} if body.__name__.startswith("condition") else {}
    for _ in range(3):  # a race may be won by chance
        values = run_once(graph_def, {"w": 1.0}, feeds)
        assert (values["w"], values["out"]) == expected


def former():
    w = tf.get_variable("w", [3], initializer=tf.ones_initializer())
    n = tf.get_variable("n", [], tf.int64, tf.zeros_initializer(), trainable=False)
    x = tf.placeholder(tf.float32, [3], name="x")
    loss = tf.reduce_sum(tf.square(w - x))
    op = tf.train.AdamOptimizer(0.1).minimize(loss)
    with tf.control_dependencies([op]):
        scattered = tf.scatter_add(w, [0], [1.0])
    counted = tf.assign_add(n, 2)
    tf.group(scattered, counted, tf.assign(n, counted * 3), name="train")


def test_former_variables_change_as_in_their_own_session():
    feeds, graph_def = {"x:0": np.float32([1, 2, 3])}, graph_of(former, resource=False)
    with tf.Graph().as_default() as graph, tf.Session() as session:
        tf.import_graph_def(graph_def, name="")
        names = [node.name for node in graph_def.node if node.op == "VariableV2"]
        for name in names:
            session.run(f"{name}/Assign")
        start = {name: session.run(f"{name}:0") for name in names}
        session.run("train", feeds)
        expected = {name: session.run(graph.get_tensor_by_name(f"{name}:0")) for name in names}
    values = run_once(graph_def, start, feeds)
    assert sorted(values) == sorted(expected)
    assert values["n"] == 6
    for name, value in expected.items():
        np.testing.assert_allclose(values[name], value, rtol=1e-6)


def test_an_op_that_resources_do_not_have_is_refused():
    graph_def = graph_of(former, resource=False)
    for node in graph_def.node:
        node.op = node.op.replace("ApplyAdam", "RefSelect")
    with pytest.raises(UsageError, match="'Adam/update_w/ApplyAdam', an op RefSelect"):
        to_resources(graph_def)


def reads_queue():
    return tf.identity(tf.FIFOQueue(3, [tf.float32], [[2]]).dequeue(name="batch"))


def channels_first():
    x = tf.placeholder(tf.float32, [1, 1, 4, 4], name="x")
    return tf.nn.conv2d(x, tf.ones([1, 1, 1, 1]), [1] * 4, "SAME", data_format="NCHW")


def train_of(build):
    """The definition of an op `train` that needs what a function builds."""
    return graph_of(lambda: tf.group(build(), name="train"))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: tf.py_func(lambda: np.float32(1), [], tf.float32), "calls Python code"),
        (lambda: tf.random_shuffle(tf.range(3)), "whose numbers cannot follow"),
        (reads_queue, "'batch', an op QueueDequeueV2, which reads data"),
        (
            lambda: tf.data.make_one_shot_iterator(tf.data.Dataset.range(3)).get_next(),
            "IteratorGetNext, which reads data",
        ),
        (channels_first, "NCHW"),
    ],
)
def test_what_no_step_can_run_is_refused_by_name(build, message):
    with pytest.raises(UsageError, match=message):
        cut(train_of(build), ["train"], [])


def test_an_op_that_this_tensorflow_lacks_is_refused_by_name():
    graph_def = train_of(lambda: tf.constant(1))
    graph_def.node[0].op = "OpOfSomebody"
    with pytest.raises(UsageError, match="OpOfSomebody, which TensorFlow .* does not have"):
        cut(graph_def, ["train"], [])


def test_a_graph_is_cut_at_a_dequeue_that_a_rule_feeds():
    nodes, fed, _ = cut(train_of(reads_queue), ["train"], ["batch:0"])
    assert list(fed) == ["batch:0"]
    assert all("Queue" not in node.op for node in nodes)


def test_ops_of_one_seed_are_given_one_and_an_op_without_a_seed_its_own():
    draw = tf.raw_ops.RandomUniform

    def build():
        for name, seed in (("a", 5), ("b", 5), ("c", 0), ("d", 0)):
            draw(shape=[2], dtype=tf.float32, seed=0, seed2=seed, name=name)

    nodes, _, seeds = cut(graph_of(build), list("abcd"), [])
    given = [text for node in nodes if node.op != "Const" for text in node.input if SEED in text]
    assert given == [SEED + "0_5", SEED + "0_5", SEED + "c", SEED + "d"]
    assert seeds == ["0_5", "c", "d"]


def test_losses_are_those_whose_gradients_are_taken_and_no_penalty():
    def build():
        x = tf.placeholder(tf.float32, [2, 3], name="x")
        w = tf.get_variable("w", [3, 1])
        y = tf.matmul(x, w)
        penalty = tf.reduce_mean(tf.square(tf.gradients(y, x)[0]))
        loss = tf.add(tf.reduce_mean(y), penalty, name="critic_loss")
        tf.train.GradientDescentOptimizer(0.1).minimize(loss, name="train")

    assert find_losses(graph_of(build), ["train"], []) == ["critic_loss"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("labels.digit:one-hot", ("labels", (), "digit", ("one-hot",))),
        ("features:range:-1:1:flat", ("features", (-1.0, 1.0), "", ("range", "flat"))),
        ("normal:0:2:shared", ("normal", (0.0, 2.0), "", ("shared",))),
        ("true", ("constant", (1.0,), "", ())),
        ("table:0=1:10=0.5", ("table", (0.0, 1.0, 10.0, 0.5), "", ())),
        ("linear:1:0:9", ("linear", (1.0, 0.0, 9.0), "", ())),
    ],
)
def test_a_rule_is_read_from_its_text(text, expected):
    assert tuple(parse_rule("x", text)) == expected


@pytest.mark.parametrize(
    "text", ["noise", "uniform:1", "features.", "features:round", "table:5=1", "table", "1:2"]
)
def test_what_is_no_rule_is_refused(text):
    with pytest.raises(UsageError, match="is no rule for 'x'"):
        parse_rule("x", text)
