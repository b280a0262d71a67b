"""Predictions and exports of adopted runs: what lies between two tensors of the graph."""

import os
import shutil

import numpy as np
import pytest
from adopt_fixtures import SCRIPTS, adopt, write_script

from toolkit import tf
from toolkit.cli import run_command

ONE_KEEPS = ["--input", "x", "--output", "out", "--feed", "keep=1"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The folder of a run of the script with dropout and two matrices."""
    path = write_script(tmp_path_factory.mktemp("trained") / "folder", SCRIPTS["feeds"])
    assert adopt(path) == 0
    return path.parent / "run"


@pytest.fixture
def rows(tmp_path):
    """A file of five examples, and what the trained matrix makes of them."""
    np.save(str(tmp_path / "x.npy"), np.random.RandomState(3).randn(5, 4).astype("f"))
    return str(tmp_path / "x.npy")


def expected(trained, rows):
    reader = tf.train.load_checkpoint(str(trained / "checkpoints" / "model.ckpt-12"))
    return np.load(rows).dot(reader.get_tensor("v"))


def test_a_prediction_is_what_the_trained_graph_computes(trained, rows, tmp_path, capsys):
    out = str(tmp_path / "y.npy")
    assert run_command(["predict", str(trained), rows, "--out", out, *ONE_KEEPS]) == 0
    assert "step 12: float32 [5, 1]" in capsys.readouterr().out
    np.testing.assert_allclose(np.load(out), expected(trained, rows), rtol=1e-5)


def test_a_graph_that_this_tensorflow_cannot_read_is_named(trained, rows, tmp_path, capsys):
    run = shutil.copytree(str(trained), str(tmp_path / "run"))
    graph = tf.GraphDef()
    with open(os.path.join(run, "graph.pb"), "rb") as file:
        graph.ParseFromString(file.read())
    graph.node.add(name="newer", op="OfAnotherVersion")
    with open(os.path.join(run, "graph.pb"), "wb") as file:
        file.write(graph.SerializeToString())
    assert run_command(["predict", run, rows, "--out", str(tmp_path / "y.npy"), *ONE_KEEPS]) == 4
    error = capsys.readouterr().err
    assert f"TensorFlow {tf.version.VERSION} cannot read" in error and "OfAnotherVersion" in error


def test_an_export_needs_no_checkpoint_and_no_other_feed(trained, rows, tmp_path):
    folder = str(tmp_path / "saved")
    assert run_command(["export", str(trained), folder, *ONE_KEEPS]) == 0
    with tf.Graph().as_default() as graph, tf.Session() as session:
        signature = tf.saved_model.loader.load(session, ["serve"], folder).signature_def
        names = signature["serving_default"]
        assert not [op for op in graph.get_operations() if "Variable" in op.type]
        fed = {names.inputs["input"].name: np.load(rows)}
        result = session.run(names.outputs["output"].name, fed)
    np.testing.assert_allclose(result, expected(trained, rows), rtol=1e-5)


@pytest.mark.parametrize(
    "words, message",
    [
        (["--input", "x", "--output", "out"], "depends on the placeholder 'keep' besides 'x'"),
        (["--input", "x", "--output", "nothing"], "The graph has no tensor 'nothing'"),
        (["--input", "rate", "--output", "out", "--feed", "keep=1"], "does not depend on 'rate'"),
        (["--input", "x", "--output", "out", "--feed", "keep"], "--feed keep gives no number"),
        ([*ONE_KEEPS, "--feed", "y=1"], "--feed y=1 does not fit float32 ("),
    ],
)
def test_a_function_that_the_graph_has_not_is_refused(
    trained, rows, tmp_path, capsys, words, message
):
    out = str(tmp_path / "y.npy")
    assert run_command(["predict", str(trained), rows, "--out", out, *words]) == 2
    assert message in capsys.readouterr().err


FLAG = """
import numpy as np
import tensorflow as tf

x = tf.placeholder(tf.float32, [None, 4], name="x")
flag = tf.placeholder(tf.bool, [], name="flag")
v = tf.Variable(tf.ones([4, 1]), name="v")
out = tf.matmul(tf.where(flag, x, 2.0 * x), v, name="out")
train = tf.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_mean(tf.square(out)))
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    for _ in range(3):
        session.run(train, {x: np.ones([2, 4]), flag: True})
"""


@pytest.mark.parametrize("text, factor", [("flag=1", 1), ("flag=false", 2), ("flag=0.5", 0)])
def test_a_fed_value_may_be_a_bool(rows, tmp_path, text, factor):
    path = write_script(tmp_path / "folder", FLAG)
    assert adopt(path) == 0
    run, out = str(path.parent / "run"), str(tmp_path / "y.npy")
    words = ["--input", "x", "--output", "out", "--feed", text, "--out", out]
    assert run_command(["predict", run, rows, *words]) == (0 if factor else 2)
    if not factor:
        return
    v = tf.train.load_checkpoint(f"{run}/checkpoints/model.ckpt-3").get_tensor("v")
    np.testing.assert_allclose(np.load(out), factor * np.load(rows).dot(v), rtol=1e-5)
