"""Predictions and exports of adopted runs: what lies between two tensors of the graph."""

import shutil

import numpy as np
import pytest
from adopt_fixtures import SCRIPTS, adopted

from toolkit import tf

KEEP_ALL = ["--input", "x", "--output", "out", "--feed", "keep=1"]
PLAIN = [*KEEP_ALL, "--feed", "flag=1"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The folder of a run of the script with dropout and two matrices."""
    return adopted(tmp_path_factory.mktemp("trained"), SCRIPTS["feeds"]).parent / "run"


@pytest.fixture
def rows(tmp_path):
    """A file of five examples, and what the trained matrix makes of them."""
    path = str(tmp_path / "x.npy")
    np.save(path, np.random.RandomState(3).randn(5, 4).astype("f"))
    return path


def expected(trained, rows):
    reader = tf.train.load_checkpoint(str(trained / "checkpoints" / "model.ckpt-12"))
    return np.load(rows).dot(reader.get_tensor("v"))


@pytest.mark.parametrize("flag, factor", [("flag=1", 1), ("flag=false", 2)])
def test_a_prediction_is_what_the_trained_graph_computes(trained, rows, cli, flag, factor):
    ended = cli.succeed("predict", trained, rows, *KEEP_ALL, "--feed", flag, "--out", "y.npy")
    assert "step 12: float32 [5, 1]" in ended.out
    np.testing.assert_allclose(np.load("y.npy"), factor * expected(trained, rows), rtol=1e-5)


def test_a_graph_that_this_tensorflow_cannot_read_is_named(trained, rows, here, cli):
    shutil.copytree(str(trained), "run")
    path = here / "run" / "graph.pb"
    graph = tf.GraphDef.FromString(path.read_bytes())
    graph.node.add(name="newer", op="OfAnotherVersion")
    path.write_bytes(graph.SerializeToString())
    text = f"TensorFlow {tf.version.VERSION} cannot read"
    ended = cli.refuse(4, text, "predict", "run", rows, "--out", "y.npy", *PLAIN)
    assert "OfAnotherVersion" in ended.err


def test_an_export_needs_no_checkpoint_and_no_other_feed(trained, rows, cli):
    cli.succeed("export", trained, "saved", *PLAIN)
    with tf.Graph().as_default() as graph, tf.Session() as session:
        signature = tf.saved_model.loader.load(session, ["serve"], "saved").signature_def
        names = signature["serving_default"]
        assert not [op for op in graph.get_operations() if "Variable" in op.type]
        fed = {names.inputs["input"].name: np.load(rows)}
        result = session.run(names.outputs["output"].name, fed)
    np.testing.assert_allclose(result, expected(trained, rows), rtol=1e-5)


@pytest.mark.parametrize(
    "words, message",
    [
        (KEEP_ALL, "depends on the placeholder 'flag' besides 'x'"),
        (["--input", "x", "--output", "nothing"], "The graph has no tensor 'nothing'"),
        (["--input", "rate", "--output", "out", "--feed", "keep=1"], "does not depend on 'rate'"),
        (["--input", "x", "--output", "out", "--feed", "keep"], "--feed keep gives no number"),
        ([*PLAIN, "--feed", "y=1"], "--feed y=1 does not fit float32 ("),
        ([*KEEP_ALL, "--feed", "flag=0.5"], "--feed flag=0.5 does not fit bool ("),
    ],
)
def test_a_function_that_the_graph_has_not_is_refused(trained, rows, cli, words, message):
    cli.refuse(2, message, "predict", trained, rows, "--out", "y.npy", *words)
