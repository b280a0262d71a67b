"""A graph from a file .meta, as a run: its values, its bits, its predictions."""

import os

import lift_graphs
import numpy as np
import pytest
from file_fixtures import read_json
from test_adopt_weights import parent

from toolkit import UsageError, open_trained, tf
from toolkit.data.arrays.kept import keep_arrays
from toolkit.testing import fingerprint, tensors, train

NOISY = os.path.join(os.path.dirname(__file__), "graphs", "noisy.meta")
DATA = (
    np.random.RandomState(0).rand(64, 16).astype(np.float32),
    np.random.RandomState(1).randint(0, 3, 64).astype(np.int32),
)
OPTIONS = {
    "classifier": {
        "train_op": "Adam",
        "feed": "keep=0.5,rate=table:0=0.1:4=0.01",
        "infer_feed": "keep=1",
        "graph_output": "probabilities",
    },
    "gan": {
        "train_op": "d_adam,g_adam",
        "feed": "z=uniform:-1:1",
        "graph_input": "z",
        "graph_output": "fake=g_out/Tanh",
    },
    "noisy": {"train_op": "train"},
}


@pytest.fixture(scope="module")
def lift(tmp_path_factory):
    """Trains one of the graphs; returns the run's folder."""
    folder = tmp_path_factory.mktemp("lift")
    metas = {name: lift_graphs.write(name, folder) for name in ("gan", "classifier")}
    metas["noisy"] = NOISY
    data = keep_arrays(DATA)

    def train_graph(name, run, meta=None, **options):
        values = {"batch_size": 8, "evaluate_steps": 100, "steps": 8, "data": data}
        values.update(OPTIONS[name], meta=meta or metas[name])
        path = os.path.join(str(folder), run)
        train("lift", path, **{**values, **options})
        return path

    return train_graph


@pytest.mark.parametrize("name", ["gan", "noisy"])
def test_single_steps_a_loop_and_a_resume_end_with_the_same_bits(lift, name):
    loop = lift(name, f"{name}-loop", steps_per_call=4, log_steps=4)
    lift(name, f"{name}-resumed", steps_per_call=1, pause_at=3)
    resumed = lift(name, f"{name}-resumed", steps_per_call=4)
    assert fingerprint(loop) == fingerprint(resumed)
    if name == "noisy":  # whose global step goes on beside that of the run
        values = tensors(loop)
        assert (values["global_step"], values["adopted/global_step"]) == (8, 8)
        assert read_json(loop, "manifest.json")["model"]["variables"] == 8  # four, averages


def test_without_noise_the_values_are_those_of_a_plain_session(tmp_path, lift):
    meta = lift_graphs.write("classifier", tmp_path, resource=False, checkpoint=True)
    feeds = "keep=1,rate=linear:0.1:0:8"
    whole = {"batch_size": 64, "validation_share": 0, "test_share": 0}  # whose mean has no order
    run = lift("classifier", "plain", meta, feed=feeds, **whole)
    x, y = DATA[0], np.eye(3, dtype=np.float32)[DATA[1]]
    with tf.Graph().as_default(), tf.Session() as session:
        tf.train.import_meta_graph(meta).restore(session, meta[: -len(".meta")])
        for step in range(8):
            fed = {"x:0": x, "y:0": y, "keep:0": 1, "rate:0": 0.1 - step * 0.0125}
            session.run("Adam", fed)
        expected = {v.op.name: session.run(v) for v in tf.global_variables()}
    values = tensors(run)
    assert sorted(expected) == sorted(set(values) - {"global_step"})
    for name, value in expected.items():
        np.testing.assert_allclose(values[name], value, rtol=1e-4, atol=1e-6)


def test_a_graph_of_1_15_with_former_variables_starts_from_its_checkpoint(lift):
    reader = tf.train.load_checkpoint(NOISY[: -len(".meta")])
    run = lift("noisy", "checkpoint", steps=1)
    change = np.abs(tensors(run)["encoder/w"] - reader.get_tensor("encoder/w")).max()
    assert 0 < change < 0.1


def test_weights_without_all_slots_replace_the_values_of_the_model_alone(lift, tmp_path):
    weights = parent(tmp_path / "parent", 100.0, [16, 3])
    run = lift("classifier", "weights", steps=1, init_from=weights)
    np.testing.assert_allclose(tensors(run)["w"], 100, atol=0.2)
    assert read_json(run, "manifest.json")["model"]["parameters"] == 48


def test_a_run_keeps_its_graph_and_predicts_without_its_dropout(lift, tmp_path):
    meta = lift_graphs.write("classifier", tmp_path)
    lift("classifier", "kept", meta, pause_at=3)
    os.remove(meta)
    trained = open_trained(lift("classifier", "kept", meta))
    assert trained.step == 8
    x = DATA[0][:5]
    expected = np.exp(x @ tensors(trained.folder)["w"])
    expected /= expected.sum(1, keepdims=True)
    np.testing.assert_allclose(trained.predict(x)["probabilities"], expected, rtol=1e-5)


def test_a_graph_that_fixes_its_batch_predicts_any_number_of_rows(lift):
    trained = open_trained(lift("gan", "predicts", steps=1))
    codes = np.random.RandomState(2).rand(11, 5).astype(np.float32)
    rows = trained.predict({"z": codes})["fake"]
    assert rows.shape == (11, 16)
    np.testing.assert_array_equal(rows[:8], trained.predict({"z": codes[:8]})["fake"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"feed": ""}, r"fed 'keep' \(float32 .*\), 'rate' \(float32 \(\)\), for which"),
        ({"feed": "kept=0.5"}, "no op 'kept'"),
        ({"train_op": "trian"}, "no op 'trian'"),
        ({"train_op": ""}, r"No train op .*\nSet --train-op NAME,\.\.\. The graph has Adam\."),
        ({"train_op": "", "meta": NOISY}, r"The graph has GradientDescent\."),
        ({"train_op": "w/Adam"}, "No loss of 'w/Adam' was found"),
        ({"feed": "keep=0.5,rate=features"}, r"'rate' takes \(\), .* gives"),
        ({"feed": "keep=0.5,rate=1,x=labels"}, "'x' takes"),
        ({"feed": "keep=0.5,rate=1,x=features.left"}, "no features 'left'"),
        ({"meta": "absent.meta"}, "absent.meta: No such file"),
        ({"name": "gan", "batch_size": 4}, r"'x' takes .* gives(.|\n)*--batch-size 8"),
    ],
)
def test_what_the_user_got_wrong_is_said_in_one_sentence(lift, options, message):
    with pytest.raises(UsageError, match=message):
        lift(**{"name": "classifier", "run": "wrong", **options})
